//! The projects of directory trees: `--project DIR=PROJECT`.

use std::cell::Cell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::attr::ExtendedFlags;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind};
use crate::file::source::names_of;
use crate::terminal::names;
use crate::text::owners;

/// The projects that directory trees of the image get. Where trees overlap, the innermost counts.
#[derive(Debug, Default)]
pub(crate) struct Projects {
    trees: Vec<ProjectTree>,
}

/// A tree of the image, and its project.
#[derive(Debug)]
struct ProjectTree {
    /// The path of its top in the image, as the user gave it.
    path: Vec<u8>,
    id: u32,
    /// Whether a file of the tree was written.
    is_found: Cell<bool>,
}

impl ProjectTree {
    /// Parses `DIR=PROJECT`.
    fn parse(text: &OsString) -> Result<Self, Failure> {
        let bytes = text.as_bytes();
        let usage = |message: &str| {
            Failure::usage(format!("--project {}: {message}", names::in_message(bytes)))
        };
        let at = bytes.iter().rposition(|byte| *byte == b'=');
        let parts = at.and_then(|at| Some((bytes.get(..at)?, bytes.get(at + 1..)?)));
        let Some((path, project)) = parts.filter(|(path, _)| !path.is_empty()) else {
            return Err(usage("is not DIR=PROJECT, such as /srv/web=42"));
        };
        if names_of(path).any(|name| name == b"..") {
            return Err(usage("DIR must not contain \"..\""));
        }
        let id = owners::project(project)
            .ok_or_else(|| usage("the project is neither a project of /etc/projid nor a number"))?;
        if id == 0 || id == u32::MAX {
            return Err(usage("the numbers of projects are 1 to 4294967294"));
        }
        Ok(Self { path: path.to_vec(), id, is_found: Cell::new(false) })
    }

    /// Returns the number of names of the top, if the file at `path` belongs to the tree.
    fn depth_above(&self, path: &[u8]) -> Option<usize> {
        let mut below = names_of(path);
        let mut depth = 0;
        for name in names_of(&self.path) {
            if below.next() != Some(name) {
                return None;
            }
            depth += 1;
        }
        Some(depth)
    }
}

impl Projects {
    pub(super) fn parse(texts: &[OsString]) -> Result<Self, Failure> {
        let trees: Result<Vec<_>, _> = texts.iter().map(ProjectTree::parse).collect();
        let trees = trees?;
        for (index, tree) in trees.iter().enumerate() {
            let is_same = |other: &ProjectTree| names_of(&other.path).eq(names_of(&tree.path));
            if trees.iter().take(index).any(is_same) {
                let shown = names::in_message(&tree.path);
                return Err(Failure::usage(format!("--project: {shown} is given twice")));
            }
        }
        Ok(Self { trees })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.trees.is_empty()
    }

    /// Returns `facts` with the project of the innermost tree that has the file. `path` is the path
    /// of the file in the image. New files in the directories of a tree inherit its project.
    pub(crate) fn assign(&self, path: &[u8], facts: Facts) -> Facts {
        let mut best = None;
        for tree in &self.trees {
            let depth = tree.depth_above(path);
            if depth.is_some() && depth > best.map(|(depth, _)| depth) {
                best = depth.map(|depth| (depth, tree));
            }
        }
        let Some((_, tree)) = best else { return facts };
        tree.is_found.set(true);
        let inherits = match facts.kind() {
            FileKind::Directory => ExtendedFlags::PROJINHERIT.bits(),
            _ => 0,
        };
        Facts { project: tree.id, xflags: facts.xflags | inherits, ..facts }
    }

    /// Returns a failure for each tree of which no file was written.
    pub(crate) fn missing(&self) -> impl Iterator<Item = Failure> {
        let missing = self.trees.iter().filter(|tree| !tree.is_found.get());
        missing.map(|tree| {
            let shown = names::in_message(&tree.path);
            Failure::new(
                Exit::Failed,
                format!("--project: the sources have no file {shown}, and nothing below it"),
            )
        })
    }
}

#[cfg(test)]
mod tests;
