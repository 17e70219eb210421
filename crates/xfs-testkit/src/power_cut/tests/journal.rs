//! A journal of two blocks, small enough to be right by inspection, and the mistakes that one can
//! make in it. A crash model that does not catch each of them is too weak to test a real journal.
//!
//! ```text
//! sector   0    A, in place        16, 17   copies of A and B: the payload
//! sector   8    B, in place        18       the commit: a magic and the version
//! ```
//!
//! Version *v* of the volume is A and B full of the byte *v*.

use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, MemoryDevice};

use super::super::{Cut, PowerCuts};
use crate::atomicity::Atomicity;
use crate::cow::CowDevice;
use crate::recording::{Recording, RecordingDevice};

const A: u64 = 0;
const B: u64 = 8 * 512;
const PAYLOAD: u64 = 16 * 512;
const COMMIT: u64 = 18 * 512;
const LENGTH: u64 = 32 * 512;
const MAGIC: u8 = 0xc0;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plant {
    /// No flush between the payload and the commit: a durable write covers only itself.
    NoFlushBeforeCommit,
    /// The commit is acknowledged before it is durable.
    CommitNotDurable,
    /// The journal is emptied before what it protects is durable in place.
    NoFlushBeforeClear,
    /// The journal is used again before everybody knows that it is empty.
    ClearNotDurable,
    /// Payload and commit are one write, as if a record could not be torn.
    OneRecord,
}

impl Plant {
    pub(super) const ALL: [Self; 5] = [
        Self::NoFlushBeforeCommit,
        Self::CommitNotDurable,
        Self::NoFlushBeforeClear,
        Self::ClearNotDurable,
        Self::OneRecord,
    ];
}

/// A run of the journal: what the device saw, and what was promised when.
pub(super) struct Run {
    pub(super) recording: Recording,
    /// For each version, from 1, the position at which it was acknowledged.
    promised: Vec<usize>,
}

/// Where the journal lies: what may be torn.
pub(super) fn atomicity() -> Atomicity {
    Atomicity::default().torn(PAYLOAD..LENGTH)
}

/// Writes `versions` versions with a mistake or without.
pub(super) fn run(versions: u8, plant: Option<Plant>) -> Run {
    let device = RecordingDevice::new(Arc::new(MemoryDevice::new(LENGTH)));
    let promised = (1..=versions).map(|version| write_version(&device, version, plant)).collect();
    Run { recording: device.recording(), promised }
}

/// Writes one version; returns the position at which it is acknowledged.
fn write_version(device: &RecordingDevice, version: u8, plant: Option<Plant>) -> usize {
    let has = |mistake| plant == Some(mistake);
    let write = |offset, bytes: &[u8], durable| {
        let durability = if durable { Durability::Durable } else { Durability::Cached };
        device.write_at(offset, bytes, durability).unwrap();
    };
    let payload = [version; 1024];
    let mut commit = [version; 512];
    commit[0] = MAGIC;
    if has(Plant::OneRecord) {
        write(PAYLOAD, &[&payload[..], &commit].concat(), true);
    } else {
        write(PAYLOAD, &payload, false);
        if !has(Plant::NoFlushBeforeCommit) {
            device.flush().unwrap();
        }
        write(COMMIT, &commit, !has(Plant::CommitNotDurable));
    }
    let acknowledged = device.position();
    write(A, &[version; 512], false);
    write(B, &[version; 512], false);
    if !has(Plant::NoFlushBeforeClear) {
        device.flush().unwrap();
    }
    write(COMMIT, &[0; 512], !has(Plant::ClearNotDurable));
    acknowledged
}

/// Replays the journal into place.
fn recover(device: &CowDevice) {
    let commit = read(device, COMMIT);
    if commit[0] == MAGIC {
        device.write_at(A, &read(device, PAYLOAD), Durability::Cached).unwrap();
        device.write_at(B, &read(device, PAYLOAD + 512), Durability::Cached).unwrap();
    }
}

fn read(device: &CowDevice, offset: u64) -> [u8; 512] {
    let mut sector = [0xaa; 512];
    device.read_at(offset, &mut sector).unwrap();
    sector
}

impl Run {
    /// Recovers the state after a cut and says what is wrong with it.
    pub(super) fn check(&self, cuts: &PowerCuts<'_>, cut: Cut) -> Result<(), String> {
        let device = cuts.after(cut);
        recover(&device);
        let (a, b) = (read(&device, A), read(&device, B));
        let version = a[0];
        if a != [version; 512] || b != a {
            return Err(format!("cut {cut}: A and B are of different versions"));
        }
        let promised = self.promised.iter().filter(|position| **position <= cut.point()).count();
        if usize::from(version) < promised {
            return Err(format!("cut {cut}: version {version} is there, {promised} was promised"));
        }
        if usize::from(version) > promised + 1 {
            return Err(format!("cut {cut}: version {version} comes from nowhere"));
        }
        Ok(())
    }
}
