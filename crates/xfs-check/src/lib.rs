//! Checks an XFS volume for consistency, without changing it.
//!
//! Owns: reading every structure of a volume, the checks across structures, and the findings. Does
//! **not** own: decoders and the checks of one block (`xfs-format`), the replay of a dirty log (the
//! caller hands over a device with the recovered volume), or how findings are printed.
//!
//! The method and its proofs are in docs/internals/check.md. The crate uses nothing that writes a
//! volume: a checker that shares code with the writer shares its mistakes.
//!
//! ```text
//!  open ─→ groups: headers, btrees ─→ inodes: chunks, forks, directories, attributes
//!                    │                          │
//!                    └────────── facts ─────────┘──→ sums ─→ equal: clean
//!                                                     └────→ differ: lists ─→ findings
//! ```
//!
//! # Invariants
//!
//! - **C1** No decision of the checker depends on code that writes volumes.
//! - **C2** Nothing is written.
//! - **C3** A structure that cannot be read is a finding, and the rest is still checked.
//! - **C4** Memory depends on the number of groups and on the largest single object, not on the
//!   number of inodes.
//! - **C5** Every loop over pointers has a budget.

mod announce;
mod attributes;
mod blocks;
mod budget;
mod cause;
mod check;
mod chunk;
mod code;
mod compare;
mod copies;
mod dabtree;
mod directory;
mod evidence;
mod explain;
mod facts;
mod finding;
mod flags;
mod fork;
mod group;
mod hash;
mod inode;
mod metadata_files;
mod metadata_inode;
mod metadir;
mod quota;
mod reach;
mod realtime;
mod region;
mod report;
mod sums;
mod symlink;
mod tree;
mod unlinked;
mod used_inode;

pub use check::{CheckOptions, CheckedDevices, Progress, Unsupported, check, check_devices};
pub use code::{Area, Code};
pub use finding::{Finding, Place, Severity, Witness};
pub use report::{Coverage, Report, Unchecked};
