//! The values in which a new volume differs from other volumes with the same options.

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::{Builder, Uuid};
use xfs_format::timestamp::Timestamp;

/// UUID, time and inode generations of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The UUID of the volume.
    pub uuid: Uuid,
    /// The birth time of the volume's first inodes.
    pub time: Timestamp,
    /// The source of the generations of the volume's first inodes.
    pub generations: Generations,
}

/// The source of inode generations. The generation of an inode distinguishes a file from an earlier
/// file with the same inode number. So volumes made one after the other should have different
/// generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generations {
    /// Generations from a random number generator with this seed.
    Seed(u64),
    /// The same generation for every inode. mkfs.xfs does this if DETERMINISTIC_SEED is in its
    /// environment.
    Fixed(u32),
}

impl Generations {
    /// Returns the generation of the inode with this index. Index 0 is the first inode of the
    /// volume.
    #[must_use]
    pub fn at(self, index: u64) -> u32 {
        match self {
            Self::Fixed(generation) => generation,
            Self::Seed(seed) => (mix(seed.wrapping_add(index)) >> 32) as u32,
        }
    }
}

impl Identity {
    /// Creates a random identity with the current time.
    ///
    /// # Errors
    ///
    /// The host's error if it provides no random numbers.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 24];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let [uuid @ .., a, b, c, d, e, f, g, h] = bytes;
        let seed = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        // A clock before 1970 counts as 1970.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(now.as_secs()).unwrap_or_default();
        Ok(Self {
            uuid: Builder::from_random_bytes(uuid).into_uuid(),
            time: Timestamp::new(seconds, now.subsec_nanos()).unwrap_or_default(),
            generations: Generations::Seed(seed),
        })
    }

    /// Derives an identity from a time. The same time and `salt` give the same identity, so `salt`
    /// must differ for volumes that are made at the same time.
    #[must_use]
    pub fn reproducible(time: Timestamp, salt: &[u8]) -> Self {
        let start = mix(time.seconds().cast_unsigned()) ^ u64::from(time.nanoseconds());
        let seed = salt.iter().fold(start, |seed, byte| mix(seed ^ u64::from(*byte)));
        let (high, low) = (u128::from(mix(seed ^ 1)), u128::from(mix(seed ^ 2)));
        let bytes = ((high << 64) | low).to_be_bytes();
        Self {
            uuid: Builder::from_random_bytes(bytes).into_uuid(),
            time,
            generations: Generations::Seed(seed),
        }
    }
}

/// Maps a number to a number with well-distributed bits, different for different arguments
/// (splitmix64).
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
