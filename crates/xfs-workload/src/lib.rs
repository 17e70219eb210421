//! Workloads on XFS: ours through the library, the kernel's through system calls, in one run.
//!
//! Owns: what a workload does, the two that do it ([`WorkTarget`]), what is measured of it, the order of
//! runs, and the report. Does **not** own: where the arguments come from, or a judgement of the figures.
//!
//! ```text
//!  Plan ──run──> each threads x run x variant ──> Report ──> text, JSON, HTML
//!                   |                    |
//!                 Library            KernelDirectory
//!            (a volume of ours)   (one of the kernel's)
//! ```
//!
//! # Invariants
//!
//! - **I1** All variants of a step do the same: what they leave is compared ([`Digest`]), and a
//!   difference ends the run. Figures of different work are not shown beside each other.
//! - **I2** Time counts until what was asked for is done, deferred work included: the log is forced,
//!   inodes without a name are freed.
//! - **I3** What could not be measured is in the report, with the reason.
//! - **I4** Nothing is left behind in the folder or the directory that a run was given, nor a memory cgroup.

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
mod parallel;
mod plan;
mod processors;
mod repeat;
mod report;
mod run;
#[cfg(test)]
mod samples;
mod store;
mod tables;
mod target;
mod text;
mod variant;
mod work;
mod worker;

pub use commit::{CommitLoad, LOG_BYTES, time_force};
pub use counted::{Counted, ScopeCount, SharedWrites, shared_writes};
pub use digest::Digest;
pub use error::WorkloadError;
pub use html::html;
pub use machine::Machine;
pub use parallel::in_parallel;
pub use plan::{Plan, Workload};
pub use processors::Processors;
pub use repeat::repeat;
pub use report::{
    Latency, Measurement, NotMeasured, PendingChanges, Report, SCHEMA_VERSION, VolumeShape,
};
pub use run::{Watcher, run};
pub use store::{NewVolume, Store};
pub use target::kernel::KernelDirectory;
pub use target::library::{Library, bulkstat};
pub use target::{Cold, Performed, WorkTarget};
pub use text::text;
pub use variant::Variant;
pub use work::{USUAL_NAME_BYTES, Work, WorkStep};
pub use worker::serve;
