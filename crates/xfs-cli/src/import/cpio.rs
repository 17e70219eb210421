//! cpio archives: newc (`070701`), newc with checksums (`070702`), and the odc of POSIX (`070707`).
//!
//! ```text
//!   newc: magic ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor
//!         namesize check
//!         6     8 hexadecimal digits each; name and contents are padded to 4 bytes
//!   odc:  magic dev ino mode uid gid nlink rdev mtime namesize filesize
//!         6     6 octal digits each, but 11 for mtime and filesize; nothing is padded
//! ```
//!
//! Archives may follow each other, as in an initramfs, where often the first is not compressed. All
//! of them are read, as the kernel does; cpio(1) and bsdtar stop after the first.
//!
//! # Invariants
//!
//! - **I1** An archive has the names of a file one after another, and in most archives the last
//!   name has the contents. Later names become hard links to the first, with contents or without.

use std::collections::HashMap;

use super::archive::block::is_zero;
use super::archive::numbers;
use super::tar::header;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind, Time};
use crate::import::archive::input::ArchiveInput;
use crate::import::archive::member::{Member, MemberKind};
use crate::import::decompress::{Compression, Decompressed};
use crate::terminal::names;

const NEWC: &[u8] = b"070701";
const NEWC_CRC: &[u8] = b"070702";
const ODC: &[u8] = b"070707";
const MAGIC_BYTES: usize = 6;
/// The name of the last entry of an archive.
const TRAILER: &[u8] = b"TRAILER!!!";
/// The largest size of a name, in bytes, with the zero byte at its end.
const MAX_NAME_BYTES: u64 = 64 << 10;
/// The largest size of the target of a symbolic link, in bytes.
const MAX_TARGET_BYTES: u64 = 64 << 10;
/// The limit, in bytes, on the file names that are kept in memory. They are kept so that later
/// names of the same files become hard links to them.
const MAX_LINK_BYTES: usize = 64 << 20;
/// The size in bytes of one read after the end of an archive, where another archive may follow.
const STEP_BYTES: usize = 512;

/// A cpio archive that is being read.
pub(crate) struct CpioReader {
    pub(super) input: ArchiveInput,
    /// The first name of each file with several names, and the number of its names that are still
    /// to come; by device and inode number.
    links: HashMap<(u64, u64), (Vec<u8>, u64)>,
    link_bytes: usize,
    /// The name of the current member, and the checksum in its header, if the archive has
    /// checksums.
    checked: Option<(Vec<u8>, u32)>,
    is_over: bool,
}

/// The header of one member.
struct CpioEntry {
    file: (u64, u64),
    mode: u32,
    links: u64,
    uid: u64,
    gid: u64,
    device: (u64, u64),
    modified: u64,
    size: u64,
    name_bytes: u64,
    check: Option<u32>,
    /// Names and contents are padded to a multiple of this number of bytes.
    unit: u64,
    header_bytes: u64,
}

impl CpioReader {
    pub(super) fn new(input: ArchiveInput) -> Self {
        Self { input, links: HashMap::new(), link_bytes: 0, checked: None, is_over: false }
    }

    /// Returns the next member, or `None` at the end of the input. Several archives may follow each
    /// other in the input.
    pub(super) fn next(&mut self) -> Result<Option<Member<'_>>, Failure> {
        while !self.is_over {
            self.finish_member()?;
            let Some(entry) = self.read_entry()? else { break };
            let name = self.read_name(&entry)?;
            let Some(padded) = entry.size.checked_next_multiple_of(entry.unit) else {
                return Err(self.input.broken("has a member of more than 2^64 bytes"));
            };
            self.input.left = padded;
            if name != TRAILER {
                return self.member(&entry, name).map(Some);
            }
            self.finish_member()?;
            self.links.clear();
            self.link_bytes = 0;
            if !self.find_next_archive()? {
                self.input.drain()?;
                break;
            }
        }
        self.is_over = true;
        Ok(None)
    }

    /// Skips the unread bytes of the current member, and verifies its checksum.
    fn finish_member(&mut self) -> Result<(), Failure> {
        let is_read = self.input.left < 4;
        if let Some((name, check)) = self.checked.take()
            && is_read
            && self.input.sum != check
        {
            let (name, sum) = (names::in_message(&name).into_owned(), self.input.sum);
            let message =
                format!("{name}: has the checksum {sum:#x}, and not {check:#x} as its header says");
            self.input.remark(Exit::Failed, &message, None);
        }
        self.input.skip_left()
    }

    /// Reads the next header; `None` if the archive ends without a trailer.
    fn read_entry(&mut self) -> Result<Option<CpioEntry>, Failure> {
        let offset = self.input.offset();
        let magic = self.input.peek(MAGIC_BYTES)?;
        if magic.is_empty() {
            self.input.remark(Exit::Failed, "ends without a trailer, and may be cut off", None);
            return Ok(None);
        }
        let is_odc = magic == ODC;
        let mut bytes = vec![0; if is_odc { 76 } else { 110 }];
        if self.input.read_fully(&mut bytes)? < bytes.len() {
            return Err(self.input.broken("ends in the middle of a header"));
        }
        let entry = if is_odc { odc(&bytes) } else { newc(&bytes) };
        let damaged = || format!("is damaged: no cpio header at byte {offset}");
        entry.map(Some).ok_or_else(|| self.input.broken(&damaged()))
    }

    fn read_name(&mut self, entry: &CpioEntry) -> Result<Vec<u8>, Failure> {
        if entry.name_bytes == 0 || entry.name_bytes > MAX_NAME_BYTES {
            let message = format!("has a name of {} bytes", entry.name_bytes);
            return Err(self.input.broken(&message));
        }
        let whole = (entry.header_bytes + entry.name_bytes).next_multiple_of(entry.unit);
        self.input.left = whole - entry.header_bytes;
        let mut name = vec![0; entry.name_bytes as usize];
        self.input.read_body(&mut name)?;
        self.input.skip_left()?;
        Ok(name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec())
    }

    fn member(&mut self, entry: &CpioEntry, name: Vec<u8>) -> Result<Member<'_>, Failure> {
        let mut problems = Vec::new();
        let mut owner = |what: &str, id: u64| {
            header::owner(i128::from(id)).unwrap_or_else(|| {
                let shown = id.to_string();
                problems.push(format!("{}, and gets 0", header::senseless(what, shown.as_bytes())));
                0
            })
        };
        let (uid, gid) = (owner("uid", entry.uid), owner("gid", entry.gid));
        let seconds = i64::try_from(entry.modified).unwrap_or(i64::MAX);
        let modified = Time { seconds, nanoseconds: 0 };
        let half = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let mut facts = Facts {
            mode: entry.mode,
            links: 1,
            uid,
            gid,
            device: (half(entry.device.0), half(entry.device.1)),
            modified,
            accessed: modified,
            ..Facts::default()
        };
        let kind = facts.kind();
        let mut target = Vec::new();
        if kind == FileKind::Symlink {
            target = self.read_target(entry, &name)?;
        }
        let has_contents = kind == FileKind::Regular;
        facts.size = if has_contents { entry.size } else { 0 };
        let kind = match kind {
            FileKind::Directory => MemberKind::Directory,
            FileKind::Unknown => {
                MemberKind::LeftOut(format!("has the mode {:o}, and is left out", entry.mode))
            }
            _ => self.link_to_first(entry, &name)?.map_or(MemberKind::File, MemberKind::HardLink),
        };
        self.input.sum = 0;
        self.input.is_summed = entry.check.is_some();
        self.checked = entry.check.filter(|_| has_contents).map(|check| (name.clone(), check));
        let problems = problems.into_iter().map(|text| Failure::new(Exit::Failed, text)).collect();
        Ok(Member::new(&mut self.input, name, kind, facts)
            .with_target(target)
            .with_contents(header::whole(facts.size))
            .with_problems(problems))
    }

    fn read_target(&mut self, entry: &CpioEntry, name: &[u8]) -> Result<Vec<u8>, Failure> {
        if entry.size > MAX_TARGET_BYTES {
            let name = names::in_message(name);
            let message = format!("{name}: is a link to a path of {} bytes", entry.size);
            return Err(self.input.broken(&message));
        }
        let mut target = vec![0; entry.size as usize];
        self.input.read_body(&mut target)?;
        Ok(target.split(|byte| *byte == 0).next().unwrap_or_default().to_vec())
    }

    /// Returns the first name of the file if `name` is a further name of it (I1). Returns `None`
    /// for a first name, and remembers it if more names are to come.
    fn link_to_first(
        &mut self,
        entry: &CpioEntry,
        name: &[u8],
    ) -> Result<Option<Vec<u8>>, Failure> {
        if entry.links < 2 {
            return Ok(None);
        }
        // I1: a later name becomes a hard link to the first.
        if let Some((first, rest)) = self.links.get_mut(&entry.file) {
            *rest = rest.saturating_sub(1);
            let (first, is_last) = (first.clone(), *rest == 0);
            if is_last {
                self.links.remove(&entry.file);
                self.link_bytes -= first.len();
            }
            return Ok(Some(first));
        }
        self.link_bytes += name.len();
        if self.link_bytes > MAX_LINK_BYTES {
            return Err(self.input.broken("has more hard links than are kept in memory"));
        }
        self.links.insert(entry.file, (name.to_vec(), entry.links - 1));
        Ok(None)
    }

    /// Looks for a further archive, compressed or not, after the trailer of this one. Returns
    /// whether there is one.
    fn find_next_archive(&mut self) -> Result<bool, Failure> {
        loop {
            let mut bytes = vec![0; STEP_BYTES];
            let read = self.input.read_fully(&mut bytes)?;
            let zeros = bytes.iter().take(read).take_while(|byte| **byte == 0).count();
            self.input.unread(bytes.get(zeros..read).unwrap_or_default());
            if read == 0 {
                return Ok(false);
            }
            if zeros < read {
                break;
            }
        }
        let offset = self.input.offset();
        let mut head = self.input.peek(STEP_BYTES)?;
        if Compression::of(&head).is_some() {
            self.input.replace(Decompressed::boxed)?;
            head = self.input.peek(STEP_BYTES)?;
        }
        if is_header(&head) {
            return Ok(true);
        }
        if !is_zero(&head) {
            let message =
                format!("bytes that are not a cpio archive follow the end, at byte {offset}");
            self.input.remark(Exit::Failed, &message, None);
        }
        Ok(false)
    }
}

/// Returns whether these bytes start a cpio archive.
pub(crate) fn is_header(head: &[u8]) -> bool {
    [NEWC, NEWC_CRC, ODC].iter().any(|magic| head.starts_with(magic))
}

fn newc(bytes: &[u8]) -> Option<CpioEntry> {
    let (magic, rest) = bytes.split_at_checked(MAGIC_BYTES)?;
    let check = match magic {
        NEWC => false,
        NEWC_CRC => true,
        _ => return None,
    };
    let field = |at: usize| {
        let number = numbers::hexadecimal(rest.get(at * 8..at * 8 + 8)?)?;
        u64::try_from(number).ok()
    };
    Some(CpioEntry {
        file: (field(7)? << 32 | field(8)?, field(0)?),
        mode: u32::try_from(field(1)?).ok()? & 0o177_777,
        links: field(4)?,
        uid: field(2)?,
        gid: field(3)?,
        device: (field(9)?, field(10)?),
        modified: field(5)?,
        size: field(6)?,
        name_bytes: field(11)?,
        check: if check { u32::try_from(field(12)?).ok() } else { None },
        unit: 4,
        header_bytes: 110,
    })
}

fn odc(bytes: &[u8]) -> Option<CpioEntry> {
    let field =
        |at: usize, length: usize| u64::try_from(numbers::octal(bytes.get(at..at + length)?)?).ok();
    let device = field(42, 6)?;
    Some(CpioEntry {
        file: (field(6, 6)?, field(12, 6)?),
        mode: u32::try_from(field(18, 6)?).ok()? & 0o177_777,
        links: field(36, 6)?,
        uid: field(24, 6)?,
        gid: field(30, 6)?,
        device: (device >> 8, device & 0xff),
        modified: field(48, 11)?,
        size: field(65, 11)?,
        name_bytes: field(59, 6)?,
        check: None,
        unit: 1,
        header_bytes: 76,
    })
}
