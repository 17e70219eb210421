//! The structures of a volume on disk, for output field by field.
//!
//! Owns: the fields of each structure and their printed form. Fields and names are those of the
//! disk forms in `xfs-format`. Nothing is trusted: the output shows the bytes, together with the
//! result of the verifier. Does **not** own: finding the address of a structure
//! ([`dump`](crate::inspect::dump)).

mod blocks;
mod fields;
mod inode;
mod value;

pub(crate) use blocks::{Described, describe_block, describe_sector};
pub(crate) use inode::describe_inode;
pub(crate) use value::{Fields, Value, fields_to_json, print_fields};
