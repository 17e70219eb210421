//! Test devices, seeded randomness, image makers and oracles for the tests of the workspace.
//!
//! Owns: code that tests share and that production code does not need. Does **not** own: tests.

mod atomicity;
mod cow;
mod delegate;
mod failing;
mod golden;
mod image;
mod landlock;
mod limits;
mod listening;
mod log_records;
mod namespaces;
mod never_written;
mod pack;
mod parts;
mod power_cut;
mod prng;
mod range_server;
mod realtime;
mod recording;
mod scheduled;
mod store_server;

pub use atomicity::Atomicity;
pub use cow::CowDevice;
pub use failing::{FailingDevice, Fault, Persistence, RequestKind};
pub use golden::{golden, golden_metadata_directory, golden_quota, golden_version_4};
pub use image::{Image, reseal};
pub use landlock::has_landlock;
pub use limits::{Limits, ThreadLimit, run_limited, run_with_threads};
pub use listening::wait_until_listening;
pub use log_records::LogRecords;
pub use namespaces::has_namespaces;
pub use never_written::NeverWritten;
pub use pack::{pack, unpack};
pub use parts::JoinedDevice;
pub use power_cut::{Cut, MAX_ENUMERATED, PowerCuts};
pub use prng::Prng;
pub use range_server::{RangeServer, WebAnswer, WebRequest};
pub use realtime::RealtimeSection;
pub use recording::{Recording, RecordingDevice, Request};
pub use scheduled::{HeldRequest, ScheduledDevice, Scheduler};
pub use store_server::{Folders, StoreAnswer, StoreServer};

/// Used by the macro [`delegate_device`], which expands to paths in this crate.
#[doc(hidden)]
pub use xfs_device;
