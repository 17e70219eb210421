//! Runs workloads on XFS: on volumes of ferroxfs through the library, and on the kernel's XFS
//! through system calls.
//!
//! Owns: the workloads, the two kinds of volume that run them ([`WorkTarget`]), the measurements,
//! the order of runs, and the report. Does **not** own: parsing arguments, or deciding whether the
//! figures are good.
//!
//! ```text
//!  Plan ──run──> each threads x run x variant ──> Report ──> text, JSON, HTML
//!                   |                    |
//!                 Library         KernelDirectory
//!            (a ferroxfs volume)  (one of the kernel's)
//! ```
//!
//! # Invariants
//!
//! - **I1** All variants of a step do the same work. Their results are compared ([`Digest`]), and a
//!   difference ends the run. Figures for different work are never shown together.
//! - Time counts until all requested work is done, including deferred work: the log is
//!   forced, and unlinked inodes are freed.
//! - The report names each measurement that could not be made, with the reason.
//! - **I4** A run leaves nothing behind in the folder or directory that it was given, and no memory
//!   cgroup.

mod account;
mod commit;
mod compare;
mod counted;
mod digest;
mod error;
mod facts;
mod html;
mod ioctl;
mod machine;
mod memory;
mod operations;
mod parallel;
mod plan;
mod processors;
mod repeat;
mod report;
mod run;
#[cfg(test)]
mod samples;
mod scale;
mod store;
mod tables;
mod target;
mod text;
mod transfer;
mod variant;
mod work;
mod worker;

pub use account::{Caches, OperationAccount, account, kind, layer};
pub use commit::{CommitLoad, LOG_BYTES, time_force};
pub use counted::{Counted, ScopeCount, SharedWrites, shared_writes};
pub use digest::Digest;
pub use error::WorkloadError;
pub use html::html;
pub use machine::Machine;
pub use operations::{Operation, operation_boundary, run_operations};
pub use parallel::in_parallel;
pub use plan::{Plan, Workload};
pub use processors::Processors;
pub use repeat::repeat;
pub use report::{
    Latency, Measurement, NotMeasured, PendingChanges, Report, SCHEMA_VERSION, VolumeShape,
};
pub use run::{Watcher, run};
pub use scale::{Demand, Prediction, Scale, ScaleLimit, predict, served_ns};
pub use store::{NewVolume, Store};
pub use target::kernel::KernelDirectory;
pub use target::library::{Library, bulkstat};
pub use target::{Cold, Performed, WorkTarget};
pub use text::text;
pub use transfer::line_transfer_ns;
pub use variant::Variant;
pub use work::{USUAL_NAME_BYTES, Work, WorkStep};
pub use worker::serve;
