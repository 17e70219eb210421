//! Rules about one Rust file, and the list of files that may hold `unsafe`.

mod mask;

pub(super) use mask::Masked;

use super::{File, Finding};

/// The number of lines of production code that a file should not exceed. A longer file gives a
/// warning.
const LINES_WISHED: usize = 500;
/// The most lines of production code that a file may have. More lines are a finding.
const LINES_MAX: usize = 800;

/// The document that lists every file with `unsafe`, and the reason why the file needs `unsafe`.
const UNSAFE_DOCUMENT: &str = "docs/unsafe.md";

/// Folders whose code may use the locks and atomics of the standard library: the crate that wraps
/// them, code that only serves tests and chores, and examples, which users copy.
const RAW_LOCKS_ALLOWED: [&str; 6] = [
    "crates/xfs-sync/",
    "crates/xfs-testkit/",
    "crates/xfs-oracle/",
    "crates/ferroxfs/examples/",
    "xtask/",
    "fuzz/",
];

/// Paths that lead to a lock or an atomic of a crate other than `xfs-sync`.
const RAW_LOCKS: [&str; 4] =
    ["std::sync::atomic", "core::sync::atomic", "parking_lot", "crossbeam_utils::atomic"];

/// Names of `std::sync` that any code may use: types that are neither a lock nor an atomic, or that
/// are written only once.
const HARMLESS: [&str; 6] = ["Arc", "Weak", "OnceLock", "LazyLock", "PoisonError", "mpsc"];

/// Checks one Rust file against the rules of this module.
pub(super) fn check(file: &File) -> Vec<Finding> {
    let masked = Masked::new(&file.text);
    let mut findings = Vec::new();
    if file.name() == "mod.rs" {
        findings.push(Finding::new(
            file,
            0,
            "call it after the module: `log.rs`, not `log/mod.rs`",
        ));
    }
    if production_lines(file) > LINES_MAX {
        let rule =
            format!("{} lines of production code, {LINES_MAX} at most", production_lines(file));
        findings.push(Finding::new(file, 0, rule));
    }
    let may_lock = file.is_test() || RAW_LOCKS_ALLOWED.iter().any(|at| file.path.starts_with(at));
    let lines = masked.code.split('\n').zip(masked.comments.split('\n'));
    for (index, (code, comment)) in lines.enumerate() {
        let rules = [
            is_glob_import(file, code).then_some("name what you import, without `*`"),
            code.contains("#[ignore").then_some("no test is ignored: run it or remove it"),
            is_loose_todo(comment).then_some("say which issue: `TODO(#12)`"),
            (!may_lock && has_raw_lock(code)).then_some("take locks and atomics from xfs-sync"),
        ];
        findings
            .extend(rules.into_iter().flatten().map(|rule| Finding::new(file, index + 1, rule)));
    }
    findings.extend(bare_allows(file, &masked.code));
    findings
}

/// Returns a warning for a file that is longer than `LINES_WISHED`, but not longer than
/// `LINES_MAX`. Returns `None` for any other file.
pub(super) fn size_warning(file: &File) -> Option<Finding> {
    let lines = production_lines(file);
    let rule = || format!("{lines} lines of production code, {LINES_WISHED} wished");
    (lines > LINES_WISHED && lines <= LINES_MAX).then(|| Finding::new(file, 0, rule()))
}

/// Checks that exactly the files that `docs/unsafe.md` lists contain `unsafe`.
pub(super) fn check_unsafe(files: &[File]) -> Vec<Finding> {
    let document = files.iter().find(|file| file.path == UNSAFE_DOCUMENT);
    let listed: Vec<&str> = document
        .into_iter()
        .flat_map(|document| document.text.split('`'))
        .filter(|word| word.ends_with(".rs"))
        .collect();
    let has_unsafe = |file: &&File| has_word(&Masked::new(&file.text).code, "unsafe");
    let users: Vec<_> = files.iter().filter(|file| file.is_rust()).filter(has_unsafe).collect();
    let unlisted = users.iter().filter(|file| !listed.contains(&file.path.as_str()));
    let rule = format!("has `unsafe` and is not in {UNSAFE_DOCUMENT}");
    let mut findings: Vec<_> = unlisted.map(|file| Finding::new(file, 0, rule.as_str())).collect();
    if let Some(document) = document {
        let stale = listed.iter().filter(|path| users.iter().all(|file| file.path != **path));
        findings
            .extend(stale.map(|path| Finding::new(document, 0, format!("{path} has no `unsafe`"))));
    }
    findings
}

/// Returns the number of lines of production code: the lines before the inline test module, or all
/// lines of a file without one. A test file has 0.
pub(super) fn production_lines(file: &File) -> usize {
    if !file.is_rust() || file.is_test() {
        return 0;
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let tests = lines.windows(2).position(|pair| {
        matches!(pair, [attribute, module]
            if attribute.trim() == "#[cfg(test)]" && module.trim_end().ends_with("mod tests {"))
    });
    tests.unwrap_or(lines.len())
}

/// Returns whether a line is a forbidden `use …::*`. Only a file of tests may have one, `use
/// super::*`, to import the module that it tests.
fn is_glob_import(file: &File, code: &str) -> bool {
    code.contains("::*") && !(file.is_test() && code.trim() == "use super::*;")
}

fn is_loose_todo(comment: &str) -> bool {
    ["TODO", "FIXME", "XXX", "HACK"].into_iter().any(|word| {
        let rest = comment.split_once(word).map(|(_, rest)| rest);
        rest.is_some_and(|rest| has_word(comment, word) && !names_issue(rest))
    })
}

fn names_issue(rest: &str) -> bool {
    let number = rest.strip_prefix("(#").and_then(|rest| rest.split_once(')'));
    number.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

fn has_raw_lock(code: &str) -> bool {
    if RAW_LOCKS.iter().any(|path| code.contains(path)) {
        return true;
    }
    let paths = code.split("std::sync::").skip(1);
    paths.flat_map(imported_names).any(|name| !HARMLESS.contains(&name))
}

/// Returns the names that directly follow `std::sync::`: a single name, or the names between
/// braces. `rest` is the text after `std::sync::`.
fn imported_names(rest: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    match rest.strip_prefix('{') {
        Some(group) => {
            let group = group.split('}').next().unwrap_or_default();
            let names = group.split(',').map(str::trim);
            names.map(|name| name.split(|c| !is_name(c)).next().unwrap_or_default()).collect()
        }
        None => vec![rest.split(|c| !is_name(c)).next().unwrap_or_default()],
    }
}

/// Returns a finding for each `allow` or `expect` attribute in `code` that gives no reason.
fn bare_allows(file: &File, code: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut line = 1;
    let mut rest = code;
    while let Some((before, after)) = rest.split_once('#') {
        line += before.matches('\n').count();
        let attribute = after.trim_start_matches(['!', '[']).split(']').next().unwrap_or_default();
        let is_allow = attribute.starts_with("allow(") || attribute.starts_with("expect(");
        if is_allow && !has_word(attribute, "reason") {
            findings.push(Finding::new(file, line, "say why: `reason = \"…\"`"));
        }
        rest = after;
    }
    findings
}

/// Returns whether `text` contains `word` as a word of its own.
fn has_word(text: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = text;
    let mut last = ' ';
    while let Some((before, after)) = rest.split_once(word) {
        let before = before.chars().next_back().unwrap_or(last);
        if !is_name(before) && !after.starts_with(is_name) {
            return true;
        }
        last = word.chars().next_back().unwrap_or(' ');
        rest = after;
    }
    false
}

#[cfg(test)]
mod tests;
