//! Reading a tree on a thread of its own, ahead of the writer that copies it.
//!
//! Owns: the thread, the order of its messages, and the bound of their memory. Does **not** own:
//! the tree ([`Source`]), or the boundaries of chunks ([`chunks`](crate::import::chunks)).
//!
//! The thread walks the tree in the order in which the writer asks for it: a directory, and then
//! everything below it. It sends what it has read in batches, because each message alone would wake
//! the writer once.
//!
//! # Invariants
//!
//! - **I1** The messages have the order of the walk. An entry, and the end of a directory, has the
//!   depth of its directory. A writer that does not enter a directory leaves out what is deeper.
//! - **I2** Memory is bounded: [`BATCHES_AHEAD`] batches, each of at most [`BATCH_FILES`] files and
//!   one chunk more than [`BATCH_BYTES`] of contents, and the names of the directories on the way.
//! - **I3** The contents of a file with several names are not read ahead, because the writer needs
//!   them under one name only.
//! - **I4** A writer asks for the attributes of a file once, and for the target of a link once.

mod stream;
mod walk;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::mpsc::sync_channel;
use std::thread;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind};
use crate::file::source::{NamedValue, Source, fill_chunk};
use crate::import::chunks::Holes;
use stream::{ChunkReader, Stream};
use walk::Walk;

/// The number of batches that may wait for the writer.
const BATCHES_AHEAD: usize = 4;
/// The number of files after which a batch is sent.
const BATCH_FILES: usize = 64;
/// The number of bytes of contents and attributes after which a batch is sent.
const BATCH_BYTES: usize = 256 << 10;

/// The name of an entry of a directory and its file, or the reason why it cannot be read.
type EntryAhead<S> = Result<(Vec<u8>, FileAhead<S>), Failure>;

/// A message of the thread.
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each file")]
enum Message<S> {
    /// An entry of a directory. If it is a file with contents, its chunks follow.
    Entry { depth: usize, entry: EntryAhead<S> },
    /// A chunk of the contents of the last entry, from `offset` on.
    Chunk { offset: u64, bytes: Vec<u8> },
    /// The end of the contents of the last entry, or the failure that ended them.
    ContentsEnd(Result<(), Failure>),
    /// The end of a directory.
    DirectoryEnd { depth: usize },
}

/// Everything of a file except its contents.
struct FileAhead<S> {
    facts: Facts,
    length: Option<u64>,
    lies_on_host: bool,
    attributes: Vec<Result<NamedValue, Failure>>,
    /// The target of a symbolic link; `None` for other files.
    target: Option<Result<Vec<u8>, Failure>>,
    /// Whether the entries of a directory follow, or why they could not be listed; `None` for other
    /// files.
    listed: Option<Result<(), Failure>>,
    contents: ContentsAhead<S>,
}

/// The contents of a file.
enum ContentsAhead<S> {
    Empty,
    /// The chunks follow.
    Follow,
    /// The writer reads them from the source (I3).
    InSource(S),
}

impl<S: Source> FileAhead<S> {
    /// Reads a file except its contents. Also returns the source if its contents follow, and the
    /// entries of a directory.
    fn read(source: S) -> (Self, Option<S>, Option<S::Entries>) {
        let (facts, length) = (source.facts(), source.length());
        let (mut listed, mut below) = (None, None);
        if facts.kind() == FileKind::Directory {
            match source.entries() {
                Ok(entries) => (listed, below) = (Some(Ok(())), Some(entries)),
                Err(failure) => listed = Some(Err(failure)),
            }
        }
        let mut file = Self {
            facts,
            length,
            lies_on_host: source.lies_on_host(),
            attributes: source.attributes(),
            target: (facts.kind() == FileKind::Symlink).then(|| source.target()),
            listed,
            contents: ContentsAhead::Empty,
        };
        match (facts.kind(), length, facts.links) {
            (FileKind::Regular, Some(0), _) => (file, None, below),
            (FileKind::Regular, _, 0 | 1) => {
                file.contents = ContentsAhead::Follow;
                (file, Some(source), below)
            }
            (FileKind::Regular, ..) => {
                // I3: a file with several names is read by the writer.
                file.contents = ContentsAhead::InSource(source);
                (file, None, below)
            }
            _ => (file, None, below),
        }
    }
}

/// A file of a tree that a thread reads ahead of the writer.
pub(crate) struct AheadSource<S> {
    facts: Facts,
    length: Option<u64>,
    lies_on_host: bool,
    attributes: Cell<Option<Vec<Result<NamedValue, Failure>>>>,
    target: Cell<Option<Result<Vec<u8>, Failure>>>,
    listed: Cell<Option<Result<(), Failure>>>,
    contents: ContentsOnDemand<S>,
    /// The depth of its entries, if it is a directory.
    depth: usize,
    stream: Rc<Stream<S>>,
}

/// The contents of a file, as the writer asks for them.
enum ContentsOnDemand<S> {
    Empty,
    Chunks(RefCell<ChunkReader>),
    InSource(S),
}

impl<S: Source + Send + 'static> AheadSource<S>
where
    S::Entries: Send,
{
    /// Starts a thread that reads the tree below the directory `top`. `holes` says which ranges of
    /// files become holes.
    ///
    /// # Errors
    ///
    /// The error of the host if it cannot start a thread.
    pub(crate) fn start(top: S, holes: Holes) -> Result<Self, Failure> {
        let (batches, received) = sync_channel(BATCHES_AHEAD);
        let (spent, empty) = sync_channel(BATCHES_AHEAD + 2);
        let (file, _, below) = FileAhead::read(top);
        if let Some(entries) = below {
            let walk = Walk::new(holes, batches, empty);
            let started = thread::Builder::new().name("read ahead".to_owned());
            started.spawn(move || walk.run(entries)).map_err(|error| {
                Failure::new(Exit::Failed, format!("cannot start a thread: {error}"))
            })?;
        }
        Ok(Self::of_file(file, 1, &Rc::new(Stream::new(received, spent))))
    }
}

impl<S> AheadSource<S> {
    fn of_file(file: FileAhead<S>, depth: usize, stream: &Rc<Stream<S>>) -> Self {
        let FileAhead { facts, length, lies_on_host, attributes, target, listed, contents } = file;
        Self {
            facts,
            length,
            lies_on_host,
            attributes: Cell::new(Some(attributes)),
            target: Cell::new(target),
            listed: Cell::new(listed),
            contents: match contents {
                ContentsAhead::Empty => ContentsOnDemand::Empty,
                ContentsAhead::Follow => ContentsOnDemand::Chunks(RefCell::default()),
                ContentsAhead::InSource(source) => ContentsOnDemand::InSource(source),
            },
            depth,
            stream: Rc::clone(stream),
        }
    }
}

impl<S: Source> Source for AheadSource<S> {
    type Entries = AheadEntries<S>;

    fn facts(&self) -> Facts {
        self.facts
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Failure> {
        match &self.contents {
            ContentsOnDemand::Empty => Ok(0),
            ContentsOnDemand::InSource(source) => source.read_at(buffer, offset),
            ContentsOnDemand::Chunks(chunks) => {
                chunks.borrow_mut().read_at(&self.stream, buffer, offset)
            }
        }
    }

    fn read_chunk(&self, chunk: &mut Vec<u8>, offset: u64, wanted: usize) -> Result<(), Failure> {
        match &self.contents {
            ContentsOnDemand::Empty => {
                chunk.clear();
                Ok(())
            }
            ContentsOnDemand::InSource(source) => source.read_chunk(chunk, offset, wanted),
            ContentsOnDemand::Chunks(chunks) => {
                let is_taken = chunks.borrow_mut().take(&self.stream, chunk, offset, wanted)?;
                if is_taken { Ok(()) } else { fill_chunk(self, chunk, offset, wanted) }
            }
        }
    }

    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>, Failure> {
        match &self.contents {
            ContentsOnDemand::Empty => Ok(None),
            ContentsOnDemand::InSource(source) => source.data_after(offset),
            ContentsOnDemand::Chunks(chunks) => {
                chunks.borrow_mut().data_after(&self.stream, offset)
            }
        }
    }

    fn lies_on_host(&self) -> bool {
        self.lies_on_host
    }

    fn target(&self) -> Result<Vec<u8>, Failure> {
        self.target.take().expect("I4: a writer asks for the target of a link once")
    }

    fn attributes(&self) -> Vec<Result<NamedValue, Failure>> {
        self.attributes.take().expect("I4: a writer asks for the attributes once")
    }

    fn entries(&self) -> Result<AheadEntries<S>, Failure> {
        self.listed.take().expect("I1: a directory is entered once")?;
        Ok(AheadEntries { depth: self.depth, stream: Rc::clone(&self.stream) })
    }
}

/// The entries of a directory, in the order of its source.
pub(crate) struct AheadEntries<S> {
    depth: usize,
    stream: Rc<Stream<S>>,
}

impl<S> Iterator for AheadEntries<S> {
    type Item = Result<(Vec<u8>, AheadSource<S>), Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.stream.next_entry(self.depth)?;
        Some(
            entry.map(|(name, file)| {
                (name, AheadSource::of_file(file, self.depth + 1, &self.stream))
            }),
        )
    }
}

#[cfg(test)]
mod tests;
