//! Tests of `mkfs --format`: volumes and disks in qcow2 and VHD images. qemu-img compares them with
//! the raw image; if it is not installed, a test prints that this part is skipped.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

use serde_json::Value;

use crate::changing::VolumeDir;

const MIB: u64 = 1 << 20;
const UUID: &str = "uuid=0123abcd-0123-4567-89ab-0123456789ab";
const DISK: [&str; 10] =
    ["mkfs", "-q", "-d", "size=300m", "-m", UUID, "--from", "tree", "--disk", "gpt"];

fn place() -> VolumeDir {
    let place = VolumeDir::new();
    fs::create_dir_all(place.path("tree/etc")).unwrap();
    fs::write(place.path("tree/etc/hosts"), "127.0.0.1 localhost\n").unwrap();
    fs::write(place.path("tree/text"), "a line of text\n".repeat(200_000)).unwrap();
    place
}

fn make(place: &VolumeDir, options: &[&str], file: &str) {
    place.check(&[&DISK[..], options, &[file]].concat());
}

/// Runs qemu-img and returns its standard output. `None` if it is not installed.
fn qemu_img(place: &VolumeDir, arguments: &[&str]) -> Option<String> {
    match Command::new("qemu-img").current_dir(place.path("")).args(arguments).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{arguments:?}: {said}");
            Some(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Err(error) => {
            eprintln!("skipped: qemu-img cannot be run ({error})");
            None
        }
    }
}

/// Checks that qemu finds the bytes of the raw image in the other one, and the same length.
fn check_equal(place: &VolumeDir, format: &str, file: &str) {
    let compared = qemu_img(place, &["compare", "-f", "raw", "-F", format, "raw", file]);
    assert!(compared.is_none_or(|said| said == "Images are identical.\n"), "{file}");
}

fn length(place: &VolumeDir, file: &str) -> u64 {
    place.path(file).metadata().unwrap().len()
}

#[test]
fn qcow2_image_has_the_bytes_of_the_raw_one() {
    let place = place();
    make(&place, &[], "raw");
    for (compression, most) in [("zstd", 3), ("deflate", 3), ("none", 12)] {
        let options = ["--format", "qcow2", "--compression", compression];
        make(&place, &options, compression);
        assert!(length(&place, compression) < most * MIB, "{compression}");
        qemu_img(&place, &["check", "-q", "-f", "qcow2", compression]);
        check_equal(&place, "qcow2", compression);
        let hosts = format!("{compression}:/etc/hosts");
        assert_eq!(place.check(&["cat", &hosts]), "127.0.0.1 localhost\n");
        place.check(&["check", compression]);
        place.check_failure(&["mkdir", &format!("{compression}:/new")], 3, "does not write");
    }
    make(&place, &["--format", "qcow2"], "again");
    assert!(fs::read(place.path("again")).unwrap() == fs::read(place.path("zstd")).unwrap());
}

#[test]
fn vhd_image_is_the_raw_one_with_a_footer() {
    let place = place();
    make(&place, &[], "raw");
    make(&place, &["--format", "vhd"], "disk.vhd");
    make(&place, &["--format", "vhd"], "again.vhd");
    check_equal(&place, "vpc", "disk.vhd");
    let (raw, vhd) =
        (fs::read(place.path("raw")).unwrap(), fs::read(place.path("disk.vhd")).unwrap());
    assert!(vhd[..raw.len()] == raw && vhd.len() == raw.len() + 512);
    assert!(vhd == fs::read(place.path("again.vhd")).unwrap());
    // The time of the footer is that of SOURCE_DATE_EPOCH.
    let seconds = u32::from_be_bytes(vhd[raw.len() + 24..][..4].try_into().unwrap());
    assert_eq!(seconds, 1_700_000_000 - 946_684_800);
    // The disk is written in place, and its footer stays.
    place.check(&["mkdir", "disk.vhd:/new"]);
    place.check(&["check", "disk.vhd"]);
    place.check_failure(&["growfs", "--size", "400m", "disk.vhd"], 1, "");
    let mut footer = [0; 512];
    let file = File::open(place.path("disk.vhd")).unwrap();
    file.read_exact_at(&mut footer, raw.len() as u64).unwrap();
    assert_eq!(footer[..], vhd[raw.len()..]);
}

#[test]
fn volume_alone_fits_its_files_in_every_format() {
    let place = place();
    for format in ["qcow2", "vhd"] {
        let options =
            ["mkfs", "--json", "--minimize", "--from", "tree", "--format", format, format];
        let facts: Value = serde_json::from_str(&place.check(&options)).unwrap();
        assert_eq!(facts["format"], format);
        assert_eq!(facts["image_bytes"], length(&place, format));
        assert_eq!(place.check(&["cat", &format!("{format}:/etc/hosts")]), "127.0.0.1 localhost\n");
        place.check(&["check", format]);
        // A volume in a VHD image does not shrink over its footer.
        if format == "vhd" {
            place.run(&["shrink", format]);
            place.check(&["check", format]);
            assert!(fs::read(place.path(format)).unwrap().ends_with(&[0; 427]));
        }
    }
}

#[test]
fn image_replaces_a_file_only_when_it_is_complete() {
    let place = place();
    make(&place, &["--format", "qcow2"], "disk");
    let before = fs::read(place.path("disk")).unwrap();
    let again = [&DISK[..], &["--format", "vhd", "disk"]].concat();
    place.check_failure(&again, 1, "disk: holds a qcow2 disk image already");
    let long = "x".repeat(400 << 10);
    fs::write(place.path("tree/more"), long.repeat(1000)).unwrap();
    let full = [&DISK[..], &["-f", "--format", "qcow2", "disk"]].concat();
    place.check_failure(&full, 1, "the file is unchanged");
    assert!(fs::read(place.path("disk")).unwrap() == before);
    fs::remove_file(place.path("tree/more")).unwrap();
    make(&place, &["-f", "--format", "vhd"], "disk");
    assert_eq!(length(&place, "disk"), 302 * MIB + 512);
    let left: Vec<_> = fs::read_dir(place.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".ferroxfs"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn impossible_formats_are_refused_by_name() {
    let place = place();
    fs::hard_link(place.path("image"), place.path("second")).unwrap();
    for (arguments, code, message) in [
        (&["--format", "qcow2", "new"][..], 2, "--format qcow2 needs the size of the volume"),
        (&["--format", "vhd", "image"], 2, "--format vhd needs the size of the volume"),
        (&["-d", "size=300m", "--format", "vmdk", "new"], 2, "vmdk"),
        (
            &["-d", "size=300m", "--compression", "zstd", "new"],
            2,
            "only clusters of --format qcow2",
        ),
        (
            &["-d", "size=300m", "--format", "vhd", "--compression", "none", "new"],
            2,
            "only clusters",
        ),
        (&["-d", "size=3t", "--format", "vhd", "new"], 2, "at most 2"),
        (&["-d", "size=4p", "--format", "qcow2", "new"], 2, "at most 2"),
        (&["-d", "size=300m", "--format", "qcow2", "--partition", "1", "image"], 2, "uses a disk"),
        (&["-f", "-d", "size=300m", "--format", "vhd", "image"], 1, "has several names"),
        (&["-d", "size=300m", "--format", "qcow2", "no/new"], 1, "its directory does not exist"),
    ] {
        place.check_failure(&[&["mkfs", "-q"], arguments].concat(), code, message);
        assert!(!place.path("new").exists(), "{arguments:?}");
    }
}
