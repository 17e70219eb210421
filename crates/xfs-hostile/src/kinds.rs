//! Hostile volumes of the kinds that the golden image is not: realtime sections, realtime groups
//! with their metadata directory, zones, and version 4.
//!
//! Owns: hand-made attacks on these kinds, and a fuzz target for all of them. Does **not** own:
//! reading a volume, which [`volume`] does.

mod attacks;

use std::hint::black_box;
use std::sync::{Arc, LazyLock};

use ferroxfs::contents::RangeMode;
use ferroxfs::{CreateOptions, NewKind, OpenError, OpenOptions, Volume};
use xfs_device::SharedDevice;
use xfs_format::{BlockKind, DiskAddr};
use xfs_testkit::{
    CowDevice, Image, Prng, RealtimeSection, golden_metadata_directory, golden_version_4, reseal,
};

use crate::attacks::Outcome;
use crate::volume::{self, CACHE_BYTES, MAX_CHANGES, Survey, survey_devices};

pub use attacks::ATTACKS;

/// Length of a sector in bytes. An inode of the test images has this length too.
const SECTOR: usize = 512;

/// A kind of volume for which there is a test image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostileKind {
    /// A volume with a realtime section.
    Realtime(RealtimeSection),
    /// A volume with a metadata directory and no realtime section.
    MetadataDirectory,
    /// A volume of version 4.
    Version4,
}

impl HostileKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Realtime(RealtimeSection::Classic),
        Self::Realtime(RealtimeSection::Groups),
        Self::Realtime(RealtimeSection::Zoned),
        Self::MetadataDirectory,
        Self::Version4,
    ];

    /// Returns a copy of the sound volume of this kind.
    #[must_use]
    pub fn volume(self) -> KindVolume {
        match self {
            Self::Realtime(section) => {
                KindVolume { data: section.data(), device: section.device() }
            }
            Self::MetadataDirectory => {
                KindVolume { data: golden_metadata_directory(), device: None }
            }
            Self::Version4 => KindVolume { data: golden_version_4(), device: None },
        }
    }

    /// Returns the addresses of the sectors of the sound volume that are not zero.
    fn used(self) -> &'static [DiskAddr] {
        static USED: LazyLock<Vec<Vec<DiskAddr>>> =
            LazyLock::new(|| HostileKind::ALL.map(|kind| used(&kind.volume().data)).to_vec());
        let index = Self::ALL.iter().position(|kind| *kind == self);
        let found = index.and_then(|index| USED.get(index));
        found.expect("each kind has its sectors")
    }
}

fn used(image: &Image) -> Vec<DiskAddr> {
    let sectors = (0..(image.length_bytes() / SECTOR) as u64).map(DiskAddr);
    let is_used =
        |at: &DiskAddr| image.bytes(*at, SECTOR).is_some_and(|bytes| bytes != [0; SECTOR]);
    sectors.filter(is_used).collect()
}

/// The devices of a volume, which an attack changes.
#[derive(Clone)]
pub struct KindVolume {
    /// The data device.
    pub data: Image,
    /// The realtime device, if the volume has one of its own.
    pub device: Option<Image>,
}

impl KindVolume {
    /// Opens the volume and reads everything in it. If `replays_log` is `true`, first replays a
    /// dirty log in memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the volume cannot be opened.
    pub fn survey(self, replays_log: bool) -> Result<Survey, OpenError> {
        let options = OpenOptions::new().cache_bytes(CACHE_BYTES).no_recovery(!replays_log);
        let devices = options.with_devices(Arc::new(self.data), None);
        let devices = match self.device {
            Some(device) => devices.with_realtime(Arc::new(device) as SharedDevice),
            None => devices,
        };
        survey_devices(devices, &[])
    }

    /// Opens the volume for writing. All writes stay in memory.
    fn writable(self) -> Result<Volume, OpenError> {
        let in_memory = |image: Image| -> SharedDevice {
            Arc::new(CowDevice::new(Arc::new(image) as SharedDevice))
        };
        let options = OpenOptions::new().cache_bytes(CACHE_BYTES).write(true);
        let devices = options.with_devices(in_memory(self.data), None);
        let devices = match self.device {
            Some(device) => devices.with_realtime(in_memory(device)),
            None => devices,
        };
        devices.open()
    }

    /// Changes the sector at `at`, and recomputes the checksum of a superblock or an inode.
    fn edit(&mut self, at: DiskAddr, change: impl FnOnce(&mut [u8])) {
        let geometry = xfs_testkit::RealtimeSection::Classic.data().geometry();
        self.data.edit_with(at, SECTOR, |bytes| {
            let kind = match bytes {
                [b'X', b'F', b'S', b'B', ..] => Some(BlockKind::Superblock),
                // Only inodes of version 3 have a checksum.
                [b'I', b'N', _, _, 3, ..] => Some(BlockKind::InodeCluster),
                _ => None,
            };
            change(bytes);
            if let Some(kind) = kind {
                reseal(bytes, kind, &geometry);
            }
        });
    }
}

/// A hostile volume of one of these kinds, and its required outcome.
#[derive(Clone, Copy)]
pub struct KindAttack {
    /// The forged property of the volume, as a title in test output.
    pub name: &'static str,
    /// The kind of the volume.
    pub kind: HostileKind,
    /// The result that reading the volume must have.
    pub outcome: Outcome,
    forge: fn(&mut KindVolume),
}

impl KindAttack {
    /// Creates the hostile volume from a copy of the sound one.
    #[must_use]
    pub fn volume(&self) -> KindVolume {
        let mut volume = self.kind.volume();
        (self.forge)(&mut volume);
        volume
    }
}

/// Fuzzes whole volumes of these kinds. The first byte of the input chooses the kind. Each 12 bytes
/// after it are one change, in the form that [`volume`](crate::volume::volume) describes, except
/// that the first two bytes choose a sector. Checksums of superblocks and inodes are recomputed.
pub fn kinds(input: &[u8]) {
    let Some((volume, replays_log)) = forged(input) else { return };
    drop(black_box(volume.survey(replays_log)));
}

/// Fuzzes changes of whole volumes of these kinds: opens the volume for writing, which finishes
/// the intents of its log and reads the counts of zones, changes files, and closes it. The input is
/// that of [`kinds`].
pub fn kinds_written(input: &[u8]) {
    let Some((volume, _)) = forged(input) else { return };
    let Ok(volume) = volume.writable() else { return };
    for (number, path) in WRITTEN.into_iter().enumerate() {
        drop(black_box(write(&volume, path, number as u64)));
    }
    if let Ok(root) = volume.root() {
        let plain = CreateOptions::new(0o644);
        drop(black_box(root.create("new", &NewKind::Regular, &plain)));
        drop(black_box(write(&volume, "/new", 0)));
    }
    drop(black_box(volume.sync()));
    drop(black_box(volume.remove_file("/rt/text")));
    drop(black_box(volume.close()));
}

/// Files of the sound volumes that are changed. Not each volume has all of them.
const WRITTEN: [&str; 4] = ["/rt/text", "/rt/sparse", "/rt/fragments", "/rt/shared"];
/// Length in bytes of the writes, and of the holes that are punched.
const WRITTEN_BYTES: u64 = 40_000;

/// Overwrites, punches and truncates a file.
fn write(volume: &Volume, path: &str, number: u64) -> ferroxfs::Result<()> {
    let file = volume.open_file(path)?;
    let start = number * 10_000;
    file.write_at(&[0x5a; WRITTEN_BYTES as usize], start)?;
    file.change_range(start..start + WRITTEN_BYTES / 2, RangeMode::Punch)?;
    file.set_len(start + WRITTEN_BYTES / 3)
}

/// Returns the volume that an input of [`kinds`] describes, and whether its log is replayed.
fn forged(input: &[u8]) -> Option<(KindVolume, bool)> {
    let (first, changes) = input.split_first()?;
    let count = HostileKind::ALL.len();
    let kind = HostileKind::ALL.get(usize::from(*first) % count).copied();
    let kind = kind.expect("the remainder is below the number of kinds");
    let mut volume = kind.volume();
    for change in changes.as_chunks::<12>().0.iter().take(MAX_CHANGES) {
        let [s0, s1, o0, o1, value @ ..] = *change;
        let used = kind.used();
        let index = usize::from(u16::from_be_bytes([s0, s1])) % used.len();
        let at = *used.get(index).expect("the remainder is below the number of sectors");
        let field = usize::from(u16::from_be_bytes([o0, o1]));
        let width = 1 << (field & 3);
        let offset = (field >> 2) % SECTOR / width * width;
        volume.edit(at, |bytes| volume::set(bytes, offset, &value, width));
    }
    let replays_log = first & 0x80 != 0;
    Some((volume, replays_log))
}

/// Returns some inputs of [`kinds`].
pub(crate) fn inputs() -> Vec<Vec<u8>> {
    (0..24).map(|seed| random_input(&mut Prng::new(seed), seed as u8)).collect()
}

/// Returns a random input of [`kinds`] whose first byte is `first`.
#[must_use]
pub fn random_input(prng: &mut Prng, first: u8) -> Vec<u8> {
    [vec![first], volume::random_input(prng)].concat()
}
