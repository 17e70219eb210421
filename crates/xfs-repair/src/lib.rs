//! Repairs an XFS volume: plans, rehearses, applies, undoes.
//!
//! Owns: the rules that turn findings into changes, the plan, the undo file, and the order of writes
//! of an apply. Does **not** own: finding damage (`xfs-check`), reading damaged structures
//! (`xfs-evidence`), or how a plan is printed.

mod action;
mod build;
mod chunks;
mod claims;
mod damage;
mod error;
mod fork;
mod model;
mod patient;
mod rounds;
mod rules;
mod trees;

pub use action::{Action, Loss};
pub use error::RepairError;
pub use rounds::{RehearsalOptions, Rehearsed, rehearse};
