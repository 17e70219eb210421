//! A range of bytes to lock.

/// The last byte that a file can have.
const LAST_BYTE: u64 = i64::MAX as u64;

/// Bytes of a file, the first and the last one included. It is never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockRange {
    start: u64,
    last: u64,
}

impl LockRange {
    /// The whole file, and whatever it will grow to.
    pub const WHOLE: Self = Self { start: 0, last: LAST_BYTE };

    /// `length_bytes` from `start` on; 0 means up to wherever the file will end. `None` if a byte of
    /// it lies behind 2^63 - 1.
    #[must_use]
    pub const fn new(start: u64, length_bytes: u64) -> Option<Self> {
        let last = match length_bytes {
            0 => Some(LAST_BYTE),
            length_bytes => start.checked_add(length_bytes - 1),
        };
        match last {
            Some(last) => Self::between(start, last),
            None => None,
        }
    }

    /// From `start` to `last`, both included. `None` if `last` is lower, or lies behind 2^63 - 1.
    #[must_use]
    pub const fn between(start: u64, last: u64) -> Option<Self> {
        if start <= last && last <= LAST_BYTE { Some(Self { start, last }) } else { None }
    }

    /// The first byte.
    #[must_use]
    pub const fn start(self) -> u64 {
        self.start
    }

    /// The last byte: 2^63 - 1 for a range without end.
    #[must_use]
    pub const fn last(self) -> u64 {
        self.last
    }

    /// Bytes in it; 0 for a range without end, as `l_len` of fcntl(2).
    #[must_use]
    pub const fn length_bytes(self) -> u64 {
        if self.last == LAST_BYTE { 0 } else { self.last - self.start + 1 }
    }

    /// Whether the two have a byte in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start <= other.last && other.start <= self.last
    }

    /// Whether no byte lies between the two.
    #[must_use]
    pub const fn touches(self, other: Self) -> bool {
        self.start <= other.last.saturating_add(1) && other.start <= self.last.saturating_add(1)
    }

    /// The range from the first byte of both to the last.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), last: self.last.max(other.last) }
    }

    /// What is left of it before and behind `other`.
    pub fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let before = other.start.checked_sub(1).map(|last| last.min(self.last));
        let before = before.and_then(|last| Self::between(self.start, last));
        let behind = Self::between(other.last.saturating_add(1).max(self.start), self.last);
        before.into_iter().chain(behind)
    }
}
