//! One member of an archive, which is a source of files for the import.

use std::cell::RefCell;
use std::iter::Empty;
use std::ops::Range;

use super::input::ArchiveInput;
use crate::failure::Failure;
use crate::file::facts::Facts;
use crate::file::source::{NamedValue, Source};

/// The kind of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemberKind {
    /// A directory. Its entries are separate members.
    Directory,
    /// A further name of an existing file: the file that the earlier member at this path created.
    /// If the archive has contents for the further name too, they replace the contents of that
    /// file.
    HardLink(Vec<u8>),
    /// A file of any other type.
    File,
    /// A member that is not imported; the text is the reason.
    LeftOut(String),
}

/// One member of an archive.
pub(crate) struct Member<'a> {
    archive: RefCell<&'a mut ArchiveInput>,
    /// The path of the member in the archive.
    pub(crate) path: Vec<u8>,
    pub(crate) kind: MemberKind,
    facts: Facts,
    target: Vec<u8>,
    attributes: Vec<NamedValue>,
    /// The ranges of the file that hold data, in the order in which the archive has them.
    ranges: Vec<Range<u64>>,
    /// Messages about invalid metadata that is not used, and notes that are no failures.
    problems: Vec<Failure>,
}

impl<'a> Member<'a> {
    /// Creates a member without contents.
    pub(in crate::import) fn new(
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

    pub(in crate::import) fn with_target(self, target: Vec<u8>) -> Self {
        Self { target, ..self }
    }

    pub(in crate::import) fn with_attributes(self, attributes: Vec<NamedValue>) -> Self {
        Self { attributes, ..self }
    }

    pub(in crate::import) fn with_contents(self, ranges: Vec<Range<u64>>) -> Self {
        Self { ranges, ..self }
    }

    pub(in crate::import) fn with_problems(self, problems: Vec<Failure>) -> Self {
        Self { problems, ..self }
    }

    /// Returns whether the archive has contents for the member.
    pub(crate) fn has_contents(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Returns the range of the contents in the decompressed archive, before they are read. `None`
    /// if the archive has only parts of the file.
    pub(in crate::import) fn whole_contents(&self) -> Option<Range<u64>> {
        let start = self.archive.borrow().offset();
        let size = self.facts.size;
        match self.ranges.as_slice() {
            [] if size == 0 => Some(start..start),
            [range] if *range == (0..size) => Some(start..start.checked_add(size)?),
            _ => None,
        }
    }

    /// Takes the problems of the member: invalid metadata that is not used (I2 of `archive`), and
    /// notes that are no failures.
    pub(crate) fn take_problems(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.problems)
    }
}

impl Source for Member<'_> {
    type Entries = Empty<Result<(Vec<u8>, Self), Failure>>;

    fn facts(&self) -> Facts {
        self.facts
    }

    /// Reads the next contents. Callers read from front to back, in the order of the archive, so
    /// the offset is not used.
    fn read_at(&self, buffer: &mut [u8], _: u64) -> Result<usize, Failure> {
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
