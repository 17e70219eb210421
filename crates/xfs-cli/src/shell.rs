//! The commands for shells and manuals.

pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod man;
