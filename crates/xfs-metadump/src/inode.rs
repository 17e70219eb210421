//! Writes blocks of inodes, and the blocks to which the forks of these inodes lead.

use xfs_format::inode::{
    CORE_BYTES, CRC_OFFSET, FORK_OFFSET_BYTES, FileType, ForkFormat, ForkKind, INODE_MAGIC,
    InodeCore,
};
use xfs_format::{AgBlock, AgInode, AgNumber, InodeNumber};

use crate::cleaning::{Cleaned, Cleaning};
use crate::dump::{Dump, DumpError, DumpLocation};
use crate::raw::{number_16, zero, zero_between};
use crate::seal::Seal;
use crate::{attributes, directory, symlink};

/// Length of an extent record, in bytes.
const EXTENT_BYTES: usize = 16;
/// Length of the header of an extent btree's root in an inode, in bytes. Keys follow the header.
const ROOT_HEADER: usize = 4;
/// Length of a key or a pointer in an extent btree's root, in bytes.
const ROOT_WORD: usize = 8;
/// Number of bytes of a data fork that holds a device number or a UUID. It is the length of the
/// longer one, the UUID.
const DEVICE_BYTES: usize = 16;

/// An inode in use. The blocks of its forks are written after the block that holds the inode.
pub(crate) struct OpenInode {
    pub(crate) core: InodeCore,
    pub(crate) bytes: Vec<u8>,
}

impl Dump<'_> {
    /// Writes a block of inodes, and the blocks of their forks.
    pub(crate) fn dump_inode_block(
        &mut self,
        group: AgNumber,
        block: AgBlock,
    ) -> Result<(), DumpError> {
        self.check_stopped()?;
        let geometry = self.superblock.geometry.clone();
        let at = geometry.ag_block_disk_addr(group, block).byte_offset();
        let start = at.expect("the block lies inside the group");
        let range = start..start + u64::from(geometry.block_size);
        if self.sink.has(&range) {
            let spot = DumpLocation { byte: Some(start), inode: None };
            self.note(spot, "a block of inodes is also a block of a btree or a fork");
            return Ok(());
        }
        let Some(mut bytes) = self.read(range, DumpLocation { byte: Some(start), inode: None })?
        else {
            return Ok(());
        };
        let inode_size = usize::try_from(geometry.inode_size).expect("an inode has at most 2 KiB");
        let first = block.0 << geometry.inodes_per_block_log;
        let mut open = Vec::new();
        for (number, slot) in (first..).zip(bytes.chunks_mut(inode_size)) {
            let number = geometry.join_inode(group, AgInode(number));
            let decoded = InodeCore::decode(slot, number, &geometry).ok();
            if let Some(core) = decoded.filter(|core| !core.is_free()) {
                open.push(OpenInode { core, bytes: slot.to_vec() });
            }
            let cleaned = clean_inode(slot, number, self);
            let spot = DumpLocation { byte: Some(start), inode: Some(number) };
            self.note_cleaned(cleaned, spot);
        }
        self.add(start, &bytes)?;
        self.advance(bytes.len() / inode_size);
        for inode in open {
            self.dump_fork(&inode, ForkKind::Data)?;
            self.dump_fork(&inode, ForkKind::Attr)?;
        }
        Ok(())
    }
}

/// Obfuscates the names in an inode, and zeros the bytes that nothing uses. Of a free inode, only
/// the core is kept. The core itself is never changed, except for its checksum.
fn clean_inode(bytes: &mut [u8], number: InodeNumber, dump: &Dump<'_>) -> Cleaned {
    let cleaning = dump.cleaning();
    if number_16(bytes, 0) != Some(INODE_MAGIC) {
        let is_empty = bytes.iter().all(|byte| *byte == 0);
        return if is_empty { Cleaned::Whole } else { cleaning.unknown(bytes) };
    }
    let seal = Seal::of(bytes, CRC_OFFSET);
    let core = InodeCore::decode(bytes, number, &dump.superblock.geometry);
    let Some((_, literal)) = bytes.split_at_mut_checked(CORE_BYTES) else {
        return Cleaned::Partly;
    };
    let cleaned = match core {
        Ok(core) if core.is_free() => {
            if cleaning.zeroes_stale {
                literal.fill(0);
            }
            Cleaned::Whole
        }
        Ok(core) => clean_forks(literal, &core, cleaning),
        Err(_) => cleaning.unknown(literal),
    };
    seal.renew(bytes);
    cleaned
}

fn clean_forks(literal: &mut [u8], core: &InodeCore, cleaning: Cleaning<'_>) -> Cleaned {
    let middle = usize::from(core.fork_offset) * FORK_OFFSET_BYTES;
    if !core.has_attr_fork() {
        return clean_fork(literal, core, ForkKind::Data, cleaning);
    }
    let Some((data, attr)) = literal.split_at_mut_checked(middle) else {
        return cleaning.unknown(literal);
    };
    let data = clean_fork(data, core, ForkKind::Data, cleaning);
    let attr = clean_fork(attr, core, ForkKind::Attr, cleaning);
    Cleaned::whole_if((data, attr) == (Cleaned::Whole, Cleaned::Whole))
}

fn clean_fork(
    fork: &mut [u8],
    core: &InodeCore,
    kind: ForkKind,
    cleaning: Cleaning<'_>,
) -> Cleaned {
    let format = core.fork_format(kind).expect("a fork that is cleaned exists");
    match (format, kind, core.file_type()) {
        (ForkFormat::Local, ForkKind::Attr, _) => attributes::clean_short_form(fork, cleaning),
        (ForkFormat::Local, _, Some(FileType::Directory)) => {
            directory::clean_short_form(fork, core.size, cleaning.of_directory(core))
        }
        (ForkFormat::Local, _, Some(FileType::Symlink)) => {
            symlink::clean_local(fork, core.size, cleaning)
        }
        (ForkFormat::Local, ..) => cleaning.unknown(fork),
        (ForkFormat::Extents, ..) => clean_extents(fork, core.fork_extents(kind), cleaning),
        (ForkFormat::Btree | ForkFormat::MetadataBtree, ..) => clean_root(fork, format, cleaning),
        (ForkFormat::Device | ForkFormat::Uuid, ..) => {
            if cleaning.zeroes_stale {
                let whole = DEVICE_BYTES..fork.len();
                zero(fork, whole);
            }
            Cleaned::Whole
        }
    }
}

fn clean_extents(fork: &mut [u8], count: u64, cleaning: Cleaning<'_>) -> Cleaned {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let used = count.saturating_mul(EXTENT_BYTES);
    if used > fork.len() {
        return Cleaned::Partly;
    }
    if cleaning.zeroes_stale {
        let whole = used..fork.len();
        zero(fork, whole);
    }
    Cleaned::Whole
}

fn clean_root(fork: &mut [u8], format: ForkFormat, cleaning: Cleaning<'_>) -> Cleaned {
    if format == ForkFormat::MetadataBtree || !cleaning.zeroes_stale {
        return Cleaned::Whole;
    }
    let count = number_16(fork, 2).map_or(0, usize::from);
    let capacity = fork.len().saturating_sub(ROOT_HEADER) / (2 * ROOT_WORD);
    if count > capacity {
        return Cleaned::Partly;
    }
    let pointers = ROOT_HEADER + capacity * ROOT_WORD;
    let keys = ROOT_HEADER..ROOT_HEADER + count * ROOT_WORD;
    let whole = ROOT_HEADER..fork.len();
    zero_between(fork, whole, &[keys, pointers..pointers + count * ROOT_WORD]);
    Cleaned::Whole
}
