//! Builders: records in, sealed blocks out. A builder reads nothing and decides nothing.

pub(crate) mod attributes;
pub(crate) mod blocks;
pub(crate) mod btree;
pub(crate) mod dabtree;
pub(crate) mod directory;
pub(crate) mod headers;
