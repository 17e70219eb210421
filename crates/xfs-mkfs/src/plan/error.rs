//! The reasons why a volume with the given options is impossible on the given device.

use std::fmt;

use thiserror::Error;

/// The reason why the requested geometry is impossible or unusable.
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
    #[error("{0} and {1} cannot be combined")]
    Exclusive(&'static str, &'static str),
    #[error("{0} needs {1}")]
    Needs(&'static str, &'static str),
    #[error("sectors of {sector} bytes are larger than blocks of {block}")]
    SectorAboveBlock { sector: u64, block: u64 },
    #[error(
        "sectors of {sector} bytes are smaller than the {device} bytes of the device's sectors"
    )]
    SectorBelowDevice { sector: u64, device: u64 },
    #[error("the {what} has {}, but {} were requested", ByteCount(*available), ByteCount(*asked))]
    DeviceTooShort { what: &'static str, asked: u64, available: u64 },
    #[error("a volume needs at least 300 MiB, and this one has {}", ByteCount(*bytes))]
    TooSmall { bytes: u64 },
    #[error("a volume of {} is too small: an allocation group needs 16 MiB", ByteCount(*bytes))]
    NoGroup { bytes: u64 },
    #[error("a volume needs at least two allocation groups, for a second superblock")]
    OneGroup,
    #[error("allocation groups of {blocks} blocks are outside {min} to {max} blocks")]
    GroupSize { blocks: u64, min: u64, max: u64 },
    #[error(
        "allocation groups of {blocks} blocks are larger than the data, which has {data_blocks}"
    )]
    GroupAboveData { blocks: u64, data_blocks: u64 },
    #[error("the last allocation group would have {blocks} blocks, and needs at least {min}")]
    LastGroup { blocks: u64, min: u64 },
    #[error("{count} allocation groups are too many")]
    GroupCount { count: u64 },
    #[error(
        "a stripe of {width} bytes in units of {unit} is not possible: the width must be a \
         multiple of the unit, and below 2 GiB"
    )]
    Stripe { unit: u64, width: u64 },
    #[error(
        "allocation groups of {blocks} blocks cannot be made multiples of a stripe unit of {unit}"
    )]
    GroupStripe { blocks: u64, unit: u64 },
    #[error("a log needs at least 64 MiB, and this one has {}", ByteCount(*bytes))]
    SmallLog { bytes: u64 },
    #[error("a log of {blocks} blocks is too small: these features need at least {min}")]
    ShortLog { blocks: u64, min: u64 },
    #[error("a log of {blocks} blocks is too large: the maximum is {max}")]
    LongLog { blocks: u64, max: u64 },
    #[error("the smallest log has {min} blocks, and an allocation group has room for {max} only")]
    NoRoomForLog { min: u64, max: u64 },
    #[error("group {group} for the log does not exist: there are {count} groups")]
    LogGroup { group: u64, count: u64 },
    #[error("no room for the root directory in the first allocation group")]
    NoRoomForRoot,
    #[error("a realtime section of {} has no whole realtime extent", ByteCount(*bytes))]
    EmptyRealtime { bytes: u64 },
    #[error(
        "{count} realtime groups are not supported here: the maximum is {max}; -r rgcount or \
         rgsize gives larger groups"
    )]
    RealtimeGroups { count: u64, max: u64 },
    #[error("a zoned section needs at least {min} zones, and this one has {count}")]
    Zones { count: u64, min: u64 },
    #[error(
        "-r start: {start} bytes lie inside of the data section of {data} bytes, or are not a \
         multiple of the block size"
    )]
    ZonesStart { start: u64, data: u64 },
    #[error("no allocation group has {blocks} blocks in one piece for the realtime bitmap")]
    NoRoomForRealtime { blocks: u64 },
    #[error("reflink=1 needs realtime extents of one block")]
    ReflinkExtents,
    #[error("the time of the volume does not fit its timestamps")]
    Time,
}

/// Displays a number of bytes in its largest unit. The exact number is added unless it is a
/// multiple of the unit.
struct ByteCount(u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
        // The largest unit of which there is at least one.
        let power = (self.0.checked_ilog2().unwrap_or(0) / 10).min(4);
        let unit = 1_u64 << (10 * power);
        let name = UNITS.get(power as usize).copied().unwrap_or("bytes");
        match (self.0 % unit, power) {
            (0, _) => write!(f, "{} {name}", self.0 / unit),
            _ => write!(f, "{:.1} {name} ({} bytes)", self.0 as f64 / unit as f64, self.0),
        }
    }
}
