//! Volumes with a realtime section that ferroxfs fills: a classic section, realtime groups, and
//! zones, some of them with a dirty log.

use std::path::Path;

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::{CreateOptions, Error, NewKind, PosixError, SetAttributes, Volume};
use xfs_format::superblock::Unsupported;
use xfs_oracle::harness::TrialError;
use xfs_testkit::Prng;

use super::kind::{GuestVolume, VolumeEnd, VolumeKind};

/// The first seed of these volumes. The seed is part of the name of an image, so these seeds must
/// differ from those of the volumes that a guest fills. Realtime extents are large if bit 1 of the
/// seed is set.
const SEEDS: u64 = 1000;
/// Number of realtime files with contents.
const FILES: usize = 14;
/// Number of empty realtime files: a listing must have as many inodes as that of other volumes.
const EMPTY_FILES: usize = super::INODES_MIN;

/// Makes volumes with mkfs.xfs, and fills them with ferroxfs. Returns two volumes for an even seed
/// and three for an odd one: a guest has no room for more.
pub(super) fn make(folder: &Path, seed: u64) -> Result<Vec<GuestVolume>, TrialError> {
    use VolumeKind::{ClassicRealtime, RealtimeGroups, ZonedDevice, ZonedInternal};
    Ok(match seed % 2 {
        0 => vec![
            unmounted(folder, ClassicRealtime, seed)?,
            unmounted(folder, RealtimeGroups, seed)?,
        ],
        _ => vec![
            crashed(folder, RealtimeGroups, seed)?,
            crashed(folder, ZonedDevice, seed)?,
            unmounted(folder, ZonedInternal, seed)?,
        ],
    })
}

/// Makes a volume, fills it and unmounts it.
fn unmounted(folder: &Path, kind: VolumeKind, seed: u64) -> Result<GuestVolume, TrialError> {
    let made = GuestVolume::make(folder, kind, SEEDS + 2 * seed)?;
    let made = GuestVolume { end: VolumeEnd::Unmounted, ..made };
    let volume = made.options().write(true).open(&made.data).map_err(|error| error.to_string())?;
    fill(&volume, &mut Prng::new(seed)).map_err(|error| error.to_string())?;
    volume.close().map_err(|error| error.to_string())?;
    Ok(made)
}

/// Makes a volume, fills it, syncs it, and copies it while it is mounted. The copy has a dirty log.
fn crashed(folder: &Path, kind: VolumeKind, seed: u64) -> Result<GuestVolume, TrialError> {
    let made = GuestVolume::make(folder, kind, SEEDS + 2 * seed)?;
    let volume = made.options().write(true).open(&made.data).map_err(|error| error.to_string())?;
    fill(&volume, &mut Prng::new(seed)).map_err(|error| error.to_string())?;
    volume.sync().map_err(|error| error.to_string())?;
    let crashed = GuestVolume { end: VolumeEnd::Logged, ..made.copied()? };
    volume.close().map_err(|error| error.to_string())?;
    Ok(crashed)
}

fn fill(volume: &Volume, random: &mut Prng) -> ferroxfs::Result<()> {
    volume.create_dir("/rt")?;
    let inherit = SetAttributes::new().xflags(ExtendedFlags::RTINHERIT);
    volume.lookup("/rt")?.set_attributes(&inherit)?;
    for number in 0..FILES {
        let directory = volume.lookup("/rt")?;
        let plain = CreateOptions::new(0o644);
        let node = directory.create(format!("f{number}"), &NewKind::Regular, &plain)?;
        let file = node.open()?;
        for _ in 0..8 {
            let start = random.within(0..1 << 20) as u64;
            let length = random.within(1..150_000);
            let range = start..start + length as u64;
            let done = match random.within(0..6) {
                0 => file.set_len(start),
                1 => file.change_range(range, RangeMode::Punch),
                2 => file.change_range(range, RangeMode::Allocate(AllocateMode::Extend)),
                3 => file.change_range(range, RangeMode::Zero(AllocateMode::KeepSize)),
                _ => file.write_at(&vec![number as u8 + 1; length], start).map(drop),
            };
            match done {
                Ok(()) | Err(Error::Posix(PosixError::NoSpace)) => {}
                // The kernel refuses it too.
                Err(Error::Unsupported(Unsupported::ZonedAllocation)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    for number in 0..EMPTY_FILES {
        volume.create_file(format!("/rt/empty{number}"))?;
    }
    volume.remove_file("/rt/f3")
}
