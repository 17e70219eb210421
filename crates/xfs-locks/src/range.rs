//! A range of bytes to lock.

/// The highest byte offset of a file.
const LAST_BYTE: u64 = i64::MAX as u64;

/// A range of bytes of a file, from its first to its last byte. The last byte belongs to the range,
/// so a range is never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockRange {
    start: u64,
    last: u64,
}

impl LockRange {
    /// The range of the whole file, however large the file becomes.
    pub const WHOLE: Self = Self { start: 0, last: LAST_BYTE };

    /// Returns the range of `length_bytes` bytes from `start` on. A length of 0 means: up to the
    /// end of the file, however large the file becomes. Returns `None` if a byte of the range lies
    /// after 2^63 - 1.
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

    /// Returns the range from `start` to `last`, both included. Returns `None` if `last` is lower
    /// than `start` or lies after 2^63 - 1.
    #[must_use]
    pub const fn between(start: u64, last: u64) -> Option<Self> {
        if start <= last && last <= LAST_BYTE { Some(Self { start, last }) } else { None }
    }

    /// Returns the offset of the first byte.
    #[must_use]
    pub const fn start(self) -> u64 {
        self.start
    }

    /// Returns the offset of the last byte, which is 2^63 - 1 for a range without end.
    #[must_use]
    pub const fn last(self) -> u64 {
        self.last
    }

    /// Returns the number of bytes. As `l_len` of fcntl(2), it is 0 for a range without end.
    #[must_use]
    pub const fn length_bytes(self) -> u64 {
        if self.last == LAST_BYTE { 0 } else { self.last - self.start + 1 }
    }

    /// Returns whether the two ranges have a byte in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start <= other.last && other.start <= self.last
    }

    /// Returns whether the ranges overlap or are adjacent.
    #[must_use]
    pub const fn touches(self, other: Self) -> bool {
        self.start <= other.last.saturating_add(1) && other.start <= self.last.saturating_add(1)
    }

    /// Returns the smallest range that contains both ranges.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), last: self.last.max(other.last) }
    }

    /// Returns the parts of the range that lie before and after `other`: none, one or two.
    pub fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let before = other.start.checked_sub(1).map(|last| last.min(self.last));
        let before = before.and_then(|last| Self::between(self.start, last));
        let after = Self::between(other.last.saturating_add(1).max(self.start), self.last);
        before.into_iter().chain(after)
    }
}
