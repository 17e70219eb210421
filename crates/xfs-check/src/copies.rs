//! The copies of the superblock, one in each group, and the part of the superblock that is unused.

use core::mem::{offset_of, size_of};

use xfs_format::dquot::QuotaFlags;
use xfs_format::features::{Features2, VersionFlags};
use xfs_format::superblock::{Superblock, SuperblockDisk, SuperblockError};
use xfs_format::{AgNumber, BlockKind, DiskAddr, IncompatFeatures, InodeNumber, StructureAddress};
use zerocopy::FromBytes;
use zerocopy::big_endian::{U16, U64};

use crate::blocks::{Findings, Volume};
use crate::code::Code;
use crate::finding::{Finding, Place};

/// Checks the parts of the first superblock that its verifier does not check: unused bytes, the
/// flag of a mkfs in progress, and unknown quota flags. The caller reports a superblock that cannot
/// be read.
pub(crate) fn check_first(volume: Volume<'_>, findings: &mut Findings) {
    let mut sector = vec![0; volume.geometry().sector_size as usize];
    let place = Place::of_address(DiskAddr(0), volume.geometry());
    if volume.read(DiskAddr(0), &mut sector).is_ok()
        && BlockKind::Superblock.verify(&sector, DiskAddr(0), &volume.context()).is_ok()
    {
        unused(volume, DiskAddr(0), &sector, findings);
        // In the copies the flag stays set.
        if SuperblockDisk::read_from_prefix(&sector).is_ok_and(|(disk, _)| disk.in_progress != 0) {
            let found = "the flag of a mkfs in progress is set";
            findings.push(Finding::new(Code::SbField, place, found));
        }
    }
    let flags = volume.superblock.quota_flags;
    let known = QuotaFlags::known(volume.geometry().version).bits();
    if flags & !known != 0 {
        let found = format!("quota flags {flags:#x}");
        let finding = Finding::new(Code::SbField, place, found);
        findings.push(finding.expected(format!("only bits of {known:#x}")));
    }
}

/// Reports bytes that are not 0 in fields of features that the volume does not have, and after the
/// last field.
fn unused(volume: Volume<'_>, at: DiskAddr, sector: &[u8], findings: &mut Findings) {
    if let Ok((disk, _)) = SuperblockDisk::read_from_prefix(sector)
        && disk.realtime_blocks == 0
    {
        let fields = [
            ("extents", disk.realtime_extents.get()),
            ("blocks of the bitmap", disk.realtime_bitmap_blocks.get().into()),
            ("bits of the extent size", disk.realtime_extents_log.into()),
            ("free extents", disk.free_realtime_extents.get()),
        ];
        for (what, found) in fields.into_iter().filter(|(_, found)| *found != 0) {
            let place = Place::of_address(at, volume.geometry());
            let found =
                format!("{found} {what} of a realtime device that the volume does not have");
            findings.push(Finding::new(Code::SbUnused, place, found));
        }
    }
    if let Ok((disk, _)) = SuperblockDisk::read_from_prefix(sector) {
        let (version, features) = (disk.version.get(), disk.features2.get());
        // The lowest four bits are the number of the version.
        let is_known = VersionFlags::from_bits(version & !0xf).is_some()
            && Features2::from_bits(features).is_some();
        if !is_known {
            let place = Place::of_address(at, volume.geometry());
            let found =
                format!("version {version:#x} and features {features:#x} have unknown bits");
            findings.push(Finding::new(Code::SbUnused, place, found));
        }
    }
    let superblock = volume.superblock;
    let end = if superblock.has_incompat(IncompatFeatures::METADIR) {
        size_of::<SuperblockDisk>()
    } else if superblock.has_incompat(IncompatFeatures::META_UUID) {
        offset_of!(SuperblockDisk, metadata_directory_inode)
    } else {
        offset_of!(SuperblockDisk, meta_uuid)
    };
    let unused = sector.get(end..).expect("a sector is longer than a superblock");
    if let Some(offset) = unused.iter().position(|byte| *byte != 0) {
        let place = Place::of_address(at, volume.geometry());
        let found = format!("byte {} of the superblock, which is unused, is not 0", end + offset);
        findings.push(Finding::new(Code::SbUnused, place, found));
    }
}

/// Compares the copy of a group with the superblock.
pub(crate) fn check(volume: Volume<'_>, number: AgNumber, findings: &mut Findings) {
    let geometry = volume.geometry();
    let at = geometry.header_disk_addr(number, 0);
    let place = Place::of_address(at, geometry);
    let mut sector = vec![0; geometry.sector_size as usize];
    let damaged = |findings: &mut Findings, found: String| {
        findings.push(Finding::new(Code::SbCopyDamaged, place, found));
    };
    if let Err(error) = volume.read(at, &mut sector) {
        return damaged(findings, error.to_string());
    }
    if let Err(corruption) = BlockKind::Superblock.verify(&sector, at, &volume.context()) {
        return damaged(findings, corruption.check().to_string());
    }
    let copy = match Superblock::decode(&sector, StructureAddress::Disk(at)) {
        Ok(copy) => copy,
        Err(SuperblockError::Corrupt(corruption)) => {
            return damaged(findings, corruption.check().to_string());
        }
        Err(SuperblockError::Unsupported(reason)) => return damaged(findings, reason.to_string()),
    };
    unused(volume, at, &sector, findings);
    let pairs = fields(volume.superblock, &copy).into_iter().chain(raw_fields(volume, &sector));
    for (field, is_equal) in pairs {
        if !is_equal {
            let found = format!("{field} differs from the superblock");
            findings.push(Finding::new(Code::SbCopy, place, found));
        }
    }
}

/// Compares, between a copy and the superblock, the fields that no reader of a volume uses. Returns
/// the name of each field, and whether the copy has the value of the superblock. If the superblock
/// on disk cannot be read, only the fields that are 0 in each copy are compared.
fn raw_fields(volume: Volume<'_>, copy: &[u8]) -> Vec<(&'static str, bool)> {
    let Ok((copy, _)) = SuperblockDisk::read_from_prefix(copy) else { return Vec::new() };
    let mut fields = vec![
        ("the word of flags", copy.flags == 0),
        ("the version of sharing", copy.shared_version == 0),
    ];
    let mut sector = vec![0; copy.sector_size.get().into()];
    let is_sound = volume.read(DiskAddr(0), &mut sector).is_ok()
        && BlockKind::Superblock.verify(&sector, DiskAddr(0), &volume.context()).is_ok();
    if let (true, Ok((first, _))) = (is_sound, SuperblockDisk::read_from_prefix(&sector)) {
        let quota = |first: U64, copy: U64| [0, u64::MAX, first.get()].contains(&copy.get());
        fields.extend([
            ("the inode of user quota", quota(first.user_quota_inode, copy.user_quota_inode)),
            ("the inode of group quota", quota(first.group_quota_inode, copy.group_quota_inode)),
            (
                "the inode of project quota",
                quota(first.project_quota_inode, copy.project_quota_inode),
            ),
            ("the state of quota", is_quota_state(volume, first.quota_flags, copy.quota_flags)),
            ("the number of realtime extents", first.realtime_extents == copy.realtime_extents),
            (
                "the length of a realtime extent",
                first.realtime_extent_blocks == copy.realtime_extent_blocks
                    && first.realtime_extents_log == copy.realtime_extents_log,
            ),
            (
                "the number of blocks of the realtime bitmap",
                first.realtime_bitmap_blocks == copy.realtime_bitmap_blocks,
            ),
            ("the log's sector size", first.log_sector_log == copy.log_sector_log),
        ]);
    }
    fields
}

/// Returns whether the quota flags `copy` are allowed in a copy of a superblock with the flags
/// `first`. mkfs writes flags into the copies of a volume with a metadata directory, and kernels
/// change them in the first superblock only.
fn is_quota_state(volume: Volume<'_>, first: U16, copy: U16) -> bool {
    let known = QuotaFlags::known(volume.geometry().version).bits();
    let is_of_mkfs =
        volume.superblock.metadata_directory_inode.is_some() && copy.get() & !known == 0;
    is_of_mkfs || [0, first.get()].contains(&copy.get())
}

/// Compares, between a copy and the first superblock, the fields that each copy repeats. Returns
/// the name of each field, and whether the copy has the value of the first superblock. Counters,
/// the flag of a running mkfs, quota and the log features are kept in the first superblock only.
fn fields(first: &Superblock, copy: &Superblock) -> [(&'static str, bool); 18] {
    // A repair in progress is marked in the first superblock only.
    let mut geometry = first.geometry.clone();
    let is_marked = copy.geometry.has_incompat(IncompatFeatures::NEEDSREPAIR);
    geometry.incompat.set(IncompatFeatures::NEEDSREPAIR, is_marked);
    // mkfs writes the inodes of the volume into some of the copies only.
    let inode =
        |first: InodeNumber, copy: InodeNumber| copy.is_null() || copy.0 == 0 || first == copy;
    [
        ("the geometry", geometry == copy.geometry),
        ("the UUID", first.uuid == copy.uuid),
        ("the label", first.label == copy.label),
        ("the start of the log", first.log_start == copy.log_start),
        ("the length of the log", first.log_blocks == copy.log_blocks),
        ("the log's sector size", first.log_sector_size == copy.log_sector_size),
        ("the log's stripe unit", first.log_stripe_unit_bytes == copy.log_stripe_unit_bytes),
        ("the root inode", inode(first.root_inode, copy.root_inode)),
        (
            "the inode of the realtime bitmap",
            inode(first.realtime_bitmap_inode, copy.realtime_bitmap_inode),
        ),
        (
            "the inode of the realtime summary",
            inode(first.realtime_summary_inode, copy.realtime_summary_inode),
        ),
        (
            "the metadata directory",
            match (first.metadata_directory_inode, copy.metadata_directory_inode) {
                (Some(first), Some(copy)) => inode(first, copy),
                (first, copy) => first.is_some() == copy.is_some(),
            },
        ),
        (
            "the number of reserved realtime blocks",
            first.realtime_reserved == copy.realtime_reserved,
        ),
        ("the number of realtime blocks", first.realtime_blocks == copy.realtime_blocks),
        ("the limit on inodes", first.inode_max_percent == copy.inode_max_percent),
        ("the stripe unit", first.stripe_unit_blocks == copy.stripe_unit_blocks),
        ("the stripe width", first.stripe_width_blocks == copy.stripe_width_blocks),
        ("the set of compatible features", first.compat == copy.compat),
        ("the set of read-only-compatible features", first.ro_compat == copy.ro_compat),
    ]
}
