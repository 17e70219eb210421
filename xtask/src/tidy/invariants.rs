//! The rule about numbered invariants: each invariant that a module's header defines is cited by an
//! assert, a check or a test.
//!
//! A header defines `I3` by a list item that begins with `I3`. The module, the modules below it and
//! their tests cite it as `I3`, unless a module between them defines an `I3` of its own. The header
//! of a crate's root defines the invariants of the whole crate: any file of it may write `I3 of the
//! crate`. Any other file names the module: ``I3 of `xfs_log::writer` ``, or in the same crate ``I3
//! of `writer` ``. The module `citations` knows the forms that count.

mod citations;

use std::collections::HashSet;

use super::{File, Finding};
use citations::Citation;

/// A module whose header defines invariants.
struct Module<'a> {
    file: &'a File,
    /// The invariants that the header defines, each with its line.
    invariants: Vec<(usize, String)>,
}

/// Checks that each invariant in the headers of the Rust files is cited.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let rust: Vec<&File> = files.iter().filter(|file| file.is_rust()).collect();
    let modules = rust.iter().map(|file| Module { file, invariants: defined(&file.text) });
    let modules: Vec<_> = modules.filter(|module| !module.invariants.is_empty()).collect();
    let mut cited: HashSet<(&str, String)> = HashSet::new();
    for file in rust {
        for citation in citations::of(file) {
            if let Some(module) = cited_module(&modules, file, &citation) {
                cited.insert((module.file.path.as_str(), citation.name));
            }
        }
    }
    modules.iter().flat_map(|module| uncited(module, &cited)).collect()
}

/// Returns a finding for each invariant of a module that is not in `cited`, the set of pairs of
/// module path and invariant.
fn uncited(module: &Module<'_>, cited: &HashSet<(&str, String)>) -> Vec<Finding> {
    let is_uncited = |name: &String| !cited.contains(&(module.file.path.as_str(), name.clone()));
    let uncited = module.invariants.iter().filter(|(_, name)| is_uncited(name));
    let finding = |(line, name): &(usize, String)| {
        let rule = format!("{name} is cited by no assert, check or test of the module");
        Finding::new(module.file, *line, rule)
    };
    uncited.map(finding).collect()
}

/// Returns the module whose invariant a citation in `file` means, or `None` if no module defines
/// it.
fn cited_module<'m, 'a>(
    modules: &'m [Module<'a>],
    file: &File,
    citation: &Citation,
) -> Option<&'m Module<'a>> {
    let defines =
        |module: &&Module<'_>| module.invariants.iter().any(|(_, name)| *name == citation.name);
    let mut modules = modules.iter().filter(defines);
    match citation.module.as_deref() {
        Some("the crate") => {
            modules.find(|module| module.file.is_root() && belongs(module.file, file))
        }
        Some(path) => modules.find(|module| is_named(module.file, path, file)),
        // The root of a crate, whose path is not the shortest, is above all its modules.
        None => modules
            .filter(|module| belongs(module.file, file))
            .max_by_key(|module| (!module.file.is_root(), module.file.path.len())),
    }
}

/// Returns whether `path`, written in `file`, names a module: it is the whole path of the module,
/// or, in a file of the same crate, the end of that path.
fn is_named(module: &File, path: &str, file: &File) -> bool {
    let whole = path_of(module);
    let crate_of = |file: &File| path_of(file).split("::").next().map(str::to_owned);
    let is_end = || whole.strip_suffix(path).is_some_and(|rest| rest.ends_with("::"));
    whole == path || (crate_of(module) == crate_of(file) && is_end())
}

/// Returns the path of a module as code writes it: `xfs_log::writer`.
fn path_of(module: &File) -> String {
    let path = module.path.strip_prefix("crates/").unwrap_or(&module.path);
    let path = path.trim_end_matches(".rs").replacen("/src", "", 1);
    let path = path.strip_suffix("/lib").or(path.strip_suffix("/main")).unwrap_or(&path);
    path.replace('/', "::").replace('-', "_")
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
    is_invariant(name).then(|| name.to_owned())
}

/// Returns whether `word` is `I` and a number.
fn is_invariant(word: &str) -> bool {
    let digits = word.strip_prefix('I');
    digits.is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
}

/// Returns whether `other` is the file of the module, of one of its tests, or of a module below it.
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

#[cfg(test)]
mod tests;
