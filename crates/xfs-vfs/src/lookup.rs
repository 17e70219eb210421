//! Looks a name up in a directory, and takes a reference to the inode that has this name.

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::InodeNumber;

use crate::inode_ref::InodeRef;
use crate::kind::CachedInode;
use crate::mount::Mount;

impl Mount {
    /// Looks a name up as [`look_up`](Self::look_up) does, and puts the result into the dentry
    /// cache for later lookups.
    pub fn look_up_and_note(
        &self,
        directory: &CachedInode,
        name: &[u8],
    ) -> Result<InodeRef<&Self>> {
        let note = |inode| self.dentries.note_lookup(directory.number(), name, inode);
        let changes = directory.change_count();
        let number = directory.find_and(&self.journal, name, note)?.0;
        let taken = self.take_named(directory, name, number, changes)?;
        taken.map_or_else(|| self.look_up(directory, name), Ok)
    }

    /// Returns a reference to the inode to which `name` leads. If the directory changes during the
    /// lookup so that the name leads to another inode, looks the name up again.
    pub fn look_up(&self, directory: &CachedInode, name: &[u8]) -> Result<InodeRef<&Self>> {
        loop {
            let changes = directory.change_count();
            let number = directory.find(&self.journal, name)?.0;
            if let Some(taken) = self.take_named(directory, name, number, changes)? {
                return Ok(taken);
            }
        }
    }

    /// Takes a reference to inode `number`, to which the name led when the directory had the change
    /// count `changes`. Returns `None` if the name no longer leads to it: the inode may have been
    /// freed since then, and its number reused for another file.
    pub(crate) fn take_named(
        &self,
        directory: &CachedInode,
        name: &[u8],
        number: InodeNumber,
        changes: u64,
    ) -> Result<Option<InodeRef<&Self>>> {
        let taken = self.take(number);
        let is_gone = matches!(taken, Err(Error::Posix(PosixError::NotFound)));
        if !is_gone && directory.change_count() == changes {
            return taken.map(Some);
        }
        let found = directory.find(&self.journal, name);
        if matches!(found, Ok((found, _)) if found == number) {
            return taken.map(Some);
        }
        // Dropping the reference leaves an inode without a name to the thread: a reader does not
        // wait for a log that is frozen.
        drop(taken);
        found.map(|_| None)
    }
}
