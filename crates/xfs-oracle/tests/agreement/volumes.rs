//! The volumes on which histories run: their geometries and features.

use std::path::Path;

use ferroxfs::OpenOptions;
use ferroxfs::raw::format::{Geometry as VolumeGeometry, IncompatFeatures, RoCompatFeatures};
use xfs_oracle::harness::{TrialError, patiently};
use xfs_oracle::model::{Abilities, Features, RealtimeRules};
use xfs_oracle::{Geometry, GeometryFeature, Image};

/// The smallest page size of a kernel in bytes. Every kernel can mount blocks of at most this size.
const SMALLEST_PAGE_BYTES: u64 = 4096;

/// Geometries that a test uses with every seed. A seed therefore selects one of the others.
const WITH_EVERY_SEED: [&str; 2] = ["default", "parent-exchange"];

/// Returns the geometry with this name, or `None` if there is none.
pub(crate) fn named(name: &str) -> Option<Geometry> {
    let mut all = Geometry::ALL
        .into_iter()
        .chain(Geometry::FRAGMENTED)
        .chain(Geometry::REALTIME)
        .chain(Geometry::ROOMY_SECTIONS);
    all.find(|geometry| geometry.name == name)
}

/// Returns the geometry that a seed selects. Consecutive seeds select in turn all geometries that
/// make a difference for an empty volume on one device. If the variable `FERROXFS_GEOMETRY` is set,
/// it names the geometry for all seeds. Returns `None` if there is no geometry of that name.
pub(crate) fn of_seed(seed: u64) -> Option<Geometry> {
    if let Ok(name) = std::env::var("FERROXFS_GEOMETRY") {
        return named(&name);
    }
    let is_fit = |geometry: &Geometry| {
        matches!(
            geometry.feature,
            GeometryFeature::Plain | GeometryFeature::Renamed | GeometryFeature::Full
        )
    };
    let is_new = |geometry: &Geometry| !WITH_EVERY_SEED.contains(&geometry.name);
    let all: Vec<_> = Geometry::ALL.into_iter().filter(is_fit).filter(is_new).collect();
    all.get((seed % all.len() as u64) as usize).copied()
}

/// Makes an empty volume in `folder`, and returns its features.
pub(crate) fn make(geometry: &Geometry, folder: &Path) -> Result<(Image, Features), TrialError> {
    let image = geometry.make(folder)?;
    let devices = patiently(|| OpenOptions::new().open_devices(&image.data));
    let devices = devices.map_err(|error| error.to_string())?;
    let shape = devices.describe().map_err(|error| error.to_string())?.superblock.geometry;
    drop(devices);
    let mut abilities = Abilities::empty();
    abilities.set(Abilities::REFLINK, shape.has_ro_compat(RoCompatFeatures::REFLINK));
    abilities.set(Abilities::EXCHANGE, shape.has_incompat(IncompatFeatures::EXCHRANGE));
    let features = Features {
        block_bytes: shape.block_size.into(),
        inode_bytes: shape.inode_size.into(),
        abilities,
        section: section(&shape),
    };
    if features.block_bytes > SMALLEST_PAGE_BYTES {
        check_large_blocks(&image, folder)?;
    }
    Ok((image, features))
}

/// Returns the rules of the volume's realtime section, or `None` if there is no section.
fn section(shape: &VolumeGeometry) -> Option<RealtimeRules> {
    let realtime = &shape.realtime;
    if !realtime.is_present() {
        return None;
    }
    let extent_bytes = u64::from(shape.realtime_extent_blocks) * u64::from(shape.block_size);
    Some(match shape.has_incompat(IncompatFeatures::ZONED) {
        true => RealtimeRules::Zones,
        false if realtime.group_count > 0 => RealtimeRules::Groups,
        false => RealtimeRules::Classic { extent_bytes },
    })
}

/// Returns an error if this kernel cannot mount the image. Older kernels cannot mount volumes with
/// blocks larger than pages.
fn check_large_blocks(image: &Image, folder: &Path) -> Result<(), TrialError> {
    let mounted = folder.join("mounted");
    std::fs::create_dir(&mounted).map_err(|error| error.to_string())?;
    image.copy(&mounted)?.mount_if_possible()?.unmount()?;
    std::fs::remove_dir_all(&mounted).map_err(|error| error.to_string())?;
    Ok(())
}
