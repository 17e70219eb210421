//! Tests of finding the image and the path in a command line whose last word is incomplete.

use std::ffi::OsString;

use super::CompletionLine;

fn read(words: &[&str]) -> Option<(String, String, String, String)> {
    let words: Vec<_> = words.iter().map(OsString::from).collect();
    let line = CompletionLine::read(&words)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let image = line.image?.display().to_string();
    Some((image, text(&line.before), text(&line.directory), text(&line.begun)))
}

#[test]
fn path_in_an_image_is_split_at_its_last_slash() {
    let parts = |image: &str, before: &str, directory: &str, begun: &str| {
        Some((image.to_owned(), before.to_owned(), directory.to_owned(), begun.to_owned()))
    };
    assert_eq!(read(&["ls", "a.img:/"]), parts("a.img", "a.img:", "/", ""));
    assert_eq!(read(&["ls", "a.img:/etc/ho"]), parts("a.img", "a.img:", "/etc/", "ho"));
    assert_eq!(read(&["cat", "a:b:/x"]), parts("a:b", "a:b:", "/", "x"));
    assert_eq!(read(&["ls", "--image", "a.img", "et"]), parts("a.img", "", "", "et"));
    assert_eq!(read(&["ls", "--image=a.img", "/etc/"]), parts("a.img", "", "/etc/", ""));
    for words in [&["ls", "a.img"][..], &["ls", ""], &[]] {
        assert_eq!(read(words), None, "{words:?}");
    }
}

#[test]
fn options_in_front_choose_the_volume() {
    let words = ["--partition", "2", "--offset=1m", "ls", "a.img:/"].map(OsString::from);
    let line = CompletionLine::read(&words).unwrap();
    assert_eq!((line.partition, line.offset), (Some(2.into()), Some(1 << 20)));
}
