use super::check;
use crate::tidy::File;

/// Returns the lines at which the rule has findings in a file with this path and text.
fn lines(path: &str, text: &str) -> Vec<usize> {
    let file = File { path: path.to_owned(), text: text.to_owned() };
    check(&file).iter().map(|finding| finding.line).collect()
}

#[test]
fn article_below_the_attribute_is_found() {
    let text = "#[test]\nfn a_file_grows() {}\n#[test] fn the_end() {}\n";
    assert_eq!(lines("x/src/lib.rs", text), [2, 3]);
    let panics = "#[test]\n#[should_panic(expected = \"x\")]\nfn so_does_b() {}\n";
    assert_eq!(lines("x/src/lib.rs", panics), [3]);
}

#[test]
fn article_in_a_file_of_tests_is_found() {
    let text = "pub(crate) fn a_mount_ends() -> Result<(), E> {}\n";
    assert_eq!(lines("x/tests/mount/main.rs", text), [1]);
    assert_eq!(lines("x/src/part/tests.rs", text), [1]);
}

#[test]
fn other_names_are_allowed() {
    let text = "#[test]\nfn file_grows() {}\nfn a_helper() {}\n// fn the_comment\n";
    assert_eq!(lines("x/src/lib.rs", text), [0; 0]);
    let test = "#[test]\nfn archive_of_a_file() { let s = \"fn a_b()\"; }\nfn a() {}\n";
    assert_eq!(lines("x/tests/it/main.rs", test), [0; 0]);
}
