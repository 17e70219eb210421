//! Tests of repairs of whole volumes.

mod logical;
mod physical;
mod volume;
