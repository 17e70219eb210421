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

/// Returns a copy of the golden image. Copies share the sectors that they do not change.
#[must_use]
pub fn golden() -> Image {
    GOLDEN.clone()
}
