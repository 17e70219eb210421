use std::path::{Path, PathBuf};

use super::{MountFacts, MountPoint, helper_options, inherited_number};
use crate::{Checks, MountError};

fn facts() -> MountFacts {
    let source = PathBuf::from("/a,b\\c");
    MountFacts {
        source,
        read_only: true,
        allow_other: true,
        suid: false,
        dev: false,
        exec: false,
        symlinks: true,
    }
}

#[test]
fn source_name_cannot_add_mount_options() {
    assert_eq!(
        helper_options(&facts(), Checks::Kernel),
        "ro,nosuid,nodev,default_permissions,subtype=ferroxfs,noexec,allow_other,\
         fsname=/a\\,b\\\\c"
    );
}

#[test]
fn mount_options_say_whether_the_kernel_checks() {
    assert_eq!(
        helper_options(&facts(), Checks::Server),
        "ro,nosuid,nodev,subtype=ferroxfs,noexec,allow_other,fsname=/a\\,b\\\\c"
    );
    // The program that made the mount has already decided.
    let taken_over = MountPoint::mount(Path::new("/dev/fd/0"), &facts(), Checks::Server);
    assert!(matches!(taken_over, Err(MountError::TakenOver)));
}

#[test]
fn descriptor_path_yields_its_number() {
    assert_eq!(inherited_number(Path::new("/dev/fd/7")), Some(7));
    assert_eq!(inherited_number(Path::new("/dev/fd/7/a")), None);
    assert_eq!(inherited_number(Path::new("/mnt")), None);
}

#[test]
fn descriptor_that_is_not_a_connection_is_refused() {
    // Standard input, and a number that is not open.
    for path in ["/dev/fd/0", "/dev/fd/9999"] {
        assert!(MountPoint::mount(Path::new(path), &facts(), Checks::Kernel).is_err(), "{path}");
    }
}

#[test]
fn mount_point_that_is_a_file_is_refused() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let refused = MountPoint::mount(file.path(), &facts(), Checks::Kernel).expect_err("a file");
    assert!(refused.to_string().contains("Not a directory"), "{refused}");
}
