//! The rule about numbered invariants: each invariant that a module's header defines is cited by
//! the module's code or tests.
//!
//! A header defines `I3` by a list item that begins with `I3`. The module, the modules below it and
//! their tests may cite it. The header of a crate's root speaks for the whole crate.

use super::{File, Finding};

/// Checks the headers of all Rust files.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let rust: Vec<&File> = files.iter().filter(|file| file.is_rust()).collect();
    let mut findings = Vec::new();
    for file in &rust {
        for (line, name) in defined(&file.text) {
            if !rust.iter().any(|other| belongs(file, other) && cites(&other.text, &name)) {
                let rule = format!("{name} is cited by no assert, check or test of the module");
                findings.push(Finding::new(file, line, rule));
            }
        }
    }
    findings
}

/// Returns the invariants that a header defines, with their lines.
fn defined(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate().take_while(|(_, line)| line.starts_with("//!"));
    lines.filter_map(|(index, line)| Some((index + 1, definition(line)?))).collect()
}

/// Returns the name of the invariant that a line defines: `I3` for `//! - **I3** …` or `//! - I3:
/// …`.
fn definition(line: &str) -> Option<String> {
    let item = line.strip_prefix("//!")?.trim_start().strip_prefix("- ")?;
    let name = item.trim_start_matches('*').split(['*', ' ', ':']).next()?;
    let digits = name.strip_prefix('I')?;
    let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit());
    is_number.then(|| name.to_owned())
}

/// Returns whether `other` is the module itself, one of its tests, or a module below it.
fn belongs(module: &File, other: &File) -> bool {
    if module.path == other.path {
        return true;
    }
    let stem = module.path.trim_end_matches(".rs");
    let folder = match module.path.strip_suffix("/lib.rs").or(module.path.strip_suffix("/main.rs"))
    {
        Some(source) => source.strip_suffix("/src").unwrap_or(source),
        None => stem,
    };
    other.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns whether a text names the invariant outside of a header's definitions.
fn cites(text: &str, name: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let lines = text.lines().filter(|line| definition(line).is_none());
    lines.flat_map(|line| line.split(|c: char| !is_name(c))).any(|word| word == name)
}

#[cfg(test)]
mod tests;
