//! Type names: no two structs, enums or traits that a whole crate can name share a name.
//!
//! Owns: the rule for the production code of all crates up to level [`TOP_LEVEL`], and the
//! exceptions from it. Does **not** own the names of private types, which one module sees only, and
//! of the crates above, which are front ends. A reader who finds a name in one operation's call
//! path must not take it for another type.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::source::{Masked, production_lines};
use super::{File, Finding, crate_folder};

/// The highest level of a crate to which the rule applies.
const TOP_LEVEL: u64 = 12;

/// Names that several types may have, with the reason.
struct Accepted {
    reason: &'static str,
    names: &'static [&'static str],
}

const ACCEPTED: &[Accepted] = &[
    Accepted {
        reason: "checker, repair and salvage share no deciding code with the writer, and no \
                 operation has both types",
        names: &[
            "Evidence",
            "FoundAttribute",
            "GroupSummary",
            "Inode",
            "NewAttribute",
            "NewEntry",
            "Owner",
            "Reserve",
            "Tag",
            "Tree",
            "TreeBlock",
            "TreeIdentity",
            "Usage",
        ],
    },
    Accepted {
        reason: "the types are private to two crates of which neither calls the other",
        names: &[
            "Attribute",
            "ByteOrder",
            "Contents",
            "Direction",
            "Facts",
            "Mark",
            "Name",
            "Node",
            "Position",
            "Server",
            "Table",
            "TreePointer",
            "TreeSpace",
            "TreeVisitor",
        ],
    },
    Accepted {
        reason: "each is the arguments, the plan or the report of another command",
        names: &[
            "Access",
            "Devices",
            "Digest",
            "Identity",
            "OptionError",
            "OwnedExtent",
            "Plan",
            "Progress",
            "QuotaOptions",
            "Report",
            "Size",
            "Summary",
            "Unit",
        ],
    },
    Accepted {
        reason: "the inventory has rows and differences, which no operation on a volume has",
        names: &["Account", "Change", "Finding", "Header", "Items", "Link"],
    },
    Accepted {
        reason: "the lock for the model checker stands in for the other one in a build of it",
        names: &["Condvar", "Mutex", "RwLock"],
    },
    Accepted {
        reason: "due: a rename in files that change at present",
        names: &["Damage", "DirectoryForm", "InodeState", "Parent", "Unsupported", "Volume"],
    },
];

/// A type that a whole crate can name.
struct NamedType<'a> {
    file: &'a File,
    line: usize,
}

/// Checks the files of all crates in `metadata`, the output of `cargo metadata`.
pub(super) fn check(files: &[File], metadata: &Value) -> Vec<Finding> {
    check_with(files, metadata, ACCEPTED)
}

fn check_with(files: &[File], metadata: &Value, accepted: &[Accepted]) -> Vec<Finding> {
    let crates = crates(metadata);
    let mut types: BTreeMap<String, Vec<NamedType<'_>>> = BTreeMap::new();
    for file in files.iter().filter(|file| is_production(file, &crates)) {
        for (line, name) in names(file) {
            types.entry(name).or_default().push(NamedType { file, line });
        }
    }
    types.retain(|_, types| types.len() > 1);
    let mut findings = Vec::new();
    for (name, types) in &types {
        let [first, others @ ..] = types.as_slice() else { continue };
        if accepted.iter().any(|accepted| accepted.names.contains(&name.as_str())) {
            continue;
        }
        for NamedType { file, line } in others {
            let rule = format!("{name} is a type in {} too: give it another name", first.file.path);
            findings.push(Finding::new(file, *line, rule));
        }
    }
    for Accepted { reason, names } in accepted {
        for name in names.iter().filter(|name| !types.contains_key(**name)) {
            let rule =
                format!("only one type is called {name}: take it off the list of \"{reason}\"");
            findings.push(Finding { place: file!().to_owned(), line: 0, rule });
        }
    }
    findings
}

/// Returns the folders of the crates to which the rule applies.
fn crates(metadata: &Value) -> HashSet<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let applies = packages.filter(|package| {
        let own = package.pointer("/metadata/ferroxfs");
        let is_for_tests = own.is_some_and(|own| own["tests-only"].as_bool() == Some(true));
        let level = own.and_then(|own| own["level"].as_u64());
        !is_for_tests && level.is_some_and(|level| level <= TOP_LEVEL)
    });
    applies.filter_map(|package| crate_folder(package).map(str::to_owned)).collect()
}

/// Returns whether a file holds production code of one of the crates. Modules `testing` serve tests
/// of other crates.
fn is_production(file: &File, crates: &HashSet<String>) -> bool {
    let Some((krate, inside)) = file.path.split_once("/src/") else { return false };
    let is_testing = inside == "testing.rs" || inside.contains("testing/");
    file.is_rust() && !file.is_test() && !is_testing && crates.contains(krate)
}

/// Returns the line and the name of each struct, enum, union and trait of a file that its whole
/// crate can name.
fn names(file: &File) -> Vec<(usize, String)> {
    let code = Masked::new(&file.text).code;
    let lines = code.lines().take(production_lines(file)).zip(1..);
    lines.filter_map(|(line, number)| Some((number, declared(line)?.to_owned()))).collect()
}

/// Returns the name of the type that a line declares with `pub` or `pub(crate)`.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub "))?;
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (kind, rest) = rest.split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (["struct", "enum", "union", "trait"].contains(&kind) && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests;
