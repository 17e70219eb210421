//! The search for a copy of a superblock on a device whose first sector has no usable superblock.
//!
//! Owns: the choice of the places on the device that are tried, and the choice between copies of
//! different volumes. Does **not** own: the vote of the copies of one volume.
//!
//! ```text
//! second groups of equal divisions ─→ a copy at a group start of its own sizes
//!                                        ├─ first group and half of the groups agree ─→ taken
//!                                        └─ no ─→ the whole device is read
//! whole device ─→ the first group decides, else the bytes in groups that agree
//! ```

use xfs_device::BlockDevice;
use xfs_format::superblock::SUPERBLOCK_MAGIC;

use super::witnesses::Witnesses;
use super::{Copy, key, read_copy};
use crate::read_around::read_around;

use zerocopy::IntoBytes;

/// The shortest group, in bytes.
const MIN_GROUP_BYTES: u64 = 16 << 20;
/// The largest number of equal groups into which the search divides the device, to guess where the
/// second group starts.
const MOST_DIVISIONS: u64 = 2048;
/// Length of one read of the search, in bytes.
const SEARCH_BYTES: usize = 1 << 20;
/// The size of the smallest block, in bytes. Groups start at multiples of this size.
const SEARCH_STEP: usize = 1024;
/// The largest number of copies with different contents whose groups are read.
const MOST_CANDIDATES: usize = 64;

/// The result of the search: a copy, and whether the device may just as well hold another volume.
pub(super) struct BestCopy {
    pub(super) copy: Copy,
    pub(super) has_rival: bool,
}

/// A copy of a superblock, and the groups whose headers agree with the copy.
struct Candidate {
    copy: Copy,
    witnesses: Witnesses,
}

/// The different copies of superblocks that the search has found so far.
#[derive(Default)]
struct Candidates(Vec<Candidate>);

impl Candidates {
    /// Reads a copy of a superblock at byte `at`. Adds the copy to the candidates if, according to
    /// the sizes in the copy, a group starts at `at`. Returns whether the copy belongs to the
    /// volume without doubt, so that the search can end.
    fn take(&mut self, device: &dyn BlockDevice, at: u64) -> bool {
        let Ok(copy) = read_copy(device, at) else { return false };
        if !copy.is_in_its_place(at) || self.0.len() >= MOST_CANDIDATES {
            return false;
        }
        let own = key(&copy.disk);
        if self.0.iter().any(|known| key(&known.copy.disk).as_bytes() == own.as_bytes()) {
            return false;
        }
        let witnesses = Witnesses::of(device, &copy.superblock.geometry);
        let is_certain = witnesses.has_first && witnesses.is_half();
        self.0.push(Candidate { copy, witnesses });
        is_certain
    }

    /// Returns the copy that the headers of the groups confirm best (see `Witnesses::compare`).
    fn best(mut self) -> Option<BestCopy> {
        // The sort is stable, so the first of two equal copies stays the first.
        self.0.sort_by(|one, other| other.witnesses.compare(&one.witnesses));
        let mut candidates = self.0.into_iter();
        let best = candidates.next()?;
        let uuid = best.copy.superblock.geometry.meta_uuid;
        let has_rival = candidates.any(|other| {
            let is_other = other.copy.superblock.geometry.meta_uuid != uuid;
            is_other && other.witnesses.is_half() && !best.witnesses.has_first
        });
        Some(BestCopy { copy: best.copy, has_rival })
    }
}

/// Finds the copy of a superblock that the headers of the groups on the device confirm best (see
/// `Witnesses::compare`).
pub(super) fn find(device: &dyn BlockDevice) -> Option<BestCopy> {
    let mut candidates = Candidates::default();
    let is_certain = likely_places(device).any(|at| candidates.take(device, at))
        || search_device(device, &mut candidates);
    if is_certain {
        let last = candidates.0.pop().expect("a certain copy was taken last");
        return Some(BestCopy { copy: last.copy, has_rival: false });
    }
    candidates.best()
}

/// Returns the possible offsets of the second group, in bytes, if the device consists of 2, 3, …
/// equal groups. Each number of groups gives one offset for each block size.
pub(super) fn likely_places(device: &dyn BlockDevice) -> impl Iterator<Item = u64> + use<> {
    let length = device.length_bytes();
    let most = (length / MIN_GROUP_BYTES).min(MOST_DIVISIONS);
    (2..=most).flat_map(move |count| {
        [4096_u64, 1024, 2048, 8192, 16384, 32768, 65536]
            .map(move |block| (length / block).div_ceil(count) * block)
    })
}

/// Reads the device in order, up to the first copy that belongs to the volume without doubt.
/// Returns whether there is such a copy.
fn search_device(device: &dyn BlockDevice, candidates: &mut Candidates) -> bool {
    let mut buffer = vec![0; SEARCH_BYTES];
    let mut at = MIN_GROUP_BYTES;
    while at < device.length_bytes() {
        let left = device.length_bytes() - at;
        let count = usize::try_from(left).map_or(SEARCH_BYTES, |left| left.min(SEARCH_BYTES));
        let piece = buffer.get_mut(..count).expect("a piece is no longer than the buffer");
        read_around(device, at, piece);
        let places = piece.chunks(SEARCH_STEP).zip((at..).step_by(SEARCH_STEP));
        let is_one = |bytes: &[u8]| bytes.starts_with(&SUPERBLOCK_MAGIC.to_be_bytes());
        let mut found = places.filter(|(bytes, _)| is_one(bytes));
        if found.any(|(_, at)| candidates.take(device, at)) {
            return true;
        }
        at += count as u64;
    }
    false
}
