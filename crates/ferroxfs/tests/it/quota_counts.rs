//! Tests of a volume that counts the usage of users, groups and projects.
//!
//! After random operations xfs_repair, which counts all inodes, must find nothing. Where xfs_repair
//! is missing, only the walk over all files and our checker judge.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;
use std::sync::Arc;

use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::device::{BlockDevice, Durability, SharedDevice};
use ferroxfs::quota::{Limit, Limits, QuotaMode, QuotaOptions, QuotaType};
use ferroxfs::{
    CreateOptions, Error, NewKind, Node, OpenError, OpenOptions, SetAttributes, Volume,
};
use xfs_format::dquot::{DQUOT_BLOCK_BYTES, DquotDisk, seal_block};
use xfs_format::inode::ForkKind;
use xfs_oracle::{CheckerVerdict, Xfsprogs, check_volume};
use xfs_testkit::{Atomicity, PowerCuts, Prng, RecordingDevice, delegate_device};
use xfs_trans::testing::{make_sized, superblock};

pub(crate) const VOLUME_BYTES: u64 = 64 << 20;

/// The usage of a user: number of blocks, and number of inodes.
type Usage = (u64, u64);

fn make() -> SharedDevice {
    make_sized(VOLUME_BYTES, "-l size=8m")
}

fn open(device: &SharedDevice, mode: QuotaMode) -> Volume {
    let options = OpenOptions::new().write(true).quota(QuotaOptions::all(mode));
    options.open_device(Arc::clone(device)).unwrap()
}

/// Checks a closed volume with xfs_repair, which compares all counts with the inodes, and with our
/// checker.
pub(crate) fn check(device: &SharedDevice, what: &str) {
    assert_eq!(check_volume(device, device), CheckerVerdict::Findings(Vec::new()), "{what}");
    // Older programs refuse the volume for its features. The checker above compares counts too.
    let Ok(programs) = Xfsprogs::newer() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let mut bytes = vec![0; device.length_bytes() as usize];
    device.read_at(&mut bytes, 0).unwrap();
    std::fs::write(&path, bytes).unwrap();
    let output = programs.command("xfs_repair").arg("-n").arg(&path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let said = format!("{}{text}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{what}: {said}");
    assert!(!said.contains("quota id"), "{what}: {said}");
}

/// Counts the usage of users by a walk over all files of a closed volume.
fn walk_users(device: &SharedDevice) -> BTreeMap<u32, Usage> {
    let volume = OpenOptions::new().open_device(Arc::clone(device)).unwrap();
    let block = u64::from(volume.geometry().block_size) / 512;
    let mut users: BTreeMap<u32, Usage> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for entry in volume.walk("/").unwrap() {
        let node = entry.unwrap().node;
        // A file with several names is one inode.
        if !seen.insert(node.number()) {
            continue;
        }
        let metadata = node.metadata();
        let (blocks, inodes) = users.entry(metadata.uid).or_default();
        (*blocks, *inodes) = (*blocks + metadata.blocks / block, *inodes + 1);
    }
    // The inodes of the realtime bitmap and summary belong to root, and have no blocks here.
    users.entry(0).or_default().1 += 2;
    users
}

/// Returns the usage of users that the quota of a volume shows.
fn shown_users(volume: &Volume) -> BTreeMap<u32, Usage> {
    let shown = volume.quota().iter(QuotaType::User).unwrap().map(|quota| {
        let quota = quota.unwrap();
        (quota.id, (quota.blocks.used, quota.inodes.used))
    });
    shown.filter(|(_, usage)| *usage != (0, 0)).collect()
}

/// Random operations of several owners in one directory.
pub(crate) struct RandomWork {
    random: Prng,
    directory: Node,
    /// The names that the operations use. Each of them may exist in the directory or not.
    names: Vec<String>,
}

const OWNERS: [u32; 6] = [0, 29, 30, 1001, 70_000, u32::MAX - 1];

impl RandomWork {
    pub(crate) fn new(volume: &Volume, seed: u64) -> Self {
        volume.create_dir_all("/work").unwrap();
        let names = (0..24).map(|number| format!("file-{number}")).collect();
        Self { random: Prng::new(seed), directory: volume.lookup("/work").unwrap(), names }
    }

    fn owner(&mut self) -> u32 {
        *self.random.choose(&OWNERS).unwrap()
    }

    fn name(&mut self) -> String {
        let names = self.names.clone();
        self.random.choose(&names).unwrap().clone()
    }

    /// Performs one random operation. The volume may refuse it, which is no failure: the test
    /// checks only the counts.
    pub(crate) fn step(&mut self) {
        let (name, other) = (self.name(), self.name());
        let (uid, gid, project) = (self.owner(), self.owner(), self.owner());
        match self.random.within(0..10) {
            0 | 1 => {
                let kinds = [NewKind::Regular, NewKind::Directory, NewKind::Symlink(b"target")];
                let kind = self.random.choose(&kinds).unwrap();
                let options = CreateOptions::new(0o644).uid(uid).gid(gid);
                let _ = self.directory.create(&name, kind, &options);
            }
            2 => {
                let _ = self.directory.remove_file(&name);
            }
            3 => {
                let changes = SetAttributes::new().uid(uid).gid(gid).project_id(project);
                let _ = self.lookup(&name).map(|node| node.set_attributes(&changes));
            }
            4 => {
                let _ = self
                    .directory
                    .link(&self.lookup(&other).unwrap_or_else(|| self.directory.clone()), &name);
            }
            5 => {
                let value = vec![1; self.random.within(1..5000)];
                let _ = self
                    .lookup(&name)
                    .map(|node| node.set_attribute("user.value", &value, Default::default()));
            }
            _ => self.change_contents(&name, &other),
        }
    }

    fn lookup(&self, name: &str) -> Option<Node> {
        self.directory.lookup(name.as_ref()).ok()
    }

    fn change_contents(&mut self, name: &str, other: &str) {
        let Some(Ok(file)) = self.lookup(name).map(|node| node.open()) else { return };
        let offset = self.random.within(0..200_000) as u64;
        let length = self.random.within(1..100_000);
        let end = offset + length as u64;
        match self.random.within(0..5) {
            0 | 1 => drop(file.write_at(&vec![7; length], offset)),
            2 => drop(file.set_len(offset)),
            3 => {
                let modes = [RangeMode::Punch, RangeMode::Allocate(AllocateMode::KeepSize)];
                let mode = *self.random.choose(&modes).unwrap();
                let _ = file.change_range(offset..end, mode);
            }
            _ => {
                if let Some(Ok(source)) = self.lookup(other).map(|node| node.open()) {
                    let length = source.metadata().size;
                    let _ = file.clone_range(0, &source, 0, length);
                }
            }
        }
    }
}

#[test]
fn usage_after_random_operations_is_that_of_all_inodes() {
    for seed in 1..3 {
        let device = make();
        let volume = open(&device, QuotaMode::NoEnforce);
        let mut work = RandomWork::new(&volume, seed);
        (0..110).for_each(|_| work.step());
        drop(work);
        volume.close().unwrap();
        check(&device, &format!("seed {seed}"));
        let volume = open(&device, QuotaMode::NoEnforce);
        assert_eq!(shown_users(&volume), walk_users(&device), "seed {seed}");
        volume.close().unwrap();
    }
}

#[test]
fn quotacheck_counts_a_volume_that_was_changed_without_quota() {
    let device = make();
    let volume = open(&device, QuotaMode::NoEnforce);
    let mut work = RandomWork::new(&volume, 9);
    (0..60).for_each(|_| work.step());
    drop(work);
    volume.close().unwrap();
    let volume = OpenOptions::new().write(true).open_device(Arc::clone(&device)).unwrap();
    let mut work = RandomWork::new(&volume, 10);
    (0..60).for_each(|_| work.step());
    drop(work);
    volume.close().unwrap();
    let volume = open(&device, QuotaMode::Enforce);
    assert!(volume.quota().state().unwrap().is_checked(QuotaType::Project));
    volume.close().unwrap();
    check(&device, "after quotacheck");
}

/// Checks Q2 of `xfs_trans::transaction::quota`: the counts are right after power cuts.
#[test]
fn counts_survive_power_cuts() {
    let device = make();
    open(&device, QuotaMode::Enforce).close().unwrap();
    let recording = Arc::new(RecordingDevice::new(Arc::clone(&device)));
    let volume = open(&(Arc::clone(&recording) as SharedDevice), QuotaMode::Enforce);
    let mut work = RandomWork::new(&volume, 77);
    for step in 0..80 {
        work.step();
        if step % 16 == 0 {
            volume.sync().unwrap();
        }
    }
    drop(work);
    volume.close().unwrap();
    let recording = recording.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::of(&superblock(&device)));
    for seed in 0..3 {
        let cut = cuts.sample(seed);
        let cut_off: SharedDevice = Arc::new(cuts.after(cut));
        let volume = open(&cut_off, QuotaMode::Enforce);
        volume.close().unwrap();
        check(&cut_off, &format!("cut {cut}"));
    }
}

#[test]
fn limits_that_were_set_are_shown_and_survive() {
    let device = make();
    let volume = open(&device, QuotaMode::Enforce);
    let limit = Limit::new().soft(10).hard(20);
    let limits = Limits::new().blocks(limit).inodes(limit);
    volume.quota().set(QuotaType::Group, 500, &limits).unwrap();
    let limits = Limits::new().blocks(Limit::new().timer(3600));
    volume.quota().set(QuotaType::Group, 0, &limits).unwrap();
    volume.close().unwrap();
    check(&device, "limits");
    let volume = OpenOptions::new().open_device(Arc::clone(&device)).unwrap();
    let quota = volume.quota().get(QuotaType::Group, 500).unwrap().unwrap();
    assert_eq!((quota.blocks.soft, quota.blocks.hard, quota.inodes.hard), (10, 20, 20));
    let defaults = volume.quota().get(QuotaType::Group, 0).unwrap().unwrap();
    assert_eq!(defaults.blocks.timer, 3600);
}

#[test]
fn kept_modes_are_those_of_the_log_and_not_of_the_disk() {
    let device = make();
    let keep = OpenOptions::new().write(true).quota(QuotaOptions::all(QuotaMode::Keep));
    keep.open_device(Arc::clone(&device)).unwrap().close().unwrap();
    let recording = Arc::new(RecordingDevice::new(Arc::clone(&device)));
    let options = QuotaOptions::new()
        .user(QuotaMode::NoEnforce)
        .group(QuotaMode::KeepOrEnforce)
        .project(QuotaMode::Keep);
    let options = OpenOptions::new().write(true).quota(options);
    let volume = options.open_device(Arc::clone(&recording) as SharedDevice).unwrap();
    volume.sync().unwrap();
    // The flags are in the log, and not in the superblock on disk.
    let crashed: SharedDevice = Arc::new(recording.recording().replay(usize::MAX));
    drop(volume);
    assert_eq!(superblock(&crashed).quota_flags, 0);
    let volume = keep.open_device(Arc::clone(&crashed)).unwrap();
    let state = volume.quota().state().unwrap();
    let types = QuotaType::ALL.map(|kind| (state.is_accounted(kind), state.is_enforced(kind)));
    assert_eq!(types, [(true, false), (true, true), (false, false)]);
    volume.close().unwrap();
    check(&crashed, "kept modes");
}

/// Returns the byte offset on the device of the first block of user dquots of a closed volume.
fn user_dquots_offset(device: &SharedDevice) -> u64 {
    let volume = OpenOptions::new().open_device(Arc::clone(device)).unwrap();
    let inode = volume.quota().state().unwrap().inode(QuotaType::User).unwrap();
    let extent = volume.node(inode).unwrap().extents(ForkKind::Data).next().unwrap().unwrap();
    extent.device_offset_bytes
}

/// Overwrites the first dquot of a closed volume's user quota that belongs to an ID other than 0.
fn damage_user_dquot(device: &SharedDevice) {
    let at = user_dquots_offset(device) + DQUOT_BLOCK_BYTES as u64;
    device.write_at(&[0xff; 8], at, Durability::Cached).unwrap();
}

/// Sets the counts of one of the first users of a closed volume to 0, with a valid checksum.
fn clear_user_counts(device: &SharedDevice, id: usize) {
    let (at, mut block) = (user_dquots_offset(device), vec![0; 4096]);
    device.read_at(&mut block, at).unwrap();
    let counts = id * DQUOT_BLOCK_BYTES + offset_of!(DquotDisk, blocks);
    block[counts..counts + 16].fill(0);
    seal_block(&mut block);
    device.write_at(&block, at, Durability::Cached).unwrap();
}

/// Checks Q1 of `xfs_trans::transaction::quota` with a user whose counts on disk were set to 0, and
/// a removal of one of the user's files. The counts cannot become negative, so the next open must
/// count all inodes again.
#[test]
fn count_that_would_fall_below_0_makes_the_next_open_count_again() {
    let device = make();
    let volume = open(&device, QuotaMode::Enforce);
    let options = CreateOptions::new(0o644).uid(3);
    let root = volume.root().unwrap();
    for name in ["gone", "kept"] {
        let file = root.create(name, &NewKind::Regular, &options).unwrap();
        file.open().unwrap().write_at(&[7; 5000], 0).unwrap();
    }
    drop(root);
    volume.close().unwrap();
    clear_user_counts(&device, 3);
    let volume = open(&device, QuotaMode::Enforce);
    volume.remove_file("/gone").unwrap();
    volume.close().unwrap();
    let volume = OpenOptions::new().open_device(Arc::clone(&device)).unwrap();
    assert!(!volume.quota().state().unwrap().is_checked(QuotaType::User));
    volume.close().unwrap();
    let volume = open(&device, QuotaMode::Enforce);
    assert_eq!(shown_users(&volume), walk_users(&device));
    volume.close().unwrap();
    check(&device, "after a count that would fall below 0");
}

#[test]
fn damaged_dquots_are_written_again_by_quotacheck() {
    let device = make();
    open(&device, QuotaMode::Enforce).close().unwrap();
    // Without quota the volume marks its counts as unchecked.
    let volume = OpenOptions::new().write(true).open_device(Arc::clone(&device)).unwrap();
    volume.write("/file", b"text").unwrap();
    volume.close().unwrap();
    damage_user_dquot(&device);
    let volume = open(&device, QuotaMode::Enforce);
    assert_eq!(shown_users(&volume), [(0, (1, 4))].into());
    volume.close().unwrap();
    check(&device, "after quotacheck of damaged dquots");
}

/// Checks Q1 of `xfs_trans::transaction::quota`, and Q3 of `xfs_quota::engine`. Damages the dquot
/// of a user, and changes the volume without quota, so that its counts are no longer trusted. The
/// next open with quota must write right counts for all users.
#[test]
fn missing_dquot_of_a_checked_volume_makes_the_next_open_count_again() {
    let device = make();
    let volume = open(&device, QuotaMode::Enforce);
    let options = CreateOptions::new(0o644).uid(3);
    volume.root().unwrap().create("file", &NewKind::Regular, &options).unwrap();
    volume.close().unwrap();
    damage_user_dquot(&device);
    let none = OpenOptions::new().write(true).open_device(Arc::clone(&device)).unwrap();
    none.write("/other", b"text").unwrap();
    none.close().unwrap();
    let volume = open(&device, QuotaMode::Enforce);
    assert_eq!(shown_users(&volume), walk_users(&device));
    volume.close().unwrap();
    check(&device, "after a count of a volume with damaged dquots");
}

#[test]
fn damaged_default_limits_of_a_checked_volume_are_counted_again_at_once() {
    let device = make();
    let volume = open(&device, QuotaMode::Enforce);
    let options = CreateOptions::new(0o644).uid(3);
    volume.root().unwrap().create("file", &NewKind::Regular, &options).unwrap();
    let limits = Limits::new().inodes(Limit::new().hard(9));
    volume.quota().set(QuotaType::User, 0, &limits).unwrap();
    volume.close().unwrap();
    // ID 0, which holds the default limits, shares the damaged block.
    damage_user_dquot(&device);
    let volume = open(&device, QuotaMode::Enforce);
    assert_eq!(shown_users(&volume), walk_users(&device));
    let state = volume.quota().state().unwrap();
    assert!(QuotaType::ALL.into_iter().all(|kind| state.is_checked(kind)));
    // The dquot of ID 0 is not damaged itself, so the default limit is kept.
    assert_eq!(volume.quota().get(QuotaType::User, 0).unwrap().unwrap().inodes.hard, 9);
    volume.close().unwrap();
    check(&device, "after a count of a volume with damaged default limits");
}

/// A device that cannot read one of its sectors.
struct BadSector {
    inner: SharedDevice,
    bad: u64,
}

impl BlockDevice for BadSector {
    delegate_device!(inner: length_bytes, sector_size, is_read_only, write_at, flush, discard);

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        if offset < self.bad + 512 && self.bad < offset + buffer.len() as u64 {
            return Err(std::io::Error::other("medium error"));
        }
        self.inner.read_at(buffer, offset)
    }
}

/// Opens a volume whose default limits are in a sector that the device cannot read. Checks that the
/// error of the open names quota, that nothing on the volume is changed, and that the limits are
/// still there once the sector can be read.
#[test]
fn default_limits_that_cannot_be_read_fail_the_open_by_name_and_change_nothing() {
    let device = make();
    let volume = open(&device, QuotaMode::Enforce);
    let limits = Limits::new().inodes(Limit::new().hard(9));
    volume.quota().set(QuotaType::User, 0, &limits).unwrap();
    volume.close().unwrap();
    let bytes = |device: &SharedDevice| {
        let mut bytes = vec![0; device.length_bytes() as usize];
        device.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    let before = bytes(&device);
    let bad = user_dquots_offset(&device);
    let unreadable: SharedDevice = Arc::new(BadSector { inner: Arc::clone(&device), bad });
    let options = OpenOptions::new().write(true);
    let counted = options.clone().quota(QuotaOptions::all(QuotaMode::Enforce));
    let error = counted.open_device(Arc::clone(&unreadable)).err().unwrap();
    assert!(matches!(error, OpenError::Quota(Error::Io(_))), "{error:?}");
    assert!(error.to_string().contains("quota") && error.hint().is_some(), "{error}");
    assert!(bytes(&device) == before, "the failed open changed the volume");

    let volume = open(&device, QuotaMode::Enforce);
    assert_eq!(volume.quota().get(QuotaType::User, 0).unwrap().unwrap().inodes.hard, 9);
    volume.close().unwrap();
    options.open_device(unreadable).unwrap().close().unwrap();
}

#[test]
fn quota_inodes_of_types_that_are_not_counted_have_no_charge() {
    let device = make();
    open(&device, QuotaMode::Enforce).close().unwrap();
    let users = QuotaOptions::new().user(QuotaMode::NoEnforce);
    for name in ["/one", "/two"] {
        let options = OpenOptions::new().write(true).quota(users);
        let volume = options.open_device(Arc::clone(&device)).unwrap();
        volume.write(name, b"text").unwrap();
        let state = volume.quota().state().unwrap();
        assert!(state.is_checked(QuotaType::User) && !state.is_accounted(QuotaType::Group));
        volume.close().unwrap();
        check(&device, name);
        // The next round counts all inodes.
        OpenOptions::new().write(true).open_device(Arc::clone(&device)).unwrap().close().unwrap();
    }
}

#[test]
fn quota_inodes_are_hidden_from_inode_numbers() {
    let device = make();
    let volume = open(&device, QuotaMode::Enforce);
    let inode = volume.quota().state().unwrap().inode(QuotaType::Group).unwrap();
    assert!(volume.node(inode).is_err());
    volume.close().unwrap();
}
