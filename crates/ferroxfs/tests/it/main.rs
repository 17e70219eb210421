//! The facade over the golden image, whole and damaged.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod blank_log;
mod buffered;
mod damage;
mod detached;
mod discards;
mod everything;
mod failing_reads;
mod files;
mod flags;
mod freed_cluster;
mod frozen;
mod full;
mod growing;
mod iterators;
mod largest;
mod lists;
mod locks;
mod names;
mod opening;
mod permissions;
mod small_log;
mod threads;
mod tree;
mod unlinked;
mod untouched;
mod upkeep;
mod writing;

use std::sync::Arc;

use ferroxfs::{OpenOptions, Volume};
use xfs_testkit::{Image, golden};

/// The golden image, opened.
fn volume() -> Volume {
    open(golden())
}

fn open(image: Image) -> Volume {
    let devices = OpenOptions::new().with_devices(Arc::new(image), None);
    devices.volume().expect("the image opens")
}
