use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Materials, checksums, linked};

const LOCK: &str = r#"
[[package]]
name = "ferroxfs-cli"
version = "0.1.0"
dependencies = [
 "used",
]

[[package]]
name = "used"
version = "1.2.3"
source = "registry"
checksum = "ab01"
"#;

fn package(id: &str, licence: &str, kind: &str) -> Value {
    json!({
        "id": id, "name": id, "version": "1.2.3", "license": licence,
        "manifest_path": format!("/crates/{id}/Cargo.toml"), "targets": [{ "kind": [kind] }],
    })
}

fn dependency(id: &str, kind: Option<&str>) -> Value {
    json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] })
}

/// Returns cargo metadata of the crate `xfs-cli` with four dependencies: a library (`used`), a
/// procedural macro, a crate for tests only, and a crate for the build only.
fn metadata() -> Value {
    let uses = [
        dependency("used", None),
        dependency("macro", None),
        dependency("tested", Some("dev")),
        dependency("built", Some("build")),
    ];
    let names = ["used", "macro", "tested", "built"];
    let mut nodes = vec![json!({ "id": "ferroxfs-cli", "deps": uses })];
    nodes.extend(names.map(|id| json!({ "id": id, "deps": [] })));
    let packages = [
        package("ferroxfs-cli", "MIT", "bin"),
        package("used", "MIT/Apache-2.0", "lib"),
        package("macro", "MIT", "proc-macro"),
        package("tested", "MIT", "lib"),
        package("built", "MIT", "lib"),
    ];
    json!({ "packages": packages, "resolve": { "nodes": nodes } })
}

#[test]
fn checksums_are_those_of_the_lock_file() {
    let known = checksums(LOCK);
    let expected = (("used".to_owned(), "1.2.3".to_owned()), "ab01".to_owned());
    assert_eq!(known, BTreeMap::from([expected]));
}

#[test]
fn only_crates_in_the_binary_are_listed() {
    let crates = linked(&metadata(), &checksums(LOCK), "ferroxfs-cli").unwrap();
    assert_eq!(crates.keys().collect::<Vec<_>>(), ["ferroxfs-cli", "used"]);
    assert_eq!(crates["used"].folder, PathBuf::from("/crates/used"));
}

#[test]
fn bill_has_licences_checksums_and_dependencies() {
    let crates = linked(&metadata(), &checksums(LOCK), "ferroxfs-cli").unwrap();
    let known = |text: &str| text.to_owned();
    let (time, digest, rust) = (known("2023-11-14T22:13:20Z"), known("cd02"), known("1.95.0"));
    let (name, kind) = ("ferroxfs", "application");
    let text = Materials { name, kind, crates, time, digest, rust }.text().unwrap();
    let bill: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(bill["bomFormat"], "CycloneDX");
    assert_eq!(bill["metadata"]["component"]["hashes"][0]["content"], "cd02");
    let names: Vec<_> =
        bill["components"].as_array().unwrap().iter().map(|known| &known["name"]).collect();
    assert_eq!(names, ["ferroxfs-cli", "used", "std", "musl"]);
    let used = &bill["components"][1];
    assert_eq!(used["licenses"][0]["expression"], "MIT OR Apache-2.0");
    assert_eq!(used["hashes"][0]["content"], "ab01");
    assert_eq!(used["purl"], "pkg:cargo/used@1.2.3");
    let uses =
        json!({ "ref": "pkg:cargo/ferroxfs-cli@1.2.3", "dependsOn": ["pkg:cargo/used@1.2.3"] });
    assert_eq!(bill["dependencies"][0], uses);
}
