//! Runs every file of `examples/` against an image. The examples are compiled into this test, so
//! that the published source is tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use ferroxfs::{OpenOptions, Volume};

#[expect(dead_code, reason = "its main reads arguments")]
#[path = "../../examples/device.rs"]
mod device;
#[expect(dead_code, reason = "its main reads arguments")]
#[path = "../../examples/extract.rs"]
mod extract;
#[expect(dead_code, reason = "its main reads arguments")]
#[path = "../../examples/make.rs"]
mod make;
#[expect(dead_code, reason = "its main reads arguments")]
#[path = "../../examples/read.rs"]
mod read;
#[expect(dead_code, reason = "its main reads arguments")]
#[path = "../../examples/scan.rs"]
mod scan;
#[expect(dead_code, reason = "its main reads arguments")]
#[path = "../../examples/user.rs"]
mod user;
#[expect(dead_code, reason = "its main reads arguments")]
#[path = "../../examples/watch.rs"]
mod watch;
#[expect(dead_code, reason = "its main reads arguments")]
#[path = "../../examples/write.rs"]
mod write;

/// Makes an image with the example `make`. Returns the temporary folder that holds the image, and
/// the path of the image.
fn image() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    make::run(&image).unwrap();
    (folder, image)
}

#[test]
fn read_lists_a_directory_and_prints_a_file() {
    let (_folder, image) = image();
    let mut out = Vec::new();
    read::run(&image, Path::new("/etc"), Path::new("/etc/hostname"), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let expected = "100644          4 hostname\n120777          8 name\nbox\n";
    assert_eq!(text, expected);
}

#[test]
fn make_refuses_an_image_that_exists() {
    let (_folder, image) = image();
    make::run(&image).unwrap_err();
}

#[test]
fn write_leaves_durable_files_and_a_clean_log() {
    let (_folder, image) = image();
    write::run(&image).unwrap();
    let volume = Volume::open(&image).unwrap();
    assert_eq!(volume.read("/srv/www/index.html").unwrap(), b"<h1>It works</h1>\n");
    assert_eq!(volume.read("/srv/access.log").unwrap(), b"GET /\n");
    assert!(volume.lookup("/srv/www/new.html").is_err());
    assert!(volume.log_state().unwrap().clean);
}

#[test]
fn extract_copies_a_tree_and_replaces_nothing() {
    let (folder, image) = image();
    let target = folder.path().join("out");
    assert_eq!(extract::run(&image, Path::new("/"), &target).unwrap(), [""; 0]);
    assert_eq!(fs::read(target.join("etc/hostname")).unwrap(), b"box\n");
    assert_eq!(fs::read_link(target.join("etc/name")).unwrap(), Path::new("hostname"));
    assert_eq!(fs::read(target.join("spool/job-99")).unwrap(), b"job 99\n");
    let again = extract::run(&image, Path::new("/"), &target).unwrap();
    assert_eq!(again.len(), 1, "the top exists, so nothing below it is extracted: {again:?}");
}

#[test]
fn scan_counts_each_user() {
    let (_folder, image) = image();
    let users = scan::run(&image, Path::new("/")).unwrap();
    let inodes: Vec<_> = users.iter().map(|(uid, usage)| (*uid, usage.inodes)).collect();
    // The root, two directories, a file and a link; a hundred files.
    assert_eq!(inodes, [(0, 5), (1000, 100)]);
    assert_eq!(users[&1000].bytes, 100 * 4096);
}

#[test]
fn user_is_refused_what_the_mode_refuses() {
    let (_folder, image) = image();
    let ask = |uid| user::run(&image, uid, Path::new("/spool/job-7")).unwrap();
    assert_eq!(ask(1000), "may read its 6 bytes");
    assert_eq!(ask(1001), "may not read it");
}

#[test]
fn watch_shows_what_another_thread_does() {
    let (_folder, image) = image();
    let lines = watch::run(&image).unwrap();
    assert_eq!(lines, ["WatchEvents(CREATE) letter", "WatchEvents(DELETE) letter"]);
}

#[test]
fn device_of_the_caller_leaves_the_file_alone() {
    let (_folder, image) = image();
    let before = fs::metadata(&image).unwrap().modified().unwrap();
    let device = device::run(&image).unwrap();
    assert!(device.writes.load(Ordering::Relaxed) > 0);
    assert!(device.reads.load(Ordering::Relaxed) > 0);
    assert_eq!(fs::metadata(&image).unwrap().modified().unwrap(), before);
    assert!(Volume::open(&image).unwrap().lookup("/only-in-memory").is_err());
    let volume = OpenOptions::new().open_device(device).unwrap();
    assert_eq!(volume.read("/only-in-memory").unwrap(), b"gone when the program ends");
}

#[test]
fn examples_are_all_tested_and_named_in_the_documents() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let this = include_str!("examples.rs");
    let documents = ["../../README.md", "../../docs/guide/embed-the-library.md"];
    let documents = documents.map(|name| fs::read_to_string(crate_folder.join(name)).unwrap());
    let mut count = 0;
    for entry in fs::read_dir(crate_folder.join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        count += 1;
        assert!(this.contains(&format!("examples/{name}.rs")), "{name} is not tested");
        for document in &documents {
            assert!(document.contains(&format!("examples/{name}.rs")), "{name} is not named");
        }
        let text = fs::read_to_string(&path).unwrap();
        let needs = ["ferroxfs::raw", "ferroxfs::bench", "xfs_testkit", "xfs_trans"];
        let needed: Vec<_> = needs.iter().filter(|name| text.contains(**name)).collect();
        assert!(needed.is_empty(), "{name} cannot be copied: it uses {needed:?}");
    }
    assert!(count >= 8, "only {count} examples");
}
