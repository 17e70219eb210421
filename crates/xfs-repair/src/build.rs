//! Builders: lists of records become sealed blocks. They read nothing and decide nothing.

pub(crate) mod attributes;
pub(crate) mod blocks;
pub(crate) mod dabtree;
pub(crate) mod directory;
