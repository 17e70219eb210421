//! `dump`: shows any structure of a volume, field by field, with the result of its verifier.
//!
//! The bytes are read directly from the device. The buffer cache would not return a structure that
//! fails its checks, and this command is meant for such structures.

use std::collections::HashSet;
use std::io::{self, Write};
use std::ops::RangeInclusive;

use ferroxfs::admin::AgNumber;
use ferroxfs::contents::ForkKind;
use ferroxfs::contents::FsBlock;
use ferroxfs::error::{DiskAddr, StructureAddress};
use ferroxfs::raw::format::extent::ExtentRoot;
use ferroxfs::raw::format::inode::{self, InodeCore};
use ferroxfs::raw::format::{AgBlock, BlockKind, FormatVersion, agf, agi};
use ferroxfs::raw::{
    Superblock,
    format::superblock::{SuperblockDisk, SuperblockError},
};
use ferroxfs::{Corruption, Error, Geometry, InodeNumber};

use zerocopy::FromBytes as _;

use crate::cli::{DumpArguments, DumpBtree, DumpStructure, GlobalOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{Image, ImageVolume, exit_of_read};
use crate::inspect::structures::{
    Described, Fields, Value, describe_block, describe_inode, describe_sector,
};
use crate::inspect::structures::{fields_to_json, print_fields};
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::tally::Work;

/// The size of the smallest sector of XFS, in bytes.
const SMALLEST_SECTOR_BYTES: usize = 512;
const LARGEST_SECTOR_BYTES: usize = 32 << 10;
/// The sizes that a block of XFS can have, in bytes.
const BLOCK_BYTES: RangeInclusive<u64> = 512..=64 << 10;
/// The hint if the first superblock does not say where its copies are.
const COPIES: &str = "each allocation group starts with a copy, and most volumes have four groups: \
     `ferroxfs dump --offset BYTES IMAGE sb` shows the copy at that byte, for example at a quarter \
     of the length; xfs_repair searches the whole image";

struct Dump {
    image: Image,
    structure: DumpStructure,
    is_json: bool,
}

/// Opens the image and returns the command, ready to run.
pub(crate) fn open(
    arguments: &DumpArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let image = Image::open_as_it_stands(&arguments.image, options)?;
    let (structure, is_json) = (arguments.structure, arguments.json.json);
    Ok(Box::new(Dump { image, structure, is_json }))
}

impl Run for Dump {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let volume = match self.image.read() {
            Ok(volume) => volume,
            // Without a superblock nothing of a volume can be found except its superblocks.
            Err(failure) => {
                if let DumpStructure::Sb { ag } = self.structure
                    && let Some(at) = self.superblock_place(ag)?
                {
                    self.show_superblock_alone(at, console)?;
                    return Err(failure);
                }
                return Err(match self.structure {
                    DumpStructure::Sb { .. } => failure.hint(COPIES),
                    _ => failure,
                });
            }
        };
        let is_v4 = volume.inner().geometry().version == FormatVersion::V4;
        let has_v4_form = matches!(
            self.structure,
            DumpStructure::Sb { .. } | DumpStructure::Agf { .. } | DumpStructure::Agi { .. }
        );
        if is_v4 && !has_v4_form {
            let text = "of a version 4 volume, only sb, agf and agi can be shown";
            return Err(volume.whole_failure(Failure::new(Exit::Refused, text)));
        }
        console.begin_rows(Work::step("reading"));
        let dumper = Dumper { volume: &volume, is_json: self.is_json };
        match self.structure {
            DumpStructure::Sb { ag } => dumper.header(BlockKind::Superblock, ag, console),
            DumpStructure::Agf { ag } => dumper.header(BlockKind::Agf, ag, console),
            DumpStructure::Agi { ag } => dumper.header(BlockKind::Agi, ag, console),
            DumpStructure::Agfl { ag } => dumper.header(BlockKind::Agfl, ag, console),
            DumpStructure::Inode { ino } => dumper.inode(InodeNumber(ino), console),
            DumpStructure::Block { block } => dumper.block(FsBlock(block), console),
            DumpStructure::Btree { kind, of } => dumper.btree(kind, of, console),
        }
    }
}

impl Dump {
    /// Returns the address of the superblock of group `ag`. The address is computed from the first
    /// superblock, even if that superblock is damaged. `None` if the sizes of blocks and groups in
    /// it are invalid, or if the group is past the end of the image.
    fn superblock_place(&self, ag: u32) -> Result<Option<DiskAddr>, Failure> {
        if ag == 0 {
            return Ok(Some(DiskAddr(0)));
        }
        let bytes = self.image.bytes_at(0, SMALLEST_SECTOR_BYTES)?;
        let Ok((first, _)) = SuperblockDisk::ref_from_prefix(&bytes) else { return Ok(None) };
        let block_bytes = u64::from(first.block_size.get());
        let group_bytes = block_bytes * u64::from(first.ag_blocks.get());
        let offset = group_bytes.checked_mul(ag.into());
        let offset = offset.filter(|offset| *offset < self.image.length_bytes());
        let is_size = block_bytes.is_power_of_two() && BLOCK_BYTES.contains(&block_bytes);
        Ok(offset
            .filter(|offset| is_size && *offset > 0)
            .map(|offset| DiskAddr(offset / u64::from(ferroxfs::raw::format::BASIC_BLOCK_BYTES))))
    }

    /// Shows a superblock of a volume that cannot be read. Bytes that are not a superblock are not
    /// shown.
    fn show_superblock_alone(&self, at: DiskAddr, console: &mut Console) -> Result<(), Failure> {
        let offset = at.byte_offset().unwrap_or(u64::MAX);
        let bytes = self.image.bytes_at(offset, LARGEST_SECTOR_BYTES)?;
        let verdict = match Superblock::decode(&bytes, StructureAddress::Disk(at)) {
            Ok(_) => Ok(()),
            Err(SuperblockError::Corrupt(corruption)) => Err(corruption),
            Err(_) => return Ok(()),
        };
        let sector = bytes.get(..SMALLEST_SECTOR_BYTES).unwrap_or(&bytes);
        let Some(described) = describe_sector(BlockKind::Superblock, sector, at) else {
            return Ok(());
        };
        let Described { name, fields, .. } = described;
        let verdict = Some(verdict);
        let shown = DumpedStructure { name, at, length_bytes: sector.len(), fields, verdict };
        match self.is_json {
            true => json::write_document(console.out(), object(&shown))?,
            false => print(console.out(), &shown)?,
        }
        Ok(())
    }
}

/// A structure of a volume that the command shows, with the result of its verifier.
struct DumpedStructure {
    name: &'static str,
    at: DiskAddr,
    length_bytes: usize,
    fields: Fields,
    /// The result of the verifier; `None` if it is unknown which verifier to use.
    verdict: Option<Result<(), Corruption>>,
}

struct Dumper<'a> {
    volume: &'a ImageVolume,
    is_json: bool,
}

impl Dumper<'_> {
    fn geometry(&self) -> &Geometry {
        self.volume.inner().geometry()
    }

    /// Reads bytes from the device without verifying them.
    fn read(&self, at: DiskAddr, length_bytes: u32) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; length_bytes as usize];
        let offset = at.byte_offset().unwrap_or(u64::MAX);
        self.volume.inner().device().read_at(&mut bytes, offset).map_err(|error| {
            let exit = exit_of_read(error.kind());
            let failure = Failure::new(exit, format!("{at}: {error}"));
            self.volume.whole_failure(failure)
        })?;
        Ok(bytes)
    }

    fn verify(&self, kind: BlockKind, bytes: &[u8], at: DiskAddr) -> Result<(), Corruption> {
        kind.verify(bytes, at, &self.volume.inner().cache().verify_context())
    }

    fn missing(&self, what: impl Into<String>) -> Failure {
        self.volume.whole_failure(Failure::new(Exit::Failed, what))
    }

    /// Returns the address and the bytes of one header (`kind`) of the allocation group `ag`.
    fn header_bytes(&self, kind: BlockKind, ag: u32) -> Result<(DiskAddr, Vec<u8>), Failure> {
        let geometry = self.geometry();
        if ag >= geometry.ag_count {
            let last = geometry.ag_count.saturating_sub(1);
            return Err(self.missing(format!("there is no group {ag}; the last is {last}")));
        }
        let index = match kind {
            BlockKind::Superblock => 0,
            BlockKind::Agf => 1,
            BlockKind::Agi => 2,
            _ => 3,
        };
        let at = geometry.header_disk_addr(AgNumber(ag), index);
        Ok((at, self.read(at, geometry.sector_size)?))
    }

    fn header(&self, kind: BlockKind, ag: u32, console: &mut Console) -> Result<(), Failure> {
        let (at, bytes) = self.header_bytes(kind, ag)?;
        let described = describe_sector(kind, &bytes, at)
            .ok_or_else(|| self.missing("the sector is too short for its structure"))?;
        self.show(self.shown(described, &bytes, at), console)
    }

    fn shown(&self, described: Described, bytes: &[u8], at: DiskAddr) -> DumpedStructure {
        let verdict = Some(self.verify(described.kind, bytes, at));
        let (name, fields) = (described.name, described.fields);
        DumpedStructure { name, at, length_bytes: bytes.len(), fields, verdict }
    }

    fn inode_bytes(&self, number: InodeNumber) -> Result<(DiskAddr, Vec<u8>), Failure> {
        let geometry = self.geometry();
        let place = geometry
            .inode_location(number)
            .ok_or_else(|| self.missing(format!("there is no inode {}", number.0)))?;
        let sector = u64::from(place.offset_bytes / ferroxfs::raw::format::BASIC_BLOCK_BYTES);
        let at = place.cluster.checked_add(sector).unwrap_or(DiskAddr::NULL);
        Ok((at, self.read(at, geometry.inode_size)?))
    }

    fn inode(&self, number: InodeNumber, console: &mut Console) -> Result<(), Failure> {
        let (at, bytes) = self.inode_bytes(number)?;
        let context = self.volume.inner().cache().verify_context();
        let (fields, verdict) = describe_inode(&bytes, number, &context);
        let (length_bytes, verdict) = (bytes.len(), Some(verdict));
        self.show(DumpedStructure { name: "inode", at, length_bytes, fields, verdict }, console)
    }

    /// Returns the block at an address of the volume, and a description of its contents; `None` for
    /// unknown contents. A directory block may be longer than a filesystem block: then the
    /// structure includes the blocks that follow.
    fn describe(&self, block: FsBlock) -> Result<(DumpedStructure, Option<Described>), Failure> {
        let geometry = self.geometry();
        let at = geometry
            .block_disk_addr(block)
            .ok_or_else(|| self.missing(format!("there is no block {}", block.0)))?;
        let mut bytes = self.read(at, geometry.block_size)?;
        let is_directory = describe_block(&bytes, at, geometry).is_some_and(|described| {
            matches!(
                described.kind,
                BlockKind::DirectoryData | BlockKind::DirectoryIndex | BlockKind::DirectoryFree
            )
        });
        if is_directory && geometry.directory_block_log > 0 {
            bytes = self.read(at, geometry.directory_block_size())?;
        }
        match describe_block(&bytes, at, geometry) {
            None => {
                let text = "no known magic number";
                let fields = vec![("contents", Value::Text(text.to_owned()))];
                let shown = DumpedStructure {
                    name: "block",
                    at,
                    length_bytes: bytes.len(),
                    fields,
                    verdict: None,
                };
                Ok((shown, None))
            }
            Some(described) => {
                let length = match described.kind {
                    BlockKind::Superblock => geometry.sector_size as usize,
                    _ => bytes.len(),
                };
                bytes.truncate(length);
                let verdict = Some(self.verify(described.kind, &bytes, at));
                let (name, fields) = (described.name, described.fields.clone());
                let shown = DumpedStructure { name, at, length_bytes: length, fields, verdict };
                Ok((shown, Some(described)))
            }
        }
    }

    fn block(&self, block: FsBlock, console: &mut Console) -> Result<(), Failure> {
        let (shown, _) = self.describe(block)?;
        self.show(shown, console)
    }

    /// Shows a btree level by level; `of` is its allocation group, or the inode whose fork it maps.
    /// Each block is shown once, so that a cycle of blocks ends.
    fn btree(&self, kind: DumpBtree, of: u64, console: &mut Console) -> Result<(), Failure> {
        let mut list = match self.is_json {
            true => Some(List::begin(console.out(), "blocks")?),
            false => None,
        };
        let (group, mut level) = self.roots(kind, of)?;
        let mut seen = HashSet::new();
        while !level.is_empty() {
            let mut below = Vec::new();
            for block in level {
                if !seen.insert(block) {
                    let message = format!("block {} is in the btree twice", block.0);
                    let failure = Failure::new(Exit::Corrupt, message);
                    console.report(&self.volume.whole_failure(failure));
                    continue;
                }
                let (shown, described) = match self.describe(block) {
                    Ok(found) => found,
                    Err(failure) => {
                        console.report(&failure);
                        continue;
                    }
                };
                let children = described.map(|described| described.children).unwrap_or_default();
                below.extend(children.into_iter().map(|child| match group {
                    None => FsBlock(child),
                    Some(group) => self.in_group(group, child),
                }));
                match &mut list {
                    Some(list) => list.push(console.out(), &object(&shown))?,
                    None => {
                        print(console.out(), &shown)?;
                        writeln!(console.out())?;
                    }
                }
                self.report(shown.verdict, console);
            }
            level = below;
        }
        match list {
            Some(list) => Ok(list.end(console.out())?),
            None => Ok(()),
        }
    }

    fn in_group(&self, group: AgNumber, block: u64) -> FsBlock {
        match u32::try_from(block) {
            Ok(block) => self.geometry().join_block(group, AgBlock(block)),
            Err(_) => FsBlock::NULL,
        }
    }

    /// Returns the root blocks of a btree. For a btree of an allocation group, also returns the
    /// group, to which the block numbers in the btree are relative.
    fn roots(&self, kind: DumpBtree, of: u64) -> Result<(Option<AgNumber>, Vec<FsBlock>), Failure> {
        let fork = match kind {
            DumpBtree::Bmap => ForkKind::Data,
            DumpBtree::AttrBmap => ForkKind::Attr,
            _ => {
                let group = u32::try_from(of).unwrap_or(u32::MAX);
                let root = self.group_root(kind, group)?;
                let group = AgNumber(group);
                return Ok((Some(group), vec![self.geometry().join_block(group, root)]));
            }
        };
        let number = InodeNumber(of);
        let (_, bytes) = self.inode_bytes(number)?;
        let core = InodeCore::decode(&bytes, number, self.geometry())
            .map_err(|error| self.volume.whole_failure(Error::from(error)))?;
        let root = ExtentRoot::decode(inode::fork(&bytes, &core, fork)).ok();
        let root = root.filter(|_| core.fork_format(fork) == Some(inode::ForkFormat::Btree));
        let root = root.ok_or_else(|| self.missing("the extents of this fork are not a btree"))?;
        Ok((None, root.iter().map(|(_, child)| child).collect()))
    }

    fn group_root(&self, kind: DumpBtree, ag: u32) -> Result<AgBlock, Failure> {
        let geometry = self.geometry();
        let absent = || self.missing("the volume has no such btree");
        let whole = |error: Corruption| self.volume.whole_failure(Error::from(error));
        if matches!(kind, DumpBtree::Ino | DumpBtree::Fino) {
            let (at, bytes) = self.header_bytes(BlockKind::Agi, ag)?;
            let agi = agi::Agi::decode(&bytes, at, geometry).map_err(whole)?;
            let root = match kind {
                DumpBtree::Ino => Some(agi.inode_btree),
                _ => agi.free_inode_btree,
            };
            return Ok(root.ok_or_else(absent)?.block);
        }
        let (at, bytes) = self.header_bytes(BlockKind::Agf, ag)?;
        let agf = agf::Agf::decode(&bytes, at, geometry).map_err(whole)?;
        let root = match kind {
            DumpBtree::Bno => Some(agf.free_space_by_block),
            DumpBtree::Cnt => Some(agf.free_space_by_size),
            DumpBtree::Rmap => agf.reverse_map,
            _ => agf.refcount,
        };
        Ok(root.ok_or_else(absent)?.block)
    }

    fn show(&self, shown: DumpedStructure, console: &mut Console) -> Result<(), Failure> {
        match self.is_json {
            true => json::write_document(console.out(), object(&shown))?,
            false => print(console.out(), &shown)?,
        }
        self.report(shown.verdict, console);
        Ok(())
    }

    fn report(&self, verdict: Option<Result<(), Corruption>>, console: &mut Console) {
        if let Some(Err(corruption)) = verdict {
            console.report(&self.volume.whole_failure(Error::from(corruption)));
        }
    }
}

fn print(out: &mut impl Write, shown: &DumpedStructure) -> io::Result<()> {
    writeln!(out, "{} at {}, {} bytes", shown.name, shown.at, shown.length_bytes)?;
    print_fields(out, &shown.fields)?;
    match &shown.verdict {
        None => Ok(()),
        Some(Ok(())) => writeln!(out, "verification: passed"),
        Some(Err(corruption)) => writeln!(out, "verification: failed: {corruption}"),
    }
}

fn object(shown: &DumpedStructure) -> Object {
    let mut object = Object::new();
    object.insert("structure".to_owned(), shown.name.into());
    object.insert("disk_address".to_owned(), shown.at.0.into());
    object.insert("length_bytes".to_owned(), shown.length_bytes.into());
    object.insert("fields".to_owned(), fields_to_json(&shown.fields).into());
    let verified = shown.verdict.as_ref().map(Result::is_ok);
    object.insert("verified".to_owned(), verified.into());
    if let Some(Err(corruption)) = &shown.verdict {
        object.insert("finding".to_owned(), corruption.to_string().into());
    }
    object
}
