//! Tests of repairs of whole volumes.

mod physical;
mod volume;
