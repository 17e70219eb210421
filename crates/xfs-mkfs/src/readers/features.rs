//! The table of features: which software knows a feature since when, and the sources of each fact.
//!
//! Sources of the columns:
//!
//! - Kernel: the release whose changes enabled the feature; the pull requests of the XFS tree name
//!   them. The guests with Linux 6.1 and 7.2 confirm nrext64 and older features, exchange, parent
//!   and metadata directories, and the refusal of version 4 by newer builds.
//! - Default: the files `lts_*.conf` of xfsprogs 7.2, which have the defaults of mkfs.xfs for each
//!   kernel with long support. Between these kernels, the release of xfsprogs that changed the
//!   default: reflink in 5.1, bigtime and inobtcount in 5.15, rmapbt and nrext64 in 6.5.
//! - GRUB: `grub-fstest` read a file of a volume with one feature each, or refused the volume. The
//!   programs were those of Debian 11 (2.06), Debian 13 (2.12) and of GRUB 2.14. Debian 12 adds
//!   nrext64 to 2.06.
//! - Distributions: the kernel of the release. RHEL 8 counts as Linux 5.4: its documents name
//!   reflink as a default, and bigtime and inobtcount as the features that it cannot mount. RHEL 9
//!   counts as Linux 5.15, as its documents describe release 9.0; later releases may know more.
//!   The published configurations of RHEL kernels lack CONFIG_XFS_RT. Such a kernel refuses a
//!   volume with a realtime section.

use xfs_format::{IncompatFeatures, RoCompatFeatures};

use super::{FeatureOption, ReaderVersion, Software};

/// A feature of a volume that not every reader knows.
pub(super) struct Feature {
    pub(super) name: &'static str,
    pub(super) bit: FeatureBit,
    /// The first kernel that mounts a volume with the feature. `None` if no kernel does.
    pub(super) kernel: Option<ReaderVersion>,
    /// The first kernel that is usually built without the feature. `None` if there is no such
    /// kernel.
    pub(super) kernel_end: Option<ReaderVersion>,
    /// The first kernel for which mkfs.xfs turns the feature on. `None` if it never does.
    pub(super) default: Option<ReaderVersion>,
    /// The first GRUB that reads a volume with the feature. `None` if no GRUB does.
    pub(super) grub: Option<ReaderVersion>,
    /// The option of a new volume. `None` if the feature has none.
    pub(super) option: Option<FeatureOption>,
}

/// The part of the superblock that shows a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeatureBit {
    Incompat(IncompatFeatures),
    RoCompat(RoCompatFeatures),
    /// The format without checksums.
    Version4,
    /// Names that are compared without ASCII case.
    AsciiCi,
    /// Blocks larger than a memory page of most processors.
    LargeBlocks,
    /// A realtime section.
    Realtime,
    /// Realtime groups with a reverse map or reference counts.
    RealtimeBtrees,
}

/// Size in bytes of a memory page on most processors. Kernels with larger pages mount volumes with
/// larger blocks from earlier versions on.
pub(super) const PAGE_BYTES: u32 = 4096;
/// The number before the dot in all versions of GRUB. No listed kernel has this number.
pub(super) const GRUB_MAJOR: u16 = 2;
/// The first kernel with version 4 of the format, as far as the table goes. Older kernels have it
/// too, but the numbers of their versions have another form.
pub(super) const FIRST_VERSION_4: ReaderVersion = version(3, 0);
/// The first kernel with version 5 of the format.
pub(super) const FIRST_VERSION_5: ReaderVersion = version(3, 10);
/// The oldest GRUB in the table.
const FIRST_GRUB: ReaderVersion = version(2, 6);

const fn version(major: u16, minor: u16) -> ReaderVersion {
    ReaderVersion::new(major, minor)
}

const fn incompat(name: &'static str, bit: IncompatFeatures, kernel: ReaderVersion) -> Feature {
    feature(name, FeatureBit::Incompat(bit), Some(kernel))
}

const fn ro_compat(name: &'static str, bit: RoCompatFeatures, kernel: ReaderVersion) -> Feature {
    feature(name, FeatureBit::RoCompat(bit), Some(kernel))
}

const fn feature(name: &'static str, bit: FeatureBit, kernel: Option<ReaderVersion>) -> Feature {
    Feature { name, bit, kernel, kernel_end: None, default: None, grub: None, option: None }
}

impl Feature {
    const fn grub(self, first: ReaderVersion) -> Self {
        Self { grub: Some(first), ..self }
    }

    const fn option(self, default: Option<ReaderVersion>, option: FeatureOption) -> Self {
        Self { default, option: Some(option), ..self }
    }
}

pub(super) static FEATURES: [Feature; 20] = [
    Feature {
        kernel_end: Some(version(6, 18)),
        ..feature("version 4", FeatureBit::Version4, Some(FIRST_VERSION_4)).grub(FIRST_GRUB)
    },
    Feature {
        kernel_end: Some(version(6, 18)),
        ..feature("ci", FeatureBit::AsciiCi, Some(FIRST_VERSION_4)).grub(FIRST_GRUB)
    },
    incompat("ftype", IncompatFeatures::FTYPE, version(3, 12)).grub(FIRST_GRUB),
    ro_compat("finobt", RoCompatFeatures::FINOBT, version(3, 16))
        .option(Some(version(4, 19)), |options| &mut options.finobt),
    incompat("sparse", IncompatFeatures::SPARSE_INODES, version(4, 2))
        .grub(FIRST_GRUB)
        .option(Some(version(4, 19)), |options| &mut options.sparse),
    incompat("meta_uuid", IncompatFeatures::META_UUID, version(4, 3)).grub(FIRST_GRUB),
    ro_compat("rmapbt", RoCompatFeatures::RMAPBT, version(4, 8))
        .option(Some(version(6, 5)), |options| &mut options.rmapbt),
    ro_compat("reflink", RoCompatFeatures::REFLINK, version(4, 9))
        .option(Some(version(5, 1)), |options| &mut options.reflink),
    ro_compat("inobtcount", RoCompatFeatures::INOBTCNT, version(5, 10))
        .option(Some(version(5, 15)), |options| &mut options.inobtcount),
    incompat("bigtime", IncompatFeatures::BIGTIME, version(5, 10))
        .grub(FIRST_GRUB)
        .option(Some(version(5, 15)), |options| &mut options.bigtime),
    feature("needsrepair", FeatureBit::Incompat(IncompatFeatures::NEEDSREPAIR), None)
        .grub(FIRST_GRUB),
    incompat("nrext64", IncompatFeatures::NREXT64, version(5, 19))
        .grub(version(2, 12))
        .option(Some(version(6, 5)), |options| &mut options.nrext64),
    incompat("exchange", IncompatFeatures::EXCHRANGE, version(6, 10))
        .grub(version(2, 14))
        .option(Some(version(6, 18)), |options| &mut options.exchange),
    incompat("parent", IncompatFeatures::PARENT, version(6, 10))
        .grub(version(2, 14))
        .option(Some(version(6, 18)), |options| &mut options.parent),
    feature("blocks over 4096 bytes", FeatureBit::LargeBlocks, Some(version(6, 12)))
        .grub(FIRST_GRUB),
    feature("realtime section", FeatureBit::Realtime, Some(FIRST_VERSION_4)).grub(FIRST_GRUB),
    incompat("metadir", IncompatFeatures::METADIR, version(6, 13))
        .grub(version(2, 14))
        .option(None, |options| &mut options.metadir),
    feature(
        "rmapbt or reflink of realtime groups",
        FeatureBit::RealtimeBtrees,
        Some(version(6, 14)),
    )
    .grub(version(2, 14)),
    incompat("zoned", IncompatFeatures::ZONED, version(6, 15)),
    incompat("zone_gaps", IncompatFeatures::ZONE_GAPS, version(6, 15)),
];

const fn kernel(major: u16, minor: u16) -> Software {
    Software::Kernel { version: version(major, minor), has_realtime: true }
}

/// A kernel of Red Hat Enterprise Linux.
const fn rhel(major: u16, minor: u16) -> Software {
    Software::Kernel { version: version(major, minor), has_realtime: false }
}

const fn grub(minor: u16) -> Software {
    Software::Grub(version(GRUB_MAJOR, minor))
}

/// The readers of reports, in their order.
pub(super) const LISTED: [(&str, Software); 20] = [
    ("linux-4.19", kernel(4, 19)),
    ("linux-5.4", kernel(5, 4)),
    ("linux-5.10", kernel(5, 10)),
    ("linux-5.15", kernel(5, 15)),
    ("linux-6.1", kernel(6, 1)),
    ("linux-6.6", kernel(6, 6)),
    ("linux-6.12", kernel(6, 12)),
    ("linux-6.18", kernel(6, 18)),
    ("rhel8", rhel(5, 4)),
    ("rhel9", rhel(5, 15)),
    ("rhel10", rhel(6, 12)),
    ("debian-11", kernel(5, 10)),
    ("debian-12", kernel(6, 1)),
    ("debian-13", kernel(6, 12)),
    ("ubuntu-20.04", kernel(5, 4)),
    ("ubuntu-22.04", kernel(5, 15)),
    ("ubuntu-24.04", kernel(6, 8)),
    ("grub-2.06", grub(6)),
    ("grub-2.12", grub(12)),
    ("grub-2.14", grub(14)),
];
