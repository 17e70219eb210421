//! A symbolic link: its target, in the inode or in blocks.

use xfs_format::inode::{ForkFormat, ForkKind};
use xfs_format::symlink::{SymlinkBlock, SymlinkCheck};
use xfs_format::{BlockKind, FormatVersion};

use crate::code::Code;
use crate::facts::Facts;
use crate::finding::Finding;
use crate::fork::{BlockRun, ForkMap, OpenFork};
use crate::inode::Pass;
use crate::used_inode::Inode;

/// The most blocks of a target: 1024 bytes in blocks of 512 bytes, each with a header.
const MOST_BLOCKS: u64 = 3;

/// Checks the target of a symbolic link.
pub(crate) fn check<T: Facts>(pass: &mut Pass<'_, T>, inode: &Inode<'_>, map: &ForkMap) {
    let size = inode.core.size;
    let problem = |pass: &mut Pass<'_, T>, check: SymlinkCheck| {
        let place = inode.place(pass.geometry());
        pass.findings.push(Finding::new(Code::LinkTarget, place, check.to_string()));
    };
    if inode.core.data_format == ForkFormat::Local {
        let fork = inode.fork(ForkKind::Data);
        let length = usize::try_from(size).unwrap_or(usize::MAX).min(fork.len());
        let target = fork.get(..length).unwrap_or(fork);
        if let Some(offset) = target.iter().position(|byte| *byte == 0) {
            problem(pass, SymlinkCheck::Nul { offset: offset as u64 });
        }
        return;
    }
    let blocks: u64 = map.extents.iter().map(|extent| u64::from(extent.length_blocks)).sum();
    if blocks > MOST_BLOCKS {
        let place = inode.place(pass.geometry());
        let found = format!("{blocks} blocks for a target of {size} bytes");
        pass.findings.push(Finding::new(Code::MapPastEnd, place, found));
        return;
    }
    let mut expected = 0;
    for extent in &map.extents {
        let part = BlockRun { block: extent.file_block, count: extent.length_blocks };
        let fork = OpenFork { inode, kind: ForkKind::Data };
        let read = map.read(pass, fork, part, BlockKind::Symlink);
        let Some((bytes, _, at)) = read else { return };
        // On a v4 volume the target fills the blocks, without a header.
        if pass.geometry().version == FormatVersion::V4 {
            let left = usize::try_from(size).unwrap_or(usize::MAX) - expected as usize;
            let piece = bytes.get(..left).unwrap_or(&bytes);
            if let Some(offset) = piece.iter().position(|byte| *byte == 0) {
                problem(pass, SymlinkCheck::Nul { offset: u64::from(expected) + offset as u64 });
            }
            expected += u32::try_from(piece.len()).expect("a link has a few blocks at most");
            continue;
        }
        let Ok(block) = SymlinkBlock::decode(&bytes, at) else { return };
        if block.owner != inode.number() {
            let mut place = inode.place(pass.geometry());
            place.disk_addr = Some(at);
            let finding = Finding::new(Code::LinkOwner, place, block.owner.to_string());
            pass.findings.push(finding.expected(inode.number().to_string()));
        }
        if block.offset_bytes != expected {
            problem(pass, SymlinkCheck::Offset { found: block.offset_bytes, expected });
        }
        if let Some(offset) = block.target.iter().position(|byte| *byte == 0) {
            problem(pass, SymlinkCheck::Nul { offset: u64::from(expected) + offset as u64 });
        }
        expected += u32::try_from(block.target.len()).expect("a part has at most 1024 bytes");
    }
    // Inactivation of an unlinked link sets its size to 0 before it frees the blocks.
    if map.is_whole && u64::from(expected) != size && inode.core.nlink != 0 {
        problem(pass, SymlinkCheck::Length { found: expected.into(), expected: size });
    }
}
