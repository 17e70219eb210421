//! The options of a rehearsal (a repair in an overlay), which rounds and rules read.

use xfs_format::Lsn;

/// Options of a repair that is done in an overlay, without writes to the volume.
#[derive(Clone, Copy, Debug, Default)]
pub struct RehearsalOptions {
    /// The LSN of the head of the log. `None` if the log could not be read.
    pub log_head: Option<Lsn>,
    /// Whether rules may make repairs that lose contents.
    pub allow_loss: bool,
    /// The greatest number of rounds of checks and repairs. With `None`, there is another round as
    /// long as the last one has changed something, up to a fixed bound.
    pub most_rounds: Option<u32>,
    /// The length in bytes of the data device, if the overlay is over a
    /// [`JoinedDevice`](crate::JoinedDevice). `None` if it is over the data device alone.
    pub data_bytes: Option<u64>,
}
