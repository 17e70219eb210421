//! The public modules of the crate. Each of them only re-exports names of other modules and crates.
//!
//! Owns: the choice of the public module that exports each name. The root exports the names that
//! most programs need. A module exports the names that belong to one task. Does **not** own: the
//! types, which are in the modules of the crate and in the layers below.

pub mod admin;
pub mod attr;
#[cfg(feature = "bench")]
pub mod bench;
pub mod contents;
pub mod device;
pub mod dir;
pub mod error;
pub mod layout;
pub mod lock;
#[cfg(feature = "raw")]
pub mod raw;
