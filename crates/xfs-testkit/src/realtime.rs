//! Small volumes with a realtime section. mkfs.xfs made them, and the kernel of a virtual machine
//! filled them; `testdata/realtime.sh` is the recipe.

use crate::image::Image;
use crate::pack::unpack;

/// A kind of realtime section. There is a test image of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealtimeSection {
    /// A section without groups, with extents of 16 KiB.
    Classic,
    /// A section of four realtime groups of 4 MiB each, with shared extents.
    Groups,
    /// A zoned section, whose zones of 1 MiB lie inside the data device.
    Zoned,
}

impl RealtimeSection {
    /// All kinds of realtime sections for which there is a test image.
    pub const ALL: [Self; 3] = [Self::Classic, Self::Groups, Self::Zoned];

    /// Returns a copy of the data device of the volume.
    ///
    /// # Panics
    ///
    /// Panics if the file in `testdata` is not a packed image.
    #[must_use]
    pub fn data(self) -> Image {
        image(match self {
            Self::Classic => include_bytes!("../../../testdata/realtime/classic.image"),
            Self::Groups => include_bytes!("../../../testdata/realtime/groups.image"),
            Self::Zoned => include_bytes!("../../../testdata/realtime/zoned.image"),
        })
    }

    /// Returns a copy of the realtime device of the volume, or `None` for an internal section.
    ///
    /// # Panics
    ///
    /// Panics if the file in `testdata` is not a packed image.
    #[must_use]
    pub fn device(self) -> Option<Image> {
        Some(image(match self {
            Self::Classic => include_bytes!("../../../testdata/realtime/classic-device.image"),
            Self::Groups => include_bytes!("../../../testdata/realtime/groups-device.image"),
            Self::Zoned => return None,
        }))
    }
}

fn image(packed: &[u8]) -> Image {
    Image::new(unpack(packed).expect("the file is a packed image"))
}
