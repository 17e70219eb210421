//! The commands that make, grow, name, trim and recover whole volumes, one module each.

pub(crate) mod fstrim;
pub(crate) mod growfs;
pub(crate) mod label;
pub(crate) mod mkfs;
pub(crate) mod recover;
pub(crate) mod repair;
pub(crate) mod uuid;
