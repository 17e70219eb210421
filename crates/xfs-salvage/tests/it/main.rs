//! Tests of salvage on the golden image, undamaged and damaged.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that fails here has failed"
)]

mod damage;
mod hostile;
mod logged;
mod lookup;
mod section;
mod sound;
mod support;
