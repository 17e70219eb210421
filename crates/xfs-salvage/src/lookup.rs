//! The lookup of one path in the tree that is salvaged.
//!
//! Owns: finding a file by its path, whatever the source of its names: directory entries, parent
//! pointers, or the made-up directory `orphans`. Does **not** own: the names ([`Node::entries`]),
//! or lookups in a [`NameTree`](crate::NameTree), which already has all names in memory.
//!
//! ```text
//!  path ─→ entries of each directory on it ─→ found
//!                │ a component is missing
//!                └→ walk of the whole tree, depth first ─→ found, or no such name
//! ```
//!
//! The entries are enough for most paths, and reading them is cheap. Other names come from the
//! parent pointers of all files in a directory, or become known only after every other name was
//! visited. So if the first attempt fails, the second one walks the tree as a listing does, and
//! finds every name that a listing shows.

use xfs_format::inode::FileType;

use crate::node::{Node, NodeEntries};
use crate::survey::{Salvage, Stopped, SurveyProgress};

/// The number of names between two reports of progress.
const STEP_NAMES: u64 = 1024;

impl<'a> Salvage<'a> {
    /// Returns the file at a path, or `None` if no name leads to it. Every path of a
    /// [`NameTree`](crate::NameTree) is found. Symbolic links are not followed, and `..` removes
    /// the component before it.
    ///
    /// The lookup itself reports nothing: only the returned file and the files below it are
    /// reported when their nodes are dropped. The directories on the path count as visited, so a
    /// survey can be used for only one successful lookup.
    ///
    /// # Errors
    ///
    /// Returns [`Stopped`] if `progress` ended the lookup.
    pub fn find(
        &'a self,
        path: &[u8],
        progress: &dyn SurveyProgress,
    ) -> Result<Option<Node<'a>>, Stopped> {
        let components = components(path);
        let marks = self.inventory.borrow().clone();
        self.is_muted.set(true);
        let found = match self.find_by_entries(&components) {
            Some(node) => Ok(Some(node)),
            None => {
                // A directory that the first attempt has visited must count as new.
                self.inventory.borrow_mut().clone_from(&marks);
                self.find_by_walk(&components, progress)
            }
        };
        if !matches!(found, Ok(Some(_))) {
            *self.inventory.borrow_mut() = marks;
        }
        self.is_muted.set(false);
        found
    }

    /// Looks each component up in its directory. Does not read the parent pointers of the files in
    /// the directories.
    fn find_by_entries(&'a self, components: &[&[u8]]) -> Option<Node<'a>> {
        let mut node = self.top();
        for name in components {
            node = node.entries().find_name(name)?;
        }
        Some(node)
    }

    /// Walks the tree depth first until it reaches the path.
    fn find_by_walk(
        &'a self,
        components: &[&[u8]],
        progress: &dyn SurveyProgress,
    ) -> Result<Option<Node<'a>>, Stopped> {
        let (Some(last), path) = (components.last(), components.join(&b'/')) else {
            return Ok(Some(self.top()));
        };
        let (all, mut done) = (self.inode_count(), 0);
        let mut levels: Vec<NodeEntries<'a>> = vec![self.top().entries()];
        while let Some(entries) = levels.last_mut() {
            let Some((name, node)) = entries.next() else {
                levels.pop();
                continue;
            };
            if done % STEP_NAMES == 0 && progress.step("looking for a name", done, all).is_break() {
                return Err(Stopped);
            }
            done += 1;
            if name == *last && node.path() == path {
                return Ok(Some(node));
            }
            if FileType::from_mode(node.facts().mode) == Some(FileType::Directory) {
                levels.push(node.entries());
            }
        }
        Ok(None)
    }
}

/// Returns the components of a path, without `.` and with each `..` resolved. The parent of the top
/// is the top.
fn components(path: &[u8]) -> Vec<&[u8]> {
    let mut components = Vec::new();
    for name in path.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => _ = components.pop(),
            name => components.push(name),
        }
    }
    components
}
