//! Tests that read the golden image, undamaged and with damaged structures.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that fails here has failed"
)]

mod aliased;
mod damage;
mod deleted;
mod logged_blocks;
mod logged_inodes;
mod sound;
mod superblock;
mod support;
