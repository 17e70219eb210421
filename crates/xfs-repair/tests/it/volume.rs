//! A volume in memory that a test damages and repairs.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use xfs_check::{CheckOptions, Report, check};
use xfs_device::{BlockDevice, Durability, OverlayDevice, SharedDevice};
use xfs_evidence::{Evidence, find_superblock};
use xfs_format::agf::Agf;
use xfs_format::agi::Agi;
use xfs_format::extent::Extent;
use xfs_format::inode::{ForkKind, InodeCore};
use xfs_format::{
    AgInode, AgNumber, BlockKind, DiskAddr, Geometry, InodeNumber, Lsn, StructureAddress,
    Superblock,
};
use xfs_repair::{RehearsalOptions, Rehearsed, rehearse};
use xfs_testkit::{Image, golden};

/// The sector size of the golden image.
pub(crate) const SECTOR_BYTES: usize = 512;

/// The most bytes of writes that an overlay device keeps in memory. The overlay never writes to the
/// device below it.
const OVERLAY_BYTES: u64 = 64 << 20;

/// A copy of the golden image that can be written.
pub(crate) struct TestVolume {
    pub(crate) device: Arc<OverlayDevice>,
    pub(crate) geometry: Geometry,
}

/// The inodes of the golden image that are in use.
static INODES: LazyLock<Vec<InodeCore>> = LazyLock::new(|| {
    let volume = TestVolume::golden();
    let geometry = &volume.geometry;
    let superblock = find_superblock(&*volume.device).expect("a known version");
    let superblock = superblock.expect("a sound superblock").superblock;
    let evidence = Evidence::new(&*volume.device, &superblock);
    let mut inodes = Vec::new();
    for group in geometry.groups() {
        for number in 0..geometry.ag_length(group) << geometry.inodes_per_block_log {
            let found = evidence.inode(geometry.join_inode(group, AgInode(number)));
            inodes.extend(found.core().filter(|_| found.is_sound()).cloned());
        }
    }
    inodes
});

/// The result of a repair: the device with all changes, and the report on the repair.
pub(crate) struct Repaired {
    pub(crate) device: SharedDevice,
    pub(crate) rehearsed: Rehearsed,
}

impl TestVolume {
    /// Returns a copy of the golden image.
    pub(crate) fn golden() -> Self {
        Self::of(golden())
    }

    /// Returns a copy of an image.
    pub(crate) fn of(image: Image) -> Self {
        let geometry = image.geometry();
        let device = OverlayDevice::new(Arc::new(image), OVERLAY_BYTES);
        Self { device: Arc::new(device), geometry }
    }

    /// Returns the bytes at a disk address.
    pub(crate) fn bytes(&self, at: DiskAddr, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.device.read_at(&mut bytes, at.0 * 512).expect("the bytes lie in the volume");
        bytes
    }

    /// Replaces the bytes at a disk address.
    pub(crate) fn put(&self, at: DiskAddr, bytes: &[u8]) {
        self.device.write_at(bytes, at.0 * 512, Durability::Cached).expect("the bytes fit");
    }

    /// Writes zeros over `length` bytes.
    pub(crate) fn zero(&self, at: DiskAddr, length: usize) {
        self.put(at, &vec![0; length]);
    }

    /// Changes a block and recomputes its checksum.
    pub(crate) fn edit(&self, at: DiskAddr, kind: BlockKind, change: impl FnOnce(&mut [u8])) {
        let length = match kind {
            BlockKind::Superblock | BlockKind::Agf | BlockKind::Agi | BlockKind::Agfl => {
                SECTOR_BYTES
            }
            _ => self.geometry.block_size as usize,
        };
        let mut bytes = self.bytes(at, length);
        let lsn = xfs_format::kind::find_lsn(&bytes, &self.geometry).unwrap_or(Lsn(0));
        change(&mut bytes);
        kind.seal(&mut bytes, lsn);
        self.put(at, &bytes);
    }

    pub(crate) fn agf(&self, group: AgNumber) -> Agf {
        let at = self.geometry.header_disk_addr(group, 1);
        Agf::decode(&self.bytes(at, SECTOR_BYTES), at, &self.geometry).expect("a sound AGF")
    }

    pub(crate) fn agi(&self, group: AgNumber) -> Agi {
        let at = self.geometry.header_disk_addr(group, 2);
        Agi::decode(&self.bytes(at, SECTOR_BYTES), at, &self.geometry).expect("a sound AGI")
    }

    /// Repairs the volume in an overlay.
    pub(crate) fn repair(&self, allow_loss: bool) -> Repaired {
        let below: SharedDevice = self.device.clone();
        let device: SharedDevice = Arc::new(OverlayDevice::new(below, OVERLAY_BYTES));
        let found = find_superblock(&*device).expect("the version is supported");
        let superblock = found.expect("a superblock is left").superblock;
        let options = RehearsalOptions { allow_loss, ..RehearsalOptions::default() };
        let rehearsed = rehearse(&device, &superblock, &options).expect("the overlay is large");
        Repaired { device, rehearsed }
    }
}

/// Checks a device with `xfs-check`, which uses the superblock that is found on the device.
pub(crate) fn report(device: &dyn BlockDevice) -> Report {
    let mut sector = vec![0; SECTOR_BYTES];
    device.read_at(&mut sector, 0).expect("a device has a first sector");
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)))
        .expect("the superblock is sound");
    check(device, &superblock, &CheckOptions::default(), &()).expect("the features are known")
}

impl Repaired {
    /// Asserts that the repaired volume has no finding more severe than `preen` (the lowest level),
    /// and that the repair lost nothing.
    pub(crate) fn assert_clean(&self) {
        let report = report(&*self.device);
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(report.is_clean(), "{findings:#?} {:?}\n{:#?}", report.unchecked, self.rules());
        let losses: Vec<_> =
            self.rehearsed.actions.iter().flat_map(|action| &action.loses).collect();
        assert!(losses.is_empty(), "{losses:#?}");
    }

    /// Returns the inodes that the losses of the plan name.
    pub(crate) fn inodes_with_losses(&self) -> BTreeSet<InodeNumber> {
        let losses = self.rehearsed.actions.iter().flat_map(|action| &action.loses);
        losses.filter_map(|loss| loss.inode).collect()
    }

    /// Returns the names of the rules that changed something, in order.
    pub(crate) fn rules(&self) -> Vec<&'static str> {
        self.rehearsed.actions.iter().map(|action| action.rule).collect()
    }
}

impl TestVolume {
    /// Returns the inodes of the golden image that are in use and satisfy a condition, in order.
    pub(crate) fn inodes(is_wanted: impl Fn(&InodeCore) -> bool) -> Vec<InodeCore> {
        INODES.iter().filter(|core| is_wanted(core)).cloned().collect()
    }

    /// Returns the disk address of an inode.
    pub(crate) fn inode_at(&self, inode: InodeNumber) -> DiskAddr {
        let location = self.geometry.inode_location(inode).expect("the inode lies in the volume");
        DiskAddr(location.cluster.0 + u64::from(location.offset_bytes / 512))
    }

    /// Changes the bytes of an inode and recomputes its checksum.
    pub(crate) fn edit_inode(&self, inode: &InodeCore, change: impl FnOnce(&mut [u8])) {
        let at = self.inode_at(inode.number);
        let mut bytes = self.bytes(at, self.geometry.inode_size as usize);
        change(&mut bytes);
        xfs_format::inode::seal(&mut bytes, inode.lsn);
        self.put(at, &bytes);
    }

    /// Returns the blocks of the extent btree of a data fork.
    pub(crate) fn tree_blocks(&self, inode: InodeNumber) -> Vec<DiskAddr> {
        let superblock = find_superblock(&*self.device).expect("a known version");
        let superblock = superblock.expect("a sound superblock").superblock;
        let evidence = Evidence::new(&*self.device, &superblock);
        let fork = evidence.extents(&evidence.inode(inode), ForkKind::Data);
        let addresses = fork.tree_blocks.iter().map(|block| self.geometry.block_disk_addr(*block));
        addresses.map(|at| at.expect("the block lies in the volume")).collect()
    }

    /// Returns the extents of a file's data as they are on `device`, for example after a repair.
    pub(crate) fn extents_of(&self, device: &dyn BlockDevice, inode: InodeNumber) -> Vec<Extent> {
        let superblock = find_superblock(device).expect("a known version");
        let superblock = superblock.expect("a sound superblock").superblock;
        let evidence = Evidence::new(device, &superblock);
        evidence.extents(&evidence.inode(inode), ForkKind::Data).extents
    }
}
