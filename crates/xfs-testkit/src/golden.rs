//! The golden image: a small volume with every structure of the format, made by mkfs.xfs and
//! filled by the kernel. testdata/golden.sh is its recipe.

use std::sync::LazyLock;

use crate::image::Image;
use crate::pack::unpack;

static PACKED: &[u8] = include_bytes!("../../../testdata/golden.image");

static GOLDEN: LazyLock<Image> = LazyLock::new(|| {
    let bytes = unpack(PACKED).expect("testdata/golden.image was made by pack");
    Image::new(bytes)
});

/// A copy of the golden image. Copies share what they do not change.
#[must_use]
pub fn golden() -> Image {
    GOLDEN.clone()
}
