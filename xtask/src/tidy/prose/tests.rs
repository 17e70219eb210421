use super::{Paragraph, count_words, paragraphs, sentences};
use crate::tidy::File;

fn texts(path: &str, text: &str) -> Vec<(usize, String)> {
    let file = File { path: path.to_owned(), text: text.to_owned() };
    paragraphs(&file).into_iter().map(|Paragraph { line, text }| (line, text)).collect()
}

fn at(line: usize, text: &str) -> (usize, String) {
    (line, text.to_owned())
}

#[test]
fn comments_of_one_kind_form_paragraphs() {
    let text = "//! Owns the log\n//! and its tail.\n//!\n//! Second.\nfn f() {} // after code\n\
                /// Adds.\n// Why.\nlet a = \"// no comment\";\n";
    let expected = [
        at(1, "Owns the log and its tail."),
        at(4, "Second."),
        at(5, "after code"),
        at(6, "Adds."),
        at(7, "Why."),
    ];
    assert_eq!(texts("crates/a/src/a.rs", text), expected);
}

#[test]
fn code_tables_headings_and_diagrams_do_not_count_as_prose() {
    let text = "# Title\n\nText\ngoes on.\n\n| a | b |\n|---|---|\n\n```sh\nls What\n```\n\n    diagram\n\n\
                - one\n  more\n- two\n";
    let expected = [at(3, "Text goes on."), at(15, "- one more"), at(17, "- two")];
    assert_eq!(texts("docs/a.md", text), expected);
}

#[test]
fn files_of_other_kinds_have_no_paragraphs() {
    assert_eq!(texts("Cargo.toml", "# What\n"), []);
}

#[test]
fn sentence_ends_only_where_a_new_one_begins() {
    let text = "Reads e.g. 4.5 KiB of a.rs. The rest: `x`. Why? no. End";
    let expected = ["Reads e.g. 4.5 KiB of a.rs.", "The rest:", "`x`.", "Why? no.", "End"];
    assert_eq!(sentences(text), expected);
}

#[test]
fn words_hold_a_letter_or_digit() {
    assert_eq!(count_words("Reads — at most — 4 KiB …"), 5);
}
