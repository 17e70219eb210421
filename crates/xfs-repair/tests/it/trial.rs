//! A copy of the golden image with its names and attributes, and the comparison after a repair.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use xfs_device::BlockDevice;
use xfs_evidence::{Evidence, FoundValue};
use xfs_format::attr::Namespace;
use xfs_format::extent::Extent;
use xfs_format::inode::{ForkKind, InodeCore};
use xfs_format::{DiskAddr, FileBlock, FsBlock, InodeNumber, StructureAddress, Superblock};
use xfs_oracle::Xfsprogs;

use crate::volume::{Repaired, SECTOR_BYTES, TestVolume};

/// The fields and attributes of an inode that a user sees, without its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) mode: u16,
    links: u32,
    generation: u32,
    attributes: BTreeSet<(Namespace, Vec<u8>, Vec<u8>)>,
}

/// The tree of a volume: each path with its inode number, and each inode.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    root: u64,
    pub(crate) paths: BTreeMap<String, u64>,
    pub(crate) inodes: BTreeMap<u64, Seen>,
}

pub(crate) fn superblock_of(device: &dyn BlockDevice) -> Superblock {
    let mut sector = vec![0; SECTOR_BYTES];
    device.read_at(&mut sector, 0).expect("the image can be read");
    Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).expect("the image can be read")
}

impl Shape {
    pub(crate) fn of(device: &dyn BlockDevice) -> Self {
        let superblock = superblock_of(device);
        let evidence = Evidence::new(device, &superblock);
        let mut shape = Self { root: superblock.root_inode.0, ..Self::default() };
        let mut directories = vec![(String::new(), superblock.root_inode)];
        while let Some((path, directory)) = directories.pop() {
            shape.see(&evidence, directory);
            let found = evidence.entries(&evidence.inode(directory));
            for name in found.names {
                let path = format!("{path}/{}", name.name.escape_ascii());
                shape.paths.insert(path.clone(), name.child.0);
                shape.see(&evidence, name.child);
                let child = evidence.inode(name.child);
                let is_directory = child.core().is_some_and(|core| core.mode >> 12 == 0o4);
                if is_directory {
                    directories.push((path, name.child));
                }
            }
        }
        shape
    }

    /// Returns each name as the inode number of its directory, the name, and the inode number of
    /// the child.
    pub(crate) fn links(&self) -> BTreeSet<(u64, String, u64)> {
        let link = |(path, child): (&String, &u64)| {
            let (directory, name) = path.rsplit_once('/').expect("paths start with a slash");
            let directory = match directory {
                "" => self.root,
                _ => *self.paths.get(directory).expect("the directory has a path"),
            };
            (directory, name.to_owned(), *child)
        };
        self.paths.iter().map(link).collect()
    }

    /// Returns the number of attributes of an inode, without parent pointers.
    pub(crate) fn count_attributes(&self, inode: InodeNumber) -> usize {
        self.inodes.get(&inode.0).map_or(0, |seen| seen.attributes.len())
    }

    pub(crate) fn see(&mut self, evidence: &Evidence<'_>, number: InodeNumber) {
        let inode = evidence.inode(number);
        let Some(core) = inode.core() else { return };
        let found = evidence.attributes(&inode);
        let whole = found.attributes.into_iter().filter_map(|attribute| match attribute.value {
            FoundValue::Whole(value) => {
                Some((attribute.namespace, attribute.name.into_vec(), value))
            }
            FoundValue::Lost { .. } => None,
        });
        let seen = Seen {
            mode: core.mode,
            links: core.nlink,
            generation: core.generation,
            attributes: whole.collect(),
        };
        self.inodes.insert(number.0, seen);
    }
}

/// A copy of the golden image, and its names and attributes before the damage.
pub(crate) struct Trial {
    pub(crate) volume: TestVolume,
    pub(crate) before: Shape,
}

impl Trial {
    pub(crate) fn new() -> Self {
        let volume = TestVolume::golden();
        let before = Shape::of(&*volume.device);
        Self { volume, before }
    }

    pub(crate) fn inode(&self, path: &str) -> InodeNumber {
        InodeNumber(*self.before.paths.get(path).expect("the path is in the image"))
    }

    pub(crate) fn root(&self) -> InodeNumber {
        superblock_of(&*self.volume.device).root_inode
    }

    pub(crate) fn extents(&self, inode: InodeNumber, kind: ForkKind) -> Vec<Extent> {
        let superblock = superblock_of(&*self.volume.device);
        let evidence = Evidence::new(&*self.volume.device, &superblock);
        evidence.extents(&evidence.inode(inode), kind).extents
    }

    /// Returns the disk address of the block at `block` in a fork.
    pub(crate) fn place(&self, inode: InodeNumber, kind: ForkKind, block: FileBlock) -> DiskAddr {
        let extents = self.extents(inode, kind);
        let extent =
            extents.iter().find(|extent| extent.file_block <= block && block < extent.end());
        let extent = extent.expect("the block is mapped");
        let start = FsBlock(extent.start.0 + (block.0 - extent.file_block.0));
        self.volume.geometry.block_disk_addr(start).expect("the image can be read")
    }

    pub(crate) fn inode_place(&self, inode: InodeNumber) -> DiskAddr {
        let location = self.volume.geometry.inode_location(inode).expect("the image can be read");
        DiskAddr(location.cluster.0 + u64::from(location.offset_bytes / 512))
    }

    pub(crate) fn zero_inode(&self, inode: InodeNumber) {
        let length = self.volume.geometry.inode_size as usize;
        self.volume.zero(self.inode_place(inode), length);
    }

    /// Zeroes one block of a fork.
    pub(crate) fn zero_block(&self, inode: InodeNumber, kind: ForkKind, block: FileBlock) {
        let length = self.volume.geometry.block_size as usize;
        self.volume.zero(self.place(inode, kind, block), length);
    }

    /// Changes the core of an inode and recomputes its checksum.
    pub(crate) fn edit_core(&self, inode: InodeNumber, edit: impl FnOnce(&mut InodeCore)) {
        let geometry = &self.volume.geometry;
        let at = self.inode_place(inode);
        let mut bytes = self.volume.bytes(at, geometry.inode_size as usize);
        let mut core = InodeCore::decode(&bytes, inode, geometry).expect("the image can be read");
        edit(&mut core);
        let disk = core.encode(geometry).expect("the image can be read");
        let disk = zerocopy::IntoBytes::as_bytes(&disk);
        bytes.get_mut(..disk.len()).expect("the image can be read").copy_from_slice(disk);
        xfs_format::inode::seal(&mut bytes, core.lsn);
        self.volume.put(at, &bytes);
    }

    /// Replaces bytes inside the forks of an inode and recomputes the checksum: the first
    /// occurrence of `from` after the core becomes `to`.
    pub(crate) fn edit_inline(&self, inode: InodeNumber, from: &[u8], to: &[u8]) {
        let geometry = &self.volume.geometry;
        let at = self.inode_place(inode);
        let mut bytes = self.volume.bytes(at, geometry.inode_size as usize);
        let core = InodeCore::decode(&bytes, inode, geometry).expect("the image can be read");
        let found = bytes.windows(from.len()).enumerate().skip(176);
        let (start, _) = found.into_iter().find(|(_, window)| *window == from).expect("the bytes");
        bytes.get_mut(start..start + to.len()).expect("the image can be read").copy_from_slice(to);
        xfs_format::inode::seal(&mut bytes, core.lsn);
        self.volume.put(at, &bytes);
    }

    /// Repairs the volume, and asserts that it is clean and that no name, inode or attribute
    /// changed.
    pub(crate) fn assert_whole(&self) -> Repaired {
        assert!(!crate::volume::report(&*self.volume.device).is_clean(), "nothing is damaged");
        let repaired = self.volume.repair(false);
        repaired.assert_clean();
        self.compare(&repaired, |seen| seen);
        repaired
    }

    /// Repairs the volume with losses allowed. Asserts that the volume is clean and that no name
    /// changed. The inodes `made`, which the repair creates again, may differ in mode and
    /// attributes. The plan must list each of them as a loss, and no other inode.
    pub(crate) fn assert_names(&self, made: &[InodeNumber]) -> Repaired {
        assert!(!crate::volume::report(&*self.volume.device).is_clean(), "nothing is damaged");
        let repaired = self.volume.repair(true);
        let report = crate::volume::report(&*repaired.device);
        assert!(report.is_clean(), "{:#?}\n{:?}", report.findings, repaired.rules());
        let losses = repaired.rehearsed.actions.iter().flat_map(|action| &action.loses);
        let lost: BTreeSet<InodeNumber> = losses.filter_map(|loss| loss.inode).collect();
        assert_eq!(lost, made.iter().copied().collect(), "{:#?}", repaired.rehearsed.actions);
        self.compare(&repaired, |mut shape| {
            for inode in made {
                let seen = shape.inodes.get_mut(&inode.0).expect("the inode is there");
                seen.attributes.clear();
                seen.mode = 0o40755;
            }
            shape
        });
        repaired
    }

    /// Asserts that xfs_repair -n finds nothing in the repaired volume. Without the programs of
    /// `cargo xtask oracles`, nothing is asserted, and a line says so.
    pub(crate) fn judge(repaired: &Repaired) {
        let programs = match Xfsprogs::newer() {
            Ok(programs) => programs,
            Err(reason) => return println!("skipped: xfs_repair -n: {reason}"),
        };
        let mut file = tempfile::NamedTempFile::new().expect("the image can be read");
        let mut bytes = vec![
            0;
            usize::try_from(repaired.device.length_bytes())
                .expect("the image can be read")
        ];
        repaired.device.read_at(&mut bytes, 0).expect("the image can be read");
        file.write_all(&bytes).expect("the image can be read");
        let output = programs
            .command("xfs_repair")
            .args(["-n", "-f"])
            .arg(file.path())
            .output()
            .expect("the image can be read");
        let said = String::from_utf8_lossy(&output.stderr).into_owned()
            + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
    }

    pub(crate) fn compare(&self, repaired: &Repaired, view: impl Fn(Shape) -> Shape) {
        Self::judge(repaired);
        let after = view(Shape::of(&*repaired.device));
        let before = view(self.before.clone());
        let gone = before.paths.iter().filter(|(path, _)| !after.paths.contains_key(*path));
        let new = after.paths.iter().filter(|(path, _)| !before.paths.contains_key(*path));
        let (gone, new): (Vec<_>, Vec<_>) = (gone.collect(), new.collect());
        assert!(gone.is_empty() && new.is_empty(), "gone: {gone:?}\nnew: {new:?}");
        for (number, inode) in &before.inodes {
            assert_eq!(Some(inode), after.inodes.get(number), "inode {number}");
        }
        assert_eq!(before, after);
    }
}
