//! The names of the features of a volume, as in mkfs.xfs(8).

use ferroxfs::raw::Superblock;
use ferroxfs::raw::format::{IncompatFeatures, RoCompatFeatures};

/// Returns the names of the features that a volume has.
pub(crate) fn names(superblock: &Superblock) -> Vec<&'static str> {
    let incompat = [
        (IncompatFeatures::FTYPE, "ftype"),
        (IncompatFeatures::SPARSE_INODES, "sparse"),
        (IncompatFeatures::META_UUID, "meta_uuid"),
        (IncompatFeatures::BIGTIME, "bigtime"),
        (IncompatFeatures::NEEDSREPAIR, "needsrepair"),
        (IncompatFeatures::NREXT64, "nrext64"),
        (IncompatFeatures::EXCHRANGE, "exchange"),
        (IncompatFeatures::PARENT, "parent"),
        (IncompatFeatures::METADIR, "metadir"),
        (IncompatFeatures::ZONED, "zoned"),
    ];
    let ro_compat = [
        (RoCompatFeatures::FINOBT, "finobt"),
        (RoCompatFeatures::RMAPBT, "rmapbt"),
        (RoCompatFeatures::REFLINK, "reflink"),
        (RoCompatFeatures::INOBTCNT, "inobtcount"),
    ];
    let incompat = incompat.iter().filter(|(bit, _)| superblock.has_incompat(*bit));
    let ro_compat = ro_compat.iter().filter(|(bit, _)| superblock.has_ro_compat(*bit));
    incompat.map(|(_, name)| *name).chain(ro_compat.map(|(_, name)| *name)).collect()
}
