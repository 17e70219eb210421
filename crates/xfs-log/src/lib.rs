//! The journal: finding head and tail, and reading what lies between them.
//!
//! Owns: where the log lies, reading records, transactions and items out of it, and telling from
//! its bytes alone whether anything waits to be replayed. Does **not** own the bytes of log items
//! (`xfs_format::log_item`), and writes nothing.
//!
//! The log is a ring of basic blocks. Every block carries the number of the turn ("cycle") in which
//! it was written, so the head, the place of the next write, is where a cycle meets the one before:
//!
//! ```text
//!  block 0                    head                                  last
//!  | cycle 7 | cycle 7 | c 7 || cycle 6 | cycle 6 | cycle 6 | cycle 6 |
//!                 ^ last record; names the tail:  ^
//! ```

mod device;
mod head;
mod reader;
mod state;
#[cfg(test)]
mod testing;

pub use device::{LogDevice, LogGeometry};
pub use reader::{Items, LogEntry, LogReader, Transaction};
pub use state::{LogState, find_head_and_tail};
