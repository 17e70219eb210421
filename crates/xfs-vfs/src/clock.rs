//! The source of the timestamps that operations store in inodes.

use std::time::{SystemTime, UNIX_EPOCH};

use xfs_format::timestamp::Timestamp;

/// The source of the timestamps that operations store in inodes.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The clock of the host.
    Host,
    /// One fixed time, so that the same operations write the same bytes.
    Fixed(Timestamp),
}

impl Clock {
    /// Returns whether the time is fixed. The same operations must then write the same bytes.
    pub fn is_fixed(self) -> bool {
        matches!(self, Self::Fixed(_))
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(self) -> Timestamp {
        match self {
            Self::Fixed(time) => time,
            Self::Host => {
                let (seconds, nanoseconds) = match SystemTime::now().duration_since(UNIX_EPOCH) {
                    Ok(since) => (since.as_secs().cast_signed(), since.subsec_nanos()),
                    Err(_) => (0, 0),
                };
                Timestamp::new(seconds, nanoseconds).unwrap_or_default()
            }
        }
    }
}
