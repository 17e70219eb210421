//! Tests of byte ranges (spans), and of the lookup of the files and devices below a plain file.
//! Loop devices need privilege; the tests of mounts cover them.

use rustix::fs::OFlags;

use super::sysfs::parse_device_name;
use super::{FileIdentity, Level, Shortened, Span, device_name, levels_below, twins};

fn span(start: u64, end: u64) -> Span {
    Span { start, end }
}

#[test]
fn span_within_a_window_is_shifted_and_cut_off() {
    let window = span(1000, 3000);
    assert_eq!(Span::WHOLE.within(window), window);
    assert_eq!(span(100, 200).within(window), span(1100, 1200));
    assert_eq!(span(1500, 9000).within(window), span(2500, 3000));
    assert_eq!(span(u64::MAX - 1, u64::MAX).within(window), span(3000, 3000));
    assert_eq!(Span::WHOLE.within(Span::WHOLE), Span::WHOLE);
}

#[test]
fn spans_that_touch_do_not_overlap() {
    assert!(!span(0, 512).overlaps(span(512, 1024)));
    assert!(span(0, 513).overlaps(span(512, 1024)));
    assert!(Span::WHOLE.overlaps(span(512, 1024)));
    assert_eq!(Span::new(512, None), span(512, u64::MAX));
    assert_eq!(Span::new(512, Some(u64::MAX)), span(512, u64::MAX));
}

#[test]
fn device_names_are_parsed_as_the_kernel_writes_them() {
    let number = rustix::fs::makedev(259, 1_048_575);
    assert_eq!(parse_device_name(&device_name(number)), Some(number));
    for wrong in ["", "7", "7:", "a:0", "7:0:1"] {
        assert_eq!(parse_device_name(wrong), None, "{wrong}");
    }
}

#[test]
fn plain_file_has_no_levels_and_no_twins() {
    let file = tempfile::tempfile().unwrap();
    let metadata = file.metadata().unwrap();
    // A build folder on overlayfs has a level below it.
    let levels = levels_below(&file, &metadata);
    assert!(levels.len() <= 1, "{levels:?}");
    assert_eq!(twins(FileIdentity::of(&metadata), &[]), []);
}

#[test]
fn level_with_another_inode_is_not_opened() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let open = |expected| Level::open(file.path().to_owned(), expected, Span::WHOLE).unwrap();
    let level = open(None).file.unwrap();
    let access = rustix::fs::fcntl_getfl(&level).unwrap() & OFlags::RWMODE;
    assert_eq!(access, OFlags::RDONLY, "a level is opened for reading only (I1)");
    let other = open(Some((1, 2)));
    assert!(other.file.is_none(), "the kernel does not confirm the inode (I2)");
    assert_eq!(other.identity, FileIdentity::File { device: 1, inode: 2 });
}

#[test]
fn shrunk_level_reports_its_lengths() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1000).unwrap();
    let level = Level::open(file.path().to_owned(), None, Span::WHOLE).unwrap();
    assert_eq!(level.shortened().unwrap(), None);
    file.as_file().set_len(2000).unwrap();
    assert_eq!(level.shortened().unwrap(), None);
    file.as_file().set_len(999).unwrap();
    assert_eq!(level.shortened().unwrap(), Some(Shortened { before: 1000, now: 999 }));
}

#[test]
fn paths_to_one_file_share_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("file"), "contents").unwrap();
    std::fs::write(at("copy"), "contents").unwrap();
    std::fs::hard_link(at("file"), at("name")).unwrap();
    std::os::unix::fs::symlink("file", at("link")).unwrap();
    for other in ["file", "name", "link"] {
        assert!(super::share_bytes(&at("file"), &at(other)), "{other}");
    }
    for other in ["copy", "none", "."] {
        assert!(!super::share_bytes(&at("file"), &at(other)), "{other}");
    }
    assert!(!super::share_bytes(&at("none"), &at("none")));
}
