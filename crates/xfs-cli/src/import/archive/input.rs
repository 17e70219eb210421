//! The bytes of an archive, read from beginning to end, and the remaining length of the current
//! member.

use std::io::{self, Cursor, Read};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::import::decompress::Input;

/// The bytes of an archive as a stream, with the state of the current member.
pub(crate) struct ArchiveInput {
    input: Input,
    /// Bytes that were read ahead. They come before the unread bytes of the input.
    ahead: Cursor<Vec<u8>>,
    /// The name of the archive in messages.
    name: String,
    /// The offset of the next byte in the decompressed archive.
    offset: u64,
    /// The number of unread bytes of the current member, including the padding after its contents.
    pub(in crate::import) left: u64,
    /// Whether a checksum of the contents of the current member is computed, because its header has
    /// one.
    pub(in crate::import) is_summed: bool,
    /// The checksum of the contents of the current member, as far as they have been read.
    pub(in crate::import) sum: u32,
    /// Remarks about the whole archive. They are reported, but the import continues.
    remarks: Vec<Failure>,
    /// Whether an error has ended the archive, so that nothing more can be read.
    is_broken: bool,
}

impl ArchiveInput {
    /// Creates a stream of the bytes `ahead`, and then those of `input`. `name` is the name of the
    /// archive in messages.
    pub(in crate::import) fn new(input: Input, ahead: Vec<u8>, name: String) -> Self {
        let (ahead, remarks) = (Cursor::new(ahead), Vec::new());
        Self {
            input,
            ahead,
            name,
            offset: 0,
            left: 0,
            is_summed: false,
            sum: 0,
            remarks,
            is_broken: false,
        }
    }

    pub(in crate::import) fn name(&self) -> &str {
        &self.name
    }

    pub(in crate::import) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns whether an error has ended the archive.
    pub(in crate::import) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Replaces the input with a reader of it, such as a decompressor. `by` creates that reader
    /// from the unread input and the offset of its next byte.
    pub(in crate::import) fn replace(
        &mut self,
        by: impl FnOnce(Input, u64) -> io::Result<Input>,
    ) -> Result<(), Failure> {
        let rest = std::mem::replace(&mut self.input, Box::new(io::empty()));
        let ahead = std::mem::take(&mut self.ahead);
        match by(Box::new(ahead.chain(rest)), self.offset) {
            Ok(input) => {
                self.input = input;
                Ok(())
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Fills `bytes` with contents of the current member. Fails if the member has fewer bytes left.
    pub(in crate::import) fn read_body(&mut self, bytes: &mut [u8]) -> Result<(), Failure> {
        let is_inside = bytes.len() as u64 <= self.left;
        if !is_inside || self.read_fully(bytes)? < bytes.len() {
            return Err(self.broken("ends in the middle of a member"));
        }
        self.left -= bytes.len() as u64;
        Ok(())
    }

    /// Adds the bytes to the checksum of the current member's contents, if the member has a
    /// checksum.
    pub(in crate::import) fn add_to_sum(&mut self, bytes: &[u8]) {
        if self.is_summed {
            let sum = bytes.iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
            self.sum = self.sum.wrapping_add(sum);
        }
    }

    /// Skips the unread bytes of the current member.
    pub(in crate::import) fn skip_left(&mut self) -> Result<(), Failure> {
        let mut buffer = vec![0; usize::try_from(self.left).unwrap_or(usize::MAX).min(64 << 10)];
        while self.left > 0 {
            let step = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
            self.read_body(buffer.get_mut(..step).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Reads to the end of the input, so that a program that writes into a pipe can finish.
    pub(in crate::import) fn drain(&mut self) -> Result<(), Failure> {
        self.ahead = Cursor::default();
        let drained = io::copy(&mut self.input, &mut io::sink());
        drained.map(drop).map_err(|error| self.failed(&error))
    }

    /// Returns the next `count` bytes without consuming them. Returns fewer only at the end of the
    /// input.
    pub(in crate::import) fn peek(&mut self, count: usize) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; count];
        let read = self.read_fully(&mut bytes)?;
        bytes.truncate(read);
        self.unread(&bytes);
        Ok(bytes)
    }

    /// Puts back the bytes that were read last, so that they are read again.
    pub(in crate::import) fn unread(&mut self, bytes: &[u8]) {
        let used = self.ahead.position() as usize;
        let rest = self.ahead.get_ref().get(used..).unwrap_or_default();
        self.ahead = Cursor::new([bytes, rest].concat());
        self.offset -= bytes.len() as u64;
    }

    /// Fills the buffer from the input. Returns the number of bytes read, which is less than the
    /// size of the buffer only at the end of the input.
    pub(in crate::import) fn read_fully(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let read = match self.ahead.read(rest) {
                Ok(0) => self.input.read(rest),
                read => read,
            };
            match read {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        self.offset += filled as u64;
        Ok(filled)
    }

    fn failed(&mut self, error: &io::Error) -> Failure {
        self.broken(&error.to_string())
    }

    /// Marks the archive as broken, and returns the failure with this message that ends its import.
    pub(in crate::import) fn broken(&mut self, message: &str) -> Failure {
        self.is_broken = true;
        self.failure(Exit::Failed, message)
    }

    fn failure(&self, exit: Exit, message: &str) -> Failure {
        Failure::new(exit, message).about(&self.name).placed()
    }

    /// Adds a remark about the whole archive, which is reported with this message, hint and exit
    /// code. The import continues.
    pub(in crate::import) fn remark(&mut self, exit: Exit, message: &str, hint: Option<&str>) {
        let failure = self.failure(exit, message);
        self.remarks.push(match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        });
    }

    /// Returns the remarks that have been made since the last call.
    pub(in crate::import) fn take_remarks(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.remarks)
    }
}
