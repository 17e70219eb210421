//! Decompression of archives: gzip, xz, zstd, bzip2 and lz4, recognised by their first bytes.
//!
//! Owns: the detection of the compression, and the thread that decompresses in parallel with the
//! reader. Does **not** own: the formats themselves (the crates that docs/adr/0008-decompression.md
//! names), or the meaning of the contents
//! ([`ArchiveReader`](crate::import::archive::ArchiveReader)).
//!
//! # Invariants
//!
//! - **I1** Memory is bounded whatever the input holds: [`CHUNKS_AHEAD`] chunks, one input buffer,
//!   and a window of at most [`MAX_WINDOW_BYTES`].
//! - **I2** The reader sees the end of the stream only if every frame was complete and its checksum
//!   correct. Anything else is an error, which names the compression and the offset in the
//!   compressed input.
//! - **I3** The user never sees an error message of a decompressor's own.

mod counted;
mod frames;

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use counted::CountingReader;

/// The size of one decompressed chunk, in bytes.
const CHUNK_BYTES: usize = 512 << 10;
/// The number of decompressed chunks that may wait for the reader.
const CHUNKS_AHEAD: usize = 8;
/// The largest window or dictionary that a decompressor may use, in bytes.
const MAX_WINDOW_BYTES: u64 = 128 << 20;

/// A byte stream that can be moved to another thread.
pub(crate) type Input = Box<dyn Read + Send>;

/// The compression of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    /// gzip(1), RFC 1952.
    Gzip,
    /// xz(1).
    Xz,
    /// zstd(1), RFC 8878.
    Zstd,
    /// bzip2(1).
    Bzip2,
    /// lz4(1), with frames of the current format or of the older one ("legacy").
    Lz4,
    /// A skippable frame, which both zstd and lz4 have. The frame after it shows which of the two
    /// compressed the stream.
    Skippable,
}

impl Compression {
    /// Returns the compression of a stream that starts with these bytes; `None` if it is not
    /// compressed.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstd),
            // A bzip2 stream starts with the magic of a block, or of its end.
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..]
            | [b'B', b'Z', b'h', b'1'..=b'9', 0x17, 0x72, 0x45, 0x38, 0x50, 0x90, ..] => {
                Some(Self::Bzip2)
            }
            [0x04, 0x22, 0x4d, 0x18, ..] | [0x02, 0x21, 0x4c, 0x18, ..] => Some(Self::Lz4),
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Skippable),
            _ => None,
        }
    }

    /// Returns the name of the program that makes this compression.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Lz4 => "lz4",
            Self::Skippable => "zstd or lz4",
        }
    }
}

/// A message of the decompressing thread.
enum Message {
    Bytes(Vec<u8>),
    /// The stream cannot be decompressed any further; the text is the message for the user.
    Failed(String),
    End,
}

/// A reader of the decompressed contents of a stream.
pub(crate) struct Decompressed {
    pieces: Receiver<Message>,
    /// The channel on which emptied buffers go back to the decompressing thread.
    spent: SyncSender<Vec<u8>>,
    chunk: Vec<u8>,
    /// The number of bytes of the current chunk that have been read.
    used: usize,
    /// How the stream ended; `None` if it has not ended yet.
    end: Option<Result<(), String>>,
}

impl Decompressed {
    /// Returns a reader of the decompressed contents of `input`, as [`new`](Self::new) does.
    pub(crate) fn boxed(input: Input, start: u64) -> io::Result<Input> {
        Ok(Box::new(Self::new(input, start)?))
    }

    /// Decompresses `input` on a new thread. The first byte of `input` has the offset `start` in
    /// messages.
    ///
    /// # Errors
    ///
    /// The error of the host if it cannot start a thread.
    pub(crate) fn new(input: Input, start: u64) -> io::Result<Self> {
        // The thread waits when this many chunks are ahead of the reader (I1).
        let (send, pieces) = sync_channel(CHUNKS_AHEAD);
        let (spent, empty) = sync_channel(CHUNKS_AHEAD + 2);
        let worker = move || {
            let mut emit = Emit { pieces: &send, empty: &empty };
            let mut input = CountingReader::new(input, start);
            // After a partial or damaged frame the reader gets a failure, and no end (I2).
            let last = match frames::decompress(&mut input, &mut emit) {
                Ok(()) => Message::End,
                Err(message) => Message::Failed(message),
            };
            // The reader may have stopped before the end.
            _ = send.send(last);
        };
        thread::Builder::new().name("decompress".to_owned()).spawn(worker)?;
        Ok(Self { pieces, spent, chunk: Vec::new(), used: 0, end: None })
    }
}

impl Read for Decompressed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.used == self.chunk.len() {
            match &self.end {
                Some(Ok(())) => return Ok(0),
                Some(Err(message)) => return Err(io::Error::other(message.clone())),
                None => {}
            }
            match self.pieces.recv() {
                Ok(Message::Bytes(chunk)) => {
                    let spent = std::mem::replace(&mut self.chunk, chunk);
                    _ = self.spent.try_send(spent);
                    self.used = 0;
                }
                Ok(Message::End) => self.end = Some(Ok(())),
                Ok(Message::Failed(message)) => self.end = Some(Err(message)),
                // The thread has panicked and printed its message.
                Err(_) => self.end = Some(Err("the decompressor has failed".to_owned())),
            }
        }
        let rest = self.chunk.get(self.used..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        let (from, to) = (rest.get(..length), buffer.get_mut(..length));
        to.unwrap_or_default().copy_from_slice(from.unwrap_or_default());
        self.used += length;
        Ok(length)
    }
}

/// The decompressing thread's side of the channels to the reader.
struct Emit<'a> {
    pieces: &'a SyncSender<Message>,
    empty: &'a Receiver<Vec<u8>>,
}

impl Emit<'_> {
    /// Returns a buffer of [`CHUNK_BYTES`] bytes. If possible, it is one that the reader has
    /// emptied.
    fn buffer(&self) -> Vec<u8> {
        let mut buffer = self.empty.try_recv().unwrap_or_default();
        buffer.resize(CHUNK_BYTES, 0);
        buffer
    }

    /// Sends the first `length` bytes of the buffer to the reader. Returns false if the reader has
    /// stopped.
    fn send(&self, mut buffer: Vec<u8>, length: usize) -> bool {
        buffer.truncate(length);
        length == 0 || self.pieces.send(Message::Bytes(buffer)).is_ok()
    }
}

#[cfg(test)]
mod tests;
