//! Tests of messages about a failed copy: which image and which path they name.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use ferroxfs::Volume;
use ferroxfs::contents::ForkKind;

use crate::changing::VolumeDir;

/// Returns a volume with a directory `/home/u` whose first block is damaged.
fn damaged() -> VolumeDir {
    let place = VolumeDir::new();
    place.check(&["mkdir", "-p", "image:/home/u"]);
    let names: Vec<String> =
        (0..100).map(|number| format!("image:/home/u/file number {number:030}")).collect();
    let mut words = vec!["touch"];
    words.extend(names.iter().map(String::as_str));
    place.check(&words);
    let volume = Volume::open(place.path("image")).unwrap();
    let directory = volume.lookup("/home/u").unwrap();
    let block = directory.extents(ForkKind::Data).next().unwrap().unwrap().device_offset_bytes;
    let image = File::options().write(true).open(place.path("image")).unwrap();
    image.write_all_at(&[0xff; 64], block).unwrap();
    place
}

/// The start of each message about the damaged directory.
const DAMAGED: &str = "ferroxfs: image: /home/u: directory";

#[test]
fn failure_of_a_source_names_the_source() {
    let place = damaged();
    place.make("good");
    place.check_failure(&["cp", "-a", "image:/home/u", "good:/got"], 5, DAMAGED);
    place.check_failure(&["cp", "-a", "image:/home/u", "good:/"], 5, DAMAGED);
    place.check_failure(&["cp", "-a", "image:/", "good:/home"], 5, DAMAGED);
    place.check_failure(&["cp", "-a", "image:/home", "image:/other"], 5, DAMAGED);
    for destination in ["one", "./two", "three/"] {
        place.check_failure(&["cp", "-r", "image:/", destination], 5, DAMAGED);
        place.check_failure(&["cp", "-r", "image:/home", destination], 5, DAMAGED);
    }
    place.check_failure(&["cp", "-r", "image:/home/u", "four"], 5, DAMAGED);
    place.check_failure(&["tar", "-o", "archive", "image:/home"], 5, DAMAGED);
    place.check_failure(&["tar", "-o", "archive", "image:/home/u"], 5, DAMAGED);
    place.check_failure(&["tar", "-o", "archive", "image"], 5, DAMAGED);
}

#[test]
fn failure_of_a_destination_names_the_destination() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "-p", "image:/home/u", "image:/etc/x"]);
    fs::create_dir(place.path("to")).unwrap();
    fs::write(place.path("to/home"), "in the way").unwrap();
    let said = "ferroxfs: to/home: exists and is not a directory";
    place.check_failure(&["cp", "-r", "image:/home", "to"], 1, said);
    let said = "ferroxfs: image: /etc/x: is a directory";
    fs::write(place.path("x"), "").unwrap();
    place.check_failure(&["cp", "x", "image:/etc"], 1, said);
}

#[test]
fn full_volume_is_reported_with_the_whole_path() {
    let place = VolumeDir::new();
    // The image has less space than this.
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/large"), vec![1; 32 << 20]).unwrap();
    let mkfs = ["mkfs", "-q", "--unsupported", "-d", "size=32m", "small"];
    assert!(place.command(&mkfs).status().unwrap().success());
    place.check(&["mkdir", "small:/etc"]);
    let said = |path: &str| format!("ferroxfs: small: {path}: no space left");
    place.check_failure(&["cp", "tree/large", "small:/etc/x"], 1, &said("/etc/x"));
    place.check_failure(&["cp", "tree/large", "small:/etc"], 1, &said("/etc/large"));
    place.check_failure(&["cp", "-r", "tree", "small:/etc/"], 1, &said("/etc/tree/large"));
    place.check_failure(&["import", "tree", "small:/etc"], 1, &said("/etc/large"));
}
