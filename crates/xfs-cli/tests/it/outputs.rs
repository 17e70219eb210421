//! What commands write on the host: never over the image that they read, and not before there is something.

use std::fs;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};

use rustix::fs::Mode;

use crate::changing::Place;

#[test]
fn an_image_is_not_written_over_by_what_is_in_it() {
    let place = Place::new();
    place.put("image:/f", b"contents");
    let before = fs::read(place.path("image")).unwrap();
    for words in [&["cp", "image:/f", "image"][..], &["cp", "-a", "image:/f", "image"]] {
        place.check_failure(words, 1, "such as image:/");
    }
    let written: [&[&str]; 3] = [
        &["get", "-o", "image", "image:/f"],
        &["tar", "-o", "image", "image"],
        &["scan", "-o", "image", "image"],
    ];
    for words in written {
        place.check_failure(words, 1, "hint: choose another file");
    }
    fs::copy(place.path("image"), place.path("log")).unwrap();
    place.check_failure(
        &["get", "-o", "log", "--log-device", "log", "image:/f"],
        1,
        "is what is read",
    );
    place.check_failure(
        &["scan", "-o", "log", "--log-device", "log", "image"],
        1,
        "is what is read",
    );
    place.check(&["mkfs", "-q", "-d", "size=300m", "other"]);
    place.check_failure(&["cp", "image:/f", "other"], 1, "holds an XFS volume");
    assert!(fs::read(place.path("image")).unwrap() == before);
}

#[test]
fn what_fails_leaves_what_was_in_the_output() {
    let place = Place::new();
    place.check(&["mkdir", "image:/d"]);
    fs::create_dir(place.path("d")).unwrap();
    fs::write(place.path("kept"), "kept").unwrap();
    place.check_failure(&["get", "-o", "kept", "image:/none"], 1, "no such file");
    place.check_failure(&["get", "-o", "kept", "image:/d"], 1, "is a directory");
    place.check_failure(&["tar", "-o", "kept", "image:/none"], 1, "no such file");
    assert_eq!(fs::read_to_string(place.path("kept")).unwrap(), "kept");
    for sandbox in ["--sandbox=auto", "--sandbox=never"] {
        place.check_failure(&["get", sandbox, "-o", "new", "image:/none"], 1, "no such file");
        place.check_failure(&["get", sandbox, "-o", "./new", "image:/d"], 1, "is a directory");
        place.check_failure(&["tar", sandbox, "-o", "d/new", "image:/none"], 1, "no such file");
        assert!(!place.path("new").exists() && !place.path("d/new").exists(), "{sandbox}");
    }
    place.put("image:/f", b"x");
    place.check(&["get", "-o", "new", "image:/f"]);
    assert_eq!(fs::read_to_string(place.path("new")).unwrap(), "x");
    place.check(&["get", "-o", "kept", "image:/f"]);
    assert_eq!(fs::read_to_string(place.path("kept")).unwrap(), "x");
}

#[test]
fn a_pipe_is_written_to_and_not_replaced() {
    let place = Place::new();
    place.put("image:/f", b"contents");
    let pipe = place.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    place.check(&["cp", "-a", "image:/f", "pipe"]);
    assert_eq!(reader.join().unwrap(), "contents");
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
}

#[test]
fn nothing_is_copied_into_itself() {
    let place = Place::new();
    place.check(&["mkdir", "-p", "image:/d/e"]);
    place.put("image:/d/f", b"x");
    place.check(&["ln", "image:/d/f", "image:/d/g"]);
    let into = "cannot be copied into itself";
    place.check_failure(&["cp", "-a", "image:/d", "image:/d/e"], 1, into);
    place.check_failure(&["cp", "-a", "image:/d", "image:/d/new"], 1, into);
    place.check_failure(&["cp", "-a", "image:/", "image:/copy"], 1, into);
    place.check_failure(&["cp", "-a", "image:/d/f", "image:/d/g"], 1, "is what it is copied to");
    place.check_failure(&["cp", "image:/d/f", "image:/d"], 1, "is what it is copied to");
    assert_eq!(place.check(&["find", "image", "-type", "f", "-links", "2"]), "/d/f\n/d/g\n");
    assert_eq!(place.check(&["ls", "image:/d"]), "e\nf\ng\n");
    place.check(&["cp", "-a", "image:/d", "image:/new"]);
    assert_eq!(place.check(&["ls", "image:/new"]), "e\nf\ng\n");
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let place = Place::new();
    place.check_failure(&["ls", "none"], 1, "none: cannot be opened");
    place.check_failure(&["ls", "--log-device", "none", "image"], 1, ": none: cannot be opened");
}

#[test]
fn holes_stay_holes_in_what_is_got() {
    let place = Place::new();
    place.put("image:/f", b"begin");
    place.check(&["truncate", "-s", "40g", "image:/f"]);
    place.check(&["truncate", "-s", "2m", "image:/small"]);
    place.check(&["fallocate", "-o", "1m", "-l", "4k", "image:/small"]);
    let out = place.path("out");
    // What was there goes, also where there is a hole now.
    fs::write(&out, vec![1; 1 << 20]).unwrap();
    place.check(&["get", "-o", "out", "image:/f"]);
    let found = fs::metadata(&out).unwrap();
    assert_eq!(found.len(), 40 << 30);
    assert!(found.blocks() * 512 < 1 << 20, "{} blocks", found.blocks());
    let mut bytes = vec![1; 1 << 20];
    fs::File::open(&out).unwrap().read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes.strip_prefix(b"begin").unwrap().iter().all(|&byte| byte == 0));
    place.check(&["get", "-o", "out", "image:/small"]);
    assert!(fs::read(&out).unwrap() == vec![0; 2 << 20]);
    // Elsewhere they are zeros.
    assert_eq!(place.check(&["get", "-o", "/dev/stdout", "image:/small"]).len(), 2 << 20);
    place.check(&["touch", "image:/empty"]);
    place.check(&["get", "-o", "out", "image:/empty"]);
    assert_eq!(fs::read(&out).unwrap(), b"");
}

#[test]
fn a_name_with_a_slash_behind_is_that_of_a_directory() {
    let place = Place::new();
    place.check(&["mkdir", "image:/d"]);
    place.put("image:/d/f", b"new");
    fs::write(place.path("exist"), "old").unwrap();
    for destination in ["exist/", "exist/.", "none/", "none/."] {
        for option in ["-p", "-r"] {
            let arguments = ["cp", option, "image:/d/f", destination];
            place.check_failure(&arguments, 1, "is not a directory");
        }
    }
    place.check_failure(&["cp", "-r", "image:/d", "exist/"], 1, "is not a directory");
    assert_eq!(fs::read(place.path("exist")).unwrap(), b"old");
    assert!(!place.path("none").exists());
    place.check(&["cp", "-r", "image:/d", "none/"]);
    assert_eq!(fs::read(place.path("none/f")).unwrap(), b"new");
}
