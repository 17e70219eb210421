//! The messages of the thread that reads ahead, as the writer takes them.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender};

use super::{EntryAhead, Message};
use crate::failure::Failure;
use crate::import::chunks::CHUNK_BYTES;

/// The messages that have not been taken yet.
pub(super) struct Stream<S> {
    batches: Receiver<Vec<Message<S>>>,
    batch: RefCell<std::vec::IntoIter<Message<S>>>,
    /// The channel on which emptied buffers go back to the thread.
    spent: SyncSender<Vec<u8>>,
}

impl<S> Stream<S> {
    pub(super) fn new(batches: Receiver<Vec<Message<S>>>, spent: SyncSender<Vec<u8>>) -> Self {
        Self { batches, batch: RefCell::default(), spent }
    }

    /// Returns the next entry of the directory whose entries have the depth `depth`; `None` at its
    /// end. Leaves out contents that were not copied, and directories that were not entered.
    pub(super) fn next_entry(&self, depth: usize) -> Option<EntryAhead<S>> {
        loop {
            match self.next() {
                Message::Entry { depth: found, entry } if found == depth => return Some(entry),
                Message::DirectoryEnd { depth: found } if found == depth => return None,
                Message::Chunk { bytes, .. } => self.give_back(bytes),
                Message::ContentsEnd(_) => {}
                Message::Entry { depth: found, .. } | Message::DirectoryEnd { depth: found } => {
                    assert!(found > depth, "I1: the messages have the order of the walk");
                }
            }
        }
    }

    fn next(&self) -> Message<S> {
        let mut batch = self.batch.borrow_mut();
        loop {
            if let Some(message) = batch.next() {
                return message;
            }
            let next = self.batches.recv();
            *batch = next.expect("the thread runs until the last directory ends").into_iter();
        }
    }

    /// Returns the next chunk of the entry that was taken last; `None` at the end of its contents.
    fn next_chunk(&self) -> Result<Option<(u64, Vec<u8>)>, Failure> {
        match self.next() {
            Message::Chunk { offset, bytes } => Ok(Some((offset, bytes))),
            Message::ContentsEnd(end) => end.map(|()| None),
            Message::Entry { .. } | Message::DirectoryEnd { .. } => {
                unreachable!("I1: the contents of a file follow it")
            }
        }
    }

    /// Returns the buffer of a whole chunk to the thread.
    fn give_back(&self, bytes: Vec<u8>) {
        if bytes.capacity() >= CHUNK_BYTES {
            // The thread needs no more than the channel holds.
            _ = self.spent.try_send(bytes);
        }
    }
}

/// The contents of one file, which arrive chunk by chunk and are read from front to back.
#[derive(Default)]
pub(super) struct ChunkReader {
    /// The offset of the current chunk, and the chunk.
    current: Option<(u64, Vec<u8>)>,
    has_ended: bool,
}

impl ChunkReader {
    /// Takes chunks until one ends after `offset`.
    fn reach<S>(&mut self, stream: &Stream<S>, offset: u64) -> Result<(), Failure> {
        while !self.has_ended
            && self.current.as_ref().is_none_or(|(at, bytes)| at + bytes.len() as u64 <= offset)
        {
            if let Some((_, bytes)) = self.current.take() {
                stream.give_back(bytes);
            }
            self.current = stream.next_chunk()?;
            self.has_ended = self.current.is_none();
        }
        Ok(())
    }

    pub(super) fn data_after<S>(
        &mut self,
        stream: &Stream<S>,
        offset: u64,
    ) -> Result<Option<Range<u64>>, Failure> {
        self.reach(stream, offset)?;
        let current = self.current.as_ref();
        Ok(current.map(|(at, bytes)| offset.max(*at)..at + bytes.len() as u64))
    }

    pub(super) fn read_at<S>(
        &mut self,
        stream: &Stream<S>,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<usize, Failure> {
        self.reach(stream, offset)?;
        let Some((at, bytes)) = &self.current else { return Ok(0) };
        let length = match offset.checked_sub(*at) {
            Some(skipped) => {
                let rest = bytes.get(skipped as usize..).unwrap_or_default();
                let length = rest.len().min(buffer.len());
                let (from, to) = (rest.get(..length), buffer.get_mut(..length));
                to.unwrap_or_default().copy_from_slice(from.unwrap_or_default());
                length
            }
            // The chunk lies behind a hole.
            None => {
                let length = buffer.len().min((at - offset) as usize);
                buffer.get_mut(..length).unwrap_or_default().fill(0);
                length
            }
        };
        Ok(length)
    }

    /// Replaces `chunk` with the current chunk, without copying it. Returns false if the current
    /// chunk does not lie at `offset` or is longer than `wanted` bytes.
    pub(super) fn take<S>(
        &mut self,
        stream: &Stream<S>,
        chunk: &mut Vec<u8>,
        offset: u64,
        wanted: usize,
    ) -> Result<bool, Failure> {
        self.reach(stream, offset)?;
        match self.current.take_if(|(at, bytes)| *at == offset && bytes.len() <= wanted) {
            Some((_, bytes)) => {
                stream.give_back(std::mem::replace(chunk, bytes));
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
