//! Simulated power cuts. Recovery must restore the state after some commit, and that commit must
//! not be older than the last force.

use std::sync::Arc;

use xfs_device::SharedDevice;
use xfs_testkit::{Atomicity, PowerCuts, Prng, RecordingDevice};

use super::{LABEL, begin, copy_of_superblock, spare};
use crate::Journal;
use crate::testing::{change_core, is_clean, make, open, recover, superblock};

const RUNS: u64 = 3;
const CUTS: u64 = 8;
const COMMITS: u32 = 80;
const INODES: u64 = 12;

/// The state of the volume, given by the numbers of commits: the last commit that changed each of
/// the two inodes, and the last that changed the buffer (the copy of the superblock in group 1).
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    inodes: Vec<u32>,
    buffer: u32,
}

/// The state after each commit, and the forces. Each pair in `durable` is one force: the number of
/// requests that the device had recorded after the force, and the index of the state that the force
/// made durable.
struct History {
    states: Vec<State>,
    durable: Vec<(usize, usize)>,
}

fn read(journal: &Arc<Journal>) -> State {
    let inodes = (0..INODES).map(|index| spare(journal, index).core().unwrap().uid).collect();
    let mut tx = begin(journal);
    let bytes = copy_of_superblock(&mut tx);
    let label: [u8; 4] = bytes.bytes()[LABEL.start..][..4].try_into().unwrap();
    State { inodes, buffer: u32::from_be_bytes(label) }
}

/// Commits changes to two inodes, and often to a buffer, as one transaction or as a chain. Forces
/// the log now and then. Returns the states and the forces.
fn work(journal: &Arc<Journal>, device: &RecordingDevice, prng: &mut Prng) -> History {
    let mut states = vec![read(journal)];
    let mut durable = Vec::new();
    for number in 1..=COMMITS {
        let mut state = states.last().unwrap().clone();
        let mut chosen = [prng.within(0..INODES as usize), prng.within(0..INODES as usize)];
        chosen.sort_unstable();
        let mut tx = begin(journal);
        for index in chosen {
            let record = spare(journal, index as u64);
            tx.join(&record);
            change_core(&mut tx, &record, |core| core.uid = number);
            state.inodes[index] = number;
        }
        if prng.within(0..4) == 0 {
            tx.roll().unwrap();
            states.push(state.clone());
        }
        if prng.within(0..2) == 0 {
            let buffer = copy_of_superblock(&mut tx);
            tx.change(&buffer, LABEL.start..LABEL.start + 4, |bytes| {
                bytes.copy_from_slice(&number.to_be_bytes());
            });
            state.buffer = number;
        }
        let committed = tx.commit().unwrap();
        states.push(state);
        match prng.within(0..12) {
            0 | 1 => {
                journal.force(committed.sequence).unwrap();
                durable.push((device.position(), states.len() - 1));
            }
            2 => {
                journal.log().quiesce().unwrap();
                durable.push((device.position(), states.len() - 1));
            }
            3 => drop(journal.cover_if_idle().unwrap()),
            _ => {}
        }
    }
    History { states, durable }
}

fn check_cuts(seed: u64) {
    let mut prng = Prng::new(seed);
    let recorded = Arc::new(RecordingDevice::new(make()));
    let device: SharedDevice = recorded.clone();
    let journal = open(&device, 0);
    let history = work(&journal, &recorded, &mut prng);
    let recording = recorded.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::of(&superblock(&device)));
    for index in 0..CUTS {
        let cut = cuts.sample(seed * CUTS + index);
        let device: SharedDevice = Arc::new(cuts.after(cut));
        let (recovered, open) = recover(&device);
        assert!(open.is_empty());
        let found = read(&recovered);
        let forced = history.durable.iter().filter(|(position, _)| *position <= cut.point());
        let least = forced.map(|(_, state)| *state).max().unwrap_or(0);
        let states = &history.states[least..];
        assert!(states.contains(&found), "seed {seed} cut {cut}: {found:?} after {least}");
        recovered.unmount().unwrap();
        assert!(is_clean(&device));
        let reopened = crate::testing::open(&device, 0);
        assert_eq!(read(&reopened), found, "seed {seed} cut {cut}: unmounted and opened again");
    }
}

#[test]
fn power_cut_leaves_a_prefix_of_the_commits() {
    (1..=RUNS).for_each(check_cuts);
}
