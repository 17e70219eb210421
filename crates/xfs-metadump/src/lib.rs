//! Reads and writes metadata images: volumes without the contents of files.
//!
//! Owns: writing the formats of `xfs_metadump` (versions 1 and 2), the choice of blocks, obfuscated
//! names, and restoring an image. Does **not** own: decoding the formats (`xfs-device`, which also
//! opens an image as a device), or the command's arguments and output.
//!
//! ```text
//!  superblock ─→ groups: headers, btrees ─→ inode chunks ─→ forks: directories, attributes, links
//!       │                                        │
//!       └─→ log                                  └─→ names, stale bytes ─→ sink: version 1 or 2
//! ```
//!
//! # Invariants
//!
//! - **M1** Nothing of the volume is changed.
//! - **M2** Each block is written once (`sink`). So the image is never larger than the volume,
//!   and pointers that lead in a circle end.
//! - **M3** With obfuscation, a structure that is not recognised is replaced by zeros, because it
//!   may hold names. The report counts it. Numbers of a recognised structure stay, whatever they
//!   are.
//! - **M4** A checksum that was right stays right, and one that was wrong stays wrong.

mod attributes;
mod btree;
mod cleaning;
mod directory;
mod dump;
mod fork;
mod group;
mod inode;
mod log;
mod names;
mod quota;
mod raw;
mod restore;
mod seal;
mod sink;
mod superblock;
mod symlink;

pub use dump::{DumpError, DumpOptions, DumpProgress, DumpReport, Omission, dump};
pub use names::Obfuscator;
pub use restore::{RestoreError, RestoreTarget, Restored, restore};
