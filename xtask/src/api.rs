//! `cargo xtask api`: the committed listing of the public names of the crate `ferroxfs`.
//!
//! The listing is docs/internals/api/ferroxfs.txt: one line for each name that a user of the crate
//! can write, with its signature. It comes from the sources alone ([`sources`]), so no toolchain
//! but the pinned one is needed. CONTRIBUTING.md says which changes of the listing break users.
//! `tidy` refuses a listing that is out of date.

mod listing;
mod sources;
mod tokens;

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command;
use crate::error::Error;
use crate::tidy;
use sources::Sources;

/// The crate whose names are listed.
const CRATE: &str = "ferroxfs";
/// The features of this crate that promise a stable API and are off by default. Each one contains
/// those before it.
const FEATURES: &[&str] = &["disk-images", "object_store"];
/// The path of the committed listing.
pub(crate) const LISTING: &str = "docs/internals/api/ferroxfs.txt";

/// Writes the listing, and prints the lines that the new listing loses and gains.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let metadata = command::output(
        command::cargo().args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(root),
    )?;
    let listing = listing(&serde_json::from_str(&metadata)?, tidy::rust_files(root)?)?;
    let path = root.join(LISTING);
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let changes = changes(&committed, &listing);
    changes.iter().for_each(|line| println!("{line}"));
    let removed = changes.iter().filter(|line| line.starts_with('-')).count();
    let added = changes.len() - removed;
    println!("{} names; {removed} removed or changed, {added} added", listing.lines().count());
    let folder = path.parent().unwrap_or(root);
    fs::create_dir_all(folder).map_err(Error::file(folder))?;
    fs::write(&path, listing).map_err(Error::file(&path))
}

/// Returns the listing that the sources give. `files` are the Rust files of the project, each as
/// its path and its text. A line that only a build with another than the default features has names
/// the feature.
pub(crate) fn listing(metadata: &Value, files: Vec<(String, String)>) -> Result<String, Error> {
    let mut lines = listing::of(&Sources::new(metadata, files.clone(), &[]), CRATE)?;
    let mut known = lines.clone();
    for (index, feature) in FEATURES.iter().enumerate() {
        let features = FEATURES.get(..=index).unwrap_or_default();
        let with = listing::of(&Sources::new(metadata, files.clone(), features), CRATE)?;
        let added = with.difference(&known).cloned().collect::<Vec<_>>();
        lines.extend(added.iter().map(|line| format!("#[cfg(feature = \"{feature}\")] {line}")));
        known.extend(added);
    }
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}

/// Returns the lines that only one of two listings has: those of the old one after `- `, and those
/// of the new one after `+ `.
pub(crate) fn changes(old: &str, new: &str) -> Vec<String> {
    let missing = |line: &&str, from: &str| !from.lines().any(|other| other == *line);
    let removed = old.lines().filter(|line| missing(line, new)).map(|line| format!("- {line}"));
    let added = new.lines().filter(|line| missing(line, old)).map(|line| format!("+ {line}"));
    removed.chain(added).collect()
}

#[cfg(test)]
mod tests;
