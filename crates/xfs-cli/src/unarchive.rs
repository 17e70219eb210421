//! Reading an archive: tar (ustar, pax, GNU, and older ones) and cpio (newc, crc and odc),
//! compressed or not.
//!
//! The crate `tar` decodes the fixed header. The framing is done here, as it is for writing: its
//! reader splits extended records at newlines, of which values may have some, takes as much memory
//! as an archive says, and knows no sparse files of pax.
//!
//! Owns: members, in their order, as sources of what is put into an image. Does **not** own where
//! they go ([`Intake`](crate::intake::Intake)), or decompression ([`Decompressed`]).
//!
//! # Invariants
//!
//! - **I1** An archive is read once, from its beginning to its end, so that it may come from a
//!   pipe.
//! - **I2** What stands in memory of a member besides its contents is at most
//!   [`MAX_RECORDS_BYTES`].
//! - **I3** Metadata that makes no sense costs the member that metadata, never its contents. The
//!   member names it ([`Member::problems`]).

mod attributes;
mod cpio_reader;
mod flags;
mod header;
mod input;
mod member;
mod numbers;
mod other;
mod records;
mod sparse;
mod tar_reader;

use std::ops::Range;

use crate::decompress::{Compression, Decompressed, Input};
use crate::failure::Failure;
use crate::names;

use cpio_reader::CpioReader;
use input::ArchiveInput;
pub(crate) use member::{Member, MemberKind};
use tar_reader::TarReader;

/// The unit of a tar archive.
const BLOCK_BYTES: usize = 512;
/// The most that is read of the extended records, or of the map of a sparse file, of a member, and
/// that is kept of records for all members to come.
const MAX_RECORDS_BYTES: u64 = 16 << 20;
/// Said of more.
const TOO_MANY_RECORDS: &str = "has extended records of more than 16 MiB";
/// Where the checksum stands in a header.
const CHECKSUM: Range<usize> = 148..156;

/// An archive being read.
pub(crate) struct Unarchive {
    format: Format,
}

enum Format {
    Tar(TarReader),
    Cpio(CpioReader),
}

impl Unarchive {
    /// Reads from `input`, which is called `name` in messages. With `ignores_zeros` a tar archive
    /// goes on after blocks of zeros.
    ///
    /// # Errors
    ///
    /// What reading meets, and what does not begin as an archive does. That nothing is there
    /// mostly means that the program that was to write it has failed; an archive without members
    /// has its end.
    pub(crate) fn open(input: Input, name: &[u8], ignores_zeros: bool) -> Result<Self, Failure> {
        let name = names::in_message(name).into_owned();
        let mut input = ArchiveInput::new(input, Vec::new(), name);
        let mut head = input.peek(BLOCK_BYTES)?;
        let mut compression = None;
        if !tar_reader::is_header(&head)
            && let Some(found) = Compression::of(&head)
        {
            compression = Some(found);
            input.replace(decompressed)?;
            head = input.peek(BLOCK_BYTES)?;
        }
        if head.is_empty() {
            return Err(input.broken("is empty, and so no tar archive"));
        }
        let is_empty_archive = other::is_zero(&head)
            && (ignores_zeros || !other::follows_zeros(&input.peek(other::LOOKED_AT_BYTES)?));
        if tar_reader::is_header(&head) || is_empty_archive {
            return Ok(Self { format: Format::Tar(TarReader::new(input, ignores_zeros)) });
        }
        if cpio_reader::is_header(&head) {
            return Ok(Self { format: Format::Cpio(CpioReader::new(input)) });
        }
        let rest = input.peek(other::LOOKED_AT_BYTES)?;
        let (message, hint) = other::describe(&rest, compression);
        Err(input.broken(&message).hint(hint))
    }

    /// The next member; `None` at the end.
    ///
    /// # Errors
    ///
    /// What reading meets, and an archive that does not hold together: nothing more can be read of
    /// it.
    pub(crate) fn next(&mut self) -> Result<Option<Member<'_>>, Failure> {
        match &mut self.format {
            Format::Tar(reader) => reader.next(),
            Format::Cpio(reader) => reader.next(),
        }
    }

    /// Findings of the archive since the last call, which are no member's.
    pub(crate) fn take_remarks(&mut self) -> Vec<Failure> {
        self.input().take_remarks()
    }

    /// What the archive is called in messages.
    pub(crate) fn name(&mut self) -> String {
        self.input().name().to_owned()
    }

    /// Whether reading has failed: [`next`](Self::next) says so once more.
    pub(crate) fn is_broken(&mut self) -> bool {
        self.input().is_broken()
    }

    fn input(&mut self) -> &mut ArchiveInput {
        match &mut self.format {
            Format::Tar(reader) => &mut reader.input,
            Format::Cpio(reader) => &mut reader.input,
        }
    }
}

/// The contents of a compressed stream.
fn decompressed(input: Input, offset: u64) -> std::io::Result<Input> {
    Ok(Box::new(Decompressed::new(input, offset)?))
}

#[cfg(test)]
mod tests;
