//! A journal of two blocks that is small enough to verify by reading it, and its mutants. A crash
//! model that does not catch every mutant is too weak to test a real journal.
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

/// A deliberate mistake in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// There is no flush between the payload and the commit. The commit is a durable write, which
    /// does not make the payload durable.
    NoFlushBeforeCommit,
    /// The commit is acknowledged before it is durable.
    CommitNotDurable,
    /// The journal is cleared before the blocks that it protects are durable in place.
    NoFlushBeforeClear,
    /// The journal is reused before its clearing is durable.
    ClearNotDurable,
    /// Payload and commit are written with one request, as if a crash could not tear it.
    OneRecord,
}

impl Mutant {
    pub(super) const ALL: [Self; 5] = [
        Self::NoFlushBeforeCommit,
        Self::CommitNotDurable,
        Self::NoFlushBeforeClear,
        Self::ClearNotDurable,
        Self::OneRecord,
    ];
}

/// The requests that the journal made while it wrote some versions, and the positions in them at
/// which it acknowledged each version.
pub(super) struct JournalRun {
    pub(super) recording: Recording,
    /// The number of requests recorded when each version was acknowledged, from version 1 on.
    promised: Vec<usize>,
}

/// Returns the units into which a power cut may tear writes to the device: only writes to the
/// journal may be torn.
pub(super) fn atomicity() -> Atomicity {
    Atomicity::default().torn(PAYLOAD..LENGTH)
}

/// Lets the journal write the versions 1 to `versions` of its two blocks, with the mistake `mutant`
/// or without a mistake.
pub(super) fn run(versions: u8, mutant: Option<Mutant>) -> JournalRun {
    let device = RecordingDevice::new(Arc::new(MemoryDevice::new(LENGTH)));
    let promised = (1..=versions).map(|version| write_version(&device, version, mutant)).collect();
    JournalRun { recording: device.recording(), promised }
}

/// Writes one version. Returns the number of requests recorded when the version is acknowledged.
fn write_version(device: &RecordingDevice, version: u8, mutant: Option<Mutant>) -> usize {
    let is = |other| mutant == Some(other);
    let write = |offset, bytes: &[u8], durable| {
        let durability = if durable { Durability::Durable } else { Durability::Cached };
        device.write_at(bytes, offset, durability).unwrap();
    };
    let payload = [version; 1024];
    let mut commit = [version; 512];
    commit[0] = MAGIC;
    if is(Mutant::OneRecord) {
        write(PAYLOAD, &[&payload[..], &commit].concat(), true);
    } else {
        write(PAYLOAD, &payload, false);
        if !is(Mutant::NoFlushBeforeCommit) {
            device.flush().unwrap();
        }
        write(COMMIT, &commit, !is(Mutant::CommitNotDurable));
    }
    let acknowledged = device.position();
    write(A, &[version; 512], false);
    write(B, &[version; 512], false);
    if !is(Mutant::NoFlushBeforeClear) {
        device.flush().unwrap();
    }
    write(COMMIT, &[0; 512], !is(Mutant::ClearNotDurable));
    acknowledged
}

/// Recovers a device after a power cut by replaying the journal.
fn recover(device: &CowDevice) {
    let commit = read(device, COMMIT);
    if commit[0] == MAGIC {
        device.write_at(&read(device, PAYLOAD), A, Durability::Cached).unwrap();
        device.write_at(&read(device, PAYLOAD + 512), B, Durability::Cached).unwrap();
    }
}

fn read(device: &CowDevice, offset: u64) -> [u8; 512] {
    let mut sector = [0xaa; 512];
    device.read_at(&mut sector, offset).unwrap();
    sector
}

impl JournalRun {
    /// Recovers the device after a cut, and checks that A and B have one version: at least the last
    /// one acknowledged before the cut, and at most the next. The error says what is wrong.
    pub(super) fn check(&self, cuts: &PowerCuts<'_>, cut: Cut) -> Result<(), String> {
        let device = cuts.after(cut);
        recover(&device);
        let (a, b) = (read(&device, A), read(&device, B));
        let version = a[0];
        if a != [version; 512] || b != a {
            return Err(format!("cut {cut}: A and B have different versions"));
        }
        let promised = self.promised.iter().filter(|position| **position <= cut.point()).count();
        if usize::from(version) < promised {
            return Err(format!(
                "cut {cut}: recovered version {version}, but {promised} was promised"
            ));
        }
        if usize::from(version) > promised + 1 {
            return Err(format!("cut {cut}: recovered version {version}, which was never begun"));
        }
        Ok(())
    }
}
