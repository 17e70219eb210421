//! Inode items: the core in the writer's byte order, and the forks in their disk form.
//!
//! ```text
//! format  0 kind  2 regions  4 fields  8 attr bytes  10 data bytes  12 pad 16 inode 24 device (16)
//!        40 cluster address  48 cluster length  52 offset in the cluster                     .. 56
//! then    the core, 176 bytes (v4: 96); the data fork, if logged; the attribute fork, if logged
//! ```
//!
//! The logged core has the fields of the inode on disk at the same offsets, in the byte order of
//! the writer. The root of a fork's btree is logged in the kernel's in-core form: the header of a
//! btree block, with keys and pointers at offsets that follow from the length of the region.

use super::fields::{Fields, FieldsMut, Format, HostOrder, Sink};
use super::{ItemHeader, ItemKind, LogItemCheck};
use crate::addr::{DiskAddr, InodeNumber};
use crate::features::FormatVersion;
use crate::inode::{CORE_BYTES, INODE_MAGIC, INODE_VERSION, InodeFlags2};

/// Length of the logged core in bytes, on a v5 volume.
#[doc(alias = "xfs_log_dinode")]
pub const LOG_CORE_BYTES: usize = CORE_BYTES;

/// Length of the logged core in bytes, on a v4 volume: the core without its last field, the next
/// inode of an unlinked list.
pub const LOG_CORE_BYTES_V4: usize = 96;

/// Length of the item's first region, in bytes.
const FORMAT_BYTES: usize = 56;

/// Length in bytes of the first region as 32-bit x86 kernels write it, without padding.
const PACKED_FORMAT_BYTES: usize = 52;

bitflags::bitflags! {
    /// The parts of an inode that an item contains.
    #[doc(alias = "XFS_ILOG_CORE")]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LoggedFields: u32 {
        /// The core of the inode.
        const CORE = 0x001;
        /// The data fork in local format.
        const DATA_LOCAL = 0x002;
        /// The extent records of the data fork.
        const DATA_EXTENTS = 0x004;
        /// The root of the data fork's btree.
        const DATA_ROOT = 0x008;
        /// The device number, which is in the first region.
        const DEVICE = 0x010;
        /// The attribute fork in local format.
        const ATTR_LOCAL = 0x040;
        /// The extent records of the attribute fork.
        const ATTR_EXTENTS = 0x080;
        /// The root of the attribute fork's btree.
        const ATTR_ROOT = 0x100;
        /// Replay sets this inode as the owner of the blocks of the data fork's btree.
        const DATA_OWNER = 0x200;
        /// Replay sets this inode as the owner of the blocks of the attribute fork's btree.
        const ATTR_OWNER = 0x400;
        /// Bits that are used only in the writer's memory.
        const _ = !0;
    }
}

impl LoggedFields {
    /// The bits for the forms of a logged data fork. At most one of them is set.
    pub const DATA: Self = Self::DATA_LOCAL.union(Self::DATA_EXTENTS).union(Self::DATA_ROOT);
    /// The bits for the forms of a logged attribute fork. At most one of them is set.
    pub const ATTR: Self = Self::ATTR_LOCAL.union(Self::ATTR_EXTENTS).union(Self::ATTR_ROOT);
}

/// The first region of an inode item.
#[doc(alias = "xfs_inode_log_format")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeFormat {
    /// Number of regions of the item: 2, plus one for each logged fork.
    pub regions: u16,
    /// The parts of the inode that are logged.
    pub fields: LoggedFields,
    /// Length in bytes of the region with the attribute fork.
    pub attr_bytes: u16,
    /// Length in bytes of the region with the data fork.
    pub data_bytes: u16,
    /// The inode number.
    pub inode: InodeNumber,
    /// The device number, valid with [`LoggedFields::DEVICE`].
    pub device: u32,
    /// Disk address of the inode's cluster.
    pub cluster: DiskAddr,
    /// Length of the cluster in basic blocks.
    pub cluster_blocks: u32,
    /// Offset of the inode in the cluster, in bytes.
    pub offset_bytes: u32,
}

impl InodeFormat {
    /// Length of the encoded region in bytes.
    pub const ENCODED_BYTES: usize = FORMAT_BYTES;

    /// Encodes the region.
    #[inline]
    #[must_use]
    pub fn encode(&self, order: HostOrder) -> [u8; FORMAT_BYTES] {
        let mut bytes = [0; FORMAT_BYTES];
        self.write(&mut FieldsMut::within(&mut bytes, order));
        bytes
    }

    fn read_fields(fields: &mut Fields<'_>, is_packed: bool) -> Option<Self> {
        fields.u16()?;
        let regions = fields.u16()?;
        let logged = LoggedFields::from_bits_retain(fields.u32()?);
        let (attr_bytes, data_bytes) = (fields.u16()?, fields.u16()?);
        if !is_packed {
            fields.u32()?;
        }
        let (inode, device) = (InodeNumber(fields.u64()?), fields.u32()?);
        fields.bytes::<12>()?;
        Some(Self {
            regions,
            fields: logged,
            attr_bytes,
            data_bytes,
            inode,
            device,
            cluster: DiskAddr(fields.u64()?),
            cluster_blocks: fields.u32()?,
            offset_bytes: fields.u32()?,
        })
    }
}

impl Format for InodeFormat {
    const BYTES: usize = FORMAT_BYTES;

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Self::read_fields(fields, false)
    }

    #[inline]
    fn write<S: Sink>(&self, fields: &mut FieldsMut<S>) {
        ItemHeader { kind: ItemKind::Inode, regions: self.regions }.write(fields);
        fields.u32(self.fields.bits());
        fields.u16(self.attr_bytes);
        fields.u16(self.data_bytes);
        fields.u32(0);
        fields.u64(self.inode.0);
        fields.u32(self.device);
        fields.bytes(&[0; 12]);
        fields.u64(self.cluster.0);
        fields.u32(self.cluster_blocks);
        fields.u32(self.offset_bytes);
    }
}

/// A logged inode.
#[doc(alias = "xfs_inode_log_item")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeItem<'a> {
    /// The inode and its logged parts.
    pub format: InodeFormat,
    /// The core in the writer's byte order: [`LOG_CORE_BYTES`] on a v5 volume, and
    /// [`LOG_CORE_BYTES_V4`] on a v4 volume.
    pub core: &'a [u8],
    /// The data fork, if it is logged.
    pub data: Option<&'a [u8]>,
    /// The attribute fork, if it is logged.
    pub attr: Option<&'a [u8]>,
}

impl<'a> InodeItem<'a> {
    pub(super) fn read(
        first: &[u8],
        rest: &[&'a [u8]],
        order: HostOrder,
    ) -> Result<Self, LogItemCheck> {
        let is_packed = first.len() == PACKED_FORMAT_BYTES;
        let (item, bytes) = (ItemKind::Inode.name(), first.len());
        let short = LogItemCheck::Short { item, bytes, needed: InodeFormat::BYTES };
        let format = InodeFormat::read_fields(&mut Fields::new(first, order), is_packed);
        let format = format.ok_or(short)?;
        let regions = rest.len() + 1;
        let mismatch = LogItemCheck::InodeFields { fields: format.fields.bits(), regions };
        let mut rest = rest.iter().copied();
        let core = rest.next().ok_or(mismatch)?;
        let needed = match core.get(VERSION_OFFSET) {
            Some(version) if *version < INODE_VERSION => LOG_CORE_BYTES_V4,
            _ => LOG_CORE_BYTES,
        };
        let bytes = core.len();
        if bytes != needed {
            return Err(LogItemCheck::Short { item, bytes, needed });
        }
        let magic = Fields::new(core, order).u16().unwrap_or_default();
        if magic != INODE_MAGIC {
            return Err(LogItemCheck::CoreMagic { magic });
        }
        let mut fork = |ways: LoggedFields, promised: u16| match format
            .fields
            .intersection(ways)
            .bits()
            .count_ones()
        {
            0 => Ok(None),
            1 => match rest.next() {
                Some(region) if region.len() >= usize::from(promised) => Ok(Some(region)),
                _ => Err(mismatch),
            },
            _ => Err(mismatch),
        };
        let data = fork(LoggedFields::DATA, format.data_bytes)?;
        let attr = fork(LoggedFields::ATTR, format.attr_bytes)?;
        match rest.next() {
            None => Ok(Self { format, core, data, attr }),
            Some(_) => Err(mismatch),
        }
    }

    /// Returns the format version of the volume, which follows from the length of the logged core.
    #[must_use]
    pub const fn version(&self) -> FormatVersion {
        if self.core.len() == LOG_CORE_BYTES_V4 { FormatVersion::V4 } else { FormatVersion::V5 }
    }
}

/// Offsets of the times in the core. Each time is seconds and nanoseconds, or one 64-bit number if
/// the inode has the flag for big timestamps.
const TIME_OFFSETS: [usize; 4] = [32, 40, 48, 144];
/// Offset in the core of the inode's version.
const VERSION_OFFSET: usize = 4;
/// Offset of six bytes of padding in the core of a v4 inode.
const PADDING_OFFSET: usize = 24;
/// Offset of the flush count in the core of a v4 inode: the number of times that the inode was
/// written to its place on the disk. The six bytes before the count are padding.
#[doc(alias = "di_flushiter")]
const FLUSH_COUNT_OFFSET: usize = 30;
/// Offset in the core of the word with the flag for big timestamps.
const FLAGS2_OFFSET: usize = 120;

/// Converts the logged core of an inode to its disk form.
#[doc(alias = "xfs_log_dinode_to_disk")]
#[must_use]
pub fn core_to_disk(core: &[u8; LOG_CORE_BYTES], order: HostOrder) -> [u8; LOG_CORE_BYTES] {
    let bits = core.get(FLAGS2_OFFSET..).and_then(|rest| Fields::new(rest, order).u64());
    exchange(core, order, bits.expect("the flags lie in the core"))
}

/// Converts the logged core of an inode of a v4 volume to its disk form. The flush count becomes 0:
/// a replay begins a new count.
#[must_use]
pub fn core_to_disk_v4(
    core: &[u8; LOG_CORE_BYTES_V4],
    order: HostOrder,
) -> [u8; LOG_CORE_BYTES_V4] {
    let mut whole = [0; LOG_CORE_BYTES];
    let (logged, _) = whole.split_at_mut(LOG_CORE_BYTES_V4);
    logged.copy_from_slice(core);
    let mut disk = *exchange(&whole, order, 0)
        .first_chunk()
        .expect("the core of a v4 inode is shorter than that of a v5 inode");
    // A v5 core has a 64-bit number in place of the padding and the number of flushes.
    let disk_bytes: &mut [u8; LOG_CORE_BYTES_V4] = &mut disk;
    let padding = disk_bytes.get_mut(PADDING_OFFSET..FLUSH_COUNT_OFFSET + size_of::<u16>());
    padding.expect("the padding lies in the core").fill(0);
    disk
}

/// Returns the flush count in the logged core of a v4 inode: the number of times that the inode had
/// been written to its place on the disk.
#[must_use]
pub fn logged_flush_count(core: &[u8; LOG_CORE_BYTES_V4], order: HostOrder) -> u16 {
    let count = core.get(FLUSH_COUNT_OFFSET..).and_then(|rest| Fields::new(rest, order).u16());
    count.expect("the count lies in the core")
}

/// Returns the flush count of the v4 inode in `bytes`: the number of times that it has been written
/// to its place on the disk. Returns `None` if there are too few bytes.
#[must_use]
pub fn stored_flush_count(bytes: &[u8]) -> Option<u16> {
    Fields::new(bytes.get(FLUSH_COUNT_OFFSET..)?, HostOrder::Big).u16()
}

/// Converts the core of an inode on disk to its logged form.
#[doc(alias = "xfs_inode_to_log_dinode")]
#[must_use]
#[inline]
pub fn core_to_log(core: &[u8; LOG_CORE_BYTES], order: HostOrder) -> [u8; LOG_CORE_BYTES] {
    let bits = core.get(FLAGS2_OFFSET..).and_then(|rest| Fields::new(rest, HostOrder::Big).u64());
    exchange(core, order, bits.expect("the flags lie in the core"))
}

/// Reverses the bytes of all fields of one width in a core. This code runs for every logged inode.
/// For speed, the offsets are constants, and each field is loaded, reversed and stored as one word.
macro_rules! reverse {
    ($core:ident, $word:ident: $($offset:expr),*) => {$(
        let field = $core.get_mut($offset..).and_then(<[u8]>::first_chunk_mut);
        let field = field.expect("the field lies in the core");
        *field = $word::from_be_bytes(*field).swap_bytes().to_be_bytes();
    )*};
}

#[inline]
fn exchange(core: &[u8; LOG_CORE_BYTES], order: HostOrder, flags2: u64) -> [u8; LOG_CORE_BYTES] {
    let mut other = *core;
    if order == HostOrder::Big {
        return other;
    }
    // The UUID has no byte order.
    reverse!(other, u16: 0, 2, 6, 20, 22, 80, 88, 90);
    reverse!(other, u32: 8, 12, 16, 72, 76, 84, 92, 96, 100, 128);
    reverse!(other, u64: 24, 32, 40, 48, 56, 64, 104, 112, FLAGS2_OFFSET, 144, 152);
    if flags2 & InodeFlags2::BIGTIME.bits() == 0 {
        // Reversing 64 bits has exchanged seconds and nanoseconds. Exchange them back.
        for offset in TIME_OFFSETS {
            other.get_mut(offset..offset + 8).expect("the time lies in the core").rotate_left(4);
        }
    }
    other
}
