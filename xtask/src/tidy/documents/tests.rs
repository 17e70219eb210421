use super::{REQUIRED, check};
use crate::tidy::File;

fn check_document(text: &str, expected: &[&str]) {
    let file = File { path: "docs/adr/one.md".to_owned(), text: text.to_owned() };
    let others = ["docs/limits.md", file.path.as_str()];
    let exists = |path: &str| others.contains(&path) || REQUIRED.contains(&path);
    let findings: Vec<_> =
        check(std::slice::from_ref(&file), &exists).iter().map(ToString::to_string).collect();
    assert_eq!(findings, expected);
}

#[test]
fn one_title_and_good_links() {
    let text = "# One\n[a](../limits.md#ram) [b](https://example.org) [c](#x-y)\n## X (`y`)\n";
    check_document(text, &[]);
}

#[test]
fn link_to_a_section_that_does_not_exist_is_found() {
    let text = "# One\n\n[a](#two) [b](one.md#one)\n";
    check_document(text, &["docs/adr/one.md:3: no section two in docs/adr/one.md"]);
    let text = "# One\n```text\n# two\n```\n[a](one.md#two)\n";
    check_document(text, &["docs/adr/one.md:5: no section two in docs/adr/one.md"]);
}

#[test]
fn code_is_not_prose() {
    check_document("# One\n```sh\n# a comment, not a title\n[x](nowhere.md)\n```\n", &[]);
}

#[test]
fn code_without_a_language_is_a_finding() {
    let rule = "code without a language: say `sh` for what a reader types, `text` for the rest";
    let text = "# One\n```text\na\n```\n```\nb\n```\n";
    check_document(text, &[&format!("docs/adr/one.md:5: {rule}")]);
}

#[test]
fn no_title_and_two_titles() {
    check_document("Text.\n", &["docs/adr/one.md: has 0 titles (`# …`) instead of one"]);
    check_document("# A\n# B\n", &["docs/adr/one.md: has 2 titles (`# …`) instead of one"]);
}

#[test]
fn link_to_nowhere_is_found() {
    check_document("# A\n\n[x](two.md)\n", &["docs/adr/one.md:3: link to nowhere: two.md"]);
}

#[test]
fn required_documents() {
    let findings = check(&[], &|path| path != "CHANGELOG.md");
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, ["CHANGELOG.md: is missing"]);
}
