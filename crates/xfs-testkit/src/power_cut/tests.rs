//! Checks that the crash model allows exactly the states that its documentation describes.

mod journal;

use std::collections::BTreeSet;
use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, MemoryDevice};

use self::journal::{Mutant, atomicity, run};
use super::{Cut, MAX_ENUMERATED, PowerCuts};
use crate::atomicity::Atomicity;
use crate::prng::Prng;
use crate::recording::{Recording, RecordingDevice};

const SECTORS: usize = 32;

fn device() -> RecordingDevice {
    RecordingDevice::new(Arc::new(MemoryDevice::new(512 * SECTORS as u64)))
}

fn write(device: &RecordingDevice, sector: u64, bytes: &[u8]) {
    device.write_at(bytes, sector * 512, Durability::Cached).unwrap();
}

fn write_durable(device: &RecordingDevice, sector: u64, bytes: &[u8]) {
    device.write_at(bytes, sector * 512, Durability::Durable).unwrap();
}

/// Returns the state of the device after a cut: the first byte of each sector.
fn state(cuts: &PowerCuts<'_>, cut: Cut) -> [u8; SECTORS] {
    let mut bytes = vec![0xaa; 512 * SECTORS];
    cuts.after(cut).read_at(&mut bytes, 0).unwrap();
    std::array::from_fn(|sector| bytes[sector * 512])
}

/// Returns every state that a cut at `point` may leave.
fn states(recording: &Recording, atomicity: Atomicity, point: usize) -> BTreeSet<[u8; SECTORS]> {
    let cuts = PowerCuts::new(recording, atomicity);
    cuts.at(point, 4000).map(|cut| state(&cuts, cut)).collect()
}

/// Returns a state in which all sectors are zero except those in `sectors`. Each of these is given
/// as its number and its first byte.
fn with(sectors: &[(usize, u8)]) -> [u8; SECTORS] {
    let mut state = [0; SECTORS];
    sectors.iter().for_each(|(sector, byte)| state[*sector] = *byte);
    state
}

#[test]
fn correct_journal_survives_every_cut() {
    let run = run(3, None);
    let cuts = PowerCuts::new(&run.recording, atomicity());
    let mut count = 0;
    for cut in cuts.all(100) {
        run.check(&cuts, cut).unwrap();
        count += 1;
    }
    assert!(count > 60, "only {count} states");
}

#[test]
fn correct_journal_survives_sampled_cuts() {
    let run = run(20, None);
    let cuts = PowerCuts::new(&run.recording, atomicity());
    for seed in 0..5000 {
        run.check(&cuts, cuts.sample(seed)).unwrap();
    }
}

#[test]
fn every_mutant_is_caught_by_enumeration_and_by_samples() {
    for mutant in Mutant::ALL {
        let run = run(3, Some(mutant));
        let cuts = PowerCuts::new(&run.recording, atomicity());
        let caught = cuts.all(0).find(|cut| run.check(&cuts, *cut).is_err());
        assert!(caught.is_some(), "no enumerated cut catches {mutant:?}");
        let caught = (0..200).find(|seed| run.check(&cuts, cuts.sample(*seed)).is_err());
        assert!(caught.is_some(), "no sampled cut catches {mutant:?}");
    }
}

#[test]
fn single_record_journal_survives_if_records_are_never_torn() {
    let run = run(3, Some(Mutant::OneRecord));
    let cuts = PowerCuts::new(&run.recording, Atomicity::default());
    for cut in cuts.all(100) {
        run.check(&cuts, cut).unwrap();
    }
}

#[test]
fn cut_is_reproduced_from_its_number() {
    let run = run(3, Some(Mutant::NoFlushBeforeCommit));
    let cuts = PowerCuts::new(&run.recording, atomicity());
    let again = PowerCuts::new(&run.recording, atomicity());
    // In reverse order, so that the cached state of the device is never reused.
    let all: Vec<Cut> = cuts.all(10).chain((0..100).map(|seed| cuts.sample(seed))).collect();
    for cut in all.into_iter().rev() {
        let same: Cut = cut.to_string().parse().unwrap();
        assert_eq!(same, cut);
        assert_eq!(state(&again, same), state(&cuts, cut), "{cut}");
    }
}

/// Checks I2 of `xfs_testkit::power_cut`: any subset of the unflushed writes may survive.
#[test]
fn any_subset_of_unflushed_writes_may_survive() {
    let device = device();
    for sector in 0..MAX_ENUMERATED as u64 {
        write(&device, sector, &[1; 512]);
    }
    let states = states(&device.recording(), Atomicity::default(), MAX_ENUMERATED);
    assert_eq!(states.len(), 1 << MAX_ENUMERATED);
}

/// Checks I1 of `xfs_testkit::power_cut`: a flush covers the writes that returned before it, and no
/// others.
#[test]
fn flush_covers_only_writes_that_returned_before_it() {
    let device = device();
    write(&device, 0, &[1; 512]);
    device.flush().unwrap();
    write(&device, 1, &[2; 512]);
    let recording = device.recording();
    // The flush has not returned at point 1.
    let expected = BTreeSet::from([with(&[]), with(&[(0, 1)])]);
    assert_eq!(states(&recording, Atomicity::default(), 1), expected);
    let expected = BTreeSet::from([with(&[(0, 1)]), with(&[(0, 1), (1, 2)])]);
    assert_eq!(states(&recording, Atomicity::default(), 2), expected);
    assert_eq!(states(&recording, Atomicity::default(), 3), expected);
}

/// Checks I1 of `xfs_testkit::power_cut`: a durable write that has returned survives without a
/// flush.
#[test]
fn durable_write_covers_itself_once_it_has_returned() {
    let device = device();
    write(&device, 0, &[1; 512]);
    write_durable(&device, 1, &[2; 512]);
    let recording = device.recording();
    let expected = BTreeSet::from([with(&[(1, 2)]), with(&[(0, 1), (1, 2)])]);
    assert_eq!(states(&recording, Atomicity::default(), 2), expected);
    // In flight it is like any other write.
    assert_eq!(states(&recording, Atomicity::default(), 1).len(), 4);
}

/// Checks I3 of `xfs_testkit::power_cut`: where writes overlap, a newer write that survives hides
/// the older one.
#[test]
fn older_write_never_hides_a_surviving_newer_one() {
    let device = device();
    write(&device, 0, &[1; 1024]);
    write(&device, 0, &[2; 512]);
    let states = states(&device.recording(), Atomicity::default(), 2);
    let expected = [with(&[]), with(&[(0, 1), (1, 1)]), with(&[(0, 2)]), with(&[(0, 2), (1, 1)])];
    assert_eq!(states, BTreeSet::from(expected));
}

/// Checks I2 of `xfs_testkit::power_cut`: log records are torn into sectors, and metadata buffers
/// are not torn.
#[test]
fn log_records_are_torn_and_metadata_buffers_are_not() {
    let device = device();
    write(&device, 0, &[1; 1024]);
    write(&device, 4, &[2; 1024]);
    let states = states(&device.recording(), Atomicity::default().torn(0..2048), 2);
    assert_eq!(states.len(), 8);
    assert!(states.contains(&with(&[(1, 1)])));
    assert!(states.iter().all(|state| state[4] == state[5]));
}

#[test]
fn inode_cluster_is_torn_between_inodes() {
    let device = device();
    let mut cluster = vec![0; 1024];
    cluster[..2].copy_from_slice(b"IN");
    cluster[512..514].copy_from_slice(b"IN");
    write(&device, 0, &cluster);
    assert_eq!(states(&device.recording(), Atomicity::default(), 1).len(), 4);
}

#[test]
fn few_writes_of_many_units_are_enumerated_whole_and_sampled_torn() {
    let device = device();
    write(&device, 0, &[1; 16 * 512]);
    write(&device, 16, &[2; 16 * 512]);
    let states = states(&device.recording(), Atomicity::default().torn(0..1 << 20), 2);
    let (low, high) = ([1; 16], [2; 16]);
    for (first, second) in [([0; 16], [0; 16]), (low, [0; 16]), ([0; 16], high), (low, high)] {
        let whole: [u8; SECTORS] =
            std::array::from_fn(|at| if at < 16 { first[at] } else { second[at - 16] });
        assert!(states.contains(&whole));
    }
    let torn = |sectors: &[u8]| sectors.iter().any(|byte| *byte != sectors[0]);
    assert!(states.iter().any(|state| torn(&state[..16]) && torn(&state[16..])));
    assert!(states.iter().any(|state| torn(&state[..16]) && !torn(&state[16..])));
}

#[test]
fn many_writes_are_sampled_in_every_survival_pattern() {
    let device = device();
    let writes = 2 * MAX_ENUMERATED;
    for sector in 0..writes as u64 {
        write(&device, sector, &[1; 512]);
    }
    let recording = device.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::default());
    let mut first = cuts.at(writes, 2).map(|cut| state(&cuts, cut));
    assert_eq!(first.next(), Some(with(&[])));
    let all: Vec<(usize, u8)> = (0..writes).map(|sector| (sector, 1)).collect();
    assert_eq!(first.next(), Some(with(&all)));
    assert_eq!(first.next(), None);
    let states = states(&recording, Atomicity::default(), writes);
    for sector in 0..writes {
        let mut others = all.clone();
        others.remove(sector);
        assert!(states.contains(&with(&others)), "no cut loses only {sector}");
        assert!(states.contains(&with(&[(sector, 1)])), "no cut keeps only {sector}");
        assert!(states.contains(&with(&all[..sector])), "no cut keeps only the first {sector}");
        assert!(states.contains(&with(&all[sector..])), "no cut keeps only those from {sector} on");
    }
}

#[test]
fn every_prefix_of_the_writes_is_among_the_cuts() {
    let device = device();
    let mut prng = Prng::new(7);
    for _ in 0..40 {
        match prng.within(0..4) {
            0 => device.flush().unwrap(),
            1 => {
                write_durable(&device, prng.within(0..SECTORS) as u64, &[prng.number() as u8; 512])
            }
            _ => write(&device, prng.within(0..SECTORS) as u64, &[prng.number() as u8; 512]),
        }
    }
    let recording = device.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::default());
    let reached: BTreeSet<_> = cuts.all(2).map(|cut| state(&cuts, cut)).collect();
    for count in 0..=recording.requests().len() {
        let mut bytes = vec![0xaa; 512 * SECTORS];
        recording.replay(count).read_at(&mut bytes, 0).unwrap();
        let prefix: [u8; SECTORS] = std::array::from_fn(|sector| bytes[sector * 512]);
        assert!(reached.contains(&prefix), "the first {count} requests");
    }
}

/// Checks I4 of `xfs_testkit::power_cut`: a discarded range holds its old contents, zeros or random
/// bytes.
#[test]
fn discard_leaves_old_contents_zeros_or_random_bytes() {
    let device = device();
    write(&device, 3, &[9; 512]);
    device.flush().unwrap();
    device.discard(3 * 512, 512).unwrap();
    let recording = device.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::default());
    let bytes: BTreeSet<u8> = (0..200)
        .map(|seed| cuts.sample(seed))
        .filter(|cut| cut.point() >= 2)
        .map(|cut| state(&cuts, cut)[3])
        .collect();
    assert!(bytes.contains(&9) && bytes.contains(&0) && bytes.len() > 2, "{bytes:?}");
}

#[test]
fn sample_depends_only_on_its_seed() {
    let run = run(10, None);
    let (cuts, again) =
        (PowerCuts::new(&run.recording, atomicity()), PowerCuts::new(&run.recording, atomicity()));
    let points: BTreeSet<usize> = (0..1000).map(|seed| cuts.sample(seed).point()).collect();
    assert_eq!(points.len(), run.recording.requests().len() + 1, "every point is reached");
    assert!((0..100).all(|seed| cuts.sample(seed) == again.sample(seed)));
}

/// Checks I5 of `xfs_testkit::power_cut`: a flush of one part of a split device does not cover the
/// other part.
#[test]
fn flush_of_one_part_does_not_cover_the_other() {
    let whole = Arc::new(device());
    let [data, log] = whole.split(16 * 512);
    let sector = |byte: u8| [byte; 512];
    data.write_at(&sector(1), 0, Durability::Cached).unwrap();
    log.write_at(&sector(2), 0, Durability::Cached).unwrap();
    log.flush().unwrap();
    let recording = whole.recording();
    let atomicity = || Atomicity::default();
    let both = with(&[(0, 1), (16, 2)]);
    assert_eq!(states(&recording, atomicity(), 3), BTreeSet::from([with(&[(16, 2)]), both]));
    // In flight the flush covers nothing.
    assert_eq!(states(&recording, atomicity(), 2).len(), 4);
    data.flush().unwrap();
    data.write_at(&sector(3), 512, Durability::Cached).unwrap();
    log.write_at(&sector(4), 512, Durability::Durable).unwrap();
    data.write_at(&sector(5), 0, Durability::Cached).unwrap();
    log.flush().unwrap();
    let recording = whole.recording();
    // The next request is in flight.
    let next = with(&[(0, 1), (1, 3), (16, 2)]);
    assert_eq!(states(&recording, atomicity(), 4), BTreeSet::from([both, next]));
    let expected = [(1, 0), (1, 3), (5, 0), (5, 3)];
    let expected =
        expected.map(|(first, second)| with(&[(0, first), (1, second), (16, 2), (17, 4)]));
    assert_eq!(states(&recording, atomicity(), 8), BTreeSet::from(expected));
    whole.flush().unwrap();
    let recording = whole.recording();
    assert_eq!(states(&recording, atomicity(), 9).len(), 1);
}
