//! Copies files from a damaged XFS volume without writing to it.
//!
//! Owns: the tree of the files that can be read, the facts about each file, and the search for
//! deleted files. Does **not** own: reading damaged structures (`xfs-evidence`), or the files of
//! the host.
//!
//! ```text
//!  survey: groups ─→ inodes in use ─→ directories that are not whole ─→ names from parent pointers
//!                │                    forks that are not whole ─→ extents from the reverse map
//!                └→ damaged inodes ─→ their newest states from the log
//!  tree:   root ─→ … ─→ orphans: inodes that no name led to ─→ deleted: inodes that are free
//! ```
//!
//! # Invariants
//!
//! - **S1** Nothing is written to the volume. The crate never calls `write_at`.
//! - **S2** A range that cannot be read becomes a hole in the copy, never made-up contents. The
//!   report on each file lists its missing ranges.
//! - **S3** Each inode in use is reported: under its name, as an orphan, or as lost.
//! - **S4** Memory grows with three things only: 48 bytes for every 64 inodes, one or two bits for
//!   every block if these take at most 256 MiB, and the names and extents of damaged directories
//!   and files. A [`NameTree`] keeps all names, for callers that ask for one.

mod claims;
mod contents;
mod deleted;
mod free_space;
mod inventory;
mod lookup;
mod map;
mod maps;
mod names;
mod node;
mod report;
mod survey;
mod tree;

pub use contents::Contents;
pub use map::{RescueMap, RescueMapError, RescuedDevice};
pub use node::{Attribute, Node, NodeEntries, NodeFacts};
pub use report::{FileReport, InodeSource, Origin, Status, Totals};
pub use survey::{Salvage, SalvageOptions, Stopped, SurveyProgress};
pub use tree::{NameId, NameTree};
