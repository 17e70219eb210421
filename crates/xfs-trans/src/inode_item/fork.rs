//! The forks of an inode: reading them from the inode's bytes, writing them into these bytes, and
//! logging them.

use xfs_format::btree::BtreeKind;
use xfs_format::inode::{
    self, DeviceNumber, FORK_OFFSET_BYTES, ForkFormat, ForkKind, InodeCore, InodeDisk, pack_device,
};
use xfs_format::log_item::LoggedFields;
use xfs_format::realtime::MetadataRootLayout;
use xfs_log::{RegionUpdater, RegionWriter};
use zerocopy::FromBytes;

use super::{ForkBytes, InodeImage};

/// The length in bytes of an extent record.
const EXTENT_BYTES: usize = 16;
/// The length in bytes of the header of a btree root in a fork: level and number of records.
const DISK_ROOT_BYTES: usize = 4;
/// The length in bytes of the header of a btree root in the log, where the root has the header of a
/// whole btree block.
const LOGGED_ROOT_BYTES: usize = 72;
/// The length in bytes of a key of a btree. A pointer has the same length.
const ENTRY_BYTES: usize = 8;

/// Returns the used bytes of the data fork and of the attribute fork of the inode in `bytes`. The
/// inode has passed its verifier.
pub(super) fn read(bytes: &[u8], core: &InodeCore) -> (ForkBytes, ForkBytes) {
    let used = |kind: ForkKind| {
        let room = inode::fork(bytes, core, kind);
        let format = core.fork_format(kind);
        let length = match format {
            None => 0,
            Some(ForkFormat::Local) if kind == ForkKind::Data => core.size as usize,
            Some(ForkFormat::Local) => local_attr_bytes(room),
            Some(ForkFormat::Extents) => core.fork_extents(kind) as usize * EXTENT_BYTES,
            Some(ForkFormat::Btree | ForkFormat::MetadataBtree) => room.len(),
            Some(ForkFormat::Device | ForkFormat::Uuid) => 0,
        };
        let used = room.get(..length).expect("a verified fork holds its contents");
        match format {
            Some(ForkFormat::Local) => ForkBytes::Shared(used.into()),
            _ => ForkBytes::Own(used.to_vec()),
        }
    };
    if core.is_free() {
        return (ForkBytes::NONE, ForkBytes::NONE);
    }
    (used(ForkKind::Data), used(ForkKind::Attr))
}

/// Returns the number of bytes of the fork that short-form attributes use. The attributes begin
/// with this number. The verifier of an inode does not check the number; each use of the attributes
/// checks it. For a damaged number, returns the length of the whole fork, so that no byte of the
/// fork is lost.
fn local_attr_bytes(room: &[u8]) -> usize {
    let stored = room.first_chunk::<2>().map(|length| u16::from_be_bytes(*length).into());
    stored.filter(|stored| *stored <= room.len()).unwrap_or(room.len())
}

/// Writes core and forks into `slot`, the bytes of the inode in its cluster. The link of the
/// unlinked list is left as it is, because this link is changed and logged in the buffer.
pub(super) fn write(slot: &mut [u8], core: &InodeDisk, image: &InodeImage) {
    let (target, literal) =
        InodeDisk::mut_from_prefix(slot).expect("the slot of an inode holds its core");
    let next_unlinked = target.next_unlinked;
    *target = *core;
    target.next_unlinked = next_unlinked;
    let middle = match image.core.fork_offset {
        0 => literal.len(),
        offset => usize::from(offset) * FORK_OFFSET_BYTES,
    };
    assert!(middle <= literal.len(), "the attribute fork starts inside the inode");
    let (data, attr) = literal.split_at_mut(middle);
    match image.core.rdev {
        Some(device) => fill(data, &encode_device(device).to_be_bytes()),
        None => fill(data, &image.data),
    }
    fill(attr, &image.attr);
}

/// Encodes a device number. A number that does not fit into the 32 bits on disk was refused when
/// the inode was created or read.
pub(super) fn encode_device(device: DeviceNumber) -> u32 {
    pack_device(device).expect("the device number of an inode fits its 32 bits")
}

/// Writes the bytes of a fork into `room`, the fork's space in the inode, and zeros after them.
fn fill(room: &mut [u8], bytes: &[u8]) {
    assert!(bytes.len() <= room.len(), "a fork does not fit its inode");
    let (used, rest) = room.split_at_mut(bytes.len());
    used.copy_from_slice(bytes);
    rest.fill(0);
}

/// The logged parts of an inode's forks, and the flags of all parts of the inode that are logged.
pub(super) struct LoggedForks<'a> {
    pub(super) fields: LoggedFields,
    pub(super) data: Option<ForkRegion<'a>>,
    pub(super) attr: Option<ForkRegion<'a>>,
}

/// The regions of an inode's log entry: which parts are logged, and the lengths of the forks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LoggedShape {
    fields: LoggedFields,
    data_bytes: u16,
    attr_bytes: u16,
}

impl LoggedShape {
    /// Packs the shape into a number that is not 0, because the core is always logged.
    pub(super) const fn pack(self) -> u64 {
        (self.fields.bits() as u64) << 32 | (self.data_bytes as u64) << 16 | self.attr_bytes as u64
    }

    /// Unpacks a number that [`pack`](Self::pack) has returned.
    pub(super) const fn unpack(word: u64) -> Self {
        let fields = LoggedFields::from_bits_retain((word >> 32) as u32);
        Self { fields, data_bytes: (word >> 16) as u16, attr_bytes: word as u16 }
    }
}

impl LoggedForks<'_> {
    /// Returns the regions of the log entry. Returns `None` for an inode whose log entry is never
    /// updated in place: one of a device, or one with the root of a btree.
    pub(super) fn shape(&self, core: &InodeCore) -> Option<LoggedShape> {
        let length = |fork: &Option<ForkRegion<'_>>| match fork {
            None => Some(0),
            Some(ForkRegion::Same(bytes)) => u16::try_from(bytes.len()).ok(),
            Some(ForkRegion::Root(_)) => None,
        };
        let (data_bytes, attr_bytes) = (length(&self.data)?, length(&self.attr)?);
        let shape = LoggedShape { fields: self.fields, data_bytes, attr_bytes };
        core.rdev.is_none().then_some(shape)
    }
}

/// The bytes of one fork as they are logged.
pub(super) enum ForkRegion<'a> {
    /// The bytes of the fork, exactly as they lie in the inode.
    Same(&'a [u8]),
    /// The root of a btree, converted to the form in which it is logged.
    Root(LoggedRoot<'a>),
}

/// The root of a btree as it is logged. The logged form begins with the header of a btree block,
/// and the pointers follow the keys without a gap. Recovery reads only level and number of records
/// from the header.
#[doc(alias = "xfs_bmdr_to_bmbt")]
pub(super) struct LoggedRoot<'a> {
    magic: u32,
    header: &'a [u8],
    keys: &'a [u8],
    pointers: &'a [u8],
}

/// Returns the dirty parts of the forks, in the forks' current formats. A fork that has changed its
/// format is logged in the new format only.
pub(super) fn logged(image: &InodeImage, dirty: LoggedFields) -> LoggedForks<'_> {
    let core = &image.core;
    let owners = LoggedFields::DATA_OWNER | LoggedFields::ATTR_OWNER;
    let mut fields = LoggedFields::CORE | dirty.intersection(owners);
    let mut choose = |format: Option<ForkFormat>, ways: LoggedFields, bytes: &[u8]| {
        let way = match format {
            Some(ForkFormat::Local) => ways.intersection(LOCAL),
            Some(ForkFormat::Extents) => ways.intersection(EXTENTS),
            Some(ForkFormat::Btree | ForkFormat::MetadataBtree) => ways.intersection(ROOT),
            _ => LoggedFields::empty(),
        };
        if way.is_empty() || bytes.is_empty() || !dirty.intersects(ways) {
            return false;
        }
        fields |= way;
        true
    };
    let attr_format = core.fork_format(ForkKind::Attr);
    let data = choose(Some(core.data_format), LoggedFields::DATA, &image.data)
        .then(|| ForkRegion::new(core, core.data_format, &image.data));
    let attr = attr_format
        .filter(|_| choose(attr_format, LoggedFields::ATTR, &image.attr))
        .map(|format| ForkRegion::new(core, format, &image.attr));
    if core.data_format == ForkFormat::Device && dirty.contains(LoggedFields::DEVICE) {
        fields |= LoggedFields::DEVICE;
    }
    LoggedForks { fields, data, attr }
}

const LOCAL: LoggedFields = LoggedFields::DATA_LOCAL.union(LoggedFields::ATTR_LOCAL);
const EXTENTS: LoggedFields = LoggedFields::DATA_EXTENTS.union(LoggedFields::ATTR_EXTENTS);
const ROOT: LoggedFields = LoggedFields::DATA_ROOT.union(LoggedFields::ATTR_ROOT);

impl<'a> ForkRegion<'a> {
    fn new(core: &InodeCore, format: ForkFormat, bytes: &'a [u8]) -> Self {
        match format {
            ForkFormat::Btree => Self::Root(LoggedRoot::new(bytes)),
            ForkFormat::MetadataBtree => Self::Root(LoggedRoot::of_metadata(core, bytes)),
            _ => Self::Same(bytes),
        }
    }

    /// Returns the length of the region in bytes.
    pub(super) fn length_bytes(&self) -> usize {
        match self {
            Self::Same(bytes) => bytes.len(),
            Self::Root(root) => LOGGED_ROOT_BYTES + root.keys.len() + root.pointers.len(),
        }
    }

    /// Overwrites the region in the log entry of the item.
    pub(super) fn update(&self, regions: &mut RegionUpdater<'_>) {
        let region = regions.next(self.length_bytes());
        match self {
            Self::Same(bytes) => region.copy_from_slice(bytes),
            Self::Root(_) => unreachable!("an entry with the root of a btree has no shape"),
        }
    }

    /// Appends the region to the regions of the item.
    pub(super) fn put(&self, regions: &mut RegionWriter<'_>) {
        match self {
            Self::Same(bytes) => regions.region(bytes),
            Self::Root(root) => {
                regions.encoded(self.length_bytes(), |bytes| root.encode_into(bytes));
            }
        }
    }
}

impl<'a> LoggedRoot<'a> {
    fn new(root: &'a [u8]) -> Self {
        let fits = root.len().saturating_sub(DISK_ROOT_BYTES) / (2 * ENTRY_BYTES);
        let (header, _) =
            root.split_at_checked(DISK_ROOT_BYTES).expect("the root of a btree has a header");
        let count = header.last_chunk::<2>().expect("the header ends with the number of records");
        let count = usize::from(u16::from_be_bytes(*count));
        assert!(count <= fits, "more records than the root of a btree holds");
        let entries = |from: usize| {
            let entries = root.get(from..from + count * ENTRY_BYTES);
            entries.expect("the entries of a root lie inside it")
        };
        let pointers = entries(DISK_ROOT_BYTES + fits * ENTRY_BYTES);
        let magic = BtreeKind::Extent.layout().magic;
        Self { magic, header, keys: entries(DISK_ROOT_BYTES), pointers }
    }

    /// Returns the logged form of the root of a btree of a realtime group. The root was verified
    /// when it was read.
    fn of_metadata(core: &InodeCore, root: &'a [u8]) -> Self {
        let layout = MetadataRootLayout::of_metatype(core.metafile_type, root.len());
        let layout = layout.expect("only inodes of btrees of realtime groups have such a fork");
        let parts = layout.parts(root).expect("the root was verified before it was changed");
        let (header, _) =
            root.split_at_checked(DISK_ROOT_BYTES).expect("the root of a btree has a header");
        let [keys, pointers] = parts;
        Self { magic: layout.kind.layout().magic, header, keys, pointers }
    }

    fn encode_into(&self, bytes: &mut Vec<u8>) {
        let mut head = [0; LOGGED_ROOT_BYTES];
        let (magic, rest) = head.split_at_mut(size_of::<u32>());
        magic.copy_from_slice(&self.magic.to_be_bytes());
        let header = rest.first_chunk_mut::<DISK_ROOT_BYTES>();
        header.expect("a logged header has room for that of a root").copy_from_slice(self.header);
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(self.keys);
        bytes.extend_from_slice(self.pointers);
    }
}

#[cfg(test)]
mod tests;
