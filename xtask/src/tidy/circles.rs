//! The rule about circles of imports: at most [`MAX_CIRCLE`] files of a crate import each other.
//!
//! A file imports a module if it has a path to it from `crate` or `super`. A path to a re-exported
//! name imports each module that re-exports the name, and the module that defines it. A re-export
//! under another name counts as a definition. A module that declares another and names it without
//! `crate` does not import it, and the root of a crate imports nothing. Tests do not count.

mod paths;

use std::collections::{BTreeMap, BTreeSet};

use super::source::Masked;
use super::{File, Finding};

/// The largest number of files of one crate that may import each other in a circle.
const MAX_CIRCLE: usize = 8;

/// The modules that each file of one crate imports. Each module, also that of the file, is given as
/// the segments of its path.
type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Checks the files of each crate, which lie below its folder `src`.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        if let Some((root, _)) = file.path.split_once("/src/") {
            crates.entry(root).or_default().push(file);
        }
    }
    crates.into_iter().flat_map(|(root, files)| check_crate(root, &files)).collect()
}

/// Returns a finding for each circle of too many files.
fn check_crate(root: &str, files: &[&File]) -> Vec<Finding> {
    let circles = circles(&imports(root, files));
    let too_large = circles.into_iter().filter(|circle| circle.len() > MAX_CIRCLE);
    let finding = |circle: BTreeSet<Vec<String>>| {
        let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
        let rule = format!(
            "{} files import each other in a circle, at most {MAX_CIRCLE} may: {}",
            names.len(),
            names.join(", "),
        );
        Finding { place: format!("{root}/src"), line: 0, rule }
    };
    too_large.map(finding).collect()
}

/// The modules of one crate, and the names that they re-export.
struct Crate {
    modules: BTreeSet<Vec<String>>,
    /// For a module and a name in it, the path that the module re-exports under this name.
    re_exports: BTreeMap<(Vec<String>, String), Vec<String>>,
}

impl Crate {
    /// Reads the module paths and the re-exports of all files. `code` has the module and the
    /// production code of each file.
    fn new(code: &[(Vec<String>, String)]) -> Self {
        let modules = code.iter().map(|(module, _)| module.clone()).collect();
        let mut known = Self { modules, re_exports: BTreeMap::new() };
        for (module, code) in code {
            for path in paths::re_exported(code) {
                let (Some(name), Some(target)) = (path.last(), known.re_export(module, &path))
                else {
                    continue;
                };
                known.re_exports.insert((module.clone(), (*name).to_owned()), target);
            }
        }
        known
    }

    /// Returns the path, from the root of the crate, of the item that `module` re-exports as
    /// `path`. Returns `None` for names of other crates.
    fn re_export(&self, module: &[String], path: &[&str]) -> Option<Vec<String>> {
        match *path.first()? {
            "crate" | "super" => resolve(module, path),
            child => {
                let child = [module, &[child.to_owned()]].concat();
                let rest = path.iter().skip(1).map(|segment| (*segment).to_owned());
                self.modules.contains(&child).then(|| child.into_iter().chain(rest).collect())
            }
        }
    }

    /// Returns the modules of the files that re-export the last name of `path`, and of the file
    /// that defines it.
    fn modules_of(&self, mut path: Vec<String>) -> BTreeSet<Vec<String>> {
        let mut found = BTreeSet::new();
        while let Some(module) = self.nearest_file(path.clone()) {
            let target = path
                .get(module.len())
                .and_then(|name| self.re_exports.get(&(module.clone(), name.clone())));
            let rest = path.iter().skip(module.len() + 1).cloned();
            let next = target.map(|target| target.iter().cloned().chain(rest).collect());
            // Names that re-export each other do not compile, but the search must end.
            let is_new = found.insert(module);
            match next {
                Some(next) if is_new => path = next,
                _ => break,
            }
        }
        found
    }

    /// Returns the longest prefix of `path` that is the module of a file, or `None` if there is
    /// none.
    fn nearest_file(&self, mut path: Vec<String>) -> Option<Vec<String>> {
        while !self.modules.contains(&path) {
            path.pop()?;
        }
        Some(path)
    }
}

/// Returns the modules that each file of a crate imports.
fn imports(root: &str, files: &[&File]) -> Imports {
    let production =
        |file: &&File| (module(root, file), paths::without_tests(&Masked::new(&file.text).code));
    let code: Vec<_> = files.iter().map(production).collect();
    let known = Crate::new(&code);
    let imported = |(from, code): &(Vec<String>, String)| {
        let named = paths::named(code).into_iter().filter_map(|path| resolve(from, &path));
        let files = named.flat_map(|path| known.modules_of(path));
        let others = files.filter(|module| module != from).collect();
        (from.clone(), others)
    };
    code.iter().map(imported).collect()
}

/// Returns the module path that a file holds, as segments from the root of the crate. The root
/// itself has no segments.
fn module(root: &str, file: &File) -> Vec<String> {
    let path = file.path.strip_prefix(root).and_then(|path| path.strip_prefix("/src/"));
    let path = path.expect("the files of a crate lie below its folder `src`");
    match path.strip_suffix(".rs").expect("the file is a Rust file") {
        "lib" | "main" => Vec::new(),
        module => module.split('/').map(str::to_owned).collect(),
    }
}

/// Converts a path that is written in the module `from` to segments from the root of the crate.
/// Returns `None` for a path that leaves the crate.
fn resolve(from: &[String], path: &[&str]) -> Option<Vec<String>> {
    let ups = path.iter().take_while(|segment| **segment == "super").count();
    let kept = if ups == 0 { 0 } else { from.len().checked_sub(ups)? };
    let rest = path.iter().skip(ups.max(1)).map(|segment| (*segment).to_owned());
    Some(from.iter().take(kept).cloned().chain(rest).collect())
}

/// Returns the circles: the largest sets of modules in which each module imports every other one,
/// directly or through other modules.
fn circles(imports: &Imports) -> Vec<BTreeSet<Vec<String>>> {
    let reached: BTreeMap<_, _> =
        imports.keys().map(|module| (module, reach(module, imports))).collect();
    let circle = |module: &Vec<String>| -> BTreeSet<Vec<String>> {
        let reaches_back = |other: &&Vec<String>| {
            reached.get(other).is_some_and(|modules| modules.contains(module))
        };
        let others = reached.get(module).into_iter().flatten();
        others.filter(reaches_back).cloned().collect()
    };
    let circles: BTreeSet<_> = imports.keys().map(circle).collect();
    circles.into_iter().filter(|circle| !circle.is_empty()).collect()
}

/// Returns the modules that `module` imports, directly or through other modules.
fn reach(module: &Vec<String>, imports: &Imports) -> BTreeSet<Vec<String>> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![module];
    while let Some(module) = waiting.pop() {
        for other in imports.get(module).into_iter().flatten() {
            if reached.insert(other.clone()) {
                waiting.push(other);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests;
