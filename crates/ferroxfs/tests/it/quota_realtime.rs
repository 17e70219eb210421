//! Tests of quota on volumes with a realtime section: counts against xfs_repair, which counts
//! again, and limits of realtime blocks.

use std::sync::Arc;

use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::quota::{Limit, Limits, QuotaMode, QuotaOptions, QuotaType};
use ferroxfs::{Error, OpenOptions, PosixError, SetAttributes, Volume};
use xfs_testkit::{Atomicity, JoinedDevice, PowerCuts, Prng, RecordingDevice};
use xfs_trans::testing::superblock;

use super::realtime_writing::{DATA_BYTES, Disks, change, create};

const GROUPS: &str = "metadir=1,rmapbt=1,reflink=1,uquota,gquota,pquota";

fn open(disks: &Disks) -> Volume {
    let options = OpenOptions::new().write(true).quota(QuotaOptions::all(QuotaMode::Enforce));
    disks.options(&options).unwrap()
}

fn groups(extent_kib: u64) -> Disks {
    let features = if extent_kib == 4 { GROUPS } else { "metadir=1,rmapbt=1,reflink=0" };
    let group = (4 << 20) / (extent_kib << 10) * (extent_kib << 10);
    let size = format!("rgsize={group}");
    Disks::make_with(extent_kib, 24 << 20, &[('m', features), ('r', &size)])
}

/// Checks a closed volume with xfs_repair, which compares the counts of realtime blocks too.
fn check(disks: &Disks) {
    disks.repair();
}

fn used(volume: &Volume, id: u32) -> (u64, u64) {
    let quota = volume.quota().get(QuotaType::User, id).unwrap();
    quota.map_or((0, 0), |quota| (quota.rt_blocks.used, quota.blocks.used))
}

/// Returns the realtime blocks of all files of a user.
fn walked(volume: &Volume, uid: u32) -> u64 {
    let entries = volume.walk("/").unwrap().map(|entry| entry.unwrap().node);
    let own = entries.filter(|node| node.metadata().uid == uid);
    let extents = own.flat_map(|node| {
        let extents = node.extents(ferroxfs::contents::ForkKind::Data);
        extents.map(|extent| extent.unwrap()).collect::<Vec<_>>()
    });
    extents.filter(|extent| extent.realtime).map(|extent| extent.length_bytes / 4096).sum()
}

/// Changes realtime files of several owners at random. Checks at the end that quota counts the
/// realtime blocks of each owner.
fn check_counts(disks: &Disks, extent_kib: u64, seed: u64) {
    let mut volume = open(disks);
    let (mut random, mut models) = (Prng::new(seed), vec![Vec::new(); 4]);
    for index in 0..models.len() {
        drop(create(&volume, &format!("f{index}")));
    }
    for _ in 0..50 {
        let index = random.within(0..models.len());
        let name = format!("/f{index}");
        let file = volume.open_file(&name).unwrap();
        change(&file, &mut models[index], extent_kib as usize * 1024, &mut random);
        drop(file);
        match random.within(0..8) {
            0 | 1 => {
                let owner = SetAttributes::new().uid(1000 + random.within(0..3) as u32);
                let owner = owner.project_id(random.within(0..3) as u32);
                volume.lookup(&name).unwrap().set_attributes(&owner).unwrap();
            }
            2 => {
                volume.remove_file(&name).unwrap();
                models[index] = Vec::new();
                drop(create(&volume, &format!("f{index}")));
            }
            3 => {
                volume.close().unwrap();
                check(disks);
                volume = open(disks);
            }
            _ => {}
        }
    }
    volume.close().unwrap();
    check(disks);
    let volume = open(disks);
    for uid in [0, 1000, 1001, 1002] {
        assert_eq!(used(&volume, uid).0, walked(&volume, uid), "user {uid}");
    }
    volume.close().unwrap();
}

#[test]
fn realtime_blocks_of_groups_are_counted() {
    check_counts(&groups(4), 4, 1);
    check_counts(&groups(28), 28, 2);
}

#[test]
fn realtime_blocks_of_a_classic_section_are_counted() {
    check_counts(&Disks::make(4), 4, 3);
    check_counts(&Disks::make(28), 28, 4);
}

/// Checks that quotacheck counts the realtime blocks of files that were changed without quota.
#[test]
fn quotacheck_counts_realtime_blocks() {
    for disks in [groups(4), Disks::make(4)] {
        let off = OpenOptions::new().write(true).quota(QuotaOptions::all(QuotaMode::Off));
        let volume = disks.options(&off).unwrap();
        create(&volume, "file").write_at(&[7; 100_000], 0).unwrap();
        let owner = SetAttributes::new().uid(7).gid(8).project_id(9);
        volume.lookup("/file").unwrap().set_attributes(&owner).unwrap();
        volume.close().unwrap();
        let volume = open(&disks);
        assert_eq!(used(&volume, 7), (25, 0));
        let group = volume.quota().get(QuotaType::Group, 8).unwrap().unwrap();
        assert_eq!((group.rt_blocks.used, group.inodes.used), (25, 1));
        volume.close().unwrap();
        check(&disks);
    }
}

#[test]
fn limits_of_realtime_blocks_are_enforced() {
    for disks in [groups(4), Disks::make(4)] {
        let volume = open(&disks);
        let limit = Limits::new().rt_blocks(Limit::new().soft(10).hard(20));
        volume.quota().set(QuotaType::User, 7, &limit).unwrap();
        volume.quota().set(QuotaType::Project, 9, &limit).unwrap();
        drop(create(&volume, "file"));
        let node = volume.lookup("/file").unwrap();
        node.set_attributes(&SetAttributes::new().uid(7)).unwrap();
        let file = node.open().unwrap();
        // The owners need room for the whole range, its allocated parts included.
        let allocate = |from: u64, to: u64| {
            file.change_range(from << 12..to << 12, RangeMode::Allocate(AllocateMode::Extend))
        };
        allocate(0, 10).unwrap();
        let timer = || volume.quota().get(QuotaType::User, 7).unwrap().unwrap().rt_blocks.timer;
        assert_eq!(timer(), 0);
        allocate(10, 20).unwrap();
        assert_ne!(timer(), 0);
        let refused = allocate(20, 21);
        let is_refused = matches!(refused, Err(Error::Posix(PosixError::QuotaExceeded)));
        assert!(is_refused, "{refused:?}");
        let refused = file.write_at(&[1; 4096], 30 << 12);
        let is_refused = matches!(refused, Err(Error::Posix(PosixError::QuotaExceeded)));
        assert!(is_refused, "{refused:?}");
        file.set_len(10 << 12).unwrap();
        assert_eq!((timer(), used(&volume, 7).0), (0, 10));
        let full = SetAttributes::new().uid(0).project_id(9);
        node.set_attributes(&full).unwrap();
        let refused = allocate(10, 21);
        let is_refused = matches!(refused, Err(Error::Posix(PosixError::NoSpace)));
        assert!(is_refused, "{refused:?}");
        drop((file, node));
        volume.close().unwrap();
        check(&disks);
    }
}

/// Checks Q2 of `xfs_trans::transaction::quota` for realtime blocks: the counts are right after
/// power cuts.
#[test]
fn counts_of_realtime_blocks_survive_power_cuts() {
    for Disks { data, realtime } in [groups(4), Disks::make(4)] {
        let atomicity = Atomicity::of(&superblock(&data));
        let joined = Arc::new(JoinedDevice::new(data, realtime));
        let recorder = Arc::new(RecordingDevice::new(joined));
        let [data, realtime] = recorder.split(DATA_BYTES);
        let volume = open(&Disks { data, realtime });
        for number in 0..8 {
            let file = create(&volume, &format!("g{number}"));
            file.write_at(&[1; 30_000], 0).unwrap();
            let owner = SetAttributes::new().uid(1000 + number % 3);
            volume.lookup(format!("/g{number}")).unwrap().set_attributes(&owner).unwrap();
            file.change_range(8192..12_288, RangeMode::Punch).unwrap();
            file.sync_all().unwrap();
            if number % 2 == 0 {
                volume.remove_file(format!("/g{}", number / 2)).unwrap();
            }
        }
        volume.close().unwrap();
        let recording = recorder.recording();
        let cuts = PowerCuts::new(&recording, atomicity);
        for seed in 0..10 {
            let after = Arc::new(RecordingDevice::of(cuts.after(cuts.sample(seed))));
            let [data, realtime] = after.split(DATA_BYTES);
            let disks = Disks { data, realtime };
            open(&disks).close().unwrap();
            check(&disks);
        }
    }
}
