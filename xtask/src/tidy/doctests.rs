//! The rule about examples in documentation: a library says `doctest = false` if and only if its
//! documentation has no example. To look for examples, rustdoc compiles every other library once
//! more, one after the other.

use serde_json::Value;

use super::{File, Finding, crate_folder};

/// The words after the opening fence of a code block for which rustdoc runs or compiles the block.
const RUST: [&str; 7] =
    ["", "rust", "no_run", "should_panic", "compile_fail", "edition2021", "edition2024"];

/// Checks for each library that its manifest says `doctest = false` exactly if its documentation
/// has no block that rustdoc runs or compiles.
pub(super) fn check(files: &[File], metadata: &Value) -> Vec<Finding> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages.filter_map(|package| check_package(files, package)).collect()
}

fn check_package(files: &[File], package: &Value) -> Option<Finding> {
    let targets = package["targets"].as_array()?;
    let library = targets.iter().find(|target| is_library(target))?;
    let folder = crate_folder(package)?;
    let sources = format!("{folder}/src/");
    let has_examples = files
        .iter()
        .filter(|file| file.is_rust() && file.path.starts_with(&sources))
        .any(|file| has_example(&file.text));
    let rule = match (library["doctest"].as_bool()?, has_examples) {
        (true, true) | (false, false) => return None,
        (true, false) => "has no example in its documentation, so add `doctest = false` to [lib]",
        (false, true) => "has an example that never runs, so remove `doctest = false`",
    };
    Some(Finding { place: format!("{folder}/Cargo.toml"), line: 0, rule: rule.to_owned() })
}

fn is_library(target: &Value) -> bool {
    target.pointer("/kind/0").is_some_and(|kind| kind == "lib")
}

/// Returns whether a doc comment of a Rust file has a block that rustdoc runs or compiles.
fn has_example(text: &str) -> bool {
    let comments = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    let mut is_inside = false;
    for words in comments.filter_map(|comment| comment.trim_start().strip_prefix("```")) {
        if !is_inside && words.trim().split([',', ' ']).all(|word| RUST.contains(&word)) {
            return true;
        }
        is_inside = !is_inside;
    }
    false
}

#[cfg(test)]
mod tests;
