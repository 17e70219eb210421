use serde_json::json;

use super::{FIELDS, Package, REQUIRED, check, published};

#[test]
fn crate_with_publish_false_is_not_packed() {
    let metadata = json!({ "packages": [
        { "name": "a", "version": "0.1.0", "publish": [], "description": "private" },
        { "name": "b", "version": "0.2.0", "publish": null, "description": "", "license": "MIT",
          "readme": "README.md", "keywords": [], "categories": ["filesystem"],
          "rust_version": "1.95" },
    ] });
    let missing = vec!["description", "keywords"];
    let expected = Package { name: "b".to_owned(), version: "0.2.0".to_owned(), missing };
    assert_eq!(published(&metadata), [expected]);
}

#[test]
fn crate_without_any_field_misses_all() {
    let metadata = json!({ "packages": [{ "name": "c", "version": "1.0.0" }] });
    assert_eq!(published(&metadata)[0].missing, FIELDS);
    assert_eq!(published(&metadata)[0].archive(), "c-1.0.0.crate");
}

#[test]
fn package_needs_its_licences_and_no_tests() {
    let mut files = REQUIRED.map(str::to_owned).to_vec();
    files.push("src/lib.rs".to_owned());
    assert_eq!(check(&files), [] as [&str; 0]);
    files.retain(|file| file != "LICENSE-MIT");
    files.push("src/log/tests.rs".to_owned());
    files.push("testdata/log.bin".to_owned());
    let expected = [
        "LICENSE-MIT is missing",
        "src/log/tests.rs belongs to tests",
        "testdata/log.bin belongs to tests",
    ];
    assert_eq!(check(&files), expected);
}
