//! One member of an archive, as a source of what is put into an image.

use std::cell::RefCell;
use std::iter::Empty;
use std::ops::Range;

use super::input::ArchiveInput;
use crate::facts::Facts;
use crate::failure::Failure;
use crate::source::{NamedValue, Source};

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberKind {
    /// A directory; what is in it are members of their own.
    Directory,
    /// Another name for the member of this path. With contents it has those of all names.
    HardLink(Vec<u8>),
    /// Any other file.
    File,
    /// Nothing that is put anywhere, for this reason.
    LeftOut(String),
}

/// One member of an archive.
pub(crate) struct Member<'a> {
    archive: RefCell<&'a mut ArchiveInput>,
    /// As the archive has it.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: MemberKind,
    facts: Facts,
    target: Vec<u8>,
    attributes: Vec<NamedValue>,
    /// Where the file has data: it stands in the archive in this order.
    ranges: Vec<Range<u64>>,
    /// Metadata that makes no sense, and notes.
    problems: Vec<Failure>,
}

impl<'a> Member<'a> {
    /// A member without contents.
    pub(super) fn new(
        archive: &'a mut ArchiveInput,
        path: Vec<u8>,
        kind: MemberKind,
        facts: Facts,
    ) -> Self {
        Self {
            archive: RefCell::new(archive),
            path,
            kind,
            facts,
            target: Vec::new(),
            attributes: Vec::new(),
            ranges: Vec::new(),
            problems: Vec::new(),
        }
    }

    pub(super) fn with_target(self, target: Vec<u8>) -> Self {
        Self { target, ..self }
    }

    pub(super) fn with_attributes(self, attributes: Vec<NamedValue>) -> Self {
        Self { attributes, ..self }
    }

    pub(super) fn with_contents(self, ranges: Vec<Range<u64>>) -> Self {
        Self { ranges, ..self }
    }

    pub(super) fn with_problems(self, problems: Vec<Failure>) -> Self {
        Self { problems, ..self }
    }

    /// Whether it has bytes in the archive.
    pub(crate) fn has_contents(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Metadata that makes no sense and is not taken, and notes that are no failures.
    pub(crate) fn take_problems(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.problems)
    }
}

impl Source for Member<'_> {
    type Entries = Empty<Result<(Vec<u8>, Self), Failure>>;

    fn facts(&self) -> Facts {
        self.facts
    }

    /// Contents are asked for from front to back, as they stand in the archive.
    fn read_at(&self, _: u64, buffer: &mut [u8]) -> Result<usize, Failure> {
        let mut archive = self.archive.borrow_mut();
        archive.read_body(buffer)?;
        archive.add_to_sum(buffer);
        Ok(buffer.len())
    }

    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>, Failure> {
        let next = self.ranges.iter().find(|range| range.end > offset);
        Ok(next.map(|range| range.start.max(offset)..range.end))
    }

    fn target(&self) -> Result<Vec<u8>, Failure> {
        Ok(self.target.clone())
    }

    fn attributes(&self) -> Vec<Result<NamedValue, Failure>> {
        self.attributes.iter().cloned().map(Ok).collect()
    }

    fn entries(&self) -> Result<Self::Entries, Failure> {
        Ok(std::iter::empty())
    }
}
