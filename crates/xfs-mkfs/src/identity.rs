//! The identity of a new volume, which makes it differ from another volume with the same options.

use std::time::{SystemTime, UNIX_EPOCH};

use uuid::{Builder, Uuid};
use xfs_format::timestamp::Timestamp;

/// UUID, time and inode generations of a new volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The UUID.
    pub uuid: Uuid,
    /// The birth time of the volume's first inodes.
    pub time: Timestamp,
    /// The generations of the volume's first inodes.
    pub generations: Generations,
}

/// The source of inode generations. A generation tells a file from an earlier file with the same
/// inode number, so volumes made one after the other should have different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generations {
    /// The generations are drawn from a generator with this seed.
    Seed(u64),
    /// All inodes have this generation, as mkfs.xfs gives them with DETERMINISTIC_SEED in its
    /// environment.
    Fixed(u32),
}

impl Generations {
    /// Returns the generation with this index.
    #[must_use]
    pub fn at(self, index: u64) -> u32 {
        match self {
            Self::Fixed(generation) => generation,
            Self::Seed(seed) => (mix(seed.wrapping_add(index)) >> 32) as u32,
        }
    }
}

impl Identity {
    /// Creates a random identity with the present time.
    ///
    /// # Errors
    ///
    /// The error of a host without random numbers.
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

/// Distributes a number over all 64 bits (splitmix64).
const fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
