use super::{DocComment, Options, doc_comments, draw};

#[test]
fn runs_of_doc_lines_are_comments_with_their_items() {
    let text =
        "//! Head.\n//! More.\n\nuse a;\n\n/// Adds.\n///\n/// Twice.\nfn add() {}\n// none\n";
    let header = DocComment {
        path: "a.rs".to_owned(),
        line: 1,
        text: "//! Head.\n//! More.".to_owned(),
        module: String::new(),
        parent: String::new(),
        item: String::new(),
    };
    let function = DocComment {
        path: "a.rs".to_owned(),
        line: 6,
        text: "/// Adds.\n///\n/// Twice.".to_owned(),
        module: "Head. More.".to_owned(),
        parent: String::new(),
        item: "fn add() {}".to_owned(),
    };
    assert_eq!(doc_comments("a.rs", text), [header, function]);
}

#[test]
fn declaration_is_shown_whole_without_attributes_and_body() {
    let text = "/// Adds.\n#[must_use]\n#[expect(\n    a,\n)]\npub fn add(\n    one: [u8; 2],\n    two: u8,\n) -> u8 {\n    one\n}\n";
    let [comment] = doc_comments("a.rs", text).try_into().expect("one comment");
    assert_eq!(comment.item, "pub fn add( one: [u8; 2], two: u8, ) -> u8");
}

#[test]
fn item_around_a_field_or_a_method_is_named() {
    let text = "/// Pair.\npub(crate) struct Pair {\n    /// Left.\n    left: u8,\n}\n\nimpl Pair {\n    fn a() {\n    }\n\n    /// Adds.\n    fn add(&self) -> u8 {\n";
    let parents: Vec<String> =
        doc_comments("a.rs", text).into_iter().map(|comment| comment.parent).collect();
    assert_eq!(parents, ["", "pub(crate) struct Pair", "impl Pair"]);
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
