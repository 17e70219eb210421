//! What time it is.

use std::time::{SystemTime, UNIX_EPOCH};

use xfs_format::timestamp::Timestamp;

/// Where times come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// The host's clock.
    Host,
    /// One time for everything: what is made twice is the same.
    Fixed(Timestamp),
}

impl Clock {
    /// Whether the same operations are to give the same bytes.
    pub(crate) fn is_fixed(self) -> bool {
        matches!(self, Self::Fixed(_))
    }

    pub(crate) fn now(self) -> Timestamp {
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
