//! Rule `realtime`: builds the records of the realtime section from the claims of all owners.
//!
//! Owns: the superblock of the realtime device, the bitmap and the summary of each group (or of a
//! section without groups), the reverse map and the reference counts of a group, and the counter of
//! used blocks of a zone. Does **not** own: the maps of realtime files, which this rule takes for
//! right, or the inodes that hold these structures (rule `metadata-inode`).
//!
//! Each structure is compared with the claims, and written only if it differs. If the blocks of an
//! inode are not known, a block without a claim may belong to it. Then a group is left as it is,
//! unless its reverse map is whole, or losses are allowed.

mod space;

use xfs_check::{Area, Code, Place};
use xfs_evidence::RealtimeTreeEvidence;
use xfs_format::btree::BtreeFormat;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCore};
use xfs_format::realtime::{
    REALTIME_SUPERBLOCK_MAGIC, RealtimeRefcounts, RealtimeReverseMap, RealtimeSuperblockDisk,
};
use xfs_format::rmap::{Rmap, RmapOwner};
use xfs_format::{BASIC_BLOCK_BYTES, IncompatFeatures, InodeNumber, RoCompatFeatures, crc};
use zerocopy::IntoBytes;

use super::space::shared_records;
use crate::action::Action;
use crate::claims;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::metadata::{self, MetadirFiles, MetadirKind};
use crate::model::Model;
use crate::patient::Patient;
use crate::section::{self, SectionClaims};

pub(super) use space::free_extents;

/// The name of this rule in plans and messages.
const RULE: &str = "realtime";

/// The offset of the checksum in the superblock of the realtime device.
const CHECKSUM_OFFSET: usize = 4;

/// The shortest fork that can hold the root of a btree with a child, in bytes.
const LEAST_ROOT_BYTES: usize = 64;

/// The loss that the plan lists for a group that was rebuilt although not all owners are known.
const LOST_BLOCKS: &str = "the realtime blocks of the inodes and forks that cannot be read";

/// Writes the structures of the realtime section that differ from the claims of all owners.
///
/// # Errors
///
/// The error of the overlay. A group for which too few blocks are free is left as it is.
pub(super) fn run(patient: &mut Patient, damage: &Damage) -> Result<(), RepairError> {
    if !patient.superblock().has_realtime() {
        return Ok(());
    }
    let codes = codes(damage);
    if codes.is_empty() {
        return Ok(());
    }
    device_superblock(patient, damage)?;
    let files = MetadirFiles::find(&patient.evidence());
    let model = patient.model()?;
    let claims = section::of_volume(patient, &model, &files);
    for group in metadata::groups(patient.geometry()) {
        patient.poll()?;
        let is_blind = claims.has_unknown_owner && !patient.mapped().knows_realtime;
        if is_blind && !patient.allows_loss() {
            continue;
        }
        let rebuild = GroupRebuild { group, files: &files, model: &model, claims: &claims };
        patient.attempt(|patient| {
            let written = rebuild.run(patient)?;
            if !written.is_empty() {
                let keeps = format!(
                    "the maps of all realtime files; written from them: {}",
                    written.join(", ")
                );
                let place = place_of(patient, group);
                let action = Action::new(RULE, place, codes.clone(), keeps);
                patient.act(if is_blind { action.losing(None, LOST_BLOCKS) } else { action });
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn place_of(patient: &Patient, group: u32) -> Place {
    match patient.geometry().realtime.group_count {
        0 => Place::default(),
        _ => Place::of_realtime_group(group),
    }
}

/// Returns the codes of the findings about the section and its files.
fn codes(damage: &Damage) -> Vec<Code> {
    let of_inodes = damage.inodes.values().flatten();
    let of_groups = damage.groups.values().flatten();
    let all = of_inodes.chain(of_groups).chain(&damage.volume).map(|finding| finding.code);
    let is_of_section =
        |code: &Code| matches!(code.area(), Area::Realtime | Area::MetadataDirectory);
    let codes: std::collections::BTreeSet<Code> = all.filter(is_of_section).collect();
    codes.into_iter().collect()
}

/// Writes the superblock of the realtime device if it has a finding. Its contents (label, UUID and
/// metadata UUID) come from the superblock of the volume.
fn device_superblock(patient: &mut Patient, damage: &Damage) -> Result<(), RepairError> {
    let all = damage.volume.iter().chain(damage.groups.values().flatten());
    let all = all.chain(damage.inodes.values().flatten());
    let is_damaged = all.into_iter().any(|finding| finding.code == Code::RtSuper);
    let superblock = patient.superblock();
    let at = patient.realtime_device_addr().filter(|_| superblock.has_realtime_superblock());
    let Some(at) = at.filter(|_| is_damaged) else { return Ok(()) };
    let disk = RealtimeSuperblockDisk {
        magic: REALTIME_SUPERBLOCK_MAGIC.into(),
        crc: [0; 4],
        pad: 0.into(),
        label: superblock.label.padded(),
        uuid: superblock.uuid.into_bytes(),
        meta_uuid: superblock.geometry.meta_uuid.into_bytes(),
    };
    let mut block = vec![0; superblock.geometry.block_size as usize];
    disk.write_to_prefix(&mut block).expect("a block is longer than this superblock");
    crc::seal(&mut block, CHECKSUM_OFFSET);
    patient.write(at, &block)?;
    let keeps = format!(
        "all fields, from the superblock of the volume; written to the realtime device, which \
         begins at byte {} of the plan",
        at.0 * u64::from(BASIC_BLOCK_BYTES)
    );
    patient.act(Action::new(RULE, place_of(patient, 0), vec![Code::RtSuper], keeps));
    Ok(())
}

/// The inputs for writing the structures of one group.
struct GroupRebuild<'a> {
    group: u32,
    files: &'a MetadirFiles,
    model: &'a Model,
    claims: &'a SectionClaims,
}

impl GroupRebuild<'_> {
    /// Writes the structures of the group that differ from the claims. Returns their names.
    fn run(&self, patient: &mut Patient) -> Result<Vec<&'static str>, RepairError> {
        let mut written = Vec::new();
        let is_zoned = patient.superblock().has_incompat(IncompatFeatures::ZONED);
        if !is_zoned {
            written.extend(self.space(patient)?);
        }
        if patient.geometry().realtime.group_count == 0 {
            return Ok(written);
        }
        let own = self.claims.groups.get(&self.group).map_or(&[][..], Vec::as_slice);
        let records: Vec<Rmap> = own.iter().map(section::SectionClaim::record).collect();
        let may_share = patient.geometry().has_ro_compat(RoCompatFeatures::REFLINK) && !is_zoned;
        if self.has_conflict(&records, may_share) {
            return Ok(written);
        }
        let counts = shared_records(self.model, &records);
        let map = claims::joined(records);
        let used: u64 = map.iter().map(|record| u64::from(record.count)).sum();
        if let Some(inode) = self.tree(patient, MetadirKind::ReverseMap) {
            let found = patient.evidence().inode(inode);
            let old = patient.evidence().realtime_reverse_map(&found, self.group);
            let is_written = replace::<RealtimeReverseMap>(patient, inode, &old, &map)?;
            written.extend(is_written.then_some("the reverse map"));
            if is_zoned && set_used(patient, inode, used)? {
                written.push("the count of used blocks");
            }
        }
        if let Some(inode) = self.tree(patient, MetadirKind::Refcounts) {
            let found = patient.evidence().inode(inode);
            let old = patient.evidence().realtime_refcounts(&found, self.group);
            let is_written = replace::<RealtimeRefcounts>(patient, inode, &old, &counts)?;
            written.extend(is_written.then_some("the reference counts"));
        }
        Ok(written)
    }

    /// Returns the inode of a btree of the group, if the inode can hold the root.
    fn tree(&self, patient: &Patient, kind: MetadirKind) -> Option<InodeNumber> {
        let inode = self.files.inode(self.group, kind)?;
        let found = patient.evidence().inode(inode);
        let core = found.core().filter(|_| found.is_sound())?;
        let is_tree = core.data_format == ForkFormat::MetadataBtree;
        // A shorter fork has no room for a root with children.
        let has_room = found.fork(ForkKind::Data).len() >= LEAST_ROOT_BYTES;
        (is_tree && has_room && core.metafile_type == kind as u16).then_some(inode)
    }

    /// Returns whether two owners claim a block that they cannot share. Then no records of the
    /// group can be right.
    fn has_conflict(&self, records: &[Rmap], may_share: bool) -> bool {
        let is_shared = |record: &Rmap| match record.owner {
            RmapOwner::Inode(inode) => {
                let file_type = self.model.core(inode).and_then(InodeCore::file_type);
                may_share && file_type == Some(FileType::Regular)
            }
            _ => false,
        };
        let mut sorted: Vec<&Rmap> = records.iter().collect();
        sorted.sort_by_key(|record| (record.start, record.count));
        // The furthest ends of the claims so far: of all, and of those that cannot be shared.
        let (mut end, mut end_alone) = (0, 0);
        for record in sorted {
            let is_alone = !is_shared(record);
            if record.start.0 < if is_alone { end } else { end_alone } {
                return true;
            }
            end = end.max(record.end().0);
            if is_alone {
                end_alone = end_alone.max(record.end().0);
            }
        }
        false
    }
}

/// Writes a btree whose records differ from `right`, or whose blocks are damaged. Returns whether
/// it was written.
fn replace<F>(
    patient: &mut Patient,
    inode: InodeNumber,
    old: &RealtimeTreeEvidence<F::Record>,
    right: &[F::Record],
) -> Result<bool, RepairError>
where
    F: BtreeFormat,
    F::Record: PartialEq,
{
    if old.is_whole && old.is_exact && old.records == right {
        return Ok(false);
    }
    patient.set_records::<F>(inode, right)?;
    Ok(true)
}

/// Sets the count of used blocks in the inode of a zone's reverse map. Returns whether it differed.
fn set_used(patient: &mut Patient, inode: InodeNumber, used: u64) -> Result<bool, RepairError> {
    let used = u32::try_from(used).expect("a zone has fewer than 2^32 blocks");
    let found = patient.evidence().inode(inode);
    let stored = found.any_core().map(|core| core.cow_extent_size_hint_blocks);
    if stored == Some(used) {
        return Ok(false);
    }
    patient.set_inode(inode, |core| core.cow_extent_size_hint_blocks = used)?;
    Ok(true)
}
