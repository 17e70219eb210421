//! Structures of a volume, field by field.
//!
//! Owns: which fields each structure has and how they are shown. The fields are those of the
//! format's own disk forms, under their names there. Nothing is believed: what is shown is what the
//! bytes say, and beside it what the format's verifier says of them. Does **not** own: where a
//! structure lies ([`crate::commands`]).

mod blocks;
mod fields;
mod inode;
mod value;

pub(crate) use blocks::{Described, describe_block, describe_sector};
pub(crate) use inode::describe_inode;
pub(crate) use value::{Fields, Value, fields_to_json, print_fields};
