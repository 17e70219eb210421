use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Address, last_component};

#[track_caller]
fn check_parse(word: &str, image: Option<&str>, expected: (&str, &str)) {
    let address = Address::parse(OsStr::new(word), image.map(Path::new)).expect("an address");
    assert_eq!((address.image, address.path), (PathBuf::from(expected.0), expected.1.into()));
}

#[test]
fn first_colon_slash_splits() {
    check_parse("disk.img:/etc/passwd", None, ("disk.img", "/etc/passwd"));
    check_parse("disk.img:/a:/b", None, ("disk.img", "/a:/b"));
    check_parse("disk.img:/", None, ("disk.img", "/"));
    check_parse("a:b/disk.img:/c", None, ("a:b/disk.img", "/c"));
    check_parse("nbd://host:10809/e:/c", None, ("nbd://host:10809/e", "/c"));
    check_parse("nbd+unix:///e?socket=/s", None, ("nbd+unix:///e?socket=/s", "/"));
}

#[test]
fn image_alone_is_its_root() {
    check_parse("disk.img", None, ("disk.img", "/"));
    check_parse("disk.img:", None, ("disk.img:", "/"));
}

#[test]
fn with_image_the_word_is_the_path() {
    check_parse("/a:/b", Some("x:/y"), ("x:/y", "/a:/b"));
    check_parse("a", Some("x"), ("x", "/a"));
}

#[test]
fn file_of_the_whole_name_is_ambiguous() {
    let directory = tempfile::tempdir().expect("a directory");
    let inner = directory.path().join("image:");
    std::fs::create_dir(&inner).expect("a directory");
    std::fs::write(inner.join("path"), "").expect("a file");
    let word = inner.join("path");
    let failure = Address::parse(word.as_os_str(), None).expect_err("ambiguous");
    assert!(failure.to_string().contains("--image"));
}

#[test]
fn last_components() {
    assert_eq!(last_component(b"/"), b"/");
    assert_eq!(last_component(b"a"), b"a");
    assert_eq!(last_component(b"/a/b"), b"b");
    assert_eq!(last_component(b"a/b/"), b"b");
}
