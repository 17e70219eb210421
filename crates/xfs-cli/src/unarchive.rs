//! Reading a tar archive: ustar, pax and GNU, with extended attributes, access control lists, hard links,
//! devices and sparse files.
//!
//! The crate `tar` decodes the fixed header. The framing is done here, as it is for writing: its reader
//! splits extended records at newlines, of which values may have some, takes as much memory as an archive
//! says, and knows no sparse files of pax.
//!
//! Owns: members, in their order, as sources of what is put into an image. Does **not** own where they go
//! ([`Intake`](crate::intake::Intake)).
//!
//! # Invariants
//!
//! - **I1** An archive is read once, from its beginning to its end, so that it may come from a pipe.
//! - **I2** What stands in memory of a member besides its contents is at most [`MAX_RECORDS_BYTES`].

mod member;
mod numbers;
mod records;
mod sparse;

use std::io::{self, Read};
use std::ops::Range;

use tar::{EntryType, Header};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::names;

pub(crate) use member::{Member, MemberKind};
use records::Records;

/// The unit of an archive.
const BLOCK_BYTES: usize = 512;
/// The most that is read of the extended records, or of the map of a sparse file, of a member, and that is
/// kept of records for all members to come.
const MAX_RECORDS_BYTES: u64 = 16 << 20;
/// Said of more.
const TOO_MANY_RECORDS: &str = "has extended records of more than 16 MiB";
/// Where the checksum stands in a header.
const CHECKSUM: Range<usize> = 148..156;

/// An archive being read.
pub(crate) struct Unarchive<R> {
    input: R,
    /// What it is called in messages.
    name: String,
    /// What is left of the member read last, with what fills it up to a block.
    left: u64,
    /// Records for all members to come.
    global: Records,
    /// What stands first, if that was looked at and not taken yet: a header, or the end.
    first: Option<Option<Header>>,
    /// Whether there was a byte to read.
    has_begun: bool,
}

impl<R: Read> Unarchive<R> {
    /// Reads from `input`, which is called `name` in messages.
    pub(crate) fn new(input: R, name: &[u8]) -> Self {
        let name = names::in_message(name).into_owned();
        Self { input, name, left: 0, global: Records::default(), first: None, has_begun: false }
    }

    /// Looks whether it begins as archives do. What is read for that comes with the first member.
    ///
    /// # Errors
    ///
    /// What reading meets, and what is no archive. That nothing is there mostly means that who was to write it has
    /// failed; an archive without members has its end.
    pub(crate) fn check_first(mut self) -> Result<Self, Failure> {
        self.first = Some(self.read_header()?);
        match self.has_begun {
            true => Ok(self),
            false => Err(self.broken("is empty, and so no tar archive")),
        }
    }

    /// The next member; `None` at the end.
    ///
    /// # Errors
    ///
    /// What reading meets, and an archive that does not hold together: nothing more can be read of it.
    pub(crate) fn next(&mut self) -> Result<Option<Member<'_, R>>, Failure> {
        let mut local = Records::default();
        let (mut long_name, mut long_link) = (None, None);
        loop {
            self.skip(self.left)?;
            let Some(header) = self.read_header()? else {
                self.drain()?;
                return Ok(None);
            };
            let size = header.entry_size().map_err(|error| self.failed(&error))?;
            match header.entry_type() {
                EntryType::XHeader => local = self.read_records(size)?,
                EntryType::XGlobalHeader => {
                    let records = self.read_records(size)?;
                    self.global.replace(records);
                    if self.global.bytes() > MAX_RECORDS_BYTES {
                        return Err(self.broken(TOO_MANY_RECORDS));
                    }
                }
                EntryType::GNULongName => long_name = Some(self.read_text(size)?),
                EntryType::GNULongLink => long_link = Some(self.read_text(size)?),
                _ => {
                    let mut records = self.global.clone();
                    long_name.into_iter().for_each(|name| records.push(b"path", name));
                    long_link.into_iter().for_each(|link| records.push(b"linkpath", link));
                    records.extend(local);
                    return Member::read(self, &header, &records).map(Some);
                }
            }
        }
    }

    /// A header whose checksum is right; `None` at the end of the archive.
    fn read_header(&mut self) -> Result<Option<Header>, Failure> {
        if let Some(first) = self.first.take() {
            return Ok(first);
        }
        let mut block = [0; BLOCK_BYTES];
        let read = self.read_fully(&mut block)?;
        if read == 0 || block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block);
        let sum =
            |(at, byte): (usize, &u8)| u32::from(if CHECKSUM.contains(&at) { b' ' } else { *byte });
        let expected: u32 = block.iter().enumerate().map(sum).sum();
        let is_right = header.cksum().is_ok_and(|found| found == expected);
        if read < BLOCK_BYTES || !is_right {
            let hint = "it must not be compressed: zstd -dc ARCHIVE | ferroxfs import - IMAGE, \
                        or mkfs --from -";
            return Err(self.broken("is no tar archive, or damaged").hint(hint));
        }
        Ok(Some(header.clone()))
    }

    fn read_records(&mut self, size: u64) -> Result<Records, Failure> {
        let bytes = self.read_small(size)?;
        Records::parse(&bytes).ok_or_else(|| self.broken("has extended records that make no sense"))
    }

    /// A name behind the header of a GNU archive, which ends with a NUL.
    fn read_text(&mut self, size: u64) -> Result<Vec<u8>, Failure> {
        let bytes = self.read_small(size)?;
        Ok(bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec())
    }

    fn read_small(&mut self, size: u64) -> Result<Vec<u8>, Failure> {
        if size > MAX_RECORDS_BYTES {
            return Err(self.broken(TOO_MANY_RECORDS));
        }
        self.left = size.next_multiple_of(BLOCK_BYTES as u64);
        let mut bytes = vec![0; size as usize];
        self.read_body(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads contents of the present member, all of `bytes`.
    fn read_body(&mut self, bytes: &mut [u8]) -> Result<(), Failure> {
        let is_inside = bytes.len() as u64 <= self.left;
        if !is_inside || self.read_fully(bytes)? < bytes.len() {
            return Err(self.broken("ends in the middle of a member"));
        }
        self.left -= bytes.len() as u64;
        Ok(())
    }

    fn skip(&mut self, count: u64) -> Result<(), Failure> {
        let skipped = io::copy(&mut self.input.by_ref().take(count), &mut io::sink());
        let skipped = skipped.map_err(|error| self.failed(&error))?;
        self.left = 0;
        if skipped < count { Err(self.broken("ends in the middle of a member")) } else { Ok(()) }
    }

    /// Reads what stands behind the end, so that who writes into a pipe can end.
    fn drain(&mut self) -> Result<(), Failure> {
        let drained = io::copy(&mut self.input, &mut io::sink());
        drained.map(drop).map_err(|error| self.failed(&error))
    }

    /// Fills the buffer, or as much of it as there is.
    fn read_fully(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.input.read(rest) {
                Ok(0) => break,
                Ok(read) => {
                    filled += read;
                    self.has_begun = true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(filled)
    }

    fn failed(&self, error: &io::Error) -> Failure {
        self.broken(&error.to_string())
    }

    fn broken(&self, message: &str) -> Failure {
        Failure::new(Exit::Failed, message).about(&self.name)
    }
}

#[cfg(test)]
mod tests;
