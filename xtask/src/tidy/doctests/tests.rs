use serde_json::json;

use super::check;
use crate::tidy::File;

/// Checks that the rule gives `expected` findings for a library that has the manifest entry
/// `doctest`, and `text` as one of its files.
fn check_findings(doctest: bool, text: &str, expected: usize) {
    let files = [
        File { path: "crates/a/src/log.rs".to_owned(), text: text.to_owned() },
        File { path: "crates/b/src/lib.rs".to_owned(), text: "/// ```\n/// ```".to_owned() },
    ];
    let metadata = json!({"packages": [
        {"manifest_path": "/x/crates/a/Cargo.toml", "targets": [{"kind": ["lib"], "doctest": doctest}]},
        {"manifest_path": "/x/crates/b/Cargo.toml", "targets": [{"kind": ["bin"], "doctest": false}]},
    ]});
    assert_eq!(check(&files, &metadata).len(), expected, "{doctest}: {text}");
}

#[test]
fn library_with_an_example_runs_it() {
    for text in ["    /// ```\n    /// f();\n    /// ```", "//! ```no_run\n//! ```", "/// ```rust"]
    {
        check_findings(true, text, 0);
        check_findings(false, text, 1);
    }
}

#[test]
fn library_without_examples_has_no_doctests() {
    for text in ["/// ```text\n/// a\n/// ```\n/// ```ignore\n/// ```", "// ```", "fn f() {}"] {
        check_findings(false, text, 0);
        check_findings(true, text, 1);
    }
}
