//! Standard input, and other input that is read before an image is locked.
//!
//! In `ferroxfs cat IMAGE:/f | sed … | ferroxfs put IMAGE:/f` the first command reads the image
//! that the last one changes. So the input is read to its end before the image is opened. If the
//! input fails, the image is not changed.
//!
//! Owns: spooling the input, in memory up to a bound and then in an unnamed file. A regular file
//! needs no spool, because it is already complete.

use std::fs::File;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::io::Errno;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::standard_output::input_was_closed;

/// The largest input, in bytes, that is held in memory. Longer input is spooled in a file.
const MEMORY_BYTES: usize = 8 << 20;
const CHUNK_BYTES: usize = 256 << 10;

/// Input that has been read to its end and can be read again.
pub(crate) struct Spool {
    length: u64,
    held: SpoolStorage,
}

/// The storage of input that has been read to its end.
enum SpoolStorage {
    Memory(Vec<u8>),
    /// A file, and the offset in bytes at which the input starts in it.
    File(File, u64),
}

/// Reads standard input to its end.
pub(crate) fn standard_input() -> Result<Spool, Failure> {
    let failed = |error: io::Error| Failure::new(Exit::Failed, format!("standard input: {error}"));
    Spool::of_file(open().map_err(failed)?, "standard input")
}

/// Opens standard input. A closed or unreadable descriptor is an error, and does not count as empty
/// input.
pub(crate) fn open() -> io::Result<File> {
    match input_was_closed() {
        true => Err(Errno::BADF.into()),
        false => Ok(rustix::stdio::stdin().try_clone_to_owned()?.into()),
    }
}

impl Spool {
    /// Takes the contents of `file`: a regular file is used as it is, and any other file is read to
    /// its end. `name` is the name of the input in messages.
    pub(crate) fn of_file(file: File, name: &str) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::new(Exit::Failed, format!("{name}: {error}"));
        let metadata = file.metadata().map_err(failed)?;
        // Files of /proc have size 0 but contents.
        if !metadata.is_file() || metadata.len() == 0 {
            return Self::read(file, name);
        }
        let start = rustix::fs::tell(&file).map_err(|error| failed(error.into()))?;
        let length = metadata.len().saturating_sub(start);
        Ok(Self { length, held: SpoolStorage::File(file, start) })
    }

    /// Reads `input` to its end. `name` is the name of the input in messages.
    pub(crate) fn read(mut input: impl Read, name: &str) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::new(Exit::Failed, format!("{name}: {error}"));
        let mut memory = Vec::new();
        let bound = MEMORY_BYTES as u64;
        input.by_ref().take(bound).read_to_end(&mut memory).map_err(failed)?;
        if memory.len() < MEMORY_BYTES {
            return Ok(Self { length: memory.len() as u64, held: SpoolStorage::Memory(memory) });
        }
        let kept = |error: io::Error| {
            let directory = std::env::temp_dir();
            let message = format!("{name}: cannot be stored in {}: {error}", directory.display());
            Failure::new(Exit::Failed, message).hint("set TMPDIR to a directory with enough space")
        };
        let mut file = tempfile::tempfile().map_err(kept)?;
        file.write_all(&memory).map_err(kept)?;
        let mut length = memory.len() as u64;
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let read = match input.read(&mut buffer) {
                Ok(0) => return Ok(Self { length, held: SpoolStorage::File(file, 0) }),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            file.write_all(buffer.get(..read).unwrap_or_default()).map_err(kept)?;
            length += read as u64;
        }
    }

    /// Returns the length of the input in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Reads bytes of the input from `offset` on. Returns the number of bytes read, which is less
    /// than the size of the buffer only at the end of the input.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = left.min(buffer.len());
        let buffer = buffer.get_mut(..length).unwrap_or_default();
        match &self.held {
            SpoolStorage::Memory(bytes) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let bytes = bytes.get(start..).and_then(|rest| rest.get(..length));
                buffer.copy_from_slice(bytes.unwrap_or_default());
            }
            // A file that became shorter since is an error.
            SpoolStorage::File(file, start) => file.read_exact_at(buffer, start + offset)?,
        }
        Ok(length)
    }

    /// Returns whether both inputs hold the same bytes.
    pub(crate) fn is_same(&self, other: &Self) -> io::Result<bool> {
        let (mut one, mut two) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        let mut offset = 0;
        while self.length == other.length && offset < self.length {
            let read = self.read_at(&mut one, offset)?;
            if other.read_at(&mut two, offset)? != read || one.get(..read) != two.get(..read) {
                return Ok(false);
            }
            offset += read as u64;
        }
        Ok(self.length == other.length)
    }

    /// Returns a reader of the whole input.
    pub(crate) fn into_reader(self) -> SpoolReader {
        SpoolReader::new(Arc::new(self))
    }
}

/// A reader of spooled input, which other readers may read at the same time.
pub(crate) struct SpoolReader {
    spool: Arc<Spool>,
    /// The bytes that are still to be read.
    range: Range<u64>,
}

impl SpoolReader {
    /// Creates a reader of the whole input.
    pub(crate) fn new(spool: Arc<Spool>) -> Self {
        let range = 0..spool.length();
        Self { spool, range }
    }

    /// Creates a reader of a part of the input.
    pub(crate) fn of_range(spool: Arc<Spool>, range: Range<u64>) -> Self {
        Self { spool, range }
    }
}

impl Read for SpoolReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.range.end.saturating_sub(self.range.start);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let buffer = buffer.get_mut(..length).unwrap_or_default();
        let read = self.spool.read_at(buffer, self.range.start)?;
        self.range.start += read as u64;
        Ok(read)
    }
}
