//! Tests of readers: names, verdicts, and the features of volumes for readers.

use xfs_format::{IncompatFeatures, RoCompatFeatures, Superblock};

use super::{Access, FirstKernels, Reader, ReaderError, ReaderVersion};
use crate::identity::Identity;
use crate::options::{Autofsck, Options, Size};
use crate::plan::{Plan, TargetDevice};

const GIB: u64 = 1 << 30;

fn reader(name: &str) -> Reader {
    name.parse().unwrap()
}

fn volume(options: &Options) -> Superblock {
    let realtime_bytes = options.realtime.device.is_some().then_some(GIB);
    let target =
        TargetDevice { data_bytes: GIB, sector_size: 512, log_bytes: None, realtime_bytes };
    let identity = Identity::reproducible(xfs_format::timestamp::Timestamp::default(), b"");
    Plan::new(options, &target, &identity).unwrap().superblock().clone()
}

/// Checks the access that a reader has to a volume, and the names of the missing features.
#[track_caller]
fn check(superblock: &Superblock, name: &str, access: Access, missing: &str) {
    let verdict = reader(name).verdict(superblock);
    let names: Vec<_> = verdict.missing.iter().map(|feature| feature.name.as_str()).collect();
    assert_eq!((verdict.access, names.join(" ").as_str()), (access, missing), "{name}");
}

#[test]
fn volume_for_a_reader_is_accessible_by_that_reader() {
    for reader in Reader::listed() {
        let mut options = Options::default();
        options.restrict_to(std::slice::from_ref(&reader)).unwrap();
        let verdict = reader.verdict(&volume(&options));
        let best =
            if reader.name().starts_with("grub") { Access::ReadOnly } else { Access::ReadWrite };
        assert_eq!(verdict.access, best, "{}: full access (I1)", reader.name());
        assert_eq!(verdict.missing, [], "{}", reader.name());
    }
}

#[test]
fn default_volume_is_refused_by_older_readers() {
    let superblock = volume(&Options::default());
    check(&superblock, "linux-6.18", Access::ReadWrite, "");
    check(&superblock, "linux-6.12", Access::ReadWrite, "");
    check(&superblock, "debian-12", Access::None, "exchange parent");
    check(&superblock, "rhel8", Access::None, "inobtcount bigtime nrext64 exchange parent");
    check(&superblock, "grub-2.06", Access::None, "nrext64 exchange parent");
    check(&superblock, "grub-2.14", Access::ReadOnly, "");
    let first = FirstKernels::of(&superblock);
    assert_eq!(first.read_write, Some(ReaderVersion::new(6, 10)));
    assert_eq!(first.read_only, first.read_write);
}

#[test]
fn read_only_compatible_feature_leaves_reading() {
    let mut options = Options::default();
    options.restrict_to(&[reader("linux-5.4")]).unwrap();
    let mut superblock = volume(&options);
    superblock.ro_compat |= RoCompatFeatures::INOBTCNT;
    check(&superblock, "linux-5.4", Access::ReadOnly, "inobtcount");
    check(&superblock, "grub-2.06", Access::ReadOnly, "");
    let first = FirstKernels::of(&superblock);
    assert_eq!(first.read_write, Some(ReaderVersion::new(5, 10)));
    assert_eq!(first.read_only, Some(ReaderVersion::new(4, 2)));
}

#[test]
fn unknown_bit_and_needed_repair_are_known_to_no_kernel() {
    let superblock = volume(&Options::default());
    let mut unknown = superblock.clone();
    unknown.incompat |= IncompatFeatures::from_bits_retain(1 << 30);
    check(&unknown, "linux-6.18", Access::None, "incompatible bits 0x40000000");
    assert_eq!(FirstKernels::of(&unknown).read_only, None);
    let mut unknown = superblock.clone();
    unknown.ro_compat |= RoCompatFeatures::from_bits_retain(1 << 30);
    check(&unknown, "linux-6.18", Access::ReadOnly, "read-only compatible bits 0x40000000");
    let mut damaged = superblock;
    damaged.incompat |= IncompatFeatures::NEEDSREPAIR;
    check(&damaged, "linux-6.18", Access::None, "needsrepair");
    assert_eq!(FirstKernels::of(&damaged).read_write, None);
}

#[test]
fn several_readers_get_the_features_that_all_know() {
    let mut options = Options::default();
    options.restrict_to(&[reader("linux-6.12"), reader("grub-2.06")]).unwrap();
    let features = &options.features;
    assert_eq!((features.nrext64, features.bigtime), (Some(false), None));
    assert_eq!(features.rmapbt, None, "GRUB ignores read-only compatible features");
    assert_eq!(features.autofsck, Some(Autofsck::None));
    let mut options = Options::default();
    options.restrict_to(&[]).unwrap();
    assert_eq!(options, Options::default());
}

#[test]
fn requested_feature_is_kept_or_refused() {
    let mut options = Options::default();
    options.parse('m', "bigtime=1,finobt=0").unwrap();
    options.restrict_to(&[reader("linux-5.10")]).unwrap();
    assert_eq!(options.features.bigtime, Some(true), "not a default of 5.10, but known");
    assert_eq!(options.features.finobt, Some(false));
    let mut options = Options::default();
    options.parse('i', "nrext64=1").unwrap();
    let error = options.restrict_to(&[reader("linux-5.10")]).unwrap_err();
    let expected = "linux-5.10 cannot mount a volume with nrext64, which needs Linux 5.19";
    assert_eq!(error.to_string(), expected);
    let mut options = Options::default();
    options.block_size = Some(Size::bytes(65536));
    let error = options.restrict_to(&[reader("rhel9")]).unwrap_err();
    assert!(matches!(error, ReaderError::Forbidden { .. }), "{error}");
    options.restrict_to(&[reader("rhel10"), reader("grub-2.06")]).unwrap();
}

#[test]
fn realtime_section_is_refused_by_kernels_without_realtime() {
    let mut options = Options::default();
    options.parse('r', "rtdev=/realtime").unwrap();
    let error = options.clone().restrict_to(&[reader("rhel9")]).unwrap_err();
    let expected = "rhel9 cannot mount a volume with realtime section, which needs a kernel that \
                    is built with CONFIG_XFS_RT";
    assert_eq!(error.to_string(), expected);
    options.restrict_to(&[reader("debian-11"), reader("linux-5.4")]).unwrap();
    let superblock = volume(&options);
    for name in ["rhel8", "rhel9", "rhel10"] {
        check(&superblock, name, Access::None, "realtime section");
    }
    for name in ["linux-5.4", "debian-11", "debian-13", "ubuntu-24.04"] {
        check(&superblock, name, Access::ReadWrite, "");
    }
    check(&superblock, "grub-2.06", Access::ReadOnly, "");
    let mut options = Options::default();
    options.parse('m', "metadir=1,rmapbt=0,reflink=0").unwrap();
    let unused = volume(&options);
    check(&unused, "linux-6.18", Access::ReadWrite, "");
    check(&unused, "rhel10", Access::None, "metadir");
}

#[test]
fn name_of_a_reader_is_parsed_or_refused() {
    assert_eq!(reader("linux-6.8").name(), "linux-6.8");
    for name in ["", "linux", "linux-", "linux-6", "linux-6.x", "linux-+6.1", "linux-6.1.2"] {
        let error = name.parse::<Reader>().unwrap_err();
        assert!(matches!(error, ReaderError::Unknown { .. }), "{name}: {error}");
    }
    let error = "linux-4.18".parse::<Reader>().unwrap_err();
    assert!(matches!(error, ReaderError::TooOld { .. }), "{error}");
    let versions = [ReaderVersion::new(2, 6), ReaderVersion::new(5, 4)].map(|v| v.to_string());
    assert_eq!(versions, ["2.06", "5.4"]);
}

#[test]
fn other_options_still_decide_about_remaining_features() {
    let mut options = Options::default();
    options.parse('r', "rtdev=/realtime").unwrap();
    options.restrict_to(&[reader("linux-6.6")]).unwrap();
    assert_eq!(options.features.rmapbt, None, "a classic realtime section has no reverse map");
    assert_eq!(options.features.metadir, Some(false));
    let mut options = Options::default();
    options.parse('m', "uquota").unwrap();
    options.restrict_to(&[reader("linux-6.18")]).unwrap();
    assert_eq!(options.features.metadir, None, "quota needs it, and the kernel knows it");
    options.restrict_to(&[reader("linux-6.12")]).unwrap();
    assert_eq!(options.features.metadir, Some(false), "the plan refuses quota without it");
}
