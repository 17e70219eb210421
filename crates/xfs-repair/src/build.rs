//! Builders: records in, sealed blocks out. A builder reads nothing and decides nothing.

pub(crate) mod btree;
pub(crate) mod headers;
