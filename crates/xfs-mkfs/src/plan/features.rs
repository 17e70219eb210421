//! The features of a new volume: their defaults, and which features need others.

use xfs_format::{IncompatFeatures, RoCompatFeatures};

use super::GeometryError;
use crate::options::{Autofsck, FeatureOptions};

/// The features of the new volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Features {
    pub(super) incompat: IncompatFeatures,
    pub(super) ro_compat: RoCompatFeatures,
    pub(super) autofsck: Autofsck,
}

impl Features {
    pub(super) fn new(options: &FeatureOptions) -> Result<Self, GeometryError> {
        let on = |option: Option<bool>| option.unwrap_or(true);
        let finobt = on(options.finobt);
        if options.inobtcount == Some(true) && !finobt {
            return Err(GeometryError::Needs("-m inobtcount=1", "-m finobt=1"));
        }
        let mut ro_compat = RoCompatFeatures::empty();
        ro_compat.set(RoCompatFeatures::FINOBT, finobt);
        ro_compat.set(RoCompatFeatures::RMAPBT, on(options.rmapbt));
        ro_compat.set(RoCompatFeatures::REFLINK, on(options.reflink));
        ro_compat.set(RoCompatFeatures::INOBTCNT, finobt && on(options.inobtcount));
        let mut incompat = IncompatFeatures::FTYPE;
        incompat.set(IncompatFeatures::SPARSE_INODES, on(options.sparse));
        incompat.set(IncompatFeatures::BIGTIME, on(options.bigtime));
        incompat.set(IncompatFeatures::NREXT64, on(options.nrext64));
        incompat.set(IncompatFeatures::EXCHRANGE, on(options.exchange));
        incompat.set(IncompatFeatures::PARENT, on(options.parent));
        let autofsck = options.autofsck.unwrap_or({
            // Only if every structure can be rebuilt from others.
            if on(options.rmapbt) && on(options.parent) {
                Autofsck::Repair
            } else {
                Autofsck::Unset
            }
        });
        Ok(Self { incompat, ro_compat, autofsck })
    }

    /// Returns whether inodes of the new volume have extended attributes: the root directory has
    /// the attribute that limits background checkers, or later inodes get parent pointers.
    pub(super) fn has_attributes(&self) -> bool {
        self.incompat.contains(IncompatFeatures::PARENT) || self.autofsck != Autofsck::Unset
    }
}
