//! Tests of the markup in the reference pages.

use super::{cell, escaped, link, sentence, wrapped};

#[test]
fn text_with_markup_is_escaped_except_in_code() {
    assert_eq!(escaped("a <b> *c* [d] `<e>*`"), "a &lt;b> \\*c\\* \\[d\\] `<e>*`");
}

#[test]
fn cell_is_one_line_without_a_border() {
    assert_eq!(cell("one\ntwo\n\nthree | four"), "one two<br>three \\| four");
}

#[test]
fn sentence_gets_one_full_stop() {
    assert_eq!(sentence("List directories"), "List directories.");
    assert_eq!(sentence("Never."), "Never.");
    assert_eq!(sentence("One\n\nTwo"), "One.\n\nTwo.");
}

#[test]
fn paragraph_is_broken_before_column_100() {
    let text = wrapped(&"word ".repeat(50));
    assert_eq!(text.lines().map(str::len).collect::<Vec<_>>(), [99, 99, 49]);
}

#[test]
fn related_commands_are_links() {
    assert_eq!(link("ferroxfs-cp(1)"), "[`ferroxfs cp`](cp.md)");
    assert_eq!(link("ferroxfs-dump-agf(1)"), "[`ferroxfs dump agf`](dump.md#dump-agf)");
    assert_eq!(link("ferroxfs(1)"), "[`ferroxfs`](ferroxfs.md)");
    assert_eq!(link("mkfs.xfs(8)"), "mkfs.xfs(8)");
}
