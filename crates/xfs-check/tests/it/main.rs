//! Tests of the checker on whole volumes.

mod golden;
