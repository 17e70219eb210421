use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xfs_device::{BlockDevice, SharedDevice};
use xfs_format::AgNumber;
use xfs_testkit::{CowDevice, delegate_device, golden};

use super::run;
use crate::damage::Damage;
use crate::options::RehearsalOptions;
use crate::patient::Patient;
use crate::testing::superblock_of;

/// A device that counts its reads.
struct Counting {
    inner: CowDevice,
    reads: AtomicU64,
}

impl BlockDevice for Counting {
    delegate_device!(inner: length_bytes, sector_size, is_read_only, write_at, flush, discard);

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.read_at(buffer, offset)
    }
}

/// Forgets `count` chunks of the group with the most chunks, and records them again. Returns the
/// number of reads of the device, and the number of chunks that were recorded.
fn recorded(count: usize) -> (u64, usize) {
    let inner = CowDevice::new(Arc::new(golden()));
    let device = Arc::new(Counting { inner, reads: AtomicU64::new(0) });
    let mut sector = [0; 512];
    device.read_at(&mut sector, 0).unwrap();
    let shared: SharedDevice = device.clone();
    let options = RehearsalOptions { allow_loss: true, ..RehearsalOptions::default() };
    let mut patient = Patient::new(shared, superblock_of(&sector), &options, &());
    let groups: Vec<AgNumber> = patient.geometry().groups().collect();
    let found = groups.into_iter().map(|group| (group, patient.chunks(group).chunks.clone()));
    let (group, mut chunks) = found.max_by_key(|(_, chunks)| chunks.len()).unwrap();
    // The first chunk has the directory that names the files in the others.
    let kept = chunks.len() - count;
    chunks.truncate(kept);
    patient.set_chunks(group, chunks);
    device.reads.store(0, Ordering::Relaxed);
    run(&mut patient, &Damage::default(), &BTreeSet::from([group])).unwrap();
    let reads = device.reads.load(Ordering::Relaxed);
    (reads, patient.chunks(group).chunks.len() - kept)
}

#[test]
fn lost_chunks_are_recorded_with_one_look_at_the_volume() {
    let ((one, first), (four, all)) = (recorded(1), recorded(4));
    assert_eq!((first, all), (1, 4));
    // A look at the volume for each chunk would take almost four times as many reads.
    assert!(four < one * 2, "{one} reads for one chunk, {four} for four");
}
