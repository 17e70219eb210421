//! What tells two volumes of the same options apart.

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::{Builder, Uuid};
use xfs_format::timestamp::Timestamp;

/// UUID, time and inode generations of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The UUID.
    pub uuid: Uuid,
    /// When its first inodes were made.
    pub time: Timestamp,
    /// The generations of its first inodes.
    pub generations: Generations,
}

/// Where inode generations come from. They tell a file from the one that had its number before, so
/// that two volumes made one after the other should not have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generations {
    /// Drawn from a generator that was started with this number.
    Seed(u64),
    /// One number for all, as mkfs.xfs does with DETERMINISTIC_SEED in its environment.
    Fixed(u32),
}

impl Generations {
    /// The `index`th generation.
    #[must_use]
    pub fn at(self, index: u64) -> u32 {
        match self {
            Self::Fixed(generation) => generation,
            Self::Seed(seed) => (mix(seed.wrapping_add(index)) >> 32) as u32,
        }
    }
}

impl Identity {
    /// A new one: random, now.
    ///
    /// # Errors
    ///
    /// What the host says that has no random numbers.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 24];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let [uuid @ .., a, b, c, d, e, f, g, h] = bytes;
        let seed = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        // A clock before 1970 is as good as one that stands at 1970.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(now.as_secs()).unwrap_or_default();
        Ok(Self {
            uuid: Builder::from_random_bytes(uuid).into_uuid(),
            time: Timestamp::new(seconds, now.subsec_nanos()).unwrap_or_default(),
            generations: Generations::Seed(seed),
        })
    }

    /// One that follows from a time: the same for the same time and `salt`, which shall hold what
    /// tells apart volumes that are made at that time.
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

/// Spreads a number over all 64 bits (splitmix64).
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
