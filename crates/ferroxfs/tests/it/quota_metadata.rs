//! Tests of a volume with a metadata directory and no realtime section: changes, recovery, and the
//! quota inodes in the directory.

use std::sync::Arc;

use ferroxfs::device::SharedDevice;
use ferroxfs::quota::{QuotaFlags, QuotaMode, QuotaOptions, QuotaType};
use ferroxfs::{OpenOptions, PosixError, SetAttributes, Volume};
use xfs_format::dquot::QuotaKind;
use xfs_testkit::{Atomicity, PowerCuts, RecordingDevice};
use xfs_trans::testing::{make_sized, superblock};

use super::quota_counts::{RandomWork, VOLUME_BYTES, check};

const COUNTED: &str = "-l size=8m -m metadir=1,uquota,gqnoenforce,pquota";
const NOT_COUNTED: &str = "-l size=8m -m metadir=1";

/// Opens a volume for writing, with quota of all types in this mode. Without a mode, flags of the
/// superblock decide which types are counted and enforced.
fn open(device: &SharedDevice, mode: Option<QuotaMode>) -> Volume {
    let options = OpenOptions::new().write(true);
    let options = match mode {
        Some(mode) => options.quota(QuotaOptions::all(mode)),
        None => options,
    };
    options.open_device(Arc::clone(device)).unwrap()
}

fn flags(device: &SharedDevice) -> QuotaFlags {
    QuotaFlags::from_bits_retain(superblock(device).quota_flags)
}

fn work(volume: &Volume, seed: u64, steps: usize) {
    let mut work = RandomWork::new(volume, seed);
    (0..steps).for_each(|_| work.step());
}

#[test]
fn volume_without_quota_is_changed() {
    let device = make_sized(VOLUME_BYTES, NOT_COUNTED);
    let volume = open(&device, None);
    work(&volume, 3, 80);
    volume.close().unwrap();
    assert_eq!(flags(&device), QuotaFlags::empty());
    check(&device, "without quota");
}

/// Checks that the superblock decides about quota if no mode is chosen, as in the kernel, and that
/// the quota inodes are made in the metadata directory.
#[test]
fn flags_of_the_superblock_last_until_other_modes_are_chosen() {
    let device = make_sized(VOLUME_BYTES, COUNTED);
    let made = flags(&device);
    assert!(!made.intersects(QuotaFlags::CHECKED));
    let volume = open(&device, None);
    work(&volume, 4, 60);
    volume.close().unwrap();
    let checked = made | QuotaFlags::CHECKED_V5;
    assert_eq!(flags(&device), checked);
    check(&device, "counted");
    let superblock = superblock(&device);
    assert_eq!(superblock.quota_inodes, [None; 3]);

    let volume = OpenOptions::new().open_device(Arc::clone(&device)).unwrap();
    let directory = volume.metadata_root().unwrap().lookup("quota".as_ref()).unwrap();
    for kind in QuotaKind::ALL {
        directory.lookup(kind.name().as_ref()).unwrap();
    }
    drop((directory, volume));

    let volume = open(&device, None);
    let state = volume.quota().state().unwrap();
    assert!(state.is_enforced(QuotaType::User) && !state.is_enforced(QuotaType::Group));
    assert!(volume.quota().get(QuotaType::Project, 0).unwrap().unwrap().inodes.used > 0);
    volume.close().unwrap();
    assert_eq!(flags(&device), checked);

    open(&device, Some(QuotaMode::Off)).close().unwrap();
    assert_eq!(flags(&device), QuotaFlags::empty());
    open(&device, None).close().unwrap();
    assert_eq!(flags(&device), QuotaFlags::empty());
    open(&device, Some(QuotaMode::Enforce)).close().unwrap();
    assert!(flags(&device).contains(QuotaFlags::GROUP_ENFORCED | QuotaFlags::CHECKED_V5));
    check(&device, "counted again");
}

/// Checks I4 of the recovery with quota inodes in the metadata directory: the counts are right
/// after power cuts, also while the inodes are made.
#[test]
fn counts_of_a_metadata_directory_survive_power_cuts() {
    let device = make_sized(VOLUME_BYTES, COUNTED);
    let atomicity = Atomicity::of(&superblock(&device));
    let recording = Arc::new(RecordingDevice::new(Arc::clone(&device)));
    let volume = open(&(Arc::clone(&recording) as SharedDevice), None);
    let mut work = RandomWork::new(&volume, 78);
    for step in 0..60 {
        work.step();
        if step % 12 == 0 {
            volume.sync().unwrap();
        }
    }
    drop(work);
    volume.close().unwrap();
    let recording = recording.recording();
    let cuts = PowerCuts::new(&recording, atomicity);
    for seed in 0..6 {
        let cut = cuts.sample(seed);
        let cut_off: SharedDevice = Arc::new(cuts.after(cut));
        let recovered = OpenOptions::new().write(true).with_devices(Arc::clone(&cut_off), None);
        let _ = recovered.recover().unwrap();
        check(&cut_off, &format!("recovery after {cut}"));
        open(&cut_off, None).close().unwrap();
        check(&cut_off, &format!("cut {cut}"));
    }
}

#[test]
fn limits_of_a_metadata_directory_are_enforced() {
    let device = make_sized(VOLUME_BYTES, COUNTED);
    let volume = open(&device, None);
    let limit = ferroxfs::quota::Limit::new().hard(2);
    let limits = ferroxfs::quota::Limits::new().inodes(limit);
    volume.quota().set(QuotaType::User, 1001, &limits).unwrap();
    let own = SetAttributes::new().uid(1001);
    for name in ["/a", "/b"] {
        volume.write(name, b"text").unwrap();
        volume.lookup(name).unwrap().set_attributes(&own).unwrap();
    }
    let options = ferroxfs::CreateOptions::new(0o644).uid(1001);
    let refused = volume.root().unwrap().create("c", &ferroxfs::NewKind::Regular, &options);
    let is_refused = matches!(refused, Err(ferroxfs::Error::Posix(PosixError::QuotaExceeded)));
    assert!(is_refused, "{refused:?}");
    volume.close().unwrap();
    check(&device, "limits");
}
