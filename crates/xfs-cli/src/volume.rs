//! The commands that make, grow, shrink, name, trim, recover and copy whole volumes, one module
//! each.

pub(crate) mod build;
pub(crate) mod fstrim;
pub(crate) mod growfs;
pub(crate) mod label;
pub(crate) mod mdrestore;
pub(crate) mod metadump;
pub(crate) mod mkfs;
mod occupied;
pub(crate) mod recover;
pub(crate) mod repair;
pub(crate) mod shrink;
pub(crate) mod uuid;
pub(crate) mod zap;
