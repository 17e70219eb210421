//! XFS v5 on-disk structures: bytes to types and back, geometry, checksums, verifiers.
//!
//! Owns: what each byte of a v5 volume means, and every check that one structure can make on its
//! own bytes. Does **not** own: I/O, caching, policy, or any check that needs a second structure.
//!
//! Everything here treats its input as an allegation: a decoder returns a [`Corruption`] that says
//! which structure, where, which check and the values; it never panics, never indexes unchecked and
//! never allocates by a number from the disk without a bound.
//!
//! # Invariants
//!
//! - **I1** A value of a type from this crate that has an invariant was checked when it was made.
//! - **I2** Disk structures are big-endian types without padding; their size is asserted at compile
//!   time. Two places read little-endian: [`crc`] and [`log_item`]. [`acl`]
//!   writes it, in a form that is not on disk.
//! - **I3** Every address is its own type ([`addr`]); conversion between them goes through
//!   [`Geometry`], which knows the shifts.
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
pub mod btree;
pub mod corruption;
pub mod crc;
pub mod dabtree;
pub mod directory;
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
pub mod refcount;
pub mod reservation;
pub mod rmap;
pub mod superblock;
pub mod symlink;
pub mod timestamp;

pub use addr::{
    AgBlock, AgInode, AgNumber, BASIC_BLOCK_BYTES, DiskAddr, FileBlock, FsBlock, InodeNumber, Lsn,
};
pub use corruption::{Check, Corruption, Structure, StructureAddress};
pub use features::{CompatFeatures, IncompatFeatures, LogIncompatFeatures, RoCompatFeatures};
pub use geometry::Geometry;
pub use group::Group;
pub use kind::{BlockKind, VerifyContext};
pub use superblock::{Superblock, SuperblockDisk};
pub use uuid::Uuid;
