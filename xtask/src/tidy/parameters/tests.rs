use super::check;
use crate::tidy::File;

fn lines(path: &str, text: &str) -> Vec<usize> {
    let file = File { path: path.to_owned(), text: text.to_owned() };
    check(&file).iter().map(|finding| finding.line).collect()
}

fn found(text: &str) -> Vec<usize> {
    lines("a/src/lib.rs", text)
}

#[test]
fn tuple_parameters_are_found() {
    assert_eq!(found("fn f((a, b): (u32, u32)) {}\n"), [1]);
    assert_eq!(found("fn f(\n    &self,\n    pair: (u32, u32),\n) {}\n"), [3]);
    assert_eq!(found("pub(crate) fn f<T: Fn(u32) -> u64>(t: T, pair: &'a mut (u8, T)) {}\n"), [1]);
    assert_eq!(found("fn f(\n    (a, b): Pair,\n    c: u8,\n    d: (u8, u8),\n) {}\n"), [2, 4]);
    assert_eq!(found("trait A {\n    fn f(&self, pair: &(A, B)) -> u8;\n}\n"), [2]);
}

#[test]
fn other_parameters_are_allowed() {
    assert_eq!(found("fn f(&self, a: &(dyn A + Sync), b: [(u8, u8); 2], c: ()) {}\n"), [0; 0]);
    assert_eq!(
        found("fn f(Pair { a, b }: Pair, work: impl Fn((u8, u8)) -> (u8, u8)) {}\n"),
        [0; 0]
    );
    assert_eq!(
        found("fn f(pairs: &[(u8, u8)], call: fn((u8, u8))) -> (u8, u8) { (1, 2) }\n"),
        [0; 0]
    );
    assert_eq!(
        found("fn f(pairs: Vec<(u8, u8)>) { pairs.map(|(a, b): (u8, u8)| a + b) }\n"),
        [0; 0]
    );
    assert_eq!(found("// fn f(pair: (u8, u8))\nlet s = \"fn f(pair: (u8, u8))\";\n"), [0; 0]);
}

#[test]
fn tests_may_take_tuples() {
    let text = "fn f((a, b): (u32, u32)) {}\n";
    assert_eq!(lines("a/src/lib/tests.rs", text), [0; 0]);
    assert_eq!(lines("a/tests/it/main.rs", text), [0; 0]);
}
