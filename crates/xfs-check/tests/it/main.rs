//! Tests of the checker on whole volumes.

mod damage;
mod golden;
