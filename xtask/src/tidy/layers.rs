//! The rule about layers: a crate may depend only on crates of a lower level.
//!
//! The level stands in each crate's `package.metadata.ferroxfs.level`. Crates that exist for tests
//! also say `tests-only = true` in that table. Any crate may have these crates as development
//! dependencies. No crate may depend on them in another way. `xtask` stands outside the levels.

use std::collections::HashMap;

use serde_json::Value;

use super::Finding;

struct Layer {
    level: u64,
    tests_only: bool,
}

/// Checks the dependencies of all crates in `metadata`, the output of `cargo metadata`.
pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let packages = || metadata["packages"].as_array().into_iter().flatten();
    let mut findings = Vec::new();
    let mut layers = HashMap::new();
    for package in packages() {
        let name = text(package, "name");
        match layer(package) {
            Some(layer) => drop(layers.insert(name, layer)),
            None if name == "xtask" => {}
            None => findings.push(finding(name, "has no package.metadata.ferroxfs.level")),
        }
    }
    for package in packages() {
        let name = text(package, "name");
        let Some(layer) = layers.get(name) else { continue };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let target = text(dependency, "name");
            let Some(below) = layers.get(target) else { continue };
            let for_tests = dependency["kind"].as_str() == Some("dev");
            // The tests of a crate name the crate itself to enable its features.
            if for_tests && target == name {
                continue;
            }
            if let Some(rule) = refusal(layer, below, for_tests) {
                findings.push(finding(name, &format!("may not depend on {target}: {rule}")));
            }
        }
    }
    findings
}

fn refusal(layer: &Layer, below: &Layer, for_tests: bool) -> Option<String> {
    match (below.tests_only, for_tests || layer.tests_only) {
        (true, true) => None,
        (true, false) => Some("it is there for tests, make it a dev-dependency".to_owned()),
        (false, _) if below.level < layer.level => None,
        // The tests of a crate that is only for tests may look down on everything.
        (false, true) if layer.tests_only => None,
        (false, _) => Some(format!("level {} is not above level {}", layer.level, below.level)),
    }
}

fn layer(package: &Value) -> Option<Layer> {
    let metadata = package.pointer("/metadata/ferroxfs")?;
    let tests_only = metadata["tests-only"].as_bool().unwrap_or(false);
    Some(Layer { level: metadata["level"].as_u64()?, tests_only })
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn finding(package: &str, rule: &str) -> Finding {
    Finding { place: package.to_owned(), line: 0, rule: rule.to_owned() }
}

#[cfg(test)]
mod tests;
