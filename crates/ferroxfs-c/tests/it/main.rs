//! Tests of the C library: its header, and programs in C that use it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod header;
mod programs;
