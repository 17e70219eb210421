//! `cargo xtask tidy`: the rules of this project that a machine can check and no other tool does.
//!
//! Each rule is a function that gets a file (or the dependency graph) and returns findings. This
//! module collects the files, runs the rules and prints the findings. The rules that rustfmt, rustc
//! and clippy check are in `rustfmt.toml`, `clippy.toml` and the lint table.

mod circles;
mod doctests;
mod documents;
mod invariants;
mod layers;
mod modules;
mod parameters;
mod prose;
mod source;
mod test_names;
mod text;
mod type_names;
mod voice;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::api;
use crate::command;
use crate::error::Error;

/// A violation of a rule, with its file and line.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// The path of the file, relative to the workspace. For a rule about dependencies, the name of
    /// the package.
    place: String,
    /// The line, counted from 1. It is 0 if the finding is about the whole file.
    line: usize,
    /// The rule that is broken, and how to keep it.
    rule: String,
}

impl Finding {
    fn new(file: &File, line: usize, rule: impl Into<String>) -> Self {
        Self { place: file.path.clone(), line, rule: rule.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, line, rule } = self;
        if *line == 0 { write!(f, "{place}: {rule}") } else { write!(f, "{place}:{line}: {rule}") }
    }
}

/// Returns the folder of a package in the metadata of cargo, relative to the workspace. Returns
/// `None` for a package outside of `crates`. The folder may have another name than the package.
fn crate_folder(package: &Value) -> Option<&str> {
    let folder = package["manifest_path"].as_str()?.strip_suffix("/Cargo.toml")?;
    folder.get(folder.rfind("/crates/")? + 1..)
}

/// A text file of the project.
#[derive(Debug)]
struct File {
    /// The path, relative to the workspace, with `/` between folders.
    path: String,
    text: String,
}

impl File {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// Returns whether the file contains only tests.
    fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// Returns whether the file is the root of a crate or of a test binary.
    fn is_root(&self) -> bool {
        self.path.ends_with("/lib.rs") || self.path.ends_with("/main.rs")
    }

    /// Returns the folder of the file, without a final `/`. It is empty for a file of the root.
    fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Returns the file name without its folders.
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// Checks every rule over the whole project, and prints the findings.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let files = collect(root)?;
    let metadata = command::output(
        command::cargo().args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(root),
    )?;
    let metadata = serde_json::from_str(&metadata)?;
    let mut findings = layers::check(&metadata);
    findings.extend(modules::check(&files, &modules::roots(&metadata, root)));
    findings.extend(doctests::check(&files, &metadata));
    findings.extend(documents::check(&files, &listed(root)));
    findings.extend(text::check(&files, &private_paths(root)));
    for file in files.iter().filter(|file| file.is_rust()) {
        findings.extend(source::check(file));
        findings.extend(parameters::check(file));
        findings.extend(test_names::check(file));
    }
    findings.extend(source::check_unsafe(&files));
    findings.extend(invariants::check(&files));
    findings.extend(circles::check(&files));
    findings.extend(type_names::check(&files, &metadata));
    findings.extend(files.iter().flat_map(voice::check));
    findings.extend(check_api(&metadata, &files)?);
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    for warning in files.iter().filter_map(source::size_warning) {
        println!("warning: {warning}");
    }
    for (file, words) in files.iter().filter_map(|file| Some((file, voice::mean_sentence(file)?))) {
        println!("{}: {words:.1} words in a sentence", file.path);
    }
    if findings.is_empty() { Ok(()) } else { Err(Error::Untidy(findings.len())) }
}

/// Checks that the committed listing of the public API equals the listing that the sources give.
fn check_api(metadata: &serde_json::Value, files: &[File]) -> Result<Vec<Finding>, Error> {
    let rust = files.iter().filter(|file| file.is_rust());
    let rust = rust.map(|file| (file.path.clone(), file.text.clone())).collect();
    let listing = api::listing(metadata, rust)?;
    let committed = files.iter().find(|file| file.path == api::LISTING);
    let committed = committed.map(|file| file.text.as_str()).unwrap_or_default();
    let changes = api::changes(committed, &listing);
    let finding = |change: String| Finding {
        place: api::LISTING.to_owned(),
        line: 0,
        rule: format!("is out of date, run `cargo xtask api`: {change}"),
    };
    Ok(changes.into_iter().map(finding).collect())
}

/// Returns the Rust files of the project, each with its path relative to the workspace and its
/// text.
pub(crate) fn rust_files(root: &Path) -> Result<Vec<(String, String)>, Error> {
    let files = collect(root)?.into_iter().filter(File::is_rust);
    Ok(files.map(|file| (file.path, file.text)).collect())
}

/// Returns a function that reports whether a path, relative to the workspace, exists.
fn listed(root: &Path) -> impl Fn(&str) -> bool {
    let root = root.to_path_buf();
    move |path| root.join(path).exists()
}

/// Returns the paths of this machine, such as the home folder, that must not appear in the project.
fn private_paths(root: &Path) -> Vec<String> {
    let home = std::env::var("HOME").unwrap_or_default();
    [home, root.to_string_lossy().into_owned()]
        .into_iter()
        .map(|path| format!("{}/", path.trim_end_matches('/')))
        .filter(|path| path.len() > 1)
        .collect()
}

/// Returns every text file of the project, except built or fetched files.
fn collect(root: &Path) -> Result<Vec<File>, Error> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let absolute = root.join(&folder);
        for entry in fs::read_dir(&absolute).map_err(Error::file(&absolute))? {
            let entry = entry.map_err(Error::file(&absolute))?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(Error::file(&path))?;
            if kind.is_dir() && !is_foreign(&path) {
                folders.push(path);
            } else if kind.is_file() {
                let bytes = fs::read(root.join(&path)).map_err(Error::file(&path))?;
                if let Ok(text) = String::from_utf8(bytes) {
                    files.push(File { path: path.to_string_lossy().into_owned(), text });
                }
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Returns whether a folder holds generated or downloaded files, to which no rule applies.
fn is_foreign(folder: &Path) -> bool {
    let names = [".git", "target", "fuzz/corpus", "fuzz/artifacts"];
    names.iter().any(|name| folder.ends_with(name))
}
