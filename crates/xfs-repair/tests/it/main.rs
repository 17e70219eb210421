//! Tests of repairs of whole volumes.

mod inodes;
mod logical;
mod physical;
mod seeded;
mod trial;
mod volume;
