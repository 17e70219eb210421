//! Corrects single fields of an inode that fail a check.
//!
//! Owns: candidates for the value of a field, and the choice among them. Does **not** own: writing
//! the inode.
//!
//! The candidates are tried in order, the one with the strongest evidence first. The search ends
//! when the inode passes its checks and its forks can be read.

use xfs_evidence::InodeEvidence;
use xfs_format::directory::EntryType;
use xfs_format::inode::{
    self, FileType, ForkFormat, ForkKind, INODE_MAGIC, InodeCheck, InodeCore, InodeDisk,
    InodeFlags, InodeFlags2, verify_checksum,
};
use xfs_format::symlink::MAX_TARGET_BYTES;
use xfs_format::{Check, InodeNumber, Lsn, Superblock};
use zerocopy::FromBytes;

use crate::model::ModelName;
use crate::patient::Patient;

/// The version of all inodes of a v5 volume.
const VERSION: u8 = 3;

/// The only bit of the 16-bit field `flags` of an inode that no flag uses.
const UNKNOWN_FLAG: u16 = 1 << 15;

/// The greatest number of fields that are corrected in one inode.
const MOST_FIELDS: u32 = 24;

/// Searches for a single bit of an inode whose inversion makes the inode pass all checks. Returns
/// the corrected bytes. `None` if the checksum is right already or there is no such bit.
pub(super) fn one_bit(patient: &Patient, found: &InodeEvidence) -> Option<Vec<u8>> {
    let mut bytes = found.bytes.clone();
    if bytes.is_empty() || verify_checksum(&bytes).is_ok() {
        return None;
    }
    for index in 0..bytes.len() {
        for bit in 0..u8::BITS {
            let byte = bytes.get_mut(index).expect("the index is below the length");
            *byte ^= 1 << bit;
            if verify_checksum(&bytes).is_ok() && passes(patient, found.number, &bytes).is_ok() {
                return Some(bytes);
            }
            let byte = bytes.get_mut(index).expect("the index is below the length");
            *byte ^= 1 << bit;
        }
    }
    None
}

/// Returns the first check that the bytes of an inode fail, or success if they pass all checks.
pub(super) fn passes(patient: &Patient, number: InodeNumber, bytes: &[u8]) -> Result<(), Check> {
    let geometry = patient.geometry();
    let core = InodeCore::decode(bytes, number, geometry);
    let core = core.map_err(|corruption| corruption.check().clone())?;
    core.verify(bytes, &patient.context()).map_err(|corruption| corruption.check().clone())
}

/// Returns whether the bytes belong to this inode number. At least three of magic number, version,
/// inode number and UUID must be right. A copy of another inode is not this inode.
pub(super) fn is_this_inode(patient: &Patient, found: &InodeEvidence) -> bool {
    let Ok((disk, _)) = InodeDisk::ref_from_prefix(&found.bytes) else { return false };
    if patient.evidence().is_copy_of_another(found.number, &found.bytes) {
        return false;
    }
    let right = [
        disk.magic.get() == INODE_MAGIC,
        disk.version == VERSION,
        disk.number.get() == found.number.0,
        disk.uuid == patient.geometry().meta_uuid.into_bytes(),
    ];
    right.into_iter().filter(|is_right| *is_right).count() >= 3
}

/// Returns a core without the values that the checker finds impossible, although the verifier lets
/// them pass. Such values are flags that do not exist or that the type of the file cannot have, and
/// extent size hints without their flag. Others are a size of a file without contents, and a format
/// of a fork that does not exist.
pub(super) fn with_possible_values(core: &InodeCore, superblock: &Superblock) -> InodeCore {
    let of_directories = InodeFlags::RTINHERIT
        | InodeFlags::PROJINHERIT
        | InodeFlags::NOSYMLINKS
        | InodeFlags::EXTSZINHERIT;
    let of_files = InodeFlags::REALTIME | InodeFlags::EXTSIZE;
    let known2 = InodeFlags2::DAX
        | InodeFlags2::REFLINK
        | InodeFlags2::COWEXTSIZE
        | InodeFlags2::BIGTIME
        | InodeFlags2::NREXT64
        | InodeFlags2::METADATA;
    let mut core = core.clone();
    let (is_directory, is_file) = (
        core.file_type() == Some(FileType::Directory),
        core.file_type() == Some(FileType::Regular),
    );
    core.flags = InodeFlags::from_bits_retain(core.flags.bits() & !UNKNOWN_FLAG);
    core.flags2 = InodeFlags2::from_bits_retain(core.flags2.bits() & known2.bits());
    let mut impossible = InodeFlags::from_bits_retain(0);
    if core.number != superblock.realtime_bitmap_inode {
        impossible |= InodeFlags::NEWRTBM;
    }
    if !is_directory {
        impossible |= of_directories;
    }
    if !is_file {
        impossible |= of_files;
    }
    if !superblock.has_realtime() {
        impossible |= InodeFlags::REALTIME;
    }
    core.flags = InodeFlags::from_bits_retain(core.flags.bits() & !impossible.bits());
    if !is_directory && !is_file {
        core.flags2 = InodeFlags2::from_bits_retain(core.flags2.bits() & !InodeFlags2::DAX.bits());
    }
    if !core.flags.intersects(InodeFlags::EXTSIZE | InodeFlags::EXTSZINHERIT) {
        core.extent_size_hint_blocks = 0;
    }
    if !is_directory && !is_file && core.file_type() != Some(FileType::Symlink) {
        core.size = 0;
    }
    if !core.has_attr_fork() && core.attr_format == ForkFormat::Device {
        core.attr_format = ForkFormat::Extents;
    }
    core
}

/// Corrects the fields of an inode that fail a check. Returns the corrected inode with a new
/// checksum, or `None` if no candidate corrects one of the fields.
pub(super) fn correct(
    patient: &Patient,
    names: &[ModelName],
    found: &InodeEvidence,
) -> Option<Vec<u8>> {
    let entry_type = entry_type(patient, names, found.number);
    let work = Work { patient, number: found.number, entry_type };
    let mut bytes = found.bytes.clone();
    work.set_identity(&mut bytes);
    for _ in 0..MOST_FIELDS {
        match passes(work.patient, work.number, &bytes) {
            Ok(()) => return Some(bytes),
            Err(check) => bytes = work.set_field(&bytes, &check)?,
        }
    }
    None
}

/// Sets the type in an inode whose mode is 0, and returns the bytes of the inode. The type is the
/// one in the directory entries of the inode. If they have no type, tries directory, symbolic link
/// and regular file, and takes the first type with which the contents can be read. If there is
/// none, takes the only type with which the inode's own checks pass. Returns `None` if no such
/// type, or more than one, passes.
pub(super) fn with_mode(
    patient: &Patient,
    names: &[ModelName],
    found: &InodeEvidence,
) -> Option<Vec<u8>> {
    let stated = entry_type(patient, names, found.number);
    let types = match stated {
        Some(stated) => vec![stated],
        None => vec![FileType::Directory, FileType::Symlink, FileType::Regular],
    };
    let all: Vec<Vec<u8>> = types
        .into_iter()
        .map(|file_type| {
            let work = Work { patient, number: found.number, entry_type: Some(file_type) };
            work.modes(0o600).iter().map(|edit| work.with(&found.bytes, edit)).collect()
        })
        .flat_map(|candidates: Vec<Vec<u8>>| candidates)
        .collect();
    let work = Work { patient, number: found.number, entry_type: stated };
    if let Some(readable) = all.iter().find(|bytes| work.is_readable(bytes)) {
        return Some(readable.clone());
    }
    let mut fitting = all.into_iter().filter(|b| passes(patient, found.number, b).is_ok());
    let first = fitting.next()?;
    fitting.next().is_none().then_some(first)
}

/// Returns the type of an inode according to the directory entries that lead to it, or according to
/// the superblock. `None` if neither gives a type.
fn entry_type(patient: &Patient, names: &[ModelName], number: InodeNumber) -> Option<FileType> {
    let superblock = patient.superblock();
    let realtime = [superblock.realtime_bitmap_inode, superblock.realtime_summary_inode];
    let quota = superblock.quota_inodes.into_iter().flatten();
    if realtime.into_iter().chain(quota).any(|inode| inode == number) {
        return Some(FileType::Regular);
    }
    if superblock.metadata_directory_inode == Some(number) {
        return Some(FileType::Directory);
    }
    let name = names.first()?;
    EntryType::from_disk(name.entry_type).and_then(EntryType::file_type)
}

/// The inode that is corrected: its volume, its number, and its file type according to names.
struct Work<'a> {
    patient: &'a Patient<'a>,
    number: InodeNumber,
    entry_type: Option<FileType>,
}

/// A function that changes a field of an inode's core to a candidate for its value.
type Edit = Box<dyn Fn(&mut InodeDisk)>;

impl Work<'_> {
    /// Sets the magic number, version, inode number and UUID of an inode, and computes its
    /// checksum.
    fn set_identity(&self, bytes: &mut [u8]) {
        let uuid = self.patient.geometry().meta_uuid.into_bytes();
        let number = self.number;
        if let Ok((disk, _)) = InodeDisk::mut_from_prefix(bytes) {
            disk.magic = INODE_MAGIC.into();
            disk.version = VERSION;
            disk.number = number.0.into();
            disk.uuid = uuid;
        }
        self.seal(bytes);
    }

    fn seal(&self, bytes: &mut [u8]) {
        let lsn = InodeDisk::ref_from_prefix(bytes).map_or(0, |(disk, _)| disk.lsn.get());
        let is_late = self.patient.log_head().is_some_and(|head| Lsn(lsn) > head);
        inode::seal(bytes, if is_late { self.patient.lsn() } else { Lsn(lsn) });
    }

    fn with(&self, bytes: &[u8], edit: &Edit) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if let Ok((disk, _)) = InodeDisk::mut_from_prefix(&mut bytes) {
            edit(disk);
        }
        self.seal(&mut bytes);
        bytes
    }

    /// Corrects the field that fails the check `failed`, and returns the bytes of the inode. Takes
    /// the first candidate with which the inode passes its checks and its forks can be read. If
    /// there is none, takes the first one with which the check `failed` passes. Returns `None` if
    /// there is no such candidate either.
    fn set_field(&self, bytes: &[u8], failed: &Check) -> Option<Vec<u8>> {
        let Check::Inode(check) = failed else { return None };
        let candidates: Vec<Vec<u8>> =
            self.candidates(bytes, *check).iter().map(|edit| self.with(bytes, edit)).collect();
        let readable = candidates.iter().find(|bytes| self.is_readable(bytes));
        let changed = || {
            candidates.iter().find(|candidate| {
                candidate.as_slice() != bytes
                    && passes(self.patient, self.number, candidate).err().as_ref() != Some(failed)
            })
        };
        readable.or_else(changed).cloned()
    }

    /// Returns whether an inode passes its checks and the contents of both forks can be read.
    fn is_readable(&self, bytes: &[u8]) -> bool {
        if passes(self.patient, self.number, bytes).is_err() {
            return false;
        }
        let evidence = self.patient.evidence();
        evidence.is_readable(&evidence.judge_inode(self.number, bytes.to_vec()))
    }

    fn candidates(&self, bytes: &[u8], check: InodeCheck) -> Vec<Edit> {
        match check {
            InodeCheck::UnknownFormat { .. } | InodeCheck::Format { .. } => formats(bytes),
            InodeCheck::Mode { mode } => self.modes(mode),
            InodeCheck::Size { .. }
            | InodeCheck::Empty { .. }
            | InodeCheck::LocalSize { .. }
            | InodeCheck::TargetSize { .. } => self.sizes(bytes),
            InodeCheck::OldLinkCount { .. } => one(|disk| disk.old_nlink = 0.into()),
            InodeCheck::CounterPadding => vec![
                Box::new(|disk| disk.attr_extents = 0.into()),
                Box::new(|disk| disk.big_extents = 0.into()),
            ],
            InodeCheck::FeatureOff { .. } => self.without_features(),
            InodeCheck::ExtentsExceedBlocks { .. }
            | InodeCheck::ExtentCount { .. }
            | InodeCheck::NeedlessBtree { .. }
            | InodeCheck::ExtentsWithoutFork { .. } => {
                let mut edits = self.counts(bytes);
                edits.extend(formats(bytes));
                edits
            }
            InodeCheck::ForkOffset { .. } => fork_offsets(),
            InodeCheck::ExtentSizeHint { .. } => one(|disk| {
                let hints = InodeFlags::EXTSIZE | InodeFlags::EXTSZINHERIT;
                disk.flags = (disk.flags.get() & !hints.bits()).into();
                disk.extent_size_hint = 0.into();
            }),
            InodeCheck::CowExtentSizeHint { .. } => one(|disk| {
                let hint = InodeFlags2::COWEXTSIZE.bits();
                disk.flags2 = (disk.flags2.get() & !hint).into();
                disk.cow_extent_size_hint = 0.into();
            }),
            InodeCheck::Reflink { .. } => one(|disk| {
                disk.flags2 = (disk.flags2.get() & !InodeFlags2::REFLINK.bits()).into();
            }),
            InodeCheck::Nanoseconds { raw } => one(move |disk| {
                let seconds = raw >> 32 << 32;
                let times = [
                    &mut disk.access_time,
                    &mut disk.modify_time,
                    &mut disk.change_time,
                    &mut disk.birth_time,
                ];
                for time in times.into_iter().filter(|time| time.get() == raw) {
                    *time = seconds.into();
                }
            }),
            _ => Vec::new(),
        }
    }

    /// Returns candidates for the mode: the type in the directory entries, or all types if the
    /// entries have none. Each candidate keeps the permissions of `mode`.
    fn modes(&self, mode: u16) -> Vec<Edit> {
        let all = [
            FileType::Regular,
            FileType::Directory,
            FileType::Symlink,
            FileType::Fifo,
            FileType::Socket,
            FileType::CharDevice,
            FileType::BlockDevice,
        ];
        let named: Vec<FileType> = self.entry_type.into_iter().collect();
        let candidates = if named.is_empty() { all.to_vec() } else { named };
        candidates
            .into_iter()
            .map(|file_type| -> Edit {
                let mode = file_type.mode_bits() | (mode & 0o7777);
                Box::new(move |disk| disk.mode = mode.into())
            })
            .collect()
    }

    /// Returns candidates for the size: possible lengths of contents that lie in the inode, or the
    /// end of the last extent.
    fn sizes(&self, bytes: &[u8]) -> Vec<Edit> {
        let found = self.patient.evidence().judge_inode(self.number, bytes.to_vec());
        let fork = found.fork(ForkKind::Data);
        let Some(core) = found.any_core() else { return Vec::new() };
        let mut sizes: Vec<u64> = Vec::new();
        if core.data_format == ForkFormat::Local {
            let text = fork.iter().position(|byte| *byte == 0).unwrap_or(fork.len()) as u64;
            match core.file_type() {
                Some(FileType::Symlink) => sizes.push(text),
                // The length of a short directory follows from its entries, so each is tried.
                _ => sizes.extend((6..=fork.len() as u64).rev()),
            }
        } else if core.file_type() == Some(FileType::Symlink) {
            sizes.extend((1..=MAX_TARGET_BYTES as u64).rev());
        } else {
            let extents = self.patient.evidence().extents(&found, ForkKind::Data).extents;
            let limit = match core.file_type() {
                Some(FileType::Directory) => {
                    xfs_format::directory::index_start(self.patient.geometry()).0
                }
                _ => u64::MAX,
            };
            let ends = extents.iter().map(|extent| extent.end().0).filter(|end| *end <= limit);
            let end = ends.max().unwrap_or(0);
            sizes.push(end.saturating_mul(self.patient.geometry().block_size.into()));
        }
        sizes
            .into_iter()
            .map(|size| -> Edit { Box::new(move |disk| disk.size = size.into()) })
            .collect()
    }

    /// Returns the candidate for the flags: the present flags, without those of features that the
    /// volume does not have.
    fn without_features(&self) -> Vec<Edit> {
        use xfs_format::{IncompatFeatures, RoCompatFeatures};
        let geometry = self.patient.geometry();
        let mut missing = InodeFlags2::empty();
        missing.set(InodeFlags2::METADATA, !geometry.has_incompat(IncompatFeatures::METADIR));
        missing.set(InodeFlags2::NREXT64, !geometry.has_incompat(IncompatFeatures::NREXT64));
        missing.set(InodeFlags2::BIGTIME, !geometry.has_incompat(IncompatFeatures::BIGTIME));
        missing.set(InodeFlags2::REFLINK, !geometry.has_ro_compat(RoCompatFeatures::REFLINK));
        one(move |disk| disk.flags2 = (disk.flags2.get() & !missing.bits()).into())
    }

    /// Returns the candidate for the numbers of extents and blocks. It counts the extents of each
    /// fork: those of its btree if that is whole, else those in the reverse map, or else those that
    /// can be read in the inode.
    fn counts(&self, bytes: &[u8]) -> Vec<Edit> {
        let mapped = self.patient.mapped();
        let found = self.patient.evidence().judge_inode(self.number, bytes.to_vec());
        let evidence = self.patient.evidence();
        let mut counts = [0_u64; 2];
        let mut blocks = 0_u64;
        for (count, kind) in counts.iter_mut().zip([ForkKind::Data, ForkKind::Attr]) {
            let fork = evidence.extents(&found, kind);
            let from_map = mapped.fork(self.number, kind);
            let is_tree =
                found.any_core().and_then(|core| core.fork_format(kind)) == Some(ForkFormat::Btree);
            let extents = match is_tree && fork.missing.is_empty() {
                true => fork.extents,
                false if from_map.is_empty() => fork.extents,
                false => from_map,
            };
            *count = extents.len() as u64;
            blocks += extents.iter().map(|extent| u64::from(extent.length_blocks)).sum::<u64>();
            blocks += fork.tree_blocks.len() as u64;
        }
        let [data, attr] = counts;
        one(move |disk| {
            disk.blocks = blocks.into();
            let attr = u32::try_from(attr).unwrap_or(u32::MAX);
            if disk.flags2.get() & InodeFlags2::NREXT64.bits() != 0 {
                disk.big_extents = data.into();
                disk.extents = attr.into();
            } else {
                disk.extents = u32::try_from(data).unwrap_or(u32::MAX).into();
                disk.attr_extents = u16::try_from(attr).unwrap_or(u16::MAX).into();
            }
        })
    }
}

fn one(edit: impl Fn(&mut InodeDisk) + 'static) -> Vec<Edit> {
    vec![Box::new(edit)]
}

/// Returns candidates for the formats of the two forks: every pair of formats.
fn formats(bytes: &[u8]) -> Vec<Edit> {
    let forms = [
        ForkFormat::Local,
        ForkFormat::Extents,
        ForkFormat::Btree,
        ForkFormat::Device,
        ForkFormat::MetadataBtree,
    ];
    let Ok((disk, _)) = InodeDisk::ref_from_prefix(bytes) else { return Vec::new() };
    let attr = disk.attr_format;
    let known = ForkFormat::decode(attr).map(ForkFormat::encode);
    let attrs: Vec<u8> = known.into_iter().chain(forms.map(ForkFormat::encode)).collect();
    let mut edits: Vec<Edit> = Vec::new();
    for data in [disk.data_format].into_iter().chain(forms.map(ForkFormat::encode)) {
        for attr in attrs.clone() {
            edits.push(Box::new(move |disk| {
                (disk.data_format, disk.attr_format) = (data, attr);
            }));
        }
    }
    edits
}

/// Returns candidates for the offset of the attribute fork: every possible offset.
fn fork_offsets() -> Vec<Edit> {
    (0..=u8::MAX)
        .map(|offset| -> Edit { Box::new(move |disk| disk.fork_offset = offset) })
        .collect()
}
