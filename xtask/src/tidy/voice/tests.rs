use super::{check, mean_sentence};
use crate::tidy::File;

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

fn findings(path: &str, text: &str) -> Vec<String> {
    check(&file(path, text)).iter().map(ToString::to_string).collect()
}

#[test]
fn sentence_without_a_subject_is_found_and_a_question_is_not() {
    let text = "// Waits. What is left\n// is written.\n// What is left?\n";
    assert_eq!(findings("a.rs", text), ["a.rs:1: name the subject: What is left is written."]);
}

#[test]
fn banned_words_are_found_as_whole_words_outside_of_code() {
    let text = "//! Besides the lock, `whoever()` reads. Mendeds. The \"somebody\" of old.\n";
    assert_eq!(findings("a.rs", text), ["a.rs:1: `besides`: also"]);
    assert_eq!(findings("a.md", "The same, all the\nsame.\n"), ["a.md:1: `all the same`: still"]);
    assert_eq!(findings("a.rs", "let somebody = 1;\n"), [""; 0]);
}

#[test]
fn sentence_of_more_than_forty_words_is_found() {
    let forty = format!("{}\n", "Word word\n".repeat(20));
    assert_eq!(findings("a.md", &forty), [""; 0]);
    let text = format!("{}word.\n", "Word word\n".repeat(20));
    let expected =
        "a.md:1: a sentence of 41 words, 40 at most: Word word Word word Word word Word word";
    assert_eq!(findings("a.md", &text), [expected]);
}

#[test]
fn long_lines_of_text_are_found_and_those_of_tables_code_and_links_are_not() {
    let long = "ab ".repeat(34);
    let long = long.trim();
    assert_eq!(findings("a.md", &format!("{long}\n")), ["a.md:1: 101 columns, 100 at most"]);
    assert_eq!(findings("a.rs", &format!("// {long}\n")), ["a.rs:1: 104 columns, 100 at most"]);
    let kept = format!("| {long} |\n\n```text\n{long}\n```\n\n[{long}](b.md)\n");
    assert_eq!(findings("a.md", &kept), [""; 0]);
    assert_eq!(findings("a.rs", &format!("let a = \"{long}\";\n")), [""; 0]);
}

#[test]
fn mean_length_counts_sentences_of_documents() {
    let text = "One two three four. ".repeat(10);
    assert_eq!(mean_sentence(&file("a.md", text.trim())), Some(4.0));
    assert_eq!(mean_sentence(&file("a.md", "One two three four.\n")), None);
    assert_eq!(mean_sentence(&file("a.rs", &text)), None);
}

#[test]
fn document_of_long_sentences_is_found() {
    let text = |words: usize| format!("{}end.\n\n", "Of ".repeat(words - 1)).repeat(10);
    let found = |path, words| findings(path, &text(words));
    assert_eq!(found("README.md", 18), [""; 0]);
    assert_eq!(found("docs/guide/mount.md", 18), [""; 0]);
    assert_eq!(found("docs/limits.md", 20), [""; 0]);
    let expected = "README.md: 19.0 words in a sentence on average, 18 at most";
    assert_eq!(found("README.md", 19), [expected]);
    assert_eq!(found("docs/guide/mount.md", 19).len(), 1);
    let expected = "docs/limits.md: 21.0 words in a sentence on average, 20 at most";
    assert_eq!(found("docs/limits.md", 21), [expected]);
}
