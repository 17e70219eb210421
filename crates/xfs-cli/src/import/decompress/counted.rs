//! A reader of compressed input that knows the offset of the next byte.

use std::io::{self, BufRead, Read};

/// The size of one read, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// A buffered reader that counts the consumed bytes.
pub(super) struct CountingReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// The position in the buffer of the first byte that is not consumed. The bytes that have been
    /// read end at `filled`.
    used: usize,
    filled: usize,
    /// The offset of the next byte in the input.
    offset: u64,
    /// Whether a read reached the end of the input.
    has_ended: bool,
    /// The message of the host for a read that has failed.
    failure: Option<String>,
}

impl<R: Read> CountingReader<R> {
    /// Creates a reader of `input`, whose first byte has the offset `start`.
    pub(super) fn new(input: R, start: u64) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        let (used, filled) = (0, 0);
        Self { input, buffer, used, filled, offset: start, has_ended: false, failure: None }
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the next `count` bytes without consuming them. Returns fewer only at the end of the
    /// input.
    pub(super) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.buffer.len() - self.used < count {
            self.buffer.copy_within(self.used..self.filled, 0);
            self.filled -= self.used;
            self.used = 0;
        }
        while self.filled - self.used < count && self.read_more()? > 0 {}
        let end = self.filled.min(self.used + count);
        Ok(self.buffer.get(self.used..end).unwrap_or_default())
    }

    /// Consumes `count` bytes. Returns false if the input ends before that.
    pub(super) fn skip(&mut self, mut count: u64) -> io::Result<bool> {
        while count > 0 {
            let length = self.fill_buf()?.len();
            if length == 0 {
                return Ok(false);
            }
            let step = usize::try_from(count).unwrap_or(usize::MAX).min(length);
            self.consume(step);
            count -= step as u64;
        }
        Ok(true)
    }

    /// Reads more bytes into the buffer, after the bytes that it already holds. Returns the number
    /// of bytes read; 0 at the end of the input.
    fn read_more(&mut self) -> io::Result<usize> {
        loop {
            match self.input.read(self.buffer.get_mut(self.filled..).unwrap_or_default()) {
                Ok(read) => {
                    self.filled += read;
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error.to_string());
                    return Err(error);
                }
            }
        }
    }
}

impl<R: Read> BufRead for CountingReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.filled {
            (self.used, self.filled) = (0, 0);
            self.has_ended |= self.read_more()? == 0;
        }
        Ok(self.buffer.get(self.used..self.filled).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        assert!(count <= self.filled - self.used, "a decoder consumes bytes that it has seen");
        self.used += count;
        self.offset += count as u64;
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let length = available.len().min(buffer.len());
        let (from, to) = (available.get(..length), buffer.get_mut(..length));
        to.unwrap_or_default().copy_from_slice(from.unwrap_or_default());
        self.consume(length);
        Ok(length)
    }
}
