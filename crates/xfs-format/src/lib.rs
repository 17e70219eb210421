//! XFS on-disk structures: bytes to types and back, geometry, checksums, verifiers.
//!
//! Owns: the meaning of each byte of a v4 or v5 volume, and every check of a structure against its
//! own bytes. Does **not** own: I/O, caching, policy, or any check that needs a second structure.
//!
//! Nothing in the input is trusted. A decoder returns a [`Corruption`] with the structure, its
//! address, the failed check and the values. It never panics, never indexes unchecked, and never
//! allocates by a number from the disk without a bound.
//!
//! # Invariants
//!
//! - **I1** A type with an invariant checks it when a value is created.
//! - **I2** Disk structures are big-endian types without padding. Their size is asserted at compile
//!   time. Two modules read little-endian numbers from the disk: [`crc`] and [`log_item`]. The
//!   module [`acl`] also reads and writes such numbers, in a form that is not on disk.
//! - The version of the volume decides the form of each block. The decoder of a block takes the
//!   form from the magic number, and the verifier refuses a block of the other version. Only v5
//!   structures are encoded.
//! - Every address space has its own type ([`addr`]). [`Geometry`], which has the shifts,
//!   converts between them.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod acl;
pub mod addr;
pub mod agf;
pub mod agfl;
pub mod agi;
pub mod attr;
mod block_kind;
pub mod btree;
mod checks;
pub mod corruption;
pub mod crc;
pub mod dabtree;
pub mod directory;
pub mod dquot;
mod envelope;
pub mod extent;
pub mod features;
pub mod free_space;
pub mod geometry;
#[cfg(test)]
mod golden;
pub mod group;
pub mod inode;
pub mod inode_chunk;
pub mod kind;
pub mod log_item;
pub mod log_record;
pub mod parent;
pub mod realtime;
pub mod refcount;
pub mod reservation;
pub mod rmap;
mod short_form;
pub mod superblock;
pub mod symlink;
pub mod timestamp;
mod verify_context;

pub use addr::{
    AgBlock, AgInode, AgNumber, BASIC_BLOCK_BYTES, DiskAddr, FileBlock, FsBlock, InodeNumber, Lsn,
};
pub use corruption::{Check, Corruption, Structure, StructureAddress};
pub use features::{
    CompatFeatures, FormatVersion, IncompatFeatures, LogIncompatFeatures, RoCompatFeatures,
};
pub use geometry::Geometry;
pub use group::Group;
pub use kind::{BlockKind, VerifyContext};
pub use superblock::{Superblock, SuperblockDisk};
pub use uuid::Uuid;
