//! The byte order of log items.

use core::fmt;

/// The byte order of log items, as a record's header states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The order of Linux on a little-endian machine.
    LittleEndian,
    /// The order of Linux on a big-endian machine.
    BigEndian,
    /// The order of IRIX, or an unknown one.
    Other(u32),
}

impl fmt::Display for ByteOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LittleEndian => f.write_str("little-endian"),
            Self::BigEndian => f.write_str("big-endian"),
            Self::Other(format) => write!(f, "unknown byte order {format}"),
        }
    }
}
