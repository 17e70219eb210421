//! The features of a new volume: their defaults, and which features need others.

use xfs_format::{IncompatFeatures, RoCompatFeatures};

use super::GeometryError;
use crate::options::{Autofsck, Options, QuotaChoice};

/// The features of the new volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    pub(super) incompat: IncompatFeatures,
    pub(super) ro_compat: RoCompatFeatures,
    pub(super) autofsck: Autofsck,
}

impl Features {
    /// Returns the features of a volume. `realtime_extent_blocks` is the size of its realtime
    /// extents.
    pub(super) fn new(
        volume: &Options,
        realtime_extent_blocks: u32,
    ) -> Result<Self, GeometryError> {
        let options = &volume.features;
        let on = |option: Option<bool>| option.unwrap_or(true);
        let finobt = on(options.finobt);
        if options.inobtcount == Some(true) && !finobt {
            return Err(GeometryError::Needs("-m inobtcount=1", "-m finobt=1"));
        }
        let metadir = metadir(volume)?;
        let has_realtime = volume.realtime.has_section();
        let is_zoned = volume.realtime.zoned;
        // A realtime section without groups has neither feature, and is the default.
        let is_classic = has_realtime && !is_zoned && options.metadir != Some(true);
        let has_long_extents = has_realtime && realtime_extent_blocks > 1;
        // The reverse map of a zone is the only record of its space.
        if is_zoned && options.rmapbt == Some(false) {
            return Err(GeometryError::Needs("-r zoned=1", "-m rmapbt=1"));
        }
        let rmapbt = options.rmapbt.unwrap_or(!is_classic);
        let default = !is_classic && !is_zoned && !has_long_extents;
        let reflink = options.reflink.unwrap_or(default);
        if is_zoned && reflink {
            return Err(GeometryError::Exclusive("-r zoned=1", "-m reflink=1"));
        }
        if has_realtime && !metadir && (rmapbt || reflink) {
            return Err(GeometryError::Needs("rmapbt or reflink with -r rtdev", "-m metadir=1"));
        }
        if reflink && has_long_extents {
            return Err(GeometryError::ReflinkExtents);
        }
        let mut ro_compat = RoCompatFeatures::empty();
        ro_compat.set(RoCompatFeatures::FINOBT, finobt);
        ro_compat.set(RoCompatFeatures::RMAPBT, rmapbt);
        ro_compat.set(RoCompatFeatures::REFLINK, reflink);
        ro_compat.set(RoCompatFeatures::INOBTCNT, finobt && on(options.inobtcount));
        let mut incompat = IncompatFeatures::FTYPE;
        incompat.set(IncompatFeatures::SPARSE_INODES, on(options.sparse));
        incompat.set(IncompatFeatures::BIGTIME, on(options.bigtime));
        incompat.set(IncompatFeatures::NREXT64, on(options.nrext64));
        incompat.set(IncompatFeatures::EXCHRANGE, on(options.exchange));
        incompat.set(IncompatFeatures::PARENT, on(options.parent));
        incompat.set(IncompatFeatures::METADIR, metadir);
        incompat.set(IncompatFeatures::ZONED, is_zoned);
        let autofsck = options.autofsck.unwrap_or({
            // Only if every structure can be rebuilt from others.
            if rmapbt && on(options.parent) { Autofsck::Repair } else { Autofsck::Unset }
        });
        Ok(Self { incompat, ro_compat, autofsck })
    }

    /// Returns whether inodes of the new volume have extended attributes: the root directory has
    /// the attribute that limits background checkers, or later inodes get parent pointers.
    pub(super) fn has_attributes(&self) -> bool {
        self.incompat.contains(IncompatFeatures::PARENT) || self.autofsck != Autofsck::Unset
    }
}

/// Returns whether the volume has a metadata directory. By default, it has one if another option
/// needs a metadata directory.
fn metadir(options: &Options) -> Result<bool, GeometryError> {
    let features = &options.features;
    let quota = &options.quota;
    let kinds = [quota.user, quota.group, quota.project];
    let has_quota = kinds.iter().any(|kind| *kind != QuotaChoice::default());
    let has_btrees = features.rmapbt == Some(true) || features.reflink == Some(true);
    let is_zoned = options.realtime.zoned;
    let is_needed = has_quota || is_zoned || options.realtime.device.is_some() && has_btrees;
    let metadir = features.metadir.unwrap_or(is_needed);
    if has_quota && !metadir {
        return Err(GeometryError::Needs("-m uquota, gquota, pquota", "-m metadir=1"));
    }
    if is_zoned && !metadir {
        return Err(GeometryError::Needs("-r zoned=1", "-m metadir=1"));
    }
    if metadir && features.exchange == Some(false) {
        return Err(GeometryError::Needs("-m metadir=1", "-i exchange=1"));
    }
    Ok(metadir)
}

/// The flags of the superblock for accounting and for enforcing one kind of quota.
struct QuotaBits {
    accounted: u16,
    enforced: u16,
}

/// Returns the quota flags of the superblock.
#[doc(alias = "sb_qflags")]
pub(super) fn quota_flags(options: &Options) -> Result<u16, GeometryError> {
    let quota = &options.quota;
    let kinds = [
        (quota.user, QuotaBits { accounted: 0x1, enforced: 0x2 }, ["-m uquota", "-m uqnoenforce"]),
        (
            quota.group,
            QuotaBits { accounted: 0x40, enforced: 0x80 },
            ["-m gquota", "-m gqnoenforce"],
        ),
        (
            quota.project,
            QuotaBits { accounted: 0x8, enforced: 0x200 },
            ["-m pquota", "-m pqnoenforce"],
        ),
    ];
    let mut flags = 0;
    for (choice, bits, [enforcing, accounting]) in kinds {
        flags |= match (choice.enforced, choice.accounted) {
            (true, true) => return Err(GeometryError::Exclusive(enforcing, accounting)),
            (true, false) => bits.accounted | bits.enforced,
            (false, true) => bits.accounted,
            (false, false) => 0,
        };
    }
    Ok(flags)
}
