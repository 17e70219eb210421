//! What a new user gets wrong, and what is said to that.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Stdio;

use crate::changing::Place;

#[test]
fn an_image_and_a_path_in_it_belong_together() {
    let place = Place::new();
    fs::write(place.path("text"), "text").unwrap();
    let behind = "hint: a path in an image is written behind it: image:/etc";
    place.check_failure(&["ls", "image", "/etc"], 3, behind);
    let slash = "hint: a path in an image starts with a slash: image:/etc";
    place.check_failure(&["ls", "image:etc"], 2, slash);
    let alone = "hint: this takes an image, and no path in it: image";
    place.check_failure(&["info", "image:/"], 1, alone);
    let inside = "hint: a place in an image is written IMAGE:/path, such as image:/";
    place.check_failure(&["cp", "text", "image"], 3, inside);
    assert!(!place.path("text").metadata().unwrap().is_dir());
}

#[test]
fn names_that_mean_nothing_are_told_from_what_cannot_be_done() {
    let place = Place::new();
    place.check(&["touch", "image:/f"]);
    let names = "hint: a name is user.NAME";
    place.check_failure(&["setfattr", "-n", "text", "-v", "1", "image:/f"], 2, names);
    place.check_failure(&["setfattr", "-x", "text", "image:/f"], 2, names);
    let user = "\"no-such-name-here\" is no user of this host";
    place.check_failure(&["setfacl", "-m", "u:no-such-name-here:r", "image:/f"], 2, user);
    let default = "hint: only a directory has a default list (d:, -d)";
    place.check_failure(&["setfacl", "-m", "d:u:3:rwx", "image:/f"], 1, default);
    let group = "\"no-such-name-here\" is no group of this host";
    place.check_failure(&["setfacl", "-x", "g:no-such-name-here", "image:/f"], 2, group);
}

#[test]
fn what_does_not_fit_names_the_image() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    // The volumes have less than this.
    fs::write(place.path("tree/large"), vec![1; 32 << 20]).unwrap();
    let mkfs = ["mkfs", "-q", "--unsupported", "-d", "size=32m"];
    let said = |image: &str| format!("ferroxfs: {image}: /large: no space left");
    assert!(place.command(&[&mkfs[..], &["small"]].concat()).output().unwrap().status.success());
    place.check_failure(&["import", "tree", "small"], 1, &said("small"));
    place.check_failure(&[&mkfs[..], &["--from", "tree", "made"]].concat(), 1, &said("made"));
}

#[test]
fn an_image_in_use_says_how_to_end_a_mount() {
    let place = Place::new();
    // It has the image open and waits for what to write.
    let mut child = place.command(&["put", "image:/f"]).stdin(Stdio::piped()).spawn().unwrap();
    let locks = || fs::read_to_string("/proc/locks").unwrap();
    let inode = fs::metadata(place.path("image")).unwrap().ino().to_string();
    while !locks().split([':', ' ']).any(|word| word == inode) {
        std::thread::yield_now();
    }
    place.check_failure(&["ls", "image"], 1, "ferroxfs umount DIR");
    place.check_failure(&["touch", "image:/g"], 1, "ferroxfs umount DIR");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn letters_of_cp_and_ls_are_taken() {
    let place = Place::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/file"), "x").unwrap();
    let mode = fs::Permissions::from_mode(0o640);
    fs::set_permissions(place.path("tree/file"), mode).unwrap();
    place.check(&["cp", "-R", "tree", "image:/"]);
    assert_eq!(place.check(&["ls", "-1", "image:/tree"]), "file\n");
    let old = filetime(1_000_000_000);
    let file = fs::File::options().write(true).open(place.path("tree/file")).unwrap();
    file.set_times(fs::FileTimes::new().set_modified(old)).unwrap();
    place.check(&["cp", "-p", "tree/file", "image:/kept"]);
    let facts = place.check(&["find", "image:/kept", "-printf", "%m %T@"]);
    assert!(facts.starts_with("640 1000000000."), "{facts}");
    place.check(&["cp", "-p", "--ignore-owner", "image:/kept", "back"]);
    assert_eq!(fs::metadata(place.path("back")).unwrap().mtime(), 1_000_000_000);

    let long = place.check(&["ls", "-n", "image:/kept"]);
    assert!(long.starts_with("-rw-r----- 1 "), "{long}");
    place.check(&["ln", "-s", "tree", "image:/link"]);
    let long = place.check(&["ls", "-l", "image:/link"]);
    assert!(long.starts_with("lrwxrwxrwx 1 "), "{long}");
    assert_eq!(place.check(&["ls", "image:/link"]), "file\n");
    assert!(place.check(&["ls", "-l", "image:/link/"]).contains(" file\n"));
    place.check(&["rm", "image:/link"]);
    place.check(&["setfacl", "-m", "u:1000:rw", "image:/kept"]);
    place.check(&["mkdir", "image:/plain", "image:/with"]);
    place.check(&["setfacl", "-d", "-m", "u:1000:rwx", "image:/with"]);
    let long = place.check(&["ls", "-l", "image"]);
    assert!(long.contains("\n-rw-rw----+ "), "{long}");
    assert!(long.contains("\ndrwxr-xr-x  "), "what has no list keeps the column: {long}");
    assert!(long.contains("\ndrwxr-xr-x+ "), "{long}");
}

fn filetime(seconds: u64) -> std::time::SystemTime {
    std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds)
}
