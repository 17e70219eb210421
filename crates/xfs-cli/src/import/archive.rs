//! Reading an archive: tar (ustar, pax, GNU, and older formats), cpio (newc, crc and odc), and
//! dumps of composefs, compressed or not.
//!
//! The crate `tar` decodes the fixed header. The framing is done here, as for the writing of
//! archives. The reader of that crate splits extended records at newlines, although values may
//! contain newlines. That reader takes as much memory as an archive asks for, and does not know
//! sparse files of pax.
//!
//! Owns: the members, in order, as sources for the import. Does **not** own: their destination
//! ([`ImportOrigin`](crate::import::origin::ImportOrigin)), or decompression ([`Decompressed`]).
//!
//! # Invariants
//!
//! - An archive is read once, from beginning to end, so that it may come from a pipe.
//! - **I2** Invalid metadata of a member is not used, and the member reports this
//!   ([`Member::problems`]). Its contents are never lost. Only an invalid size ends the archive.
//! - [`MAX_RECORDS_BYTES`](crate::import::tar::records::MAX_RECORDS_BYTES) limits each header of
//!   extended records, and the map of a sparse file.

pub(super) mod block;
pub(crate) mod foreign;
pub(super) mod input;
pub(super) mod member;
pub(crate) mod numbers;

use std::path::Path;

use super::{
    composefs::{self, ComposefsReader},
    cpio::{self, CpioReader},
    tar::TarReader,
};
use crate::failure::Failure;
use crate::import::decompress::{Compression, Decompressed, Input};
use crate::terminal::names;

use block::{BLOCK_BYTES, is_zero};
use input::ArchiveInput;
pub(crate) use member::{Member, MemberKind};

/// An archive that is being read.
pub(crate) struct ArchiveReader {
    format: ArchiveFormat,
}

enum ArchiveFormat {
    Tar(TarReader),
    Cpio(CpioReader),
    Composefs(ComposefsReader),
}

impl ArchiveReader {
    /// Opens the archive that `input` delivers; `input` cannot seek. `name` is the name of the
    /// archive in messages. With `ignores_zeros`, a tar archive continues after blocks of zeros.
    ///
    /// # Errors
    ///
    /// Errors of reading, and input that does not start like an archive. Empty input is an error,
    /// because most often the program that writes the input has failed. An archive without members
    /// is not empty input: it has an end mark.
    pub(crate) fn open(input: Input, name: &[u8], ignores_zeros: bool) -> Result<Self, Failure> {
        let name = names::in_message(name).into_owned();
        let mut input = ArchiveInput::new(input, Vec::new(), name);
        let mut head = input.peek(BLOCK_BYTES)?;
        let mut compression = None;
        if !block::is_header(&head)
            && let Some(found) = Compression::of(&head)
        {
            compression = Some(found);
            input.replace(Decompressed::boxed)?;
            head = input.peek(BLOCK_BYTES)?;
        }
        if head.is_empty() {
            return Err(input.broken("is empty, and not a tar archive"));
        }
        let is_empty_archive = is_zero(&head)
            && (ignores_zeros || !foreign::follows_zeros(&input.peek(foreign::LOOKED_AT_BYTES)?));
        if block::is_header(&head) || is_empty_archive {
            return Ok(Self { format: ArchiveFormat::Tar(TarReader::new(input, ignores_zeros)) });
        }
        if cpio::is_header(&head) {
            return Ok(Self { format: ArchiveFormat::Cpio(CpioReader::new(input)) });
        }
        if composefs::is_dump(&head) {
            return Ok(Self { format: ArchiveFormat::Composefs(ComposefsReader::new(input)) });
        }
        let rest = input.peek(foreign::LOOKED_AT_BYTES)?;
        let (message, hint) = foreign::describe(&rest, compression);
        Err(input.broken(&message).hint(hint))
    }

    /// Sets the directory with the objects of a dump of composefs. Other archives need none.
    ///
    /// # Errors
    ///
    /// A directory that cannot be opened.
    pub(crate) fn with_objects(mut self, path: Option<&Path>) -> Result<Self, Failure> {
        if let (ArchiveFormat::Composefs(reader), Some(path)) = (&mut self.format, path) {
            reader.with_objects(path)?;
        }
        Ok(self)
    }

    /// Opens an archive of tar that is not compressed, such as an unpacked layer of a container
    /// image. `name` is its name in messages.
    ///
    /// # Errors
    ///
    /// Errors of reading, and input that does not start like an archive of tar.
    pub(crate) fn open_layer(input: Input, name: String) -> Result<Self, Failure> {
        let mut input = ArchiveInput::new(input, Vec::new(), name);
        let head = input.peek(BLOCK_BYTES)?;
        match block::is_header(&head) || head.len() == BLOCK_BYTES && is_zero(&head) {
            true => Ok(Self { format: ArchiveFormat::Tar(TarReader::new(input, false)) }),
            false => Err(input.broken("is not an archive of tar")),
        }
    }

    /// Returns the next member; `None` at the end of the archive.
    ///
    /// # Errors
    ///
    /// Errors of reading, and an inconsistent archive. No further member can be read after an
    /// error.
    pub(crate) fn next(&mut self) -> Result<Option<Member<'_>>, Failure> {
        match &mut self.format {
            ArchiveFormat::Tar(reader) => reader.next(),
            ArchiveFormat::Cpio(reader) => reader.next(),
            ArchiveFormat::Composefs(reader) => reader.next(),
        }
    }

    /// Returns the remarks about the whole archive that have been made since the last call.
    pub(crate) fn take_remarks(&mut self) -> Vec<Failure> {
        self.input().take_remarks()
    }

    /// Returns the name of the archive for messages.
    pub(crate) fn name(&mut self) -> String {
        self.input().name().to_owned()
    }

    /// Returns whether reading has failed, so that no further member can be imported.
    pub(crate) fn is_broken(&mut self) -> bool {
        match &self.format {
            // The contents of large files come from other files.
            ArchiveFormat::Composefs(reader) => reader.is_broken(),
            _ => self.input().is_broken(),
        }
    }

    fn input(&mut self) -> &mut ArchiveInput {
        match &mut self.format {
            ArchiveFormat::Tar(reader) => &mut reader.input,
            ArchiveFormat::Cpio(reader) => &mut reader.input,
            ArchiveFormat::Composefs(reader) => &mut reader.input,
        }
    }
}

#[cfg(test)]
mod tests;
