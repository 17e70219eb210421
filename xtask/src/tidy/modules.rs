//! The rule that every Rust file is part of some crate. A file that no `mod` names is never
//! compiled, so mistakes in it go unnoticed.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use super::source::Masked;
use super::{File, Finding};

/// Returns the root files of all targets of the workspace and of the fuzz targets.
pub(super) fn roots(metadata: &Value, root: &Path) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    packages
        .flat_map(|package| package["targets"].as_array().into_iter().flatten())
        .filter_map(|target| Path::new(target["src_path"].as_str()?).strip_prefix(root).ok())
        .map(|path| path.to_string_lossy().into_owned())
        .collect()
}

/// Finds the files that no crate root reaches through its `mod` declarations.
pub(super) fn check(files: &[File], roots: &[String]) -> Vec<Finding> {
    let rust = || files.iter().filter(|file| file.is_rust());
    let mut waiting: Vec<String> = roots.to_vec();
    // Fuzz targets, the Python module and the program for queries are workspaces of their own.
    // `cargo metadata` does not show these.
    waiting.extend(rust().map(|file| file.path.clone()).filter(|path| is_other_root(path)));
    let mut reached = HashSet::new();
    while let Some(path) = waiting.pop() {
        let Some(file) = rust().find(|file| file.path == path) else { continue };
        let is_root = roots.contains(&path) || is_other_root(&path);
        if reached.insert(path) {
            waiting.extend(children(file, is_root));
        }
    }
    rust()
        .filter(|file| !reached.contains(&file.path))
        .map(|file| Finding::new(file, 0, "no `mod` names this file, so it is never compiled"))
        .collect()
}

fn is_other_root(path: &str) -> bool {
    const OTHERS: [&str; 3] = [
        "crates/ferroxfs-py/src/lib.rs",
        "crates/ferroxfs-query/src/main.rs",
        "crates/ferroxfs-query/tests/it/main.rs",
    ];
    path.starts_with("fuzz/fuzz_targets/") || OTHERS.contains(&path)
}

/// Returns, for each module that `file` declares, the path at which the module's file must be.
fn children(file: &File, is_root: bool) -> Vec<String> {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let stem = file.name().trim_end_matches(".rs");
    let folder = if is_root { folder.to_owned() } else { format!("{folder}/{stem}") };
    let masked = Masked::new(&file.text);
    let modules = masked.code.lines().filter_map(declared_module);
    modules.map(|module| format!("{folder}/{module}.rs")).collect()
}

/// Returns the name in `mod name;`, with or without visibility, or `None` for other lines.
fn declared_module(line: &str) -> Option<&str> {
    let declaration = line.trim().strip_suffix(';')?;
    let (before, name) = declaration.rsplit_once(' ')?;
    let is_module = before == "mod" || (before.starts_with("pub") && before.ends_with(" mod"));
    is_module.then_some(name)
}

#[cfg(test)]
mod tests;
