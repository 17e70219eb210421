//! Reading the framing of a tar archive: headers, extended records, and the end of the archive.
//!
//! ```text
//!   header ── records (x, g, L, K) ──> header ── contents ──> header … zeros, zeros
//!      │ checksum wrong, not the first                            │ one block only
//!      └> skip blocks to the next header (next_header)            └> at_zeros
//! ```

mod attributes;
mod flags;
pub(crate) mod header;
pub(in crate::import) mod records;
mod sparse;

use std::collections::HashSet;

use tar::Header;

use super::archive::block::{BLOCK_BYTES, is_header, is_zero};
use super::archive::numbers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::import::archive::input::ArchiveInput;
use crate::import::archive::member::Member;
use crate::terminal::names;
use records::{ExtendedRecords, MAX_RECORDS_BYTES, TOO_MANY_RECORDS};

/// The largest number of unknown keywords that are reported. A normal archive has only a few.
const MOST_NAMED_KEYWORDS: usize = 100;

/// A tar archive that is being read.
pub(crate) struct TarReader {
    pub(super) input: ArchiveInput,
    /// Extended records that apply to all later members.
    global: ExtendedRecords,
    /// Unknown keywords that have been reported.
    named_keywords: HashSet<Vec<u8>>,
    /// Whether the archive continues after blocks of zeros.
    ignores_zeros: bool,
}

/// The kind of a block at a position where a header is expected.
enum Block {
    Header(Box<Header>),
    Zeros,
    Damaged,
    End,
}

/// Extended records and long names that come before the header of a member.
#[derive(Default)]
struct Preface {
    local: ExtendedRecords,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    problems: Vec<String>,
}

impl TarReader {
    pub(super) fn new(input: ArchiveInput, ignores_zeros: bool) -> Self {
        let (global, named_keywords) = (ExtendedRecords::default(), HashSet::new());
        Self { input, global, named_keywords, ignores_zeros }
    }

    /// Returns the next member; `None` at the end of the archive.
    pub(super) fn next(&mut self) -> Result<Option<Member<'_>>, Failure> {
        let mut preface = Preface::default();
        loop {
            self.input.skip_left()?;
            let Some((header, has_skipped)) = self.next_header()? else {
                self.input.drain()?;
                return Ok(None);
            };
            if has_skipped {
                // The records belonged to a header that is lost.
                preface = Preface::default();
            }
            match header.as_old().linkflag {
                // Solaris used its own letter before pax had one.
                [b'x' | b'X'] => (preface.local, preface.problems) = self.read_records(&header)?,
                [b'g'] => self.read_global(&header)?,
                [b'L'] => preface.long_name = Some(self.read_text(&header)?),
                [b'K'] => preface.long_link = Some(self.read_text(&header)?),
                // The label of a volume is no file.
                [b'V'] => self.pass(&header)?,
                [kind @ (b'A' | b'E' | b'N')] => self.leave_out(&header, kind)?,
                _ => return self.member(&header, preface).map(Some),
            }
        }
    }

    fn member(&mut self, header: &Header, preface: Preface) -> Result<Member<'_>, Failure> {
        let mut records = self.global.clone();
        preface.long_name.into_iter().for_each(|name| records.push(b"path", name));
        preface.long_link.into_iter().for_each(|link| records.push(b"linkpath", link));
        records.extend(preface.local);
        self.name_unknown(&records);
        header::member(self, header, &records, preface.problems)
    }

    /// Reports each unknown keyword once for the whole archive.
    fn name_unknown(&mut self, records: &ExtendedRecords) {
        for keyword in records.unknown() {
            let is_full = self.named_keywords.len() >= MOST_NAMED_KEYWORDS;
            if is_full || !self.named_keywords.insert(keyword.to_vec()) {
                continue;
            }
            let shown = names::in_message(keyword);
            let message = format!("pax keyword {shown} is not known, and is ignored");
            self.input.remark(Exit::Fine, &message, None);
        }
    }

    /// Returns the next header with a correct checksum, and whether damaged blocks were skipped
    /// before it. `None` at the end of the archive.
    fn next_header(&mut self) -> Result<Option<(Box<Header>, bool)>, Failure> {
        let mut damaged_at = None;
        let header = loop {
            let offset = self.input.offset();
            match self.read_block()? {
                Block::Header(header) => break Some(header),
                Block::Zeros if self.ignores_zeros => {}
                Block::Zeros => {
                    self.at_zeros(offset)?;
                    break None;
                }
                Block::End => break None,
                Block::Damaged => damaged_at = damaged_at.or(Some(offset)),
            }
        };
        if let Some(offset) = damaged_at {
            let until = match &header {
                Some(_) => {
                    let next = self.input.offset() - BLOCK_BYTES as u64;
                    format!("up to the next one, at byte {next}")
                }
                None => "up to the end".to_owned(),
            };
            let message = format!("is damaged: no header at byte {offset}. Skipped {until}");
            self.input.remark(Exit::Failed, &message, None);
        }
        Ok(header.map(|header| (header, damaged_at.is_some())))
    }

    fn read_block(&mut self) -> Result<Block, Failure> {
        let mut block = [0; BLOCK_BYTES];
        match self.input.read_fully(&mut block)? {
            0 => Ok(Block::End),
            _ if is_zero(&block) => Ok(Block::Zeros),
            BLOCK_BYTES if is_header(&block) => {
                Ok(Block::Header(Box::new(Header::from_byte_slice(&block).clone())))
            }
            BLOCK_BYTES => Ok(Block::Damaged),
            _ => Err(self.input.broken("ends in the middle of a header")),
        }
    }

    /// Handles the first block of zeros, which is at this offset. A second block of zeros after it
    /// ends the archive. Without a second one the archive ends as well, as in GNU tar, and a remark
    /// reports the single block of zeros.
    fn at_zeros(&mut self, offset: u64) -> Result<(), Failure> {
        let hint = "import --ignore-zeros continues after zeros";
        let lone = format!("a lone block of zeros at byte {offset} ends the archive");
        let mut is_lone = true;
        loop {
            let next = self.input.offset();
            let bytes = self.input.peek(BLOCK_BYTES)?;
            if bytes.len() < BLOCK_BYTES || !is_zero(&bytes) {
                let message = match (is_lone, is_header(&bytes)) {
                    (true, _) if bytes.is_empty() => {
                        self.input.remark(Exit::Fine, &lone, None);
                        return Ok(());
                    }
                    (true, true) => format!("{lone}; the members after it are left out"),
                    (true, false) => format!("{lone}; the data after it is not a header"),
                    (false, true) => {
                        format!("another archive follows the end, at byte {next}, and is left out")
                    }
                    (false, false) => return Ok(()),
                };
                self.input.remark(Exit::Failed, &message, Some(hint));
                return Ok(());
            }
            self.input.read_fully(&mut [0; BLOCK_BYTES])?;
            is_lone = false;
        }
    }

    /// Returns whether a header or the end of the archive comes next, so that the current member
    /// has no contents.
    pub(super) fn is_at_header(&mut self) -> Result<bool, Failure> {
        let bytes = self.input.peek(BLOCK_BYTES)?;
        Ok(bytes.is_empty() || is_header(&bytes) || is_zero(&bytes))
    }

    fn read_global(&mut self, header: &Header) -> Result<(), Failure> {
        let (records, problems) = self.read_records(header)?;
        for problem in problems {
            self.input.remark(Exit::Failed, &problem, None);
        }
        self.global.replace(records);
        match self.global.bytes() > MAX_RECORDS_BYTES {
            true => Err(self.input.broken(TOO_MANY_RECORDS)),
            false => Ok(()),
        }
    }

    /// Reads extended records up to the first invalid one. Returns the records, and messages about
    /// problems: one if a record was invalid, none otherwise.
    fn read_records(&mut self, header: &Header) -> Result<(ExtendedRecords, Vec<String>), Failure> {
        let bytes = self.read_small(header)?;
        let (records, is_whole) = ExtendedRecords::parse(&bytes);
        let problem = "has invalid extended records, which are ignored".to_owned();
        Ok((records, (!is_whole).then_some(problem).into_iter().collect()))
    }

    /// Reads the long name that follows a header in a GNU archive. A NUL ends the name.
    fn read_text(&mut self, header: &Header) -> Result<Vec<u8>, Failure> {
        let bytes = self.read_small(header)?;
        Ok(bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec())
    }

    fn read_small(&mut self, header: &Header) -> Result<Vec<u8>, Failure> {
        self.pass(header)?;
        let size = self.header_size(header)?;
        if size > MAX_RECORDS_BYTES {
            return Err(self.input.broken(TOO_MANY_RECORDS));
        }
        let mut bytes = vec![0; size as usize];
        self.input.read_body(&mut bytes)?;
        Ok(bytes)
    }

    /// Sets the size of the contents that follow to the size in this header. Contents that the
    /// caller does not read are skipped before the next header.
    fn pass(&mut self, header: &Header) -> Result<(), Failure> {
        let size = self.header_size(header)?;
        self.set_body(size)
    }

    /// Sets the size in bytes of the contents that follow.
    pub(super) fn set_body(&mut self, size: u64) -> Result<(), Failure> {
        match size.checked_next_multiple_of(BLOCK_BYTES as u64) {
            Some(padded) => {
                self.input.left = padded;
                Ok(())
            }
            None => Err(self.input.broken("has a member of more than 2^64 bytes")),
        }
    }

    /// Returns the size in the size field of a header. An invalid size is an error, because the
    /// position of the next header is then unknown.
    pub(super) fn header_size(&mut self, header: &Header) -> Result<u64, Failure> {
        let field = &header.as_old().size;
        let size = numbers::number(field).and_then(|size| u64::try_from(size).ok());
        size.ok_or_else(|| {
            let (path, text) = (header.path_bytes(), numbers::shown(field));
            let (path, text) = (names::in_message(&path), names::in_message(&text));
            let message = format!("{path}: has the invalid size {text}");
            self.input.broken(&message)
        })
    }

    /// Skips a member that only describes other members, in a form that is not supported. A remark
    /// reports that it is left out.
    fn leave_out(&mut self, header: &Header, kind: u8) -> Result<(), Failure> {
        let meaning = match kind {
            b'A' => "an access control list of Solaris",
            b'E' => "extended attributes of Solaris",
            _ => "renames in the form of old GNU tar",
        };
        let offset = self.input.offset() - BLOCK_BYTES as u64;
        let message = format!("the member at byte {offset} is {meaning}, and is left out");
        self.input.remark(Exit::Failed, &message, None);
        self.pass(header)
    }
}
