//! Why there is no volume with these options on this device.

use std::fmt;

use thiserror::Error;

/// A geometry that cannot be, or that nobody should use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the message of each variant names its values")]
pub enum GeometryError {
    #[error("{option}: {value} is outside {min} to {max}")]
    Range { option: &'static str, value: u64, min: u64, max: u64 },
    #[error("{option}: {value} is not a power of two")]
    PowerOfTwo { option: &'static str, value: u64 },
    #[error("{option}: the value does not fit 64 bits")]
    Overflow { option: &'static str },
    #[error("{option}: {value} is not a multiple of {unit} ({what})")]
    Multiple { option: &'static str, value: u64, unit: u64, what: &'static str },
    #[error("{0} and {1} exclude each other")]
    Exclusive(&'static str, &'static str),
    #[error("{0} needs {1}")]
    Needs(&'static str, &'static str),
    #[error("sectors of {sector} bytes are larger than blocks of {block}")]
    SectorAboveBlock { sector: u64, block: u64 },
    #[error("sectors of {sector} bytes are smaller than those of the device, which have {device}")]
    SectorBelowDevice { sector: u64, device: u64 },
    #[error("the {what} has {}, {} were asked for", ByteCount(*available), ByteCount(*asked))]
    DeviceTooShort { what: &'static str, asked: u64, available: u64 },
    #[error("a volume has at least 300 MiB, not {}", ByteCount(*bytes))]
    TooSmall { bytes: u64 },
    #[error("a volume of {} is too small for an allocation group, which has 16 MiB", ByteCount(*bytes))]
    NoGroup { bytes: u64 },
    #[error("a volume has at least two allocation groups, for a second superblock")]
    OneGroup,
    #[error("allocation groups of {blocks} blocks: they have {min} to {max}")]
    GroupSize { blocks: u64, min: u64, max: u64 },
    #[error("allocation groups of {blocks} blocks for {data_blocks} blocks of data")]
    GroupAboveData { blocks: u64, data_blocks: u64 },
    #[error("the last allocation group would have {blocks} blocks, fewer than {min}")]
    LastGroup { blocks: u64, min: u64 },
    #[error("{count} allocation groups are too many")]
    GroupCount { count: u64 },
    #[error("a stripe of {width} bytes, in units of {unit}")]
    Stripe { unit: u64, width: u64 },
    #[error(
        "allocation groups of {blocks} blocks cannot be made multiples of a stripe unit of {unit}"
    )]
    GroupStripe { blocks: u64, unit: u64 },
    #[error("a log has at least 64 MiB, not {}", ByteCount(*bytes))]
    SmallLog { bytes: u64 },
    #[error("a log of {blocks} blocks: with these features it has {min} at least")]
    ShortLog { blocks: u64, min: u64 },
    #[error("a log of {blocks} blocks: it has {max} at most")]
    LongLog { blocks: u64, max: u64 },
    #[error(
        "a log of {min} blocks, the least, does not fit an allocation group, which has room for {max}"
    )]
    NoRoomForLog { min: u64, max: u64 },
    #[error("the log's group {group} does not exist: there are {count}")]
    LogGroup { group: u64, count: u64 },
    #[error("no room for the root directory in the first allocation group")]
    NoRoomForRoot,
    #[error("the time of the volume does not fit its time stamps")]
    Time,
}

/// A number of bytes as people read it, exact where it is not whole.
struct ByteCount(u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
        // The last unit of which there is more than one.
        let power = (self.0.checked_ilog2().unwrap_or(0) / 10).min(4);
        let unit = 1_u64 << (10 * power);
        let name = UNITS.get(power as usize).copied().unwrap_or("bytes");
        match (self.0 % unit, power) {
            (0, _) => write!(f, "{} {name}", self.0 / unit),
            _ => write!(f, "{:.1} {name} ({} bytes)", self.0 as f64 / unit as f64, self.0),
        }
    }
}
