//! The thread that reads a tree ahead.

use std::sync::mpsc::{Receiver, SyncSender};

use super::{BATCH_BYTES, BATCH_FILES, FileAhead, Message};
use crate::failure::Failure;
use crate::file::source::Source;
use crate::import::chunks::{self, CHUNK_BYTES, Holes, ReadFailure};

/// The state of the thread.
pub(super) struct Walk<S> {
    holes: Holes,
    batches: SyncSender<Vec<Message<S>>>,
    /// Buffers of whole chunks that the writer has emptied.
    empty: Receiver<Vec<u8>>,
    /// A buffer of a whole chunk that was not sent; empty if there is none.
    spare: Vec<u8>,
    batch: Vec<Message<S>>,
    /// The numbers of files and of bytes of contents in the batch.
    files: usize,
    bytes: usize,
}

/// The reason why the thread stops.
enum Stop {
    /// The source of one file cannot be read.
    Source(Failure),
    /// The writer has stopped.
    WriterGone,
}

impl From<ReadFailure> for Stop {
    fn from(ReadFailure(failure): ReadFailure) -> Self {
        Self::Source(failure)
    }
}

impl<S: Source> Walk<S> {
    pub(super) fn new(
        holes: Holes,
        batches: SyncSender<Vec<Message<S>>>,
        empty: Receiver<Vec<u8>>,
    ) -> Self {
        Self { holes, batches, empty, spare: Vec::new(), batch: Vec::new(), files: 0, bytes: 0 }
    }

    /// Reads everything below a directory, and stops early if the writer stops. There is no
    /// recursion, because the tree decides the depth.
    pub(super) fn run(mut self, top: S::Entries) {
        let mut levels = vec![top];
        while let Some(level) = levels.last_mut() {
            let (next, depth) = (level.next(), levels.len());
            let sent = match next {
                Some(Ok((name, source))) => self.send_file(depth, name, source).map(|below| {
                    levels.extend(below);
                }),
                Some(Err(failure)) => {
                    self.files += 1;
                    self.send(Message::Entry { depth, entry: Err(failure) })
                }
                None => {
                    levels.pop();
                    self.send(Message::DirectoryEnd { depth })
                }
            };
            if sent.is_err() {
                return;
            }
        }
        // The writer may have stopped before the end.
        _ = self.flush();
    }

    /// Sends a file with its contents. Returns the entries of a directory.
    fn send_file(
        &mut self,
        depth: usize,
        name: Vec<u8>,
        source: S,
    ) -> Result<Option<S::Entries>, Stop> {
        self.files += 1;
        let (file, source, below) = FileAhead::read(source);
        self.bytes += file.attributes.iter().flatten().map(|one| one.value.len()).sum::<usize>();
        self.send(Message::Entry { depth, entry: Ok((name, file)) })?;
        if let Some(source) = source {
            let end = match self.send_contents(&source) {
                Ok(()) => Ok(()),
                Err(Stop::Source(failure)) => Err(failure),
                Err(Stop::WriterGone) => return Err(Stop::WriterGone),
            };
            self.send(Message::ContentsEnd(end))?;
        }
        Ok(below)
    }

    fn send_contents(&mut self, source: &S) -> Result<(), Stop> {
        let is_small = source.length().is_some_and(|length| length < CHUNK_BYTES as u64);
        let mut chunk = if is_small { Vec::new() } else { self.buffer() };
        let read = chunks::read(source, self.holes, &mut chunk, |offset, chunk| {
            // A short chunk does not take a large buffer with it (I2).
            let bytes = match chunk.capacity() / 2 > chunk.len() {
                true => chunk.clone(),
                false => std::mem::take(chunk),
            };
            self.bytes += bytes.len();
            self.send(Message::Chunk { offset, bytes })?;
            if chunk.capacity() == 0 && !is_small {
                *chunk = self.buffer();
            }
            Ok::<_, Stop>(())
        });
        if !is_small {
            self.spare = chunk;
        }
        read.map(drop)
    }

    /// Returns a buffer of a whole chunk if one is free, or an empty one.
    fn buffer(&mut self) -> Vec<u8> {
        match self.spare.capacity() {
            0 => self.empty.try_recv().unwrap_or_default(),
            _ => std::mem::take(&mut self.spare),
        }
    }

    /// Puts a message into the batch, and sends the batch if it is full.
    fn send(&mut self, message: Message<S>) -> Result<(), Stop> {
        self.batch.push(message);
        match self.files >= BATCH_FILES || self.bytes >= BATCH_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), Stop> {
        (self.files, self.bytes) = (0, 0);
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(2 * BATCH_FILES));
        self.batches.send(batch).map_err(|_| Stop::WriterGone)
    }
}
