//! The commands that make, grow, name and recover whole volumes.

pub(crate) mod fstrim;
pub(crate) mod growfs;
pub(crate) mod label;
pub(crate) mod mkfs;
pub(crate) mod recover;
pub(crate) mod uuid;
