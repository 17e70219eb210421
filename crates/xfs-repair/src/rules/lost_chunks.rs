//! Rule *lost-chunks*: records again the inode chunks of which nothing is left but the numbers of
//! their inodes in entries and parent pointers elsewhere.
//!
//! Owns: the decision that a chunk existed. Does **not** own: the inodes in it. Directories are
//! made again by the rules about names.
//!
//! A chunk whose blocks were overwritten leaves no inode, and the inode btree may be gone with it.
//! Names in other directories and parent pointers of children still state inode numbers in the
//! chunk. The chunk is recorded again if no other owner claims its blocks.

use std::collections::{BTreeMap, BTreeSet};

use xfs_check::{Code, Place};
use xfs_format::geometry::INODES_PER_CHUNK;
use xfs_format::inode::encode_free;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::{AgInode, AgNumber, InodeNumber};

use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::patient::Patient;

/// The loss that the plan lists if a chunk is recorded although its blocks may belong to an inode
/// that cannot be read.
const OVERWRITTEN: &str =
    "the bytes of the free inodes, if their blocks belong to an inode that cannot be read";

/// Records again the chunks whose existence names and parent pointers prove. Looks only at the
/// groups in `damaged`, whose inode btrees are rebuilt.
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
    for (place, mentioned) in lost_chunks(patient, damaged) {
        let geometry = patient.geometry();
        let first = geometry.ag_inode_block(place.start).0;
        let blocks = first..first.saturating_add(geometry.chunk_blocks());
        if patient.is_unclaimed(place.group, blocks.clone()) {
            let is_reserved = patient.is_reserved(place.group, &blocks);
            if is_reserved && !patient.allows_loss() {
                continue;
            }
            record(patient, place, mentioned)?;
            let shown = Place::of_inode(
                patient.geometry().join_inode(place.group, place.start),
                patient.geometry(),
            );
            let codes: Vec<Code> = damage.codes_of_group(place.group);
            let keeps = format!("the place of {} inodes that are named", mentioned.count_ones());
            let action = Action::new("lost-chunks", shown, codes, keeps);
            patient.act(match is_reserved {
                true => action.losing(None, OVERWRITTEN),
                false => action,
            });
        }
    }
    Ok(())
}

/// The group of a chunk, and its first inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChunkPlace {
    group: AgNumber,
    start: AgInode,
}

/// Returns the chunks of damaged groups that are not known, although names, parent pointers or the
/// superblock mention inodes in them. Each has a mask of the mentioned inodes.
fn lost_chunks(patient: &mut Patient, damaged: &BTreeSet<AgNumber>) -> BTreeMap<ChunkPlace, u64> {
    let model = patient.model();
    let of_names = model.names.iter().map(|name| name.child);
    let of_pointers = model.parents.iter().map(|parent| parent.directory);
    let superblock = patient.superblock();
    let special = [
        superblock.root_inode,
        superblock.realtime_bitmap_inode,
        superblock.realtime_summary_inode,
    ];
    let mentioned: BTreeSet<InodeNumber> = of_names.chain(of_pointers).chain(special).collect();
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
    chunks
}

/// Records a chunk, in which the inodes in the mask `mentioned` are in use and all others are free.
/// Writes the free inodes; those in use are repaired later.
fn record(patient: &mut Patient, place: ChunkPlace, mentioned: u64) -> Result<(), RepairError> {
    let geometry = patient.geometry().clone();
    for position in (0..INODES_PER_CHUNK).filter(|position| mentioned >> position & 1 == 0) {
        let number = geometry.join_inode(place.group, AgInode(place.start.0 + position));
        let mut bytes = vec![0; geometry.inode_size as usize];
        encode_free(number, 0, &geometry, &mut bytes);
        patient.write_raw_inode(number, &bytes)?;
    }
    let mut chunks = patient.chunks(place.group).chunks.clone();
    let used = mentioned.count_ones();
    chunks.push(InodeChunk {
        start: place.start,
        holes: 0,
        count: u8::try_from(INODES_PER_CHUNK).expect("a chunk has 64 inodes"),
        free_count: u8::try_from(INODES_PER_CHUNK - used).expect("a chunk has 64 inodes"),
        free: !mentioned,
    });
    chunks.sort_by_key(|chunk| chunk.start);
    patient.set_chunks(place.group, chunks);
    Ok(())
}
