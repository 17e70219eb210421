//! Iteration over the entries of a directory.
//!
//! An iteration has steps. In the short form, the whole directory is one step; in the other forms,
//! each data block is one step. The index is never read, so a damaged index hides no entry.

use std::ops::ControlFlow;
use std::vec;

use xfs_buffer::{Error, Result};
use xfs_format::InodeNumber;
use xfs_format::directory::{Cookie, Entry, EntryType};
use xfs_format::inode::ForkKind;
use xfs_inode::Fork;

use super::{Directory, EntryVisitor};

/// A directory entry that owns its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedEntry {
    /// The name.
    pub name: Box<[u8]>,
    /// The number of the inode that the entry names.
    pub inode: InodeNumber,
    /// The file type of the inode that the entry names.
    pub entry_type: EntryType,
    /// The cookie of the entry. An iteration from [`Cookie::after`] continues with the next entry.
    pub cookie: Cookie,
}

impl From<Entry<'_>> for OwnedEntry {
    fn from(entry: Entry<'_>) -> Self {
        let Entry { name, inode, entry_type, cookie } = entry;
        Self { name: name.into(), inode, entry_type, cookie }
    }
}

/// The state of an iteration by [`Directory::read_batch`]: where the next call continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    from: Cookie,
    /// The next step of the iteration. `None` until the first step is chosen, which depends on the
    /// form of the directory.
    next: Option<ListingStep>,
}

impl Position {
    /// The state of an iteration before the first entry.
    pub const START: Self = Self::from_cookie(Cookie::START);

    /// Returns the state of an iteration that starts with the first entry whose cookie is not below
    /// `from`.
    #[must_use]
    pub const fn from_cookie(from: Cookie) -> Self {
        Self { from, next: None }
    }
}

/// The next step of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListingStep {
    /// Visit the whole short form.
    ShortForm,
    /// Check the size of the directory, then visit the data blocks from this index on.
    Size(u64),
    /// Visit the first existing data block from this index on.
    Block(u64),
}

impl Directory<'_> {
    /// Returns the step with which an iteration from cookie `from` begins: the short form, or a
    /// data block.
    pub(super) fn first_step(&self, from: Cookie) -> Option<ListingStep> {
        Some(match self.inode.fork(ForkKind::Data) {
            Fork::Local(_) => ListingStep::ShortForm,
            _ => ListingStep::Size(from.offset() / self.block_size()),
        })
    }

    /// Appends copies of the entries of one block to `batch`. Returns the position for the next
    /// call; `None` at the end of the directory. This function is for an iterator that does not
    /// hold the directory by reference.
    pub fn read_batch(
        &self,
        position: Position,
        batch: &mut Vec<Result<OwnedEntry>>,
    ) -> Option<Position> {
        let step = position.next.or_else(|| self.first_step(position.from))?;
        let mut keep = |entry: Result<Entry<'_>>| {
            batch.push(entry.map(OwnedEntry::from));
            ControlFlow::Continue(())
        };
        match self.visit_step(step, position.from, &mut keep) {
            ControlFlow::Continue(Some(step)) => Some(Position { next: Some(step), ..position }),
            ControlFlow::Continue(None) | ControlFlow::Break(()) => None,
        }
    }

    /// Performs one step of an iteration: passes the entries of one block, from cookie `from` on,
    /// to `visit`. Returns the next step; `None` at the end of the directory.
    pub(super) fn visit_step(
        &self,
        step: ListingStep,
        from: Cookie,
        visit: &mut EntryVisitor<'_>,
    ) -> ControlFlow<(), Option<ListingStep>> {
        match step {
            ListingStep::ShortForm => {
                self.visit_short_form(from, visit)?;
                ControlFlow::Continue(None)
            }
            ListingStep::Size(index) => {
                if let Err(error) = self.verify_size() {
                    visit(Err(error))?;
                }
                ControlFlow::Continue(Some(ListingStep::Block(index)))
            }
            ListingStep::Block(index) => match self.next_data_block(index) {
                Ok(None) => ControlFlow::Continue(None),
                Ok(Some(index)) => {
                    self.visit_block(index, from, visit)?;
                    ControlFlow::Continue(Some(ListingStep::Block(index + 1)))
                }
                Err(error) => {
                    visit(Err(error))?;
                    ControlFlow::Continue(None)
                }
            },
        }
    }

    fn visit_short_form(&self, from: Cookie, visit: &mut EntryVisitor<'_>) -> ControlFlow<()> {
        let Fork::Local(bytes) = self.inode.fork(ForkKind::Data) else {
            return ControlFlow::Continue(());
        };
        let form = match self.decode_short_form(bytes) {
            Ok(form) => form,
            Err(error) => return visit(Err(error)),
        };
        let directory_form = self.cache.geometry().directory_form;
        let dots: [(&[u8], _, _); 2] = [
            (b".", self.inode.number(), directory_form.dot_cookie()),
            (b"..", form.parent(), directory_form.parent_cookie()),
        ];
        let dots = dots.into_iter().map(|(name, inode, cookie)| {
            Ok(Entry { name, inode, entry_type: EntryType::Directory, cookie })
        });
        // The verification of the whole form also finds errors in single entries.
        let sound = form.entries().map_while(Result::ok).map(Ok::<_, Error>);
        visit_from(dots.chain(sound), from, visit)?;
        match form.verify(self.cache.geometry()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(corruption) => visit(Err(corruption.into())),
        }
    }

    fn visit_block(
        &self,
        index: u64,
        from: Cookie,
        visit: &mut EntryVisitor<'_>,
    ) -> ControlFlow<()> {
        let buffer = match self.read_data(index) {
            Ok(buffer) => buffer,
            Err(error) => return visit(Err(error)),
        };
        let bytes = buffer.bytes();
        match self.decode_data(&bytes, index) {
            Ok(block) => {
                if index == 0
                    && let Err(corruption) = block.parent()
                {
                    visit(Err(corruption.into()))?;
                }
                visit_from(block.entries(), from, visit)
            }
            Err(error) => visit(Err(error)),
        }
    }
}

fn visit_from<'e, E: Into<Error>>(
    entries: impl Iterator<Item = Result<Entry<'e>, E>>,
    from: Cookie,
    visit: &mut EntryVisitor<'_>,
) -> ControlFlow<()> {
    for entry in entries {
        match entry {
            Ok(entry) if entry.cookie < from => {}
            entry => visit(entry.map_err(Into::into))?,
        }
    }
    ControlFlow::Continue(())
}

/// An iterator over the entries of a directory. It returns copies of the entries.
pub struct DirectoryEntries<'a> {
    directory: Directory<'a>,
    position: Option<Position>,
    batch: vec::IntoIter<Result<OwnedEntry>>,
}

impl<'a> DirectoryEntries<'a> {
    pub(super) fn new(directory: Directory<'a>, from: Cookie) -> Self {
        let position = Some(Position::from_cookie(from));
        Self { directory, position, batch: Vec::new().into_iter() }
    }
}

impl Iterator for DirectoryEntries<'_> {
    type Item = Result<OwnedEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.batch.next() {
                return Some(entry);
            }
            let position = self.position.take()?;
            let mut batch = Vec::new();
            self.position = self.directory.read_batch(position, &mut batch);
            self.batch = batch.into_iter();
        }
    }
}
