//! Transactions: changes of metadata that happen as a whole or not at all.
//!
//! Owns: the reservations of a transaction; the buffers and inodes that it holds latched, and which
//! of their bytes are logged. Also owns: rolling; deferred work with its intents and completions;
//! the counters of the volume; writing inodes to their home locations on disk. Does **not** own:
//! the meaning of a change (the layers above), log space and checkpoints (`xfs-log`), or the bytes
//! of items (`xfs_format::log_item`).
//!
//! Design: docs/internals/transactions.md.

mod block_reservation;
mod buffer_item;
mod cluster;
mod context;
mod counters;
mod create_item;
mod dquot_item;
mod inode_item;
mod intent_item;
mod intent_payload;
mod journal;
mod pins;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transaction;

pub use block_reservation::{BlockReservation, FallbackPool};
pub use counters::SpaceCounts;
pub use dquot_item::{Dquot, DquotBlock, DquotFields, QuotaAmount};
pub use inode_item::{ForkBytes, InodeImage, InodeRecord};
pub use intent_payload::{AttrPayload, IntentPayload};
pub use journal::{InodeCluster, Journal, OpenIntent, TransactionCounts, Upkeep};
pub use transaction::{
    Captured, CommittedChain, Deferred, Finish, GroupHeader, OwnerDquots, QuotaLedger, QuotaOwners,
    QuotaReservation, Transaction,
};
