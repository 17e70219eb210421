//! Writes a metadata image of a volume: the order of its parts, and what is left out.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

use xfs_device::{BlockDevice, MetadumpHeader, MetadumpVersion, SharedDevice};
use xfs_format::superblock::Unsupported;
use xfs_format::{AgNumber, FormatVersion, IncompatFeatures, InodeNumber, Superblock};

use crate::cleaning::{Cleaned, Cleaning};
use crate::log::LogCopy;
use crate::names::Obfuscator;
use crate::sink::Sink;
use crate::superblock::FoundSuperblock;

/// Number of bytes that are read and written at once when a range is copied without cleaning.
const CHUNK_BYTES: u64 = 1 << 20;
/// The greatest number of omissions (damaged or missing parts) that a report lists. Further
/// omissions are only counted.
const MOST_OMISSIONS: usize = 1000;

/// The options of a dump.
#[derive(Clone, Copy, Debug)]
pub struct DumpOptions {
    /// The version of the image format.
    pub version: MetadumpVersion,
    /// Whether names are replaced by other names, and attribute values by zeros.
    pub obfuscates: bool,
    /// Whether blocks are copied together with the bytes that no structure uses. These bytes are
    /// never obfuscated.
    pub whole_blocks: bool,
    /// Whether a dirty log is copied although the names in it stay readable.
    pub keeps_dirty_log: bool,
    /// The greatest length in blocks of an extent of metadata. A longer extent is taken for damage
    /// and left out.
    pub max_extent_blocks: u32,
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self {
            version: MetadumpVersion::One,
            obfuscates: true,
            whole_blocks: false,
            keeps_dirty_log: false,
            max_extent_blocks: (1 << 21) - 1,
        }
    }
}

/// Functions of the caller that a running dump calls: to report progress, and to see whether to
/// stop.
pub trait DumpProgress {
    /// Reports that `done` of `total` inodes were written.
    fn advance(&self, done: u64, total: u64);

    /// Returns whether the dump must end now.
    fn is_stopped(&self) -> bool;
}

/// A part of the volume that is damaged, or that was left out of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Omission {
    /// The byte of the volume at which the part starts. `None` if it is not known.
    pub byte: Option<u64>,
    /// The inode to which the part belongs. `None` if it belongs to no inode.
    pub inode: Option<InodeNumber>,
    /// The damage, or the reason why the part is not in the image, in words.
    pub reason: String,
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(byte) = self.byte {
            write!(f, "byte {byte}: ")?;
        }
        if let Some(inode) = self.inode {
            write!(f, "{inode}: ")?;
        }
        f.write_str(&self.reason)
    }
}

/// The result of a dump.
#[derive(Clone, Debug, Default)]
pub struct DumpReport {
    /// Number of bytes of the volume that are in the image.
    pub written_bytes: u64,
    /// Number of inodes in the image, including free ones.
    pub inodes: u64,
    /// The damaged or missing parts of the volume, but no more than a fixed number of them.
    pub omissions: Vec<Omission>,
    /// Number of all damaged or missing parts, including those that `omissions` does not list.
    pub omission_count: u64,
    /// Whether the log in the image is dirty: it holds changes that wait for replay.
    pub has_dirty_log: bool,
}

/// The reason why no image was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DumpError {
    /// The image could not be written.
    #[error("the image cannot be written: {0}")]
    Output(#[source] io::Error),
    /// The caller stopped the dump.
    #[error("the dump was stopped")]
    Stopped,
    /// No superblock of the volume can be used.
    #[error("no superblock can be read: {0}")]
    NoSuperblock(String),
    /// The volume has a feature that ferroxfs does not know.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The volume has a log on another device.
    #[error("the log is on another device, and dumping such a volume is not supported")]
    ExternalLog,
    /// The volume has realtime groups.
    #[error("volumes with realtime groups are not supported")]
    RealtimeGroups,
    /// Names are to be obfuscated, but the log holds names.
    #[error("the log holds changes that wait for replay, and names in them cannot be obfuscated")]
    DirtyLog,
    /// Names are to be obfuscated, but the log cannot be read, and may hold names.
    #[error("the state of the log is not known ({0}), and names in it cannot be obfuscated")]
    UnknownLog(String),
}

/// The place in the volume that a report names: a byte offset, an inode, both or neither.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DumpLocation {
    pub(crate) byte: Option<u64>,
    pub(crate) inode: Option<InodeNumber>,
}

/// A dump in progress.
pub(crate) struct Dump<'a> {
    pub(crate) device: &'a dyn BlockDevice,
    pub(crate) superblock: &'a Superblock,
    pub(crate) options: DumpOptions,
    pub(crate) sink: Sink<'a>,
    names: Option<&'a Obfuscator>,
    progress: &'a dyn DumpProgress,
    report: DumpReport,
}

/// Writes a metadata image of the volume on `device` to `out`. Damage does not end the dump: the
/// report lists it.
///
/// # Errors
///
/// A [`DumpError`]. The bytes that were written to `out` by then are no valid image.
pub fn dump(
    device: &SharedDevice,
    options: DumpOptions,
    progress: &dyn DumpProgress,
    out: &mut dyn Write,
) -> Result<DumpReport, DumpError> {
    let found = FoundSuperblock::find(&**device, progress)?;
    let superblock = &found.superblock;
    refuse(superblock)?;
    let log = LogCopy::open(device, superblock);
    if options.obfuscates && !options.keeps_dirty_log {
        log.check_obfuscated()?;
    }
    let names = options.obfuscates.then(Obfuscator::random);
    let header = MetadumpHeader {
        version: options.version,
        is_described: true,
        is_obfuscated: options.obfuscates,
        has_whole_blocks: options.whole_blocks,
        has_dirty_log: log.is_dirty(),
    };
    let sink = Sink::begin(out, header).map_err(DumpError::Output)?;
    let report = DumpReport { has_dirty_log: log.is_dirty(), ..DumpReport::default() };
    let names = names.as_ref();
    let mut dump = Dump { device: &**device, superblock, options, sink, names, progress, report };
    dump.dump_all(&found, &log)?;
    let Dump { sink, mut report, .. } = dump;
    report.written_bytes = sink.written_bytes();
    sink.finish().and_then(|()| out.flush()).map_err(DumpError::Output)?;
    Ok(report)
}

fn refuse(superblock: &Superblock) -> Result<(), DumpError> {
    use xfs_format::superblock::VolumeAccess;

    match superblock.refusal(VolumeAccess::Read) {
        // A volume that needs repair is the reason for a dump.
        None | Some(Unsupported::NeedsRepair) => {}
        Some(reason) => return Err(reason.into()),
    }
    if superblock.geometry.version == FormatVersion::V4 {
        return Err(Unsupported::Version4Damaged.into());
    }
    if superblock.has_external_log() {
        return Err(DumpError::ExternalLog);
    }
    if superblock.realtime_group_count != 0 {
        return Err(DumpError::RealtimeGroups);
    }
    Ok(())
}

impl Dump<'_> {
    fn dump_all(&mut self, found: &FoundSuperblock, log: &LogCopy) -> Result<(), DumpError> {
        // Every reader of images wants the superblock first.
        self.add(0, &found.first_sector)?;
        if let Some(reason) = &found.reason {
            self.note(DumpLocation { byte: Some(0), inode: None }, reason.clone());
        }
        let geometry = &self.superblock.geometry;
        let on_device = geometry.count_groups_on_device(self.device.length_bytes());
        let all = geometry.ag_count;
        if on_device < all {
            let reason =
                format!("groups {on_device} to {} lie past the end of the device", all - 1);
            self.note(DumpLocation { byte: Some(self.device.length_bytes()), inode: None }, reason);
        }
        for group in (0..on_device).map(AgNumber) {
            self.dump_group(group)?;
        }
        log.dump(self)
    }

    /// Returns the options that determine which bytes are removed from blocks.
    pub(crate) fn cleaning(&self) -> Cleaning<'_> {
        Cleaning {
            names: self.names,
            zeroes_stale: !self.options.whole_blocks,
            has_metadata_directory: self.superblock.has_incompat(IncompatFeatures::METADIR),
        }
    }

    /// Returns an error if the caller wants the dump to end.
    pub(crate) fn check_stopped(&self) -> Result<(), DumpError> {
        if self.progress.is_stopped() { Err(DumpError::Stopped) } else { Ok(()) }
    }

    /// Adds to the number of inodes that were written, and reports the progress to the caller.
    pub(crate) fn advance(&mut self, inodes: usize) {
        self.report.inodes += inodes as u64;
        let total = self.superblock.inode_count.max(self.report.inodes);
        self.progress.advance(self.report.inodes, total);
    }

    /// Adds an omission to the report: a part of the volume that is damaged or left out.
    pub(crate) fn note(&mut self, spot: DumpLocation, reason: impl Into<String>) {
        self.report.omission_count += 1;
        if self.report.omissions.len() < MOST_OMISSIONS {
            let DumpLocation { byte, inode } = spot;
            self.report.omissions.push(Omission { byte, inode, reason: reason.into() });
        }
    }

    /// Adds an omission to the report if the block or inode at `spot` was only partly understood.
    pub(crate) fn note_cleaned(&mut self, cleaned: Cleaned, spot: DumpLocation) {
        if cleaned == Cleaned::Partly {
            let reason = match self.options.obfuscates {
                true => "the structure is damaged, and bytes that may be names were left out",
                false => "the structure is damaged, and was copied as it is",
            };
            self.note(spot, reason);
        }
    }

    /// Adds to the image the bytes of the volume that begin at offset `start`.
    pub(crate) fn add(&mut self, start: u64, bytes: &[u8]) -> Result<(), DumpError> {
        self.sink.add(start, bytes).map_err(DumpError::Output)
    }

    /// Reads a range of the volume, in bytes. If the range cannot be read, notes in the report that
    /// the structure at `spot` is missing, and returns `None`.
    pub(crate) fn read(
        &mut self,
        range: Range<u64>,
        spot: DumpLocation,
    ) -> Result<Option<Vec<u8>>, DumpError> {
        self.check_stopped()?;
        let length = range.end - range.start;
        let inside = range.end <= self.device.length_bytes();
        let Some(length) = usize::try_from(length).ok().filter(|_| inside) else {
            self.note(spot, format!("{length} bytes lie past the end of the device"));
            return Ok(None);
        };
        let mut bytes = vec![0; length];
        match self.device.read_at(&mut bytes, range.start) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) => {
                self.note(spot, format!("{length} bytes cannot be read: {error}"));
                Ok(None)
            }
        }
    }

    /// Copies a range of the volume without cleaning it. If a large chunk of the range cannot be
    /// read, its blocks are read one by one, so that only the unreadable blocks are missing.
    pub(crate) fn copy(
        &mut self,
        range: Range<u64>,
        inode: Option<InodeNumber>,
    ) -> Result<(), DumpError> {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + CHUNK_BYTES);
            let mut bytes = vec![0; usize::try_from(end - start).expect("a chunk is 1 MiB")];
            self.check_stopped()?;
            if self.device.read_at(&mut bytes, start).is_ok() {
                self.add(start, &bytes)?;
            } else {
                self.copy_blocks(start..end, inode)?;
            }
            start = end;
        }
        Ok(())
    }

    fn copy_blocks(
        &mut self,
        range: Range<u64>,
        inode: Option<InodeNumber>,
    ) -> Result<(), DumpError> {
        let step = u64::from(self.superblock.geometry.block_size);
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + step);
            let spot = DumpLocation { byte: Some(start), inode };
            if let Some(bytes) = self.read(start..end, spot)? {
                self.add(start, &bytes)?;
            }
            start = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
