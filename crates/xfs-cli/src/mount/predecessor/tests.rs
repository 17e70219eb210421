use std::fs::File;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FlockOperation, flock};

use super::{ImageUser, find, identity, is_server, locked};

#[test]
fn lock_holder_is_found_and_is_not_a_server() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let image = identity(&file.path().metadata().unwrap());
    let process = std::process::id().to_string();
    assert!(!locked(&process).contains(&image), "it is open");
    assert!(matches!(find(file.path()), ImageUser::None));
    flock(&file, FlockOperation::LockExclusive).unwrap();
    assert!(locked(&process).contains(&image), "it is locked");
    assert!(!is_server(&process));
    assert!(matches!(find(file.path()), ImageUser::Other));
}

#[test]
fn device_has_one_identity_under_all_names() {
    let (null, other) = (File::open("/dev/null").unwrap(), File::open("/dev/zero").unwrap());
    let metadata = null.metadata().unwrap();
    assert_eq!(identity(&metadata), (0, 0, metadata.rdev()));
    assert_ne!(identity(&metadata), identity(&other.metadata().unwrap()));
}
