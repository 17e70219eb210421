//! The options of a rehearsal, which rounds and rules read.

use xfs_format::Lsn;

/// Options of a rehearsal.
#[derive(Clone, Copy, Debug, Default)]
pub struct RehearsalOptions {
    /// The end of the log. `None` if the log could not be read.
    pub log_head: Option<Lsn>,
    /// Whether rules may lose contents.
    pub allow_loss: bool,
    /// The most rounds. `None` for as many as change something, up to a fixed bound.
    pub most_rounds: Option<u32>,
}
