//! The names of the features of a volume, as in mkfs.xfs(8).

use ferroxfs::raw::Superblock;
use ferroxfs::raw::format::directory::{EntryTypes, NameComparison};
use ferroxfs::raw::format::features::Features2;
use ferroxfs::raw::format::{FormatVersion, IncompatFeatures, RoCompatFeatures};

/// Returns the names of the features that a volume has.
pub(crate) fn names(superblock: &Superblock) -> Vec<&'static str> {
    let form = superblock.geometry.directory_form;
    let names = [
        (form.types == EntryTypes::Stored, "ftype"),
        (form.names == NameComparison::AsciiCi, "ci"),
    ];
    let old = [
        (Features2::ATTR2, "attr2"),
        (Features2::PROJID32, "projid32bit"),
        (Features2::LAZYSBCOUNT, "lazy-count"),
    ];
    // Every v5 volume has these.
    let is_v4 = superblock.geometry.version == FormatVersion::V4;
    let old = old.iter().filter(|(bit, _)| is_v4 && superblock.features2.contains(*bit));
    let incompat = [
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
    let names = names.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name);
    let names = names.chain(old.map(|(_, name)| *name));
    let names = names.chain(incompat.map(|(_, name)| *name));
    names.chain(ro_compat.map(|(_, name)| *name)).collect()
}
