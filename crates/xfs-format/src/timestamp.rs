//! Time stamps of inodes, in two forms that a volume may mix.
//!
//! Owns: the two 8-byte forms and their ranges. A flag of each inode selects the form
//! ([`InodeFlags2::BIGTIME`](crate::inode::InodeFlags2::BIGTIME)). After an upgrade to the newer
//! form, an inode is converted when it is next written.
//!
//! ```text
//! legacy   0        4           8      seconds since 1970 (signed), nanoseconds
//!          | seconds | nanosec. |      1901-12-13 to 2038-01-19
//! bigtime  0                    8      nanoseconds since 1901-12-13 20:45:52 UTC
//!          |    nanoseconds     |      to 2486-07-02
//! ```

/// Nanoseconds in a second.
pub const NANOSECONDS_PER_SECOND: u32 = 1_000_000_000;
/// Number of seconds from the start of the bigtime form to 1970.
#[doc(alias = "XFS_BIGTIME_EPOCH_OFFSET")]
const BIGTIME_EPOCH_SECONDS: i64 = 1 << 31;
/// The last second of the bigtime form, counted from the start of that form.
const BIGTIME_LAST_SECOND: i64 = (u64::MAX / NANOSECONDS_PER_SECOND as u64) as i64;
/// The last second that the kernel sets in the bigtime form, counted from the start of that form.
/// The kernel rounds it down to a multiple of four.
#[doc(alias = "XFS_BIGTIME_TIME_MAX")]
const BIGTIME_LAST_SET_SECOND: i64 = BIGTIME_LAST_SECOND & !3;

/// A moment: seconds since 1970-01-01 00:00:00 UTC, and the nanoseconds after that second.
///
/// Invariant: `nanoseconds` is below 10⁹, also before 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64,
    nanoseconds: u32,
}

impl Timestamp {
    /// Creates a moment. Returns `None` if `nanoseconds` is a second or more.
    #[must_use]
    pub const fn new(seconds: i64, nanoseconds: u32) -> Option<Self> {
        if nanoseconds < NANOSECONDS_PER_SECOND {
            Some(Self { seconds, nanoseconds })
        } else {
            None
        }
    }

    /// Returns the nearest moment that the legacy form can hold.
    #[must_use]
    pub fn clamp_legacy(self) -> Self {
        self.clamp_by(i32::MIN.into(), i32::MAX.into())
    }

    /// Returns the nearest moment that the kernel sets in the bigtime form.
    #[inline]
    #[must_use]
    pub fn clamp_bigtime(self) -> Self {
        let first = -BIGTIME_EPOCH_SECONDS;
        self.clamp_by(first, first + BIGTIME_LAST_SET_SECOND)
    }

    /// Returns whether the bigtime form can hold the moment.
    #[inline]
    #[must_use]
    pub(crate) fn is_bigtime(self) -> bool {
        let last = BIGTIME_LAST_SECOND - BIGTIME_EPOCH_SECONDS;
        let is_before_last = (-BIGTIME_EPOCH_SECONDS..last).contains(&self.seconds);
        // The last second ends in the form's last nanosecond.
        is_before_last || encode_bigtime(self).is_some()
    }

    /// Returns whether the legacy form can hold the moment.
    #[inline]
    #[must_use]
    pub(crate) fn is_legacy(self) -> bool {
        i32::try_from(self.seconds).is_ok()
    }

    /// Returns the moment if its second lies between `first` and `last`, or else the start of the
    /// nearer one of these two seconds.
    #[inline]
    fn clamp_by(self, first: i64, last: i64) -> Self {
        if (first..=last).contains(&self.seconds) {
            return self;
        }
        Self { seconds: self.seconds.clamp(first, last), nanoseconds: 0 }
    }

    /// Returns the whole seconds since 1970, rounded down.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.seconds
    }

    /// Returns the nanoseconds after the whole second. They are always below 10⁹.
    #[must_use]
    pub const fn nanoseconds(self) -> u32 {
        self.nanoseconds
    }

    /// Returns the nanoseconds since 1970. For late moments of the bigtime form the number does not
    /// fit 64 signed bits.
    #[must_use]
    pub const fn nanoseconds_since_1970(self) -> i128 {
        self.seconds as i128 * NANOSECONDS_PER_SECOND as i128 + self.nanoseconds as i128
    }
}

/// Decodes the legacy form. Nanoseconds out of range become the last nanosecond of the second;
/// [`is_legacy_valid`] detects them.
#[must_use]
pub const fn decode_legacy(raw: u64) -> Timestamp {
    let nanoseconds = raw as u32;
    let last = NANOSECONDS_PER_SECOND - 1;
    let nanoseconds = if nanoseconds > last { last } else { nanoseconds };
    Timestamp { seconds: (raw >> 32) as u32 as i32 as i64, nanoseconds }
}

/// Returns whether the nanoseconds of the legacy form are below a second.
#[must_use]
pub const fn is_legacy_valid(raw: u64) -> bool {
    (raw as u32) < NANOSECONDS_PER_SECOND
}

/// Decodes the bigtime form. Every value is a moment.
#[must_use]
pub const fn decode_bigtime(raw: u64) -> Timestamp {
    let seconds = (raw / NANOSECONDS_PER_SECOND as u64) as i64 - BIGTIME_EPOCH_SECONDS;
    Timestamp { seconds, nanoseconds: (raw % NANOSECONDS_PER_SECOND as u64) as u32 }
}

/// Encodes a moment in the legacy form. Returns `None` if the moment is outside the range of
/// that form.
#[must_use]
pub fn encode_legacy(time: Timestamp) -> Option<u64> {
    let seconds = i32::try_from(time.seconds).ok()?.cast_unsigned();
    Some((u64::from(seconds) << 32) | u64::from(time.nanoseconds))
}

/// Encodes a moment in the bigtime form. Returns `None` if the moment is outside the range of
/// that form.
#[must_use]
pub fn encode_bigtime(time: Timestamp) -> Option<u64> {
    let seconds = time.seconds.checked_add(BIGTIME_EPOCH_SECONDS)?;
    if !(0..=BIGTIME_LAST_SECOND).contains(&seconds) {
        return None;
    }
    seconds
        .cast_unsigned()
        .checked_mul(NANOSECONDS_PER_SECOND.into())?
        .checked_add(time.nanoseconds.into())
}

#[cfg(test)]
mod tests;
