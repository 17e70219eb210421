//! Rules about documents. The required documents exist, each has one title, links lead to files and
//! sections that exist, and code blocks name their language.

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
        findings.extend(check_sections(file, files));
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
    let mut findings = Vec::new();
    for (number, target) in targets(&file.text) {
        let path = target.split('#').next().unwrap_or_default();
        if path.is_empty() || path.contains(':') {
            continue;
        }
        if !exists(&join(file.folder(), path)) {
            findings.push(Finding::new(file, number, format!("link to nowhere: {path}")));
        }
    }
    findings
}

/// Checks that each link to a section of a document leads to one of its headings.
fn check_sections(file: &File, files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, target) in targets(&file.text) {
        let Some((path, section)) = target.split_once('#') else { continue };
        let path = match path {
            "" => file.path.clone(),
            path => join(file.folder(), path),
        };
        let linked = files.iter().find(|file| file.path == path && file.is_markdown());
        let is_there = |linked: &File| sections(&linked.text).any(|name| name == section);
        // A missing file is a finding of its own, and other sites have their own sections.
        if linked.is_some_and(|linked| !is_there(linked)) {
            findings.push(Finding::new(file, number, format!("no section {section} in {path}")));
        }
    }
    findings
}

/// Returns the targets of the links outside code, with their line numbers.
fn targets(text: &str) -> impl Iterator<Item = (usize, &str)> {
    prose(text).flat_map(|(number, line)| {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        targets.map(move |target| (number, target))
    })
}

/// Returns the names by which links name the headings of a document, as GitHub and mdBook make
/// them.
fn sections(text: &str) -> impl Iterator<Item = String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// Checks that code blocks name their language. A test runs the blocks of the language `sh`, and
/// would skip a block without a language.
fn check_languages(file: &File) -> Vec<Finding> {
    let fences = file.text.lines().enumerate().filter(|(_, line)| line.trim().starts_with("```"));
    let opening = fences.step_by(2).filter(|(_, line)| line.trim() == "```");
    let rule = "code without a language: say `sh` for what a reader types, `text` for the rest";
    opening.map(|(index, _)| Finding::new(file, index + 1, rule)).collect()
}

/// Returns the path of a link's target, relative to the workspace. `folder` is the folder of the
/// file that has the link.
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
