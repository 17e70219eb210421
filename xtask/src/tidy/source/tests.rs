use super::{LINES_MAX, LINES_WISHED, check, check_unsafe, size_warning};
use crate::tidy::File;

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

fn check_source(path: &str, text: &str, expected: &[&str]) {
    let findings: Vec<_> = check(&file(path, text)).iter().map(ToString::to_string).collect();
    assert_eq!(findings, expected, "{text}");
}

const LIB: &str = "crates/a/src/lib.rs";

#[test]
fn size() {
    let lines = |count: usize| file(LIB, &"x\n".repeat(count));
    assert!(check(&lines(LINES_MAX)).is_empty());
    assert_eq!(check(&lines(LINES_MAX + 1)).len(), 1);
    assert!(size_warning(&lines(LINES_WISHED)).is_none());
    assert!(size_warning(&lines(LINES_WISHED + 1)).is_some());
}

#[test]
fn tests_do_not_count_as_size() {
    let long = "x\n".repeat(LINES_MAX + 1);
    assert!(check(&file("crates/a/src/b/tests.rs", &long)).is_empty());
    assert!(check(&file(LIB, &format!("#[cfg(test)]\nmod tests {{\n{long}}}\n"))).is_empty());
}

#[test]
fn module_file_names() {
    let rule = "crates/a/src/log/mod.rs: call it after the module: `log.rs`, not `log/mod.rs`";
    check_source("crates/a/src/log/mod.rs", "", &[rule]);
}

#[test]
fn glob_imports() {
    let rule = "crates/a/src/lib.rs:1: name what you import, without `*`";
    check_source(LIB, "use a::*;", &[rule]);
    check_source(LIB, "// use a::*;", &[]);
    check_source("crates/a/src/b/tests.rs", "use super::*;", &[]);
}

#[test]
fn ignored_tests() {
    check_source(
        LIB,
        "#[test]\n#[ignore]\n",
        &["crates/a/src/lib.rs:2: no test is ignored: run it or remove it"],
    );
}

#[test]
fn promises_name_an_issue() {
    check_source(LIB, "// TODO(#12): more.\n", &[]);
    check_source(LIB, "let s = \"TODO\";\n", &[]);
    check_source(
        LIB,
        "// FIXME: less.\n",
        &["crates/a/src/lib.rs:1: say which issue: `TODO(#12)`"],
    );
}

#[test]
fn raw_locks() {
    let rule = "crates/a/src/lib.rs:1: take locks and atomics from xfs-sync";
    check_source(LIB, "use std::sync::{Arc, OnceLock};", &[]);
    check_source(LIB, "use xfs_sync::Mutex;", &[]);
    check_source(LIB, "use std::sync::{Arc, Mutex};", &[rule]);
    check_source(LIB, "static A: std::sync::RwLock<u8> = f();", &[rule]);
    check_source(LIB, "use core::sync::atomic::AtomicU64;", &[rule]);
    check_source("crates/xfs-sync/src/lib.rs", "use std::sync::Mutex;", &[]);
    check_source("crates/a/tests/it/main.rs", "use std::sync::Mutex;", &[]);
}

#[test]
fn allows_give_a_reason() {
    check_source(LIB, "#[allow(dead_code, reason = \"read by C\")]", &[]);
    check_source(
        LIB,
        "\n#![allow(\n    dead_code\n)]",
        &["crates/a/src/lib.rs:2: say why: `reason = \"…\"`"],
    );
}

#[test]
fn unsafe_is_listed() {
    let code = file("crates/a/src/raw.rs", "fn f() { unsafe { g() } }");
    let calm = file(LIB, "#![forbid(unsafe_code)]\n// unsafe\n");
    let list = |text: &str| file("docs/unsafe.md", text);
    let findings = check_unsafe(&[code, calm, list("# Unsafe\n")]);
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, ["crates/a/src/raw.rs: has `unsafe` and is not in docs/unsafe.md"]);
    let findings = check_unsafe(&[list("- `crates/a/src/raw.rs`: why\n")]);
    let findings: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings, ["docs/unsafe.md: crates/a/src/raw.rs has no `unsafe`"]);
}
