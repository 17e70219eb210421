//! Hand-made hostile images. Each image is wrong in one way that has broken, or might break, a
//! reader.
//!
//! Each attack has a required outcome: the result that reading the image must have. The test that
//! runs an attack checks, with limits on the process, that nothing panics, hangs or exhausts
//! memory.

mod attributes;
mod directories;
mod groups;
mod inodes;
mod superblock;

use xfs_format::Structure;
use xfs_testkit::Image;

use crate::forge::Forge;

/// The result that reading the image of an attack must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The volume is not opened.
    Refused,
    /// The volume is opened, and the findings include a corrupt structure of this kind.
    Corrupt(Structure),
    /// The volume is opened, and something in it cannot be read. For example the device ends early,
    /// or the type of a file is not the type that its directory entry says.
    Failed,
    /// The volume is opened. The forged field is not read, or a reader may ignore it.
    Harmless,
}

/// A hostile image and its required outcome.
#[derive(Clone, Copy)]
pub struct Attack {
    /// The forged property of the image, as a title in test output.
    pub name: &'static str,
    /// The result that reading the image must have.
    pub outcome: Outcome,
    forge: fn(&mut Forge),
}

impl Attack {
    const fn new(name: &'static str, outcome: Outcome, forge: fn(&mut Forge)) -> Self {
        Self { name, outcome, forge }
    }

    /// Creates the hostile image from a copy of the golden image.
    #[must_use]
    pub fn image(&self) -> Image {
        let mut forge = Forge::new();
        (self.forge)(&mut forge);
        forge.finish()
    }
}

/// Returns all attacks, grouped by the forged structures.
#[must_use]
pub fn all() -> Vec<(&'static str, &'static [Attack])> {
    vec![
        ("superblock", superblock::ATTACKS),
        ("groups", groups::ATTACKS),
        ("inodes", inodes::ATTACKS),
        ("directories", directories::ATTACKS),
        ("attributes", attributes::ATTACKS),
    ]
}
