//! The bytes of an archive, from its beginning to its end.

use std::io::{self, Cursor, Read};

use crate::decompress::Input;
use crate::exit::Exit;
use crate::failure::Failure;

/// An archive as a stream, and the member in it that is read now.
pub(crate) struct ArchiveInput {
    input: Input,
    /// Bytes that were read ahead, and come first.
    ahead: Cursor<Vec<u8>>,
    /// What it is called in messages.
    name: String,
    /// Offset of the next byte, in the decompressed archive.
    offset: u64,
    /// What is left of the present member, with what fills it up to a block.
    pub(super) left: u64,
    /// Whether contents are summed up.
    pub(super) is_summed: bool,
    /// The sum of all bytes of contents that were read of the present member.
    pub(super) sum: u32,
    /// Findings that are no member's, and end nothing.
    remarks: Vec<Failure>,
    /// Whether nothing more can be read.
    is_broken: bool,
}

impl ArchiveInput {
    /// Reads `ahead`, and then `input`.
    pub(super) fn new(input: Input, ahead: Vec<u8>, name: String) -> Self {
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

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether an error has ended the archive.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Replaces what follows the bytes that were read, by a reader of it.
    pub(super) fn replace(
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

    /// Reads contents of the present member, all of `bytes`.
    pub(super) fn read_body(&mut self, bytes: &mut [u8]) -> Result<(), Failure> {
        let is_inside = bytes.len() as u64 <= self.left;
        if !is_inside || self.read_fully(bytes)? < bytes.len() {
            return Err(self.broken("ends in the middle of a member"));
        }
        self.left -= bytes.len() as u64;
        Ok(())
    }

    /// Adds contents to the sum of the member.
    pub(super) fn add_to_sum(&mut self, bytes: &[u8]) {
        if self.is_summed {
            let sum = bytes.iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
            self.sum = self.sum.wrapping_add(sum);
        }
    }

    /// Skips what is left of the present member.
    pub(super) fn skip_left(&mut self) -> Result<(), Failure> {
        let mut buffer = vec![0; usize::try_from(self.left).unwrap_or(usize::MAX).min(64 << 10)];
        while self.left > 0 {
            let step = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
            self.read_body(buffer.get_mut(..step).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Reads what follows the end, so that the program that writes into a pipe can end.
    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        self.ahead = Cursor::default();
        let drained = io::copy(&mut self.input, &mut io::sink());
        drained.map(drop).map_err(|error| self.failed(&error))
    }

    /// Up to `count` bytes, fewer only at the end. They are read again.
    pub(super) fn peek(&mut self, count: usize) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; count];
        let read = self.read_fully(&mut bytes)?;
        bytes.truncate(read);
        self.unread(&bytes);
        Ok(bytes)
    }

    /// Gives bytes back that were read last.
    pub(super) fn unread(&mut self, bytes: &[u8]) {
        let used = self.ahead.position() as usize;
        let rest = self.ahead.get_ref().get(used..).unwrap_or_default();
        self.ahead = Cursor::new([bytes, rest].concat());
        self.offset -= bytes.len() as u64;
    }

    /// Fills the buffer, or as much of it as there is.
    pub(super) fn read_fully(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
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

    /// The failure that ends the archive.
    pub(super) fn broken(&mut self, message: &str) -> Failure {
        self.is_broken = true;
        self.failure(Exit::Failed, message)
    }

    fn failure(&self, exit: Exit, message: &str) -> Failure {
        Failure::new(exit, message).about(&self.name).placed()
    }

    /// Notes what the user has to know of the archive.
    pub(super) fn remark(&mut self, exit: Exit, message: &str, hint: Option<&str>) {
        let failure = self.failure(exit, message);
        self.remarks.push(match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        });
    }

    /// The findings since the last call.
    pub(super) fn take_remarks(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.remarks)
    }
}
