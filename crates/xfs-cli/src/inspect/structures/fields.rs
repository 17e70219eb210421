//! The fields of each disk form, with their values for output.
//!
//! A macro lists the fields by name. The type of a field decides how its value is shown; for a few
//! fields with a special meaning, the name decides.

use ferroxfs::raw::format::agf::AgfDisk;
use ferroxfs::raw::format::agfl::AgflHeaderDisk;
use ferroxfs::raw::format::agi::AgiDisk;
use ferroxfs::raw::format::attr::leaf::{AttrFreeDisk, AttrLeafHeaderDisk};
use ferroxfs::raw::format::attr::remote::RemoteHeaderDisk;
use ferroxfs::raw::format::btree::{LongHeaderDisk, ShortHeaderDisk};
use ferroxfs::raw::format::dabtree::{DaHeaderDisk, NodeEntryDisk, NodeHeaderDisk};
use ferroxfs::raw::format::directory::data::{BestFreeDisk, DataHeaderDisk};
use ferroxfs::raw::format::directory::free::FreeHeaderDisk;
use ferroxfs::raw::format::directory::leaf::{HashEntryDisk, LeafHeaderDisk};
use ferroxfs::raw::format::free_space::FreeSpaceDisk;
use ferroxfs::raw::format::inode::InodeDisk;
use ferroxfs::raw::format::inode_chunk::InodeChunkDisk;
use ferroxfs::raw::format::refcount::RefcountDisk;
use ferroxfs::raw::format::rmap::RmapDisk;
use ferroxfs::raw::format::superblock::SuperblockDisk;
use ferroxfs::raw::format::symlink::SymlinkDisk;
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::value::{Fields, Value};

/// A disk form that can list its fields.
pub(super) trait Describe {
    /// Returns the fields in the order in which they are on disk.
    fn describe(&self) -> Fields;
}

/// Returns the fields of the disk form `D` at the start of `bytes`; `None` if there are too few
/// bytes.
pub(super) fn of<D>(bytes: &[u8]) -> Option<Fields>
where
    D: Describe + FromBytes + KnownLayout + Immutable + zerocopy::Unaligned,
{
    D::ref_from_prefix(bytes).ok().map(|(disk, _)| disk.describe())
}

/// A type that fields of disk forms have. Its values can be converted for output.
trait Plain {
    /// Returns the value of a field of this type with the name `name`.
    fn plain(&self, name: &str) -> Value;
}

/// Returns the value of a number field. The number `null` means "none". The name of the field
/// decides whether the number is shown in a special form, such as a mode or a set of bits.
fn number(name: &str, value: u64, null: u64) -> Value {
    match name {
        "magic" => Value::Magic(value),
        "lsn" => Value::Lsn(value),
        "mode" => Value::Mode(value),
        "version" | "flags" | "flags2" | "features2" | "bad_features2" | "compat" | "ro_compat"
        | "incompat" | "log_incompat" | "holes" | "free" | "quota_flags" | "hash" => {
            Value::Bits(value)
        }
        _ => Value::Number { value, is_null: value == null },
    }
}

impl Plain for u8 {
    fn plain(&self, name: &str) -> Value {
        // No byte-sized field reserves a value for "none".
        number(name, (*self).into(), u64::MAX)
    }
}

impl Plain for U16 {
    fn plain(&self, name: &str) -> Value {
        number(name, self.get().into(), u64::MAX)
    }
}

impl Plain for U32 {
    fn plain(&self, name: &str) -> Value {
        number(name, self.get().into(), u32::MAX.into())
    }
}

impl Plain for U64 {
    fn plain(&self, name: &str) -> Value {
        number(name, self.get(), u64::MAX)
    }
}

/// A checksum, which is stored least significant byte first.
impl Plain for [u8; 4] {
    fn plain(&self, _name: &str) -> Value {
        Value::Bits(self.iter().rev().fold(0, |value, &byte| (value << 8) | u64::from(byte)))
    }
}

/// A UUID.
impl Plain for [u8; 16] {
    fn plain(&self, _name: &str) -> Value {
        let digits: String = self
            .iter()
            .enumerate()
            .map(|(index, byte)| match index {
                4 | 6 | 8 | 10 => format!("-{byte:02x}"),
                _ => format!("{byte:02x}"),
            })
            .collect();
        Value::Text(digits)
    }
}

/// The label of a volume.
impl Plain for [u8; 12] {
    fn plain(&self, _name: &str) -> Value {
        Value::Name(self.split(|&byte| byte == 0).next().unwrap_or_default().to_vec())
    }
}

impl<const N: usize> Plain for [U32; N] {
    fn plain(&self, name: &str) -> Value {
        Value::List(self.iter().map(|value| value.plain(name)).collect())
    }
}

impl<const N: usize> Plain for [AttrFreeDisk; N] {
    fn plain(&self, _name: &str) -> Value {
        Value::List(self.iter().map(|free| Value::Record(free.describe())).collect())
    }
}

impl<const N: usize> Plain for [BestFreeDisk; N] {
    fn plain(&self, _name: &str) -> Value {
        Value::List(self.iter().map(|free| Value::Record(free.describe())).collect())
    }
}

impl Plain for DaHeaderDisk {
    fn plain(&self, _name: &str) -> Value {
        Value::Record(self.describe())
    }
}

macro_rules! describe {
    ($($disk:ty { $($field:ident),* $(,)? })*) => {
        $(impl Describe for $disk {
            fn describe(&self) -> Fields {
                vec![$((stringify!($field), self.$field.plain(stringify!($field)))),*]
            }
        })*
    };
}

describe! {
    SuperblockDisk {
        magic, block_size, data_blocks, realtime_blocks, realtime_extents, uuid, log_start,
        root_inode, realtime_bitmap_inode, realtime_summary_inode, realtime_extent_blocks,
        ag_blocks, ag_count, realtime_bitmap_blocks, log_blocks, version, sector_size, inode_size,
        inodes_per_block, label, block_log, sector_log, inode_log, inodes_per_block_log,
        ag_blocks_log, realtime_extents_log, in_progress, inode_max_percent, inode_count,
        free_inodes, free_blocks, free_realtime_extents, user_quota_inode, group_quota_inode,
        quota_flags, flags, shared_version, inode_alignment_blocks, stripe_unit_blocks,
        stripe_width_blocks, directory_block_log, log_sector_log, log_sector_size,
        log_stripe_unit_bytes, features2, bad_features2, compat, ro_compat, incompat, log_incompat,
        crc, sparse_alignment_blocks, project_quota_inode, lsn, meta_uuid,
        metadata_directory_inode, realtime_group_count, realtime_group_extents,
        realtime_group_blocks_log, realtime_start, realtime_reserved,
    }
    AgfDisk {
        magic, version, group, length, by_block_root, by_size_root, reverse_map_root,
        by_block_levels, by_size_levels, reverse_map_levels, free_list_first, free_list_last,
        free_list_count, free_blocks, longest, btree_blocks, uuid, reverse_map_blocks,
        refcount_blocks, refcount_root, refcount_levels, lsn, crc,
    }
    AgiDisk {
        magic, version, group, length, count, root, levels, free_count, newest_inode,
        unused_directory_inode, unlinked, uuid, crc, lsn, free_root, free_levels,
        inode_btree_blocks, free_inode_btree_blocks,
    }
    AgflHeaderDisk { magic, group, uuid, lsn, crc }
    ShortHeaderDisk { magic, level, count, left, right, address, lsn, uuid, owner, crc }
    LongHeaderDisk { magic, level, count, left, right, address, lsn, uuid, owner, crc }
    FreeSpaceDisk { start, count }
    InodeChunkDisk { start, holes, count, free_count, free }
    RmapDisk { start, count, owner, offset }
    RefcountDisk { start, count, references }
    InodeDisk {
        magic, mode, version, data_format, old_nlink, uid, gid, nlink, project_id_low,
        project_id_high, big_extents, access_time, modify_time, change_time, size, blocks,
        extent_size_hint, extents, attr_extents, fork_offset, attr_format, flags, generation,
        next_unlinked, crc, change_count, lsn, flags2, cow_extent_size_hint, birth_time, number,
        uuid,
    }
    DaHeaderDisk { forward, back, magic, crc, block, lsn, uuid, owner }
    NodeHeaderDisk { header, count, level }
    NodeEntryDisk { hash, before }
    LeafHeaderDisk { header, count, stale }
    HashEntryDisk { hash, cookie }
    DataHeaderDisk { magic, crc, block, lsn, uuid, owner, best_free }
    BestFreeDisk { offset, length }
    FreeHeaderDisk { magic, crc, block, lsn, uuid, owner, first, count, used }
    AttrLeafHeaderDisk { header, count, used_bytes, first_used, holes, free }
    AttrFreeDisk { base, size }
    RemoteHeaderDisk { magic, offset, bytes, crc, uuid, owner, block, lsn }
    SymlinkDisk { magic, offset, length, crc, uuid, owner, disk_addr, lsn }
}
