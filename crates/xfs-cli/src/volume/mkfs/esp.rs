//! The EFI system partition of a new disk: a FAT32 filesystem with the files of a directory.
//!
//! Owns: the choice of the size, the checks of names and kinds of files, and the copy. Does **not**
//! own: the structures of FAT ([`fat`]), the place on the disk.
//!
//! FAT has no owners, modes, links or attributes, and ignores the case of names. A file that it
//! cannot hold is refused before anything is written. Names are copied in sorted order, and times
//! are those of the files in UTC, so that the same input gives the same bytes.

mod fat;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ferroxfs::Timestamp;
use xfs_device::{BlockDevice, Durability, WindowDevice};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::terminal::names;
use crate::text::size;
use fat::{FatGeometry, FatLayout, FatTime};

const MIB: u64 = 1 << 20;
/// The smallest FAT32 filesystem with clusters of one sector, rounded up.
const SMALLEST_BYTES: u64 = 34 * MIB;
/// The smallest size that is chosen without `--esp-size`.
const SMALLEST_CHOSEN_BYTES: u64 = 64 * MIB;
/// The largest size: the tables of a larger filesystem would not be small.
const LARGEST_BYTES: u64 = 32 << 30;
/// The length in bytes of the longest name.
const NAME_BYTES: usize = 255;
const CHUNK_BYTES: usize = 1 << 20;

/// The files for an EFI system partition, and its size.
pub(super) struct Esp {
    entries: Vec<EspEntry>,
    length_bytes: u64,
}

/// A file or directory to copy.
struct EspEntry {
    name: String,
    /// The index of the directory that the entry is in; `None` for the root.
    parent: Option<usize>,
    host: PathBuf,
    /// The length of a file; `None` for a directory.
    file_bytes: Option<u32>,
    modified: FatTime,
}

/// The walk of the directory.
struct Survey {
    entries: Vec<EspEntry>,
    /// The latest time of a file.
    latest: Option<Timestamp>,
}

impl Esp {
    /// Reads the names, kinds and lengths of the files below `from`, and chooses the size of the
    /// partition, unless `asked` gives it. No time is later than `latest`.
    pub(super) fn survey(
        from: &Path,
        asked: Option<u64>,
        latest: Option<Timestamp>,
    ) -> Result<Self, Failure> {
        let mut survey = Survey { entries: Vec::new(), latest };
        survey.walk(from, None)?;
        let entries = survey.entries;
        let least_bytes = smallest_bytes(&entries);
        let length_bytes = match asked {
            None => least_bytes
                .saturating_add(least_bytes / 4)
                .next_multiple_of(MIB)
                .max(SMALLEST_CHOSEN_BYTES),
            Some(bytes) => bytes.checked_next_multiple_of(MIB).unwrap_or(u64::MAX),
        };
        if !(SMALLEST_BYTES..=LARGEST_BYTES).contains(&length_bytes) {
            return Err(Failure::usage(format!(
                "--esp-size {}: an EFI system partition has {} to {}",
                size::human(length_bytes),
                size::human(SMALLEST_BYTES),
                size::human(LARGEST_BYTES)
            )));
        }
        if !FatGeometry::of(length_bytes).holds(&entries) {
            return Err(Failure::new(
                Exit::Failed,
                format!(
                    "--esp-size {}: the files of {} need about {}",
                    size::human(length_bytes),
                    shown(from),
                    size::human(least_bytes)
                ),
            ));
        }
        Ok(Self { entries, length_bytes })
    }

    pub(super) fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Makes the filesystem on a device of its length, and copies the files into it.
    pub(super) fn write(&self, device: &WindowDevice, volume_id: u32) -> Result<(), Failure> {
        let failed = |error: io::Error| {
            Failure::new(Exit::Failed, format!("the EFI system partition: {error}"))
        };
        let layout = FatLayout::new(FatGeometry::of(self.length_bytes), &self.entries);
        layout.write(device, device.start(), volume_id).map_err(failed)?;
        let mut buffer = vec![0; CHUNK_BYTES];
        for (entry, place) in self.entries.iter().zip(layout.entry_places()) {
            interrupt::check()?;
            if entry.file_bytes.is_some() {
                entry.copy(device, place, &mut buffer)?;
            }
        }
        Ok(())
    }
}

/// Returns the length in bytes of the smallest partition that holds the entries, in steps of 1 MiB
/// or an eighth of it.
fn smallest_bytes(entries: &[EspEntry]) -> u64 {
    let mut bytes = SMALLEST_BYTES;
    while bytes < LARGEST_BYTES && !FatGeometry::of(bytes).holds(entries) {
        bytes = (bytes + bytes / 8).next_multiple_of(MIB);
    }
    bytes
}

impl Survey {
    /// Adds the files below a directory, each directory before its files.
    fn walk(&mut self, folder: &Path, parent: Option<usize>) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::host(folder.as_os_str(), &error);
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).map_err(failed)? {
            found.push(entry.map_err(failed)?.path());
        }
        found.sort();
        let (mut names, mut slots) = (HashSet::new(), 2);
        for host in found {
            let name = checked_name(&host)?.to_owned();
            if !names.insert(name.to_uppercase()) {
                return Err(refused(&host, "FAT ignores case: a name like this is there already"));
            }
            slots += fat::slots_of(&name);
            if slots > fat::MOST_SLOTS {
                return Err(refused(folder, "a directory in FAT has no room for so many names"));
            }
            let metadata =
                host.symlink_metadata().map_err(|error| Failure::host(host.as_os_str(), &error))?;
            let file_bytes = match metadata.file_type() {
                kind if kind.is_dir() => None,
                kind if kind.is_file() => Some(
                    u32::try_from(metadata.len())
                        .map_err(|_| refused(&host, "a file in FAT has at most 4 GiB - 1 byte"))?,
                ),
                _ => return Err(refused(&host, "FAT holds only files and directories")),
            };
            let latest = self.latest.map_or(i64::MAX, |latest| latest.seconds());
            let modified = FatTime::of_seconds(metadata.mtime().min(latest));
            let is_directory = file_bytes.is_none();
            self.entries.push(EspEntry { name, parent, host: host.clone(), file_bytes, modified });
            if is_directory {
                self.walk(&host, Some(self.entries.len() - 1))?;
            }
        }
        Ok(())
    }
}

impl EspEntry {
    /// Copies the contents of the file to `place`, a range of whole clusters, and fills the rest of
    /// the last cluster with zeros.
    fn copy(
        &self,
        device: &WindowDevice,
        place: std::ops::Range<u64>,
        buffer: &mut [u8],
    ) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::host(self.host.as_os_str(), &error);
        let mut host = File::open(&self.host).map_err(failed)?;
        let (mut at, mut left) = (place.start, u64::from(self.file_bytes.unwrap_or(0)));
        while left > 0 {
            interrupt::check()?;
            let count = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
            let Some(chunk) = buffer.get_mut(..count) else { break };
            host.read_exact(chunk).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => {
                    failed(io::Error::other("became shorter during the copy"))
                }
                _ => failed(error),
            })?;
            device.write_at(chunk, at, Durability::Cached).map_err(failed)?;
            at += count as u64;
            left -= count as u64;
        }
        device.write_zeros(at, place.end - at).map_err(failed)
    }
}

/// Returns the name of a file, if FAT can have it.
fn checked_name(host: &Path) -> Result<&str, Failure> {
    let name = host.file_name().and_then(|name| name.to_str());
    let Some(name) = name else { return Err(refused(host, "its name is not UTF-8")) };
    if name.len() > NAME_BYTES {
        return Err(refused(host, "its name is longer than 255 bytes"));
    }
    let is_allowed = |letter: char| match letter {
        '\u{0}'..='\u{1f}' | '\u{7f}' | '"' | '*' | '/' | ':' | '<' | '>' | '?' | '\\' | '|' => {
            false
        }
        _ => letter <= '\u{ffff}',
    };
    if !name.chars().all(is_allowed) || name.ends_with(['.', ' ']) {
        return Err(refused(host, "FAT does not allow this name"));
    }
    Ok(name)
}

fn refused(host: &Path, why: &str) -> Failure {
    Failure::new(Exit::Refused, why).about(&shown(host)).hint("--esp copies what FAT can hold")
}

fn shown(path: &Path) -> String {
    names::in_message(path.as_os_str().as_bytes()).into_owned()
}

#[cfg(test)]
mod tests;
