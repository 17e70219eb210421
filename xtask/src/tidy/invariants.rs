//! The rule about numbered invariants: each invariant that a module's header or a page of
//! docs/internals defines is cited by an assert, a check or a test.
//!
//! The name of an invariant is a capital letter and a number of one or two digits. A header defines
//! `I3` by a list item that begins with `I3`, or by a line that begins with `**I3**`. The module,
//! the modules below it and their tests cite it as `I3`, unless a module between them defines an
//! `I3` of its own. The header of a crate's root defines the invariants of the whole crate: any
//! file of it may write `I3 of the crate`. Any other file names the module: ``I3 of
//! `xfs_log::writer` ``, or in the same crate ``I3 of `writer` ``. The module `citations` knows the
//! forms that count. A word such as `S3` that has the form of a name, but that no module above
//! defines, is no citation.
//!
//! A page defines an invariant by a line that begins with its name in bold type. Code cites it as
//! `I3 in docs/internals/log.md`. A module and a page may both define an invariant of another
//! letter than `I`. It is then one invariant, and a citation of the module's is enough. So only one
//! module may define such a name.

mod citations;

use std::collections::{HashMap, HashSet};

use super::{File, Finding};
use citations::Citation;

/// The folder of the pages whose invariants code must cite.
const PAGES: &str = "docs/internals/";

/// A module whose header defines invariants, or a page of documentation that does.
struct Module<'a> {
    file: &'a File,
    /// The invariants that the header defines, each with its line.
    invariants: Vec<(usize, String)>,
}

/// Checks that each invariant in the headers of the Rust files and in the pages is cited. An
/// invariant is a letter and a number, such as `I2`. Checks also that no two modules have the same
/// letter, except for `I`.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let rust: Vec<&File> = files.iter().filter(|file| file.is_rust()).collect();
    let headers = rust.iter().map(|file| Module { file, invariants: defined(&file.text) });
    let mut modules: Vec<_> = headers.filter(|module| !module.invariants.is_empty()).collect();
    let mut findings = defined_twice(&modules);
    let pages = files.iter().filter(|file| file.is_markdown() && file.path.starts_with(PAGES));
    let pages = pages.map(|file| Module { file, invariants: defined_in_page(&file.text) });
    let pages: Vec<_> = pages.collect();
    let alone: Vec<_> = pages.iter().map(|page| without_modules(page, &modules)).collect();
    modules.extend(alone);
    let mut cited: HashSet<(&str, String)> = HashSet::new();
    for file in rust {
        let citations = citations::of(file).into_iter();
        for citation in citations.filter(|citation| names_no_other_page(&pages, citation)) {
            if let Some(module) = cited_module(&modules, file, &citation) {
                cited.insert((module.file.path.as_str(), citation.name));
            }
        }
    }
    findings.extend(modules.iter().flat_map(|module| uncited(module, &cited)));
    findings
}

/// Returns a finding for each invariant of another letter than `I` that an earlier module defines
/// too. A page could mean either.
fn defined_twice(modules: &[Module<'_>]) -> Vec<Finding> {
    let mut seen: HashMap<&str, &str> = HashMap::new();
    let mut findings = Vec::new();
    for module in modules {
        for (line, name) in module.invariants.iter().filter(|(_, name)| is_unique(name)) {
            if let Some(other) = seen.insert(name, &module.file.path) {
                let rule = format!("{name} is defined in {other} too, and only I may repeat");
                findings.push(Finding::new(module.file, *line, rule));
            }
        }
    }
    findings
}

/// Returns the page without the invariants that a module defines too.
fn without_modules<'a>(page: &Module<'a>, modules: &[Module<'_>]) -> Module<'a> {
    let of_modules = |name: &str| modules.iter().any(|module| module.defines(name));
    let is_alone = |(_, name): &&(usize, String)| !is_unique(name) || !of_modules(name);
    Module {
        file: page.file,
        invariants: page.invariants.iter().filter(is_alone).cloned().collect(),
    }
}

/// Returns whether a citation is right about the page: it names none, or one that defines the
/// invariant.
fn names_no_other_page(pages: &[Module<'_>], citation: &Citation) -> bool {
    let page = citation.module.as_deref().filter(|module| module.starts_with(PAGES));
    let defines =
        |page| pages.iter().any(|known| known.file.path == page && known.defines(&citation.name));
    page.is_none_or(defines)
}

impl Module<'_> {
    fn defines(&self, name: &str) -> bool {
        self.invariants.iter().any(|(_, defined)| defined == name)
    }
}

/// Returns a finding for each invariant of a module that is not in `cited`, the set of pairs of
/// module path and invariant.
fn uncited(module: &Module<'_>, cited: &HashSet<(&str, String)>) -> Vec<Finding> {
    let is_uncited = |name: &String| !cited.contains(&(module.file.path.as_str(), name.clone()));
    let uncited = module.invariants.iter().filter(|(_, name)| is_uncited(name));
    let finding = |(line, name): &(usize, String)| {
        let subject = if module.file.is_rust() { "of the module" } else { "with this page" };
        let rule = format!("{name} is cited by no assert, check or test {subject}");
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
    let mut modules = modules.iter().filter(|module| module.defines(&citation.name));
    match citation.module.as_deref() {
        Some("the crate") => {
            modules.find(|module| module.file.is_root() && belongs(module.file, file))
        }
        Some(page) if page.starts_with(PAGES) => {
            modules.find(|module| module.file.path == page || is_unique(&citation.name))
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

/// Returns the invariants that a page defines, with their lines.
fn defined_in_page(text: &str) -> Vec<(usize, String)> {
    let lines = text.lines().enumerate();
    lines.filter_map(|(index, line)| Some((index + 1, bold_name(line)?))).collect()
}

/// Returns the name of the invariant that a line of a header defines: `I3` for `//! - **I3** …`,
/// `//! **I3** …` or `//! - I3: …`. Returns `None` if the line defines none.
fn definition(line: &str) -> Option<String> {
    let text = line.strip_prefix("//!")?.trim_start();
    let plain = || {
        let (name, _) = text.strip_prefix("- ")?.split_once(':')?;
        is_invariant(name).then(|| name.to_owned())
    };
    bold_name(text).or_else(plain)
}

/// Returns the name in bold type with which a line begins: `I3` for `- **I3** …` or `**I3.** …`.
/// Returns `None` if the line begins with no such name.
fn bold_name(text: &str) -> Option<String> {
    let (name, _) = text.strip_prefix("- ").unwrap_or(text).strip_prefix("**")?.split_once("**")?;
    let name = name.strip_suffix('.').unwrap_or(name);
    is_invariant(name).then(|| name.to_owned())
}

/// Returns whether `word` has the form of an invariant's name: a capital letter and a number of one
/// or two digits.
fn is_invariant(word: &str) -> bool {
    let mut chars = word.chars();
    let is_letter = chars.next().is_some_and(|first| first.is_ascii_uppercase());
    is_letter && matches!(word.len(), 2 | 3) && chars.all(|digit| digit.is_ascii_digit())
}

/// Returns whether only one module of the project may define this name.
fn is_unique(name: &str) -> bool {
    !name.starts_with('I')
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
