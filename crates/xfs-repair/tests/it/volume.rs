//! A volume in memory that a test damages and repairs.

use std::sync::Arc;

use xfs_check::{CheckOptions, Code, Report, check};
use xfs_device::{BlockDevice, Durability, MemoryDevice, OverlayDevice, SharedDevice};
use xfs_evidence::find_superblock;
use xfs_format::agf::Agf;
use xfs_format::agi::Agi;
use xfs_format::{AgNumber, BlockKind, DiskAddr, Geometry, Lsn, StructureAddress, Superblock};
use xfs_repair::{RehearsalOptions, Rehearsed, rehearse};
use xfs_testkit::golden;

/// The sector size of the golden image.
pub(crate) const SECTOR_BYTES: usize = 512;

/// The most bytes that an overlay of a test keeps.
const OVERLAY_BYTES: u64 = 64 << 20;

/// A copy of the golden image that can be written.
pub(crate) struct TestVolume {
    pub(crate) device: Arc<MemoryDevice>,
    pub(crate) geometry: Geometry,
}

/// The result of a repair: the device with all changes, and the report of the rehearsal.
pub(crate) struct Repaired {
    pub(crate) device: SharedDevice,
    pub(crate) rehearsed: Rehearsed,
}

impl TestVolume {
    /// Returns a copy of the golden image.
    pub(crate) fn golden() -> Self {
        let image = golden();
        let mut bytes = vec![0; image.length_bytes()];
        image.read_at(0, &mut bytes).expect("the image is in memory");
        let device = MemoryDevice::from_bytes(&bytes).expect("the bytes fit");
        Self { device: Arc::new(device), geometry: image.geometry() }
    }

    /// Returns the bytes at a disk address.
    pub(crate) fn bytes(&self, at: DiskAddr, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.device.read_at(at.0 * 512, &mut bytes).expect("the bytes lie in the volume");
        bytes
    }

    /// Replaces the bytes at a disk address.
    pub(crate) fn put(&self, at: DiskAddr, bytes: &[u8]) {
        self.device.write_at(at.0 * 512, bytes, Durability::Cached).expect("the bytes fit");
    }

    /// Writes zeros over `length` bytes.
    pub(crate) fn zero(&self, at: DiskAddr, length: usize) {
        self.put(at, &vec![0; length]);
    }

    /// Changes a block and recomputes its checksum.
    pub(crate) fn edit(&self, at: DiskAddr, kind: BlockKind, change: impl FnOnce(&mut [u8])) {
        let length = match kind {
            BlockKind::Agf | BlockKind::Agi | BlockKind::Agfl => SECTOR_BYTES,
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
        let mut options = RehearsalOptions::default();
        options.allow_loss = allow_loss;
        let rehearsed = rehearse(&device, &superblock, &options).expect("the overlay is large");
        Repaired { device, rehearsed }
    }
}

/// Checks a device by its own superblock.
pub(crate) fn report(device: &dyn BlockDevice) -> Report {
    let mut sector = vec![0; SECTOR_BYTES];
    device.read_at(0, &mut sector).expect("a device has a first sector");
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)))
        .expect("the superblock is sound");
    check(device, &superblock, &CheckOptions::default(), &()).expect("the features are known")
}

impl Repaired {
    /// Asserts that the repaired volume has no finding above `preen` and lost nothing.
    pub(crate) fn assert_clean(&self) {
        let report = report(&*self.device);
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(report.is_clean(), "{findings:#?} {:?}\n{:#?}", report.unchecked, self.rules());
        let losses: Vec<_> =
            self.rehearsed.actions.iter().flat_map(|action| &action.loses).collect();
        assert!(losses.is_empty(), "{losses:#?}");
    }

    /// Returns the rules that acted, in order.
    pub(crate) fn rules(&self) -> Vec<&'static str> {
        self.rehearsed.actions.iter().map(|action| action.rule).collect()
    }

    /// Returns the codes of the findings that led to actions.
    pub(crate) fn codes(&self) -> Vec<Code> {
        self.rehearsed.actions.iter().flat_map(|action| action.codes.clone()).collect()
    }
}
