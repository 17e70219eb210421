//! Images that lie on purpose, each in one way that has brought down others or might.
//!
//! An attack says what has to be found. That nothing panics, hangs or eats memory is the caller's
//! to see to, by limits on the process.

mod attributes;
mod directories;
mod groups;
mod inodes;
mod superblock;

use xfs_format::Structure;
use xfs_testkit::Image;

use crate::forge::Forge;

/// What an attack has to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The volume is not opened.
    Refused,
    /// It is opened, and among the findings is that a structure of this kind is corrupt.
    Corrupt(Structure),
    /// It is opened, and something in it cannot be read: a device that ends, a file that is not
    /// what a name for it says.
    Failed,
    /// What is asked for does not meet the lie, or need not mind it.
    Harmless,
}

/// An attack.
#[derive(Clone, Copy)]
pub struct Attack {
    /// What the image claims.
    pub name: &'static str,
    /// What must come of it.
    pub outcome: Outcome,
    forge: fn(&mut Forge),
}

impl Attack {
    const fn new(name: &'static str, outcome: Outcome, forge: fn(&mut Forge)) -> Self {
        Self { name, outcome, forge }
    }

    /// The image.
    #[must_use]
    pub fn image(&self) -> Image {
        let mut forge = Forge::new();
        (self.forge)(&mut forge);
        forge.finish()
    }
}

/// All attacks, by what they lie in.
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
