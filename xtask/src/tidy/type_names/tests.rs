use std::collections::HashSet;

use serde_json::{Value, json};

use super::{ACCEPTED, Accepted, check_with};
use crate::tidy::File;

fn metadata() -> Value {
    let package = |name: &str, own: Value| {
        let manifest = format!("/x/crates/{name}/Cargo.toml");
        json!({ "manifest_path": manifest, "metadata": { "ferroxfs": own } })
    };
    json!({ "packages": [
        package("low", json!({ "level": 0 })),
        package("top", json!({ "level": 12 })),
        package("front", json!({ "level": 13 })),
        package("kit", json!({ "level": 2, "tests-only": true })),
        json!({ "name": "xtask", "metadata": null }),
    ] })
}

/// Checks that these files, given as paths and texts, have the findings `expected`. `accepted` are
/// the names that several types may have.
fn check(files: &[(&str, &str)], accepted: &'static [&'static str], expected: &[&str]) {
    let file = |(path, text): &(&str, &str)| File {
        path: format!("crates/{path}"),
        text: (*text).to_owned(),
    };
    let files: Vec<_> = files.iter().map(file).collect();
    let accepted = [Accepted { reason: "test", names: accepted }];
    let findings = check_with(&files, &metadata(), &accepted);
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, expected);
}

const LOW: (&str, &str) = ("low/src/lib.rs", "pub struct Place(u8);\n");

#[test]
fn name_of_two_types_is_refused() {
    let rule = |place: &str| {
        format!(
            "crates/{place}: Place is a type in crates/low/src/lib.rs too: give it another name"
        )
    };
    for text in [
        "pub struct Place;\n",
        "pub(crate) enum Place {}\n",
        "pub trait Place<T> {}\n",
        "mod a {\n    pub(crate) union Place {}\n}\n",
    ] {
        let line = if text.starts_with("mod") { 2 } else { 1 };
        check(&[LOW, ("top/src/a.rs", text)], &[], &[&rule(&format!("top/src/a.rs:{line}"))]);
    }
    check(&[LOW, ("low/src/a.rs", "pub enum Place {}\n")], &[], &[&rule("low/src/a.rs:1")]);
}

#[test]
fn other_types_may_share_a_name() {
    for other in [
        ("top/src/a.rs", "struct Place;\npub(super) enum Place {}\n// pub struct Place;\n"),
        ("top/src/a.rs", "pub fn place() {}\npub struct Places;\npub use low::Place;\n"),
        ("top/src/a.rs", "#[cfg(test)]\nmod tests {\n    pub struct Place;\n}\n"),
        ("top/src/a/tests.rs", "pub struct Place;\n"),
        ("top/tests/it/main.rs", "pub struct Place;\n"),
        ("top/src/testing.rs", "pub struct Place;\n"),
        ("front/src/lib.rs", "pub struct Place;\n"),
        ("kit/src/lib.rs", "pub struct Place;\n"),
    ] {
        check(&[LOW, other], &[], &[]);
    }
}

#[test]
fn accepted_name_is_shared_or_no_longer_accepted() {
    check(&[LOW, ("top/src/a.rs", "pub struct Place;\n")], &["Place"], &[]);
    let rule = "xtask/src/tidy/type_names.rs: only one type is called Place: take it off the list \
                of \"test\"";
    check(&[LOW], &["Place"], &[rule]);
}

#[test]
fn accepted_names_are_listed_once_and_have_a_reason() {
    let names: Vec<_> = ACCEPTED.iter().flat_map(|accepted| accepted.names).collect();
    let distinct: HashSet<_> = names.iter().collect();
    assert_eq!(names.len(), distinct.len());
    assert!(ACCEPTED.iter().all(|accepted| !accepted.reason.is_empty()));
}
