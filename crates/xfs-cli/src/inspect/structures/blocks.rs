//! Descriptions of blocks and sectors: the structure in a block, its header and its records.

use ferroxfs::Geometry;
use ferroxfs::error::{DiskAddr, StructureAddress};
use ferroxfs::raw::format::attr::leaf::{self as attr_leaf, AttrLeafHeaderDisk};
use ferroxfs::raw::format::attr::remote::{self, RemoteHeaderDisk};
use ferroxfs::raw::format::attr::{AttrLeaf, AttrValue};
use ferroxfs::raw::format::btree::{
    BtreeBlock, BtreeKind, LongHeaderDisk, PointerForm, ShortHeaderDisk,
};
use ferroxfs::raw::format::dabtree::{self, DaNode, NodeEntryDisk, NodeHeaderDisk};
use ferroxfs::raw::format::directory::data::{self, DataHeaderDisk};
use ferroxfs::raw::format::directory::free::{self, FreeHeaderDisk};
use ferroxfs::raw::format::directory::leaf::{self as directory_leaf, LeafHeaderDisk};
use ferroxfs::raw::format::directory::{
    DataBlock, DirectoryForm, Entry, FreeBlock, HashEntryDisk, LeafBlock,
};
use ferroxfs::raw::format::extent::{Extent, ExtentDisk};
use ferroxfs::raw::format::free_space::FreeSpaceDisk;
use ferroxfs::raw::format::inode_chunk::InodeChunkDisk;
use ferroxfs::raw::format::refcount::RefcountDisk;
use ferroxfs::raw::format::rmap::RmapDisk;
use ferroxfs::raw::format::symlink::{self, SymlinkDisk};
use ferroxfs::raw::format::{BlockKind, FormatVersion, agf, agfl, agi, superblock};
use zerocopy::FromBytes;

use super::fields::{self, Describe};
use super::value::{Fields, Value};

/// The description of a structure for output.
pub(crate) struct Described {
    /// The name of the structure, for people and programs.
    pub(crate) name: &'static str,
    /// The kind of the block. It selects the verifier that checks the structure.
    pub(crate) kind: BlockKind,
    /// The fields of the structure.
    pub(crate) fields: Fields,
    /// The block numbers of the children, if the structure is an inner node of a btree; empty
    /// otherwise.
    pub(crate) children: Vec<u64>,
}

impl Described {
    fn new(name: &'static str, kind: BlockKind, fields: Option<Fields>) -> Option<Self> {
        Some(Self { name, kind, fields: fields?, children: Vec::new() })
    }

    fn with_list(mut self, name: &'static str, values: Vec<Value>) -> Self {
        self.fields.push((name, Value::List(values)));
        self
    }
}

/// Describes the sector of a superblock or of a header of an allocation group. `None` for any other
/// kind, or if there are too few bytes.
pub(crate) fn describe_sector(kind: BlockKind, bytes: &[u8], at: DiskAddr) -> Option<Described> {
    match kind {
        BlockKind::Superblock => {
            let fields = fields::of::<superblock::SuperblockDisk>(bytes);
            Described::new("superblock", kind, fields)
        }
        BlockKind::Agf => Described::new("agf", kind, fields::of::<agf::AgfDisk>(bytes)),
        BlockKind::Agi => Described::new("agi", kind, fields::of::<agi::AgiDisk>(bytes)),
        BlockKind::Agfl => {
            let described = Described::new("agfl", kind, fields::of::<agfl::AgflHeaderDisk>(bytes));
            let list = agfl::Agfl::decode(bytes, at, FormatVersion::V5).ok();
            let places = list.iter().flat_map(agfl::Agfl::entries).map(|place| Value::Number {
                value: place.map_or(u64::MAX, |block| block.0.into()),
                is_null: place.is_none(),
            });
            described.map(|described| described.with_list("blocks", places.collect()))
        }
        _ => None,
    }
}

/// Describes a block by its magic number; `None` if the magic number is unknown.
pub(crate) fn describe_block(bytes: &[u8], at: DiskAddr, geometry: &Geometry) -> Option<Described> {
    let magic = u32::from_be_bytes(*bytes.first_chunk()?);
    let place = StructureAddress::Disk(at);
    match magic {
        superblock::SUPERBLOCK_MAGIC => describe_sector(BlockKind::Superblock, bytes, at),
        data::BLOCK_MAGIC | data::DATA_MAGIC => describe_directory_data(bytes, place),
        free::FREE_MAGIC => {
            let fields = fields::of::<FreeHeaderDisk>(bytes);
            let described =
                Described::new("directory free index", BlockKind::DirectoryFree, fields);
            let block = FreeBlock::decode(bytes, place).ok();
            let best = block.iter().flat_map(|block| block.best_free());
            let best = best.map(|best| Value::number(best.get())).collect();
            described.map(|described| described.with_list("best_free", best))
        }
        remote::REMOTE_MAGIC => {
            let fields = fields::of::<RemoteHeaderDisk>(bytes);
            Described::new("remote attribute value", BlockKind::AttrRemote, fields)
        }
        symlink::SYMLINK_MAGIC => {
            let described = Described::new(
                "symlink target",
                BlockKind::Symlink,
                fields::of::<SymlinkDisk>(bytes),
            );
            let target = symlink::SymlinkBlock::decode(bytes, at).ok();
            let target = target.map(|block| Value::Name(block.target.to_vec()));
            described.map(|mut described| {
                described.fields.extend(target.map(|target| ("target", target)));
                described
            })
        }
        _ => {
            let kind = btree_kind(magic);
            match kind.and_then(|kind| describe_btree(bytes, kind, at, geometry)) {
                Some(described) => Some(described),
                None => describe_index(bytes, place),
            }
        }
    }
}

fn describe_directory_data(bytes: &[u8], place: StructureAddress) -> Option<Described> {
    let fields = fields::of::<DataHeaderDisk>(bytes);
    let described = Described::new("directory data", BlockKind::DirectoryData, fields)?;
    let Ok(block) = DataBlock::decode(bytes, 0, place, DirectoryForm::V5) else {
        return Some(described);
    };
    // After an entry that cannot be read, the next one cannot be found.
    let entries = block.entries().map_while(Result::ok).map(|entry| entry_value(&entry)).collect();
    let index = block.index().iter().map(|entry| Value::Record(entry.describe())).collect();
    Some(described.with_list("entries", entries).with_list("index", index))
}

/// Converts a directory entry to a value for output.
pub(super) fn entry_value(entry: &Entry<'_>) -> Value {
    Value::Record(vec![
        ("name", Value::Name(entry.name.to_vec())),
        ("inode", Value::number(entry.inode.0)),
        ("type", Value::number(entry.entry_type.to_disk())),
        ("cookie", Value::number(entry.cookie.0)),
    ])
}

/// Describes an index block of a directory or an attribute fork.
fn describe_index(bytes: &[u8], place: StructureAddress) -> Option<Described> {
    match dabtree::magic(bytes)? {
        dabtree::NODE_MAGIC => {
            // Directories and attributes share the form of nodes and their verifiers.
            let fields = fields::of::<NodeHeaderDisk>(bytes);
            let described = Described::new("hash index node", BlockKind::DirectoryIndex, fields)?;
            let node = DaNode::decode(bytes, place).ok();
            let entries: &[NodeEntryDisk] = node.as_ref().map_or(&[], DaNode::entries);
            let entries = entries.iter().map(|entry| Value::Record(entry.describe())).collect();
            Some(described.with_list("entries", entries))
        }
        directory_leaf::LEAF1_MAGIC | directory_leaf::LEAFN_MAGIC => {
            let fields = fields::of::<LeafHeaderDisk>(bytes);
            let described = Described::new("directory leaf", BlockKind::DirectoryIndex, fields)?;
            let leaf = LeafBlock::decode(bytes, place).ok();
            let entries: &[HashEntryDisk] = leaf.as_ref().map_or(&[], LeafBlock::entries);
            let entries = entries.iter().map(|entry| Value::Record(entry.describe())).collect();
            Some(described.with_list("entries", entries))
        }
        attr_leaf::LEAF_MAGIC => {
            let fields = fields::of::<AttrLeafHeaderDisk>(bytes);
            let described = Described::new("attribute leaf", BlockKind::Attr, fields)?;
            let Ok(leaf) = AttrLeaf::decode(bytes, place) else { return Some(described) };
            let entries = leaf.entries().map_while(Result::ok);
            let entries = entries.map(|entry| attribute_value(&entry)).collect();
            Some(described.with_list("entries", entries))
        }
        _ => None,
    }
}

/// Converts an extended attribute to a value for output.
pub(super) fn attribute_value(entry: &ferroxfs::raw::format::attr::AttrEntry<'_>) -> Value {
    let mut fields = vec![
        ("namespace", Value::Text(format!("{:?}", entry.namespace).to_lowercase())),
        ("name", Value::Name(entry.name.to_vec())),
    ];
    match entry.value {
        AttrValue::Local(value) => fields.push(("value", Value::Name(value.to_vec()))),
        AttrValue::Remote { first_block, length_bytes } => {
            fields.push(("value_block", Value::number(first_block.0)));
            fields.push(("value_length", Value::number(length_bytes)));
        }
    }
    Value::Record(fields)
}

fn btree_kind(magic: u32) -> Option<BtreeKind> {
    use BtreeKind::{
        Extent, FreeInode, FreeSpaceByBlock, FreeSpaceBySize, Inode, Refcount, ReverseMap,
    };
    [FreeSpaceByBlock, FreeSpaceBySize, Inode, FreeInode, ReverseMap, Refcount, Extent]
        .into_iter()
        .find(|kind| kind.layout().magic == magic)
}

fn describe_btree(
    bytes: &[u8],
    kind: BtreeKind,
    at: DiskAddr,
    geometry: &Geometry,
) -> Option<Described> {
    let bytes = bytes.get(..geometry.block_size as usize)?;
    let fields = match kind.layout().form {
        PointerForm::Short => fields::of::<ShortHeaderDisk>(bytes),
        PointerForm::Long => fields::of::<LongHeaderDisk>(bytes),
    };
    let mut described = Described::new(kind.name(), BlockKind::Btree(kind), fields)?;
    let Ok(block) = BtreeBlock::decode(bytes, kind, at) else { return Some(described) };
    if block.is_leaf() {
        let records = block.records().filter_map(|record| record_value(kind, record)).collect();
        return Some(described.with_list("records", records));
    }
    described.children = (0..block.count()).filter_map(|index| block.pointer(index)).collect();
    let children = described.children.iter().map(|&child| Value::number(child)).collect();
    Some(described.with_list("children", children))
}

fn record_value(kind: BtreeKind, bytes: &[u8]) -> Option<Value> {
    let fields = match kind {
        BtreeKind::FreeSpaceByBlock | BtreeKind::FreeSpaceBySize => {
            fields::of::<FreeSpaceDisk>(bytes)
        }
        BtreeKind::Inode | BtreeKind::FreeInode => fields::of::<InodeChunkDisk>(bytes),
        BtreeKind::ReverseMap | BtreeKind::RealtimeReverseMap => fields::of::<RmapDisk>(bytes),
        BtreeKind::Refcount | BtreeKind::RealtimeRefcount => fields::of::<RefcountDisk>(bytes),
        BtreeKind::Extent => {
            let (disk, _) = ExtentDisk::ref_from_prefix(bytes).ok()?;
            return Some(extent_value(&Extent::decode(disk)));
        }
    };
    fields.map(Value::Record)
}

/// Converts an extent of a fork to a value for output.
pub(super) fn extent_value(extent: &Extent) -> Value {
    Value::Record(vec![
        ("file_block", Value::number(extent.file_block.0)),
        ("start", Value::number(extent.start.0)),
        ("length_blocks", Value::number(extent.length_blocks)),
        ("unwritten", Value::Flag(extent.unwritten)),
    ])
}
