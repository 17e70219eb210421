//! The command `ferroxfs-query` on small datasets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod browser;
mod command;
mod fixture;
