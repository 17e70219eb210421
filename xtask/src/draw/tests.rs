use super::{DocComment, Options, doc_comments, draw};

#[test]
fn runs_of_doc_lines_are_comments_with_their_items() {
    let text =
        "//! Head.\n//! More.\n\nuse a;\n\n/// Adds.\n///\n/// Twice.\nfn add() {}\n// none\n";
    let comment = |line, text: &str, item: &str| DocComment {
        path: "a.rs".to_owned(),
        line,
        text: text.to_owned(),
        item: item.to_owned(),
    };
    let expected = [
        comment(1, "//! Head.\n//! More.", ""),
        comment(6, "/// Adds.\n///\n/// Twice.", "fn add() {}"),
    ];
    assert_eq!(doc_comments("a.rs", text), expected);
}

#[test]
fn same_seed_draws_the_same_comments_once_each() {
    let text: String = (0..50).map(|n| format!("/// Number {n}.\nfn f{n}() {{}}\n")).collect();
    let drawn = |seed| {
        let drawn = draw(doc_comments("a.rs", &text), &Options { seed, count: 20 });
        drawn.into_iter().map(|comment| comment.line).collect::<Vec<_>>()
    };
    assert_eq!(drawn(7), drawn(7));
    assert_ne!(drawn(7), drawn(8));
    let mut lines = drawn(7);
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 20);
}

#[test]
fn draw_of_more_than_there_are_takes_all() {
    let comments = doc_comments("a.rs", "/// One.\nfn f() {}\n");
    assert_eq!(draw(comments, &Options { seed: 1, count: 5 }).len(), 1);
}
