//! Builders of metadata blocks: they encode records into blocks with checksums. A builder reads
//! nothing from the volume and decides nothing.

pub(crate) mod attributes;
pub(crate) mod blocks;
pub(crate) mod btree;
pub(crate) mod dabtree;
pub(crate) mod directory;
pub(crate) mod headers;
