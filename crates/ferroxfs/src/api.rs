//! The public modules of the crate. Each module only exports names.
//!
//! Owns: the module in which a program finds each name. The root has the names that most programs
//! need. The names of one task are together in a module. Does **not** own: the types, which are in
//! the modules of the crate and in the layers below.

pub mod admin;
pub mod attr;
#[cfg(feature = "bench")]
pub mod bench;
pub mod contents;
pub mod device;
pub mod dir;
pub mod error;
pub mod lock;
#[cfg(feature = "raw")]
pub mod raw;
