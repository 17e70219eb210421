//! Checking the inodes of one leaf of an inode btree, which is one unit of work of the pass over
//! inodes.
//!
//! Owns: reading the inodes of the leaf's chunks in disk order, in long reads. Does **not** own:
//! the blocks outside of inodes, which `announce` announces to the device in disk order.

use xfs_format::btree::BtreeBlock;
use xfs_format::geometry::INODES_PER_CHUNK;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::{
    AgBlock, AgInode, AgNumber, BlockKind, DiskAddr, Group, Structure, btree::BtreeKind,
};

use crate::announce;
use crate::blocks::Findings;
use crate::code::Code;
use crate::facts::{Facts, Gap};
use crate::finding::{Finding, Place};
use crate::inode::Pass;

/// The largest length in bytes of one read of inodes.
const READ_BYTES: usize = 512 << 10;

/// A run of inodes that are neighbours on disk.
struct Run {
    first: AgInode,
    /// For each inode of the run, whether the record of its chunk says that it is free. The records
    /// of a damaged leaf may be out of order, so a later search for a record could fail.
    free: Vec<bool>,
}

/// Checks the inodes of one leaf of the inode btree of a group.
pub(crate) fn check_unit<T: Facts>(pass: &mut Pass<'_, T>, number: AgNumber, leaf: AgBlock) {
    let geometry = pass.volume.geometry();
    let group = Group::new(geometry, number).expect("the group is one of the volume");
    let at = geometry.ag_block_disk_addr(number, leaf);
    let mut bytes = vec![0; geometry.block_size as usize];
    let kind = BlockKind::Btree(BtreeKind::Inode);
    // The first pass has reported what is wrong with the leaf.
    let mut silent = Findings::silent();
    pass.volume.read_block(at, kind, &mut bytes, &mut silent);
    let Ok(block) = BtreeBlock::decode(&bytes, BtreeKind::Inode, at) else { return };
    let chunks: Vec<InodeChunk> =
        block.records().filter_map(|record| InodeChunk::decode(record, &group).ok()).collect();
    let mut bytes = Vec::new();
    for run in runs_of(&group, &chunks) {
        read_run(pass, &group, &run, &mut bytes);
    }
}

/// Divides the inodes of `chunks` into runs of inodes that are neighbours on disk. Leaves out the
/// inodes that a sparse chunk does not have on disk.
fn runs_of(group: &Group<'_>, chunks: &[InodeChunk]) -> Vec<Run> {
    let most = READ_BYTES >> group.geometry().inode_log;
    let mut runs: Vec<Run> = Vec::new();
    for chunk in chunks {
        let present = chunk.present();
        for position in 0..INODES_PER_CHUNK {
            if present >> position & 1 == 0 {
                continue;
            }
            let inode = chunk.start.0 + position;
            let is_free = chunk.free >> position & 1 != 0;
            match runs.last_mut() {
                Some(run)
                    if u64::from(run.first.0) + run.free.len() as u64 == u64::from(inode)
                        && run.free.len() < most =>
                {
                    run.free.push(is_free);
                }
                _ => runs.push(Run { first: AgInode(inode), free: vec![is_free] }),
            }
        }
    }
    runs
}

/// Checks the inodes of a run. `bytes` is a buffer that the runs of a leaf share: a new one for
/// each run would be zeroed first, and the allocator would keep several for a while.
fn read_run<T: Facts>(pass: &mut Pass<'_, T>, group: &Group<'_>, run: &Run, bytes: &mut Vec<u8>) {
    let inode_bytes = pass.volume.geometry().inode_size as usize;
    bytes.resize(run.free.len() * inode_bytes, 0);
    let at = address_of(group, run.first);
    let is_read = pass.volume.read(at, bytes).is_ok();
    if is_read {
        let inodes = (run.first.0..).map(AgInode).zip(bytes.chunks_exact(inode_bytes));
        let used = inodes.zip(&run.free).filter(|(_, is_free)| !**is_free);
        let used = used.map(|((number, inode), _)| (group.join_inode(number), inode));
        announce::blocks_of(pass.volume, used);
    }
    let inodes = (run.first.0..).map(AgInode).zip(bytes.chunks_exact(inode_bytes));
    for ((number, inode), is_free) in inodes.zip(&run.free) {
        if is_read {
            pass.inode(group.join_inode(number), inode, *is_free);
        } else {
            // One bad sector must not hide its neighbours.
            single(pass, group, number, *is_free);
        }
    }
}

fn single<T: Facts>(pass: &mut Pass<'_, T>, group: &Group<'_>, number: AgInode, is_free: bool) {
    let geometry = pass.volume.geometry();
    let mut bytes = vec![0; geometry.inode_size as usize];
    let inode = group.join_inode(number);
    match pass.volume.read(address_of(group, number), &mut bytes) {
        Ok(()) => pass.inode(inode, &bytes, is_free),
        Err(error) => {
            let place = Place::of_inode(inode, geometry);
            let code = Code::unreadable(Structure::Inode);
            pass.findings.push(Finding::new(code, place, error.to_string()));
            for gap in [Gap::Claims, Gap::Names, Gap::Parents, Gap::Inodes(group.number())] {
                pass.facts.gap(gap);
            }
        }
    }
}

fn address_of(group: &Group<'_>, inode: AgInode) -> DiskAddr {
    let geometry = group.geometry();
    let block = geometry.ag_block_disk_addr(group.number(), geometry.ag_inode_block(inode));
    DiskAddr(block.0 + u64::from(geometry.inode_offset_in_block(inode)) / 512)
}
