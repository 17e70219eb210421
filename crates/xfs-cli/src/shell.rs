//! The commands that write completions and man pages.

pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod man;
