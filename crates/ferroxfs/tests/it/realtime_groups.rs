//! Tests of writing to a volume with realtime groups: contents against a model, xfs_repair, shared
//! blocks, and power cuts of both devices.

use std::sync::Arc;

use ferroxfs::admin::{Label, UuidChange};
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::{Error, File, OpenError, OpenOptions, PosixError, SetAttributes, Volume};
use xfs_format::realtime::RealtimeSuperblock;
use xfs_format::{BlockKind, Uuid};
use xfs_testkit::{Atomicity, JoinedDevice, PowerCuts, Prng, RealtimeSection, RecordingDevice};
use xfs_trans::testing::superblock;

use super::realtime_writing::{
    DATA_BYTES, Disks, change, check_after_cut, contents, create, in_memory, pattern,
};

const REALTIME_BYTES: u64 = 24 << 20;
/// Length of a realtime group in bytes.
const GROUP_BYTES: u64 = 4 << 20;

/// Makes an empty volume with these features, and with realtime groups of 4 MiB and realtime
/// extents of `extent_kib` KiB.
fn make(features: &str, extent_kib: u64) -> Disks {
    // Groups of whole extents.
    let group = GROUP_BYTES / (extent_kib << 10) * (extent_kib << 10);
    let groups = format!("rgsize={group}");
    Disks::make_with(extent_kib, REALTIME_BYTES, &[('m', features), ('r', &groups)])
}

const ALL: &str = "metadir=1,rmapbt=1,reflink=1";
const NO_SHARING: &str = "metadir=1,rmapbt=1,reflink=0";
const NO_MAP: &str = "metadir=1,rmapbt=0,reflink=0";

/// Unmounts a volume, and checks it with xfs_repair.
fn close(disks: &Disks, volume: Volume) {
    volume.close().unwrap();
    disks.repair();
}

#[test]
fn volume_with_groups_filled_by_a_kernel_is_changed() {
    let section = RealtimeSection::Groups;
    let (data, realtime) = (section.data(), section.device().unwrap());
    let disks = Disks { data: in_memory(&data), realtime: in_memory(&realtime) };
    let volume = disks.open();
    let file = volume.open_file("/rt/sparse").unwrap();
    file.write_at(&[b'x'; 5000], 300 << 10).unwrap();
    volume.open_file("/rt/fragments").unwrap().set_len(1 << 20).unwrap();
    volume.remove_file("/rt/unwritten").unwrap();
    drop(file);
    close(&disks, volume);
    let volume = disks.open();
    let sparse = volume.read("/rt/sparse").unwrap();
    assert_eq!(sparse[300 << 10..][..5000], [b'x'; 5000]);
    assert_eq!(sparse[100 << 10..101 << 10], [b'b'; 1 << 10]);
    assert_eq!(sparse.iter().filter(|byte| **byte != 0).count(), 6024);
    // Shared blocks lose their owners one by one.
    volume.remove_file("/rt/text").unwrap();
    close(&disks, volume);
    let volume = disks.open();
    for name in ["/rt/shared", "/rt/fragments", "/rt/sparse"] {
        volume.remove_file(name).unwrap();
    }
    close(&disks, volume);
}

/// Changes files at random and compares their contents with a model after each change, and the
/// volume with xfs_repair at the end.
fn check_changes(features: &str, extent_kib: u64, seed: u64) {
    let disks = make(features, extent_kib);
    let mut volume = disks.open();
    let (mut random, mut models) = (Prng::new(seed), vec![Vec::new(); 4]);
    for index in 0..models.len() {
        drop(create(&volume, &format!("f{index}")));
    }
    for step in 0..80 {
        let index = random.within(0..models.len());
        let file = volume.open_file(format!("/f{index}")).unwrap();
        change(&file, &mut models[index], extent_kib as usize * 1024, &mut random);
        assert!(contents(&file) == models[index], "extents of {extent_kib} KiB, step {step}");
        drop(file);
        if random.within(0..20) == 0 {
            close(&disks, volume);
            volume = disks.open();
        }
        if random.within(0..15) == 0 {
            volume.remove_file(format!("/f{index}")).unwrap();
            models[index] = Vec::new();
            drop(create(&volume, &format!("f{index}")));
        }
    }
    close(&disks, volume);
    let volume = disks.open();
    for (index, model) in models.iter().enumerate() {
        assert!(contents(&volume.open_file(format!("/f{index}")).unwrap()) == *model);
    }
}

/// Leaves only free runs of one block. They are shorter than the blocks between the start of the
/// unit and the write, so a copy of the unit would end before the write.
#[test]
fn copy_hint_needs_no_long_run_of_free_blocks() {
    const BLOCK: u64 = 4096;
    let disks = make(ALL, 4);
    let volume = disks.open();
    let [one, two, rest] = ["one", "two", "rest"].map(|name| create(&volume, name));
    let mut bytes: Vec<u8> = (0..256_u32 << 10).map(|at| (at >> 12) as u8 + 1).collect();
    one.write_at(&bytes, 0).unwrap();
    two.clone_range(0, &one, 0, 0).unwrap();
    let hint = SetAttributes::new().cow_extent_size_hint_bytes(64 << 10);
    two.node().set_attributes(&hint).unwrap();
    let allocate = RangeMode::Allocate(AllocateMode::KeepSize);
    let (mut end, mut length) = (0, 16 << 20);
    while length >= BLOCK {
        match rest.change_range(end..end + length, allocate) {
            Ok(()) => end += length,
            Err(Error::Posix(PosixError::NoSpace)) => length /= 2,
            Err(other) => panic!("{other}"),
        }
    }
    for block in 0..64 {
        let start = 2 * block * BLOCK;
        rest.change_range(start..start + BLOCK, RangeMode::Punch).unwrap();
    }
    volume.sync().unwrap();
    two.write_at(b"ten bytes!", 100_000).unwrap();
    two.sync_all().unwrap();
    assert!(contents(&one) == bytes);
    bytes[100_000..100_010].copy_from_slice(b"ten bytes!");
    assert!(contents(&two) == bytes);
    drop((one, two, rest));
    close(&disks, volume);
}

#[test]
fn random_changes_in_groups_agree_with_a_model() {
    check_changes(ALL, 4, 1);
}

#[test]
fn random_changes_in_groups_without_sharing_agree_with_a_model() {
    check_changes(NO_SHARING, 4, 2);
}

#[test]
fn random_changes_in_groups_with_large_extents_agree_with_a_model() {
    check_changes(NO_SHARING, 28, 3);
}

#[test]
fn random_changes_in_groups_without_a_reverse_map_agree_with_a_model() {
    check_changes(NO_MAP, 4, 4);
}

fn allocate(file: &File, start: u64, end: u64) {
    file.change_range(start..end, RangeMode::Allocate(AllocateMode::Extend)).unwrap();
}

/// Fills all groups, and frees them. Checks that the last write is refused for lack of space.
#[test]
fn full_groups_refuse_a_write_and_get_their_space_back() {
    let disks = make(ALL, 4);
    let free = superblock(&disks.data).free_realtime_extents;
    let volume = disks.open();
    let file = create(&volume, "all");
    allocate(&file, 0, (free - 1) << 12);
    let refused =
        file.change_range(1 << 30..(1 << 30) + 8192, RangeMode::Allocate(AllocateMode::Extend));
    assert!(matches!(refused, Err(Error::Posix(PosixError::NoSpace))), "{refused:?}");
    drop(file);
    close(&disks, volume);
    assert_eq!(superblock(&disks.data).free_realtime_extents, 1);
    let volume = disks.open();
    volume.remove_file("/all").unwrap();
    close(&disks, volume);
    assert_eq!(superblock(&disks.data).free_realtime_extents, free);
}

/// Frees every second block of a file. Each remaining block then has a record of its own, and the
/// btree of each group's reverse map gets several levels. Then frees the remaining blocks. Checks
/// the volume after each step.
#[test]
fn reverse_map_of_a_group_grows_out_of_its_inode_and_back() {
    let disks = make(ALL, 4);
    let free = superblock(&disks.data).free_realtime_extents;
    let volume = disks.open();
    let file = create(&volume, "file");
    let count = 3 * GROUP_BYTES / 4096;
    allocate(&file, 0, count << 12);
    for number in (1..count).step_by(2) {
        let block = number << 12..(number + 1) << 12;
        file.change_range(block, RangeMode::Punch).unwrap();
    }
    drop(file);
    close(&disks, volume);
    let used = superblock(&disks.data).free_realtime_extents;
    assert_eq!(used, free - count.div_ceil(2));
    let volume = disks.open();
    let file = volume.open_file("/file").unwrap();
    // The records of the middle are joined again.
    allocate(&file, 1 << 20, 5 << 20);
    drop(file);
    close(&disks, volume);
    let volume = disks.open();
    let file = volume.open_file("/file").unwrap();
    file.set_len(20 << 12).unwrap();
    drop(file);
    close(&disks, volume);
    let volume = disks.open();
    volume.remove_file("/file").unwrap();
    close(&disks, volume);
    assert_eq!(superblock(&disks.data).free_realtime_extents, free);
}

/// Shares blocks of realtime files, overwrites them in part, and frees them. Checks that each file
/// keeps its own contents.
#[test]
fn shared_realtime_blocks_are_copied_before_they_are_overwritten() {
    let disks = make(ALL, 4);
    let free = superblock(&disks.data).free_realtime_extents;
    let volume = disks.open();
    let mut random = Prng::new(9);
    let mut models: Vec<Vec<u8>> = Vec::new();
    for index in 0..4 {
        let file = create(&volume, &format!("s{index}"));
        let bytes: Vec<u8> = (0..400_000).map(|_| random.within(1..0xe0) as u8).collect();
        file.write_at(&bytes, 0).unwrap();
        models.push(bytes);
    }
    for step in 0..60 {
        let [from, to] = [(); 2].map(|()| random.within(0..models.len()));
        let file = |index: usize| volume.open_file(format!("/s{index}")).unwrap();
        let start = random.within(0..40) << 12;
        if from != to && random.within(0..2) == 0 {
            let length = random.within(1..50) << 12;
            let at = start as u64;
            file(to).clone_range(at, &file(from), at, length as u64).unwrap();
            let piece = models[from][start..start + length].to_vec();
            models[to][start..start + length].copy_from_slice(&piece);
        } else {
            let length = random.within(1..60_000);
            let bytes = vec![random.within(1..0xe0) as u8; length];
            file(to).write_at(&bytes, start as u64 + 100).unwrap();
            models[to][start + 100..start + 100 + length].copy_from_slice(&bytes);
        }
        for index in [from, to] {
            assert!(contents(&file(index)) == models[index], "step {step}, file {index}");
        }
    }
    close(&disks, volume);
    let volume = disks.open();
    for (index, model) in models.iter().enumerate() {
        let name = format!("/s{index}");
        assert!(volume.read(&name).unwrap() == *model);
        volume.remove_file(&name).unwrap();
    }
    close(&disks, volume);
    assert_eq!(superblock(&disks.data).free_realtime_extents, free);
}

/// Exchanges ranges of realtime files at random. Checks that the files then have the same contents
/// as a model.
#[test]
fn exchanged_realtime_contents_agree_with_a_model() {
    let disks = make(ALL, 4);
    let mut volume = disks.open();
    let mut random = Prng::new(12);
    let mut models: Vec<Vec<u8>> = Vec::new();
    for index in 0..3 {
        let bytes: Vec<u8> = (0..100 << 12).map(|_| random.within(1..0xe0) as u8).collect();
        create(&volume, &format!("x{index}")).write_at(&bytes, 0).unwrap();
        models.push(bytes);
    }
    for step in 0..30 {
        let [from, to] = [random.within(0..3), random.within(0..3)];
        if from == to {
            continue;
        }
        let file = |index: usize| volume.open_file(format!("/x{index}")).unwrap();
        let [here, there] = [(); 2].map(|()| random.within(0..80) << 12);
        let length = random.within(1..20) << 12;
        file(from).exchange_range(here as u64, &file(to), there as u64, length as u64).unwrap();
        let mine = models[from][here..here + length].to_vec();
        let theirs = models[to][there..there + length].to_vec();
        models[from][here..here + length].copy_from_slice(&theirs);
        models[to][there..there + length].copy_from_slice(&mine);
        if step % 10 == 0 {
            close(&disks, volume);
            volume = disks.open();
        }
    }
    close(&disks, volume);
    let volume = disks.open();
    for (index, model) in models.iter().enumerate() {
        assert!(volume.read(format!("/x{index}")).unwrap() == *model, "file {index}");
    }
}

/// Performs operations that log intents about realtime groups, while the devices record all
/// requests. Cuts the power at random points. Checks each state after its recovery, and with
/// xfs_repair. Bitmap, summary and count of a group must agree (I1 of `xfs_alloc::realtime`), and
/// so must the blocks of each btree (I1 of `xfs_alloc::realtime::tree`).
#[test]
fn power_cuts_of_realtime_groups_lose_no_synced_file() {
    let Disks { data, realtime } = make(ALL, 4);
    let atomicity = Atomicity::of(&superblock(&data));
    let joined = Arc::new(JoinedDevice::new(data, realtime));
    let recorder = Arc::new(RecordingDevice::new(joined));
    let [data, realtime] = recorder.split(DATA_BYTES);
    let volume = Disks { data, realtime }.open();
    for number in 0..4 {
        create(&volume, &format!("g{number}")).write_at(&[pattern(number); 30_000], 0).unwrap();
    }
    volume.sync().unwrap();
    let after_sync = recorder.position();
    for number in 4..12 {
        let file = create(&volume, &format!("g{number}"));
        file.write_at(&[pattern(number); 30_000], 0).unwrap();
        file.change_range(8192..12_000, RangeMode::Punch).unwrap();
        let copy = create(&volume, &format!("copy{number}"));
        copy.clone_range(0, &file, 0, 8192).unwrap();
        file.write_at(&[pattern(number); 4096], 0).unwrap();
        file.sync_all().unwrap();
        drop(file);
        volume.remove_file(format!("/g{number}")).unwrap();
        copy.set_len(4096).unwrap();
        if number % 3 == 0 {
            volume.sync().unwrap();
        }
    }
    volume.close().unwrap();
    let recording = recorder.recording();
    let cuts = PowerCuts::new(&recording, atomicity);
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    for seed in 0..if is_long { 32 } else { 12 } {
        let cut = cuts.sample(seed);
        let after = Arc::new(RecordingDevice::of(cuts.after(cut)));
        let [data, realtime] = after.split(DATA_BYTES);
        let disks = Disks { data, realtime };
        let volume = disks.open();
        let synced = if cut.point() >= after_sync { 0..4 } else { 0..0 };
        check_after_cut(&volume, &synced, &cut.to_string());
        close(&disks, volume);
    }
}

/// Returns the superblock of the realtime device.
fn realtime_superblock(disks: &Disks) -> RealtimeSuperblock {
    let mut block = vec![0; 4096];
    disks.realtime.read_at(&mut block, 0).unwrap();
    RealtimeSuperblock::decode(&block).unwrap()
}

#[test]
fn realtime_superblock_follows_the_label_and_the_uuid() {
    let disks = make(ALL, 4);
    let volume = disks.open();
    volume.set_label(&Label::new(b"new").unwrap()).unwrap();
    assert_eq!(volume.label().unwrap().as_bytes(), b"new");
    create(&volume, "file").write_at(&[1; 10_000], 0).unwrap();
    let new = Uuid::from_u128(7);
    assert_eq!(volume.set_uuid(UuidChange::To(new)).unwrap(), new);
    close(&disks, volume);
    let found = realtime_superblock(&disks);
    assert_eq!((found.label.as_bytes(), found.uuid), (&b"new"[..], new));
    assert_ne!(found.meta_uuid, new);

    let options = OpenOptions::new().write(true);
    let error = options.with_devices(disks.data.clone(), None).set_uuid(UuidChange::Restore);
    assert!(matches!(error, Err(OpenError::RealtimeDeviceMissing)), "{error:?}");
    let devices = options.with_devices(disks.data.clone(), None);
    devices.with_realtime(disks.realtime.clone()).set_uuid(UuidChange::Restore).unwrap();
    let found = realtime_superblock(&disks);
    assert_eq!(found.uuid, found.meta_uuid);
    close(&disks, disks.open());
    let error = options.with_devices(disks.data.clone(), None).open().err().unwrap();
    assert!(matches!(error, OpenError::RealtimeDeviceMissing), "{error}");
}

/// Cuts the power while label and UUID change. Checks that the volume then opens for reading, and
/// that opening it for writing completes the change on the realtime device.
#[test]
fn power_cut_during_a_change_of_the_uuid_leaves_one_identity() {
    let Disks { data, realtime } = make(ALL, 4);
    let atomicity = Atomicity::of(&superblock(&data));
    let joined = Arc::new(JoinedDevice::new(data, realtime));
    let recorder = Arc::new(RecordingDevice::new(joined));
    let [data, realtime] = recorder.split(DATA_BYTES);
    let volume = Disks { data, realtime }.open();
    create(&volume, "file").write_at(&[1; 10_000], 0).unwrap();
    volume.sync().unwrap();
    let start = recorder.position();
    volume.set_label(&Label::new(b"new").unwrap()).unwrap();
    volume.set_uuid(UuidChange::To(Uuid::from_u128(7))).unwrap();
    volume.close().unwrap();
    let recording = recorder.recording();
    let cuts = PowerCuts::new(&recording, atomicity);
    let mut seen = 0;
    for seed in 0..200 {
        let cut = cuts.sample(seed);
        if cut.point() < start {
            continue;
        }
        seen += 1;
        let after = Arc::new(RecordingDevice::of(cuts.after(cut)));
        let [data, realtime] = after.split(DATA_BYTES);
        let disks = Disks { data, realtime };
        let volume = disks.options(&OpenOptions::new()).unwrap();
        assert_eq!(volume.read("/file").unwrap(), [1; 10_000], "{cut}");
        drop(volume);
        // The copies of the superblock may be older, which xfs_repair would report.
        disks.open().close().unwrap();
        let (found, expected) = (realtime_superblock(&disks), superblock(&disks.data));
        assert_eq!((found.uuid, found.label), (expected.uuid, expected.label), "{cut}");
    }
    assert!(seen > 10, "{seen} cuts during the change");
}

/// Returns the devices of a volume on which the inode of a metadata file of group 0 was damaged:
/// `bytes` replace those at byte `offset` of the inode. `name` is the name of the file in
/// `rtgroups`.
fn damaged(name: &str, offset: usize, bytes: &[u8]) -> Disks {
    let section = RealtimeSection::Groups;
    let (mut data, realtime) = (section.data(), section.device().unwrap());
    let number = {
        let disks = Disks { data: in_memory(&data), realtime: in_memory(&realtime) };
        let volume = disks.options(&OpenOptions::new()).unwrap();
        let directory = volume.metadata_root().unwrap().lookup("rtgroups".as_ref()).unwrap();
        directory.lookup(name.as_ref()).unwrap().number()
    };
    let place = data.geometry().inode_location(number).unwrap();
    data.edit(place.cluster, place.cluster_bytes as usize, BlockKind::InodeCluster, |cluster| {
        let inode = &mut cluster[place.offset_bytes as usize..];
        inode[offset..offset + bytes.len()].copy_from_slice(bytes);
    });
    Disks { data: in_memory(&data), realtime: in_memory(&realtime) }
}

/// Damages the inode of a realtime group's btree or bitmap. Checks that opening the volume for
/// writing, a change of a realtime file, or closing the volume then fails.
#[test]
fn damaged_structures_of_a_group_are_errors() {
    const FORK: usize = 176;
    for (name, offset, bytes) in [
        // The level and the number of entries of a root, and a record of it.
        ("0.rmap", FORK, &[0, 9, 0, 1][..]),
        ("0.rmap", FORK, &[0, 0, 0xff, 0xff]),
        ("0.rmap", FORK + 4, &[0xff; 24]),
        ("0.refcount", FORK, &[0, 1, 0, 0]),
        // The kind of metadata file, and its group.
        ("0.rmap", 6, &[0, 8]),
        ("0.bitmap", 21, &[3]),
    ] {
        let disks = damaged(name, offset, bytes);
        let Ok(volume) = disks.options(&OpenOptions::new().write(true)) else { continue };
        let changed = ["/rt/text", "/rt/shared", "/rt/fragments", "/rt/sparse", "/rt/unwritten"]
            .into_iter()
            .try_for_each(|file| {
                volume.open_file(file)?.set_len(1)?;
                volume.open_file(file)?.write_at(&[1; 50_000], 0)?;
                volume.remove_file(file)
            });
        let closed = volume.close();
        assert!(changed.is_err() || closed.is_err(), "{name}, byte {offset}");
    }
}
