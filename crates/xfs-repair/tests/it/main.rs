//! Tests of repairs of whole volumes.

mod inodes;
mod physical;
mod volume;
