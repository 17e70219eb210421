//! Repairs an XFS volume: plans a repair by doing it in an overlay, applies the plan, and can undo
//! it.
//!
//! Owns: the rules that turn findings into changes, the plan, the undo file, and the order of
//! writes of an apply. Does **not** own: finding damage (`xfs-check`), reading damaged structures
//! (`xfs-evidence`), or how a plan is printed.
//!
//! ```text
//!  plan_repair: overlay ─→ superblock ─→ log ─→ check ─→ rules ─→ check ─→ … ─→ Rehearsal
//!                                                 ↑__________________│
//!  Rehearsal::write_undo ─→ UndoFile ─→ resume: the volume as after the repair
//!                                   └─→ undo:   the volume as before the repair
//! ```
//!
//! The method and its proofs are in docs/internals/repair.md.
//!
//! # Invariants
//!
//! - **R1** Nothing is written to the volume before the whole result was checked in memory.
//! - **R2** The same image and the same options give the same plan, byte for byte.
//! - **R3** Every byte that changes is in an undo file, which is durable before the first write.
//! - **R4** A rule that loses contents runs only with `--allow-loss`, and the lost contents are
//!   first copied to the quarantine.
//! - **R5** A structure without a finding keeps its bytes, unless it must change because of a
//!   change elsewhere.
//! - **R6** A device that has unreadable sectors is not written. The plan lists these sectors.

mod action;
mod apply;
mod build;
mod chunks;
mod claims;
mod damage;
mod digest;
mod error;
mod fork;
mod freed;
mod joined;
mod log;
mod mapped;
mod metadata;
mod model;
mod options;
mod overlay;
mod patient;
mod plan;
mod planning;
mod reserve;
mod rounds;
mod rules;
mod section;
#[cfg(test)]
mod testing;
mod trees;
mod undo;

pub use action::{Action, Loss};
pub use apply::{VolumeState, resume, undo, volume_state};
pub use digest::Digest;
pub use error::{RepairError, Result};
pub use joined::{JoinedDevice, realtime_start};
pub use options::RehearsalOptions;
pub use plan::{ChangedRun, LeftFinding, LogOutcome, Plan, PlanText, SCHEMA, place};
pub use planning::{LogReplay, PlanOptions, Rehearsal, plan_repair};
pub use rounds::{Rehearsed, rehearse};
pub use undo::UndoFile;
