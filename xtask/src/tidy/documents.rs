//! Rules about documents. The required documents exist, each has one title, links lead to files
//! that exist, and code blocks name their language.

use super::{File, Finding};

/// The documents that the project must have.
const REQUIRED: [&str; 9] = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "SECURITY.md",
    "STYLE.md",
    "docs/ARCHITECTURE.md",
    "docs/limits.md",
];

/// Checks all documents. `exists` returns whether a path, relative to the workspace, exists.
pub(super) fn check(files: &[File], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in REQUIRED.into_iter().filter(|path| !exists(path)) {
        findings.push(Finding { place: path.to_owned(), line: 0, rule: "is missing".to_owned() });
    }
    for file in files.iter().filter(|file| file.is_markdown()) {
        findings.extend(check_title(file));
        findings.extend(check_links(file, exists));
        findings.extend(check_languages(file));
    }
    findings
}

fn check_title(file: &File) -> Option<Finding> {
    let titles = prose(&file.text).filter(|(_, line)| line.starts_with("# ")).count();
    let rule = || format!("has {titles} titles (`# …`) instead of one");
    (titles != 1).then(|| Finding::new(file, 0, rule()))
}

fn check_links(file: &File, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (number, line) in prose(&file.text) {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains(':') {
                continue;
            }
            if !exists(&join(folder, path)) {
                findings.push(Finding::new(file, number, format!("link to nowhere: {path}")));
            }
        }
    }
    findings
}

/// Checks that code blocks name their language. A test runs the blocks of the language `sh`, and
/// would skip a block without a language.
fn check_languages(file: &File) -> Vec<Finding> {
    let fences = file.text.lines().enumerate().filter(|(_, line)| line.trim().starts_with("```"));
    let opening = fences.step_by(2).filter(|(_, line)| line.trim() == "```");
    let rule = "code without a language: say `sh` for what a reader types, `text` for the rest";
    opening.map(|(index, _)| Finding::new(file, index + 1, rule)).collect()
}

/// Returns the path of a link's target: `link` is relative to `folder`, which holds the linking
/// file.
fn join(folder: &str, link: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the lines outside fenced code, with their line numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((index + 1, line))
    })
}

#[cfg(test)]
mod tests;
