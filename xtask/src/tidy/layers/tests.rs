use serde_json::{Value, json};

use super::check;

fn package(name: &str, metadata: Value, dependencies: &[(&str, Option<&str>)]) -> Value {
    let dependencies: Vec<_> =
        dependencies.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
    json!({"name": name, "metadata": {"ferroxfs": metadata}, "dependencies": dependencies})
}

fn check_layers(packages: &[Value], expected: &[&str]) {
    let findings = check(&json!({ "packages": packages }));
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, expected);
}

fn low() -> Value {
    package("low", json!({"level": 1}), &[])
}

fn kit() -> Value {
    package("kit", json!({"level": 2, "tests-only": true}), &[("low", None)])
}

#[test]
fn tests_of_a_crate_may_enable_its_own_features() {
    let own = |kind| package("own", json!({"level": 1}), &[("own", kind)]);
    check_layers(&[own(Some("dev"))], &[]);
    let rule = "own: may not depend on own: level 1 is not above level 1";
    check_layers(&[own(None)], &[rule]);
}

#[test]
fn downwards_is_fine() {
    let high = package("high", json!({"level": 2}), &[("low", None), ("serde", None)]);
    check_layers(&[low(), high], &[]);
}

#[test]
fn upwards_is_refused() {
    let lower = package("lower", json!({"level": 0}), &[("low", None)]);
    check_layers(&[low(), lower], &["lower: may not depend on low: level 0 is not above level 1"]);
}

#[test]
fn sideways_is_refused() {
    let beside = package("beside", json!({"level": 1}), &[("low", Some("dev"))]);
    let rule = "beside: may not depend on low: level 1 is not above level 1";
    check_layers(&[low(), beside], &[rule]);
}

#[test]
fn test_kit_serves_the_tests_of_every_layer() {
    let lower = package("lower", json!({"level": 0}), &[("kit", Some("dev"))]);
    check_layers(&[low(), kit(), lower], &[]);
}

#[test]
fn test_kit_serves_nothing_but_tests() {
    let high = package("high", json!({"level": 9}), &[("kit", None)]);
    let rule = "high: may not depend on kit: it is there for tests, make it a dev-dependency";
    check_layers(&[low(), kit(), high], &[rule]);
}

#[test]
fn every_crate_says_its_level() {
    let lost = package("lost", json!({}), &[]);
    let xtask = package("xtask", json!({}), &[("lost", None)]);
    check_layers(&[lost, xtask], &["lost: has no package.metadata.ferroxfs.level"]);
}
