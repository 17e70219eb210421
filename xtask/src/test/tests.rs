use std::path::Path;

use super::ORACLES;

/// Returns the names of the test targets of all crates, by the layout of their folders.
fn targets() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut names = Vec::new();
    for package in std::fs::read_dir(root.join("crates")).unwrap() {
        for entry in std::fs::read_dir(package.unwrap().path().join("tests")).into_iter().flatten()
        {
            let path = entry.unwrap().path();
            names.push(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
    }
    names
}

#[test]
fn each_binary_that_asks_oracles_exists() {
    let targets = targets();
    for name in ORACLES {
        assert!(targets.iter().any(|target| target == name), "{name} is no test binary");
    }
    assert!(!ORACLES.contains(&"it"));
}
