//! Cleans the targets of symbolic links before they go into an image: obfuscates the names in them,
//! and zeros the bytes after them.

use xfs_format::DiskAddr;
use xfs_format::symlink::{SYMLINK_HEADER_BYTES, SymlinkBlock};

use crate::cleaning::{Cleaned, Cleaning};
use crate::seal::Seal;

/// Offset of the checksum in a block that holds part of a target, in bytes.
const CRC: usize = 12;

/// Cleans a target that is stored inside the inode. `fork` is the whole room of the data fork, and
/// `size` the length of the target.
pub(crate) fn clean_local(fork: &mut [u8], size: u64, cleaning: Cleaning<'_>) -> Cleaned {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let Some((target, stale)) = fork.split_at_mut_checked(size) else {
        return cleaning.unknown(fork);
    };
    cleaning.target(target);
    if cleaning.zeroes_stale {
        stale.fill(0);
    }
    Cleaned::Whole
}

/// Cleans the buffers of a target. Each extent of the link is one buffer. A component of the path
/// may begin in one buffer and end in the next, so the whole target is joined before it is cleaned.
pub(crate) fn clean_buffers(buffers: &mut [Vec<u8>], cleaning: Cleaning<'_>) -> Cleaned {
    let mut target = Vec::new();
    for buffer in buffers.iter() {
        match SymlinkBlock::decode(buffer, DiskAddr(0)) {
            Ok(block) if usize::try_from(block.offset_bytes) == Ok(target.len()) => {
                target.extend_from_slice(block.target);
            }
            _ => {
                buffers.iter_mut().for_each(|buffer| _ = cleaning.unknown(buffer));
                return Cleaned::Partly;
            }
        }
    }
    cleaning.target(&mut target);
    let mut rest: &[u8] = &target;
    for buffer in buffers {
        let seal = Seal::of(buffer, CRC);
        let length =
            SymlinkBlock::decode(buffer, DiskAddr(0)).map_or(0, |block| block.target.len());
        let (part, after) = rest.split_at(length);
        let (_, room) = buffer.split_at_mut(SYMLINK_HEADER_BYTES);
        let (place, stale) = room.split_at_mut(length);
        place.copy_from_slice(part);
        if cleaning.zeroes_stale {
            stale.fill(0);
        }
        rest = after;
        seal.renew(buffer);
    }
    Cleaned::Whole
}

#[cfg(test)]
mod tests;
