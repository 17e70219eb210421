//! The journal: from a commit to the disk and back.
//!
//! Owns: the location of the log; reading records, transactions and items from the log; the
//! decision, from the log's bytes alone, whether anything must be replayed. Also owns: log space,
//! the committed item list, the writer of records, the items that wait to be written in place (to
//! their home locations on disk), and recovery after a crash. Does **not** own the bytes of log
//! items (`xfs_format::log_item`), or the work that intents promise.
//!
//! The design of the write side is in docs/internals/log.md.
//!
//! The log is a ring of basic blocks. Every block carries the number of the turn ("cycle") in which
//! it was written. The head, where the next record goes, is therefore the point at which one cycle
//! meets the one before:
//!
//! ```text
//!  block 0                    head                                  last
//!  | cycle 7 | cycle 7 | c 7 || cycle 6 | cycle 6 | cycle 6 | cycle 6 |
//!                 ^ last record; names the tail:  ^
//! ```

#![cfg_attr(all(test, shuttle), allow(dead_code, reason = "only the model tests run there"))]

mod ail;
mod cil;
mod device;
mod head;
mod health;
mod item;
mod log;
mod mutant;
mod reader;
mod recovery;
mod space;
mod state;
#[cfg(test)]
mod testing;
mod ticket;
mod unit;
mod vector;
mod writer;

pub use ail::{Ail, InPlace, PushCounts, PushReport};
pub use cil::Committed;
pub use device::{LogDevice, LogGeometry};
pub use item::{CheckpointEnd, ItemState, LogItem, Pushed};
pub use log::{Log, LogConfig, LogCounts, MAX_BUFFER_BYTES, MIN_BUFFER_BYTES, Shutdown};
pub use reader::{Items, LogEntry, LogReader, LoggedTransaction};
pub use recovery::{
    CutReplay, FreedInodes, Intent, IntentRecovery, MAX_REPLAY_BYTES, RecoveryError, Refusal,
    Replayed, Summary, apply_inode_item, end_clean_log, finish_intents, format_log, kind_of_buffer,
    replay, replay_all, replay_before_damage, replay_past_damage,
};
pub use space::SpaceUse;
pub use state::{LogState, count_records_after_head, find_head_and_tail};
pub use ticket::Ticket;
pub use unit::RecordLayout;
pub use vector::{REGION_HEADER_BYTES, RegionUpdater, RegionWriter, regions_of, updated_regions};
