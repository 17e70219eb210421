//! The golden image: a small volume with every structure of the format. mkfs.xfs made it and the
//! kernel filled it; `testdata/golden.sh` is the recipe.

use std::sync::LazyLock;

use crate::image::Image;
use crate::pack::unpack;

static PACKED: &[u8] = include_bytes!("../../../testdata/golden.image");

static GOLDEN: LazyLock<Image> = LazyLock::new(|| {
    let bytes = unpack(PACKED).expect("testdata/golden.image is a packed image");
    Image::new(bytes)
});

static PACKED_VERSION_4: &[u8] = include_bytes!("../../../testdata/version4.image");

static GOLDEN_VERSION_4: LazyLock<Image> = LazyLock::new(|| {
    let bytes = unpack(PACKED_VERSION_4).expect("testdata/version4.image is a packed image");
    Image::new(bytes)
});

/// Returns a copy of the golden image of a version 4 volume with a dirty log: Linux 6.1 wrote to
/// the volume and then crashed. `testdata/version4.sh` is the recipe.
#[must_use]
pub fn golden_version_4() -> Image {
    GOLDEN_VERSION_4.clone()
}

/// Returns a copy of the golden image. Copies share the sectors that they do not change.
#[must_use]
pub fn golden() -> Image {
    GOLDEN.clone()
}

static PACKED_QUOTA: &[u8] = include_bytes!("../../../testdata/quota.image");

/// Returns a volume with user, group and project quotas, and with a log that has changes of dquots
/// (the quota records). `testdata/quota.sh` is the recipe.
#[must_use]
pub fn golden_quota() -> Image {
    static QUOTA: LazyLock<Image> = LazyLock::new(|| {
        let bytes = unpack(PACKED_QUOTA).expect("testdata/quota.image is a packed image");
        Image::new(bytes)
    });
    QUOTA.clone()
}

static PACKED_METADATA_DIRECTORY: &[u8] = include_bytes!("../../../testdata/metadir.image");

/// Returns a volume with a metadata directory and no realtime section. `testdata/metadir.sh` is the
/// recipe.
///
/// # Panics
///
/// Panics if the file in `testdata` is not a packed image.
#[must_use]
pub fn golden_metadata_directory() -> Image {
    Image::new(unpack(PACKED_METADATA_DIRECTORY).expect("the file is a packed image"))
}
