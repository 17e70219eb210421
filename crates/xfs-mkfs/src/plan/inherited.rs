//! Checks the settings of the root directory that files below it inherit.

use xfs_format::{Geometry, IncompatFeatures, RoCompatFeatures};

use super::GeometryError;
use crate::options::InheritedOptions;

/// The inherited settings. Hints are in blocks; 0 means no hint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inherited {
    pub(crate) project: Option<u32>,
    pub(crate) extent_size_blocks: u32,
    pub(crate) cow_extent_size_blocks: u32,
    pub(crate) dax: bool,
    pub(crate) realtime: bool,
}

/// Largest number of blocks of an extent. Its length has 21 bits on disk.
const MAX_EXTENT_BLOCKS: u64 = (1 << 21) - 1;

impl Inherited {
    /// Returns the settings. By default, the contents of files of a zoned volume lie in the
    /// realtime section.
    pub(super) fn new(
        options: &InheritedOptions,
        geometry: &Geometry,
    ) -> Result<Self, GeometryError> {
        let cow = options.cow_extent_size_blocks.unwrap_or(0);
        if cow != 0 && !geometry.has_ro_compat(RoCompatFeatures::REFLINK) {
            return Err(GeometryError::Needs("-d cowextsize", "-m reflink=1"));
        }
        let extent = options.extent_size_blocks.unwrap_or(0);
        let unit = u64::from(geometry.realtime_extent_blocks);
        let is_zoned = geometry.has_incompat(IncompatFeatures::ZONED);
        let realtime = options.realtime.unwrap_or(is_zoned);
        if realtime && !extent.is_multiple_of(unit) {
            let (option, what) = ("-d extszinherit", "a realtime extent");
            return Err(GeometryError::Multiple { option, value: extent, unit, what });
        }
        Ok(Self {
            project: options.project,
            extent_size_blocks: hint("-d extszinherit", extent, geometry)?,
            cow_extent_size_blocks: hint("-d cowextsize", cow, geometry)?,
            dax: options.dax,
            realtime,
        })
    }
}

/// Checks an extent size hint in blocks and returns it. It may be at most half a group, because the
/// kernel's inode verifier refuses longer hints.
fn hint(option: &'static str, value: u64, geometry: &Geometry) -> Result<u32, GeometryError> {
    let max = u64::from(geometry.ag_blocks / 2).min(MAX_EXTENT_BLOCKS);
    match u32::try_from(value) {
        Ok(blocks) if value <= max => Ok(blocks),
        _ => Err(GeometryError::Range { option, value, min: 0, max }),
    }
}
