//! Rule *lost-chunks*: records again the lost inode chunks to whose inodes directory entries,
//! parent pointers or the log still refer.
//!
//! Owns: the decision that a chunk existed. Does **not** own: the inodes in it. Directories are
//! made again by the rules about names.
//!
//! A chunk whose blocks were overwritten leaves no inode, and the inode btree may be gone with it.
//! Names in other directories and parent pointers of children still have inode numbers of the
//! chunk. The chunk is recorded again if no other owner claims its blocks.
//!
//! The log may have the newest states of inodes in the chunk. These inodes count as in use, also if
//! no name leads to them yet: their directory may lie in the same chunk, and rule `inode` restores
//! both only after the chunk is recorded. An inode that counts as free here would lose its name.

use std::collections::{BTreeMap, BTreeSet};

use xfs_check::{Code, Place};
use xfs_format::geometry::INODES_PER_CHUNK;
use xfs_format::inode::encode_free;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::{AgInode, AgNumber, InodeNumber};

use crate::action::{Action, counted};
use crate::damage::Damage;
use crate::error::RepairError;
use crate::patient::Patient;

/// The loss that the plan lists if a chunk is recorded although its blocks may belong to an inode
/// that cannot be read.
const OVERWRITTEN: &str =
    "the bytes of the free inodes, if their blocks belong to an inode that cannot be read";

/// Records again the lost chunks whose existence is proved by names and parent pointers. Looks only
/// at the groups in `damaged`, whose inode btrees are rebuilt.
///
/// # Errors
///
/// The error of the overlay.
pub(crate) fn run(
    patient: &mut Patient,
    damage: &Damage,
    damaged: &BTreeSet<AgNumber>,
) -> Result<(), RepairError> {
    if damaged.is_empty() || patient.geometry().sparse_alignment_blocks == 0 {
        return Ok(());
    }
    let lost = lost_chunks(patient, damaged)?;
    if lost.is_empty() {
        return Ok(());
    }
    let mut recorded: BTreeMap<AgNumber, Vec<InodeChunk>> = BTreeMap::new();
    // All decisions come first: each recorded chunk makes a new model of the volume necessary.
    for (place, mentioned, is_reserved) in with_room(patient, damaged, lost)? {
        if is_reserved && !patient.allows_loss() {
            continue;
        }
        recorded.entry(place.group).or_default().push(record(patient, place, mentioned)?);
        let shown = Place::of_inode(
            patient.geometry().join_inode(place.group, place.start),
            patient.geometry(),
        );
        let codes: Vec<Code> = damage.codes_of_group(place.group);
        let count = mentioned.count_ones();
        let keeps = format!(
            "the place of {} that names or the log state",
            counted(count as usize, "inode")
        );
        let action = Action::new("lost-chunks", shown, codes, keeps);
        patient.act(match is_reserved {
            true => action.losing(None, OVERWRITTEN),
            false => action,
        });
    }
    for (group, new) in recorded {
        let mut chunks = patient.chunks(group).chunks.clone();
        chunks.extend(new);
        chunks.sort_by_key(|chunk| chunk.start);
        patient.set_chunks(group, chunks);
    }
    Ok(())
}

/// Returns the chunks whose blocks no owner claims, with their masks. The boolean says whether one
/// of the chunk's blocks may belong to an inode that cannot be read.
fn with_room(
    patient: &mut Patient,
    damaged: &BTreeSet<AgNumber>,
    lost: BTreeMap<ChunkPlace, u64>,
) -> Result<Vec<(ChunkPlace, u64, bool)>, RepairError> {
    let unclaimed = patient.unclaimed(damaged)?;
    let mut found = Vec::new();
    for (place, mentioned) in lost {
        let geometry = patient.geometry();
        let first = geometry.ag_inode_block(place.start).0;
        let blocks = first..first.saturating_add(geometry.chunk_blocks());
        let gaps = unclaimed.get(&place.group).map_or(&[][..], Vec::as_slice);
        let gap = gaps.get(gaps.partition_point(|(_, end)| *end < blocks.end));
        if gap.is_some_and(|(start, _)| *start <= blocks.start) {
            let is_reserved = patient.is_reserved(place.group, &blocks)?;
            found.push((place, mentioned, is_reserved));
        }
    }
    Ok(found)
}

/// The group of a chunk, and the first inode of the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChunkPlace {
    group: AgNumber,
    start: AgInode,
}

/// Returns the chunks of damaged groups that are not known, although names, parent pointers, the
/// log or the superblock mention inodes in them. Returns a mask of the mentioned inodes with each
/// chunk.
fn lost_chunks(
    patient: &mut Patient,
    damaged: &BTreeSet<AgNumber>,
) -> Result<BTreeMap<ChunkPlace, u64>, RepairError> {
    let model = patient.model()?;
    let of_names = model.names.iter().map(|name| name.child);
    let of_pointers = model.parents.iter().map(|parent| parent.directory);
    let superblock = patient.superblock();
    let special = [
        superblock.root_inode,
        superblock.realtime_bitmap_inode,
        superblock.realtime_summary_inode,
    ];
    let special = special.into_iter().chain(superblock.metadata_directory_inode);
    // The fields of the realtime inodes are 0 on a volume with a metadata directory.
    let special = special.filter(|inode| inode.0 != 0);
    let mut mentioned: BTreeSet<InodeNumber> = of_names.chain(of_pointers).chain(special).collect();
    mentioned.extend(inodes_in_log(patient, damaged)?);
    let mut chunks: BTreeMap<ChunkPlace, u64> = BTreeMap::new();
    for inode in mentioned {
        let Some((group, in_group)) = patient.geometry().split_inode(inode) else { continue };
        if !damaged.contains(&group) || model.chunk_of(group, in_group).is_some() {
            continue;
        }
        // Chunks of a volume with sparse chunks start at multiples of their length.
        let position = in_group.0 % INODES_PER_CHUNK;
        let place = ChunkPlace { group, start: AgInode(in_group.0 - position) };
        *chunks.entry(place).or_default() |= 1 << position;
    }
    Ok(chunks)
}

/// Returns the inodes of damaged groups that are in use and have a name according to their newest
/// state, which the log has.
fn inodes_in_log(
    patient: &Patient,
    damaged: &BTreeSet<AgNumber>,
) -> Result<Vec<InodeNumber>, RepairError> {
    let evidence = patient.evidence();
    let is_in_group = |number| {
        let group = evidence.geometry().split_inode(number);
        group.is_some_and(|(group, _)| damaged.contains(&group))
    };
    let poll = || patient.continues();
    let logged = evidence.logged_inodes(patient.shared_device(), is_in_group, poll);
    patient.poll()?;
    Ok(logged.into_iter().filter(|(_, inode)| inode.is_newest).map(|(number, _)| number).collect())
}

/// Returns the record of a chunk in which the inodes in the mask `mentioned` are in use and all
/// others are free. Writes the free inodes to disk. Those in use are repaired later.
fn record(
    patient: &mut Patient,
    place: ChunkPlace,
    mentioned: u64,
) -> Result<InodeChunk, RepairError> {
    let geometry = patient.geometry().clone();
    for position in (0..INODES_PER_CHUNK).filter(|position| mentioned >> position & 1 == 0) {
        let number = geometry.join_inode(place.group, AgInode(place.start.0 + position));
        let mut bytes = vec![0; geometry.inode_size as usize];
        encode_free(number, 0, &geometry, &mut bytes);
        patient.write_raw_inode(number, &bytes)?;
    }
    let used = mentioned.count_ones();
    Ok(InodeChunk {
        start: place.start,
        holes: 0,
        count: u8::try_from(INODES_PER_CHUNK).expect("a chunk has 64 inodes"),
        free_count: u8::try_from(INODES_PER_CHUNK - used).expect("a chunk has 64 inodes"),
        free: !mentioned,
    })
}

#[cfg(test)]
mod tests;
