//! New volumes, as mkfs.xfs makes them.
//!
//! Owns: the options of mkfs.xfs, the geometry that follows from them, and writing an empty volume.
//! Does **not** own: the structures (`xfs-format`), files inside the new volume, or opening
//! devices.
//!
//! ```text
//! text of options --parse--> Options --Plan::new--> Plan --write--> device
//!                                    (no I/O)             (no decisions)
//! ```
//!
//! Differences from mkfs.xfs, and the reasons: docs/internals/mkfs.md.
//!
//! # Invariants
//!
//! - **I1** A [`Plan`] has passed every check: [`write()`] fails only where the device does.
//! - **I2** The plan decides every byte. The same options, size and [`Identity`] give the same
//!   volume on any machine, because the plan uses nothing else from the machine.
#![forbid(unsafe_code)]

mod contents;
mod identity;
mod layout;
mod metadata;
mod options;
mod plan;
mod readers;
mod write;

pub use contents::{Occupied, find_contents};
pub use identity::{Generations, Identity};
pub use layout::{FileBlocks, FirstInodes, GroupLayout, OwnedExtent, PlacedFile, VolumeLayout};
pub use options::{
    Autofsck, DataOptions, FeatureOptions, InheritedOptions, InodeOptions, LogOptions,
    NotSupported, OptionError, Options, QuotaChoice, QuotaOptions, RealtimeOptions, Size, Unit,
};
pub use plan::{GeometryError, Plan, TargetDevice, Warning};
pub use readers::{
    Access, FirstKernels, MissingFeature, Reader, ReaderError, ReaderVersion, Verdict,
};
pub use write::{Devices, Discard, EmptyGroupBlock, encode_empty_group, write};
