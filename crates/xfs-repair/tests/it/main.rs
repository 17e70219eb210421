//! Tests of repairs of whole volumes.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod attributes;
mod inodes;
mod logged_blocks;
mod logical;
mod losses;
mod physical;
mod quota;
mod reserved;
mod section;
mod seeded;
mod special;
mod stale;
mod trial;
mod volume;
