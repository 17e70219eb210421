//! Numbers with a unit.

/// A number with its unit, as the user wrote it. Its value in bytes may depend on other options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number in units of `unit`. A suffix for a power of 1024, such as `k` or `m`, is already
    /// multiplied in.
    pub number: u64,
    /// The unit.
    pub unit: Unit,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, or no unit.
    One,
    /// Sectors of the data device: suffix s.
    Sector,
    /// Blocks of the volume: suffix b.
    Block,
}

impl Size {
    /// Creates a number of bytes.
    #[must_use]
    pub const fn bytes(number: u64) -> Self {
        Self { number, unit: Unit::One }
    }

    /// Parses a number, decimal or hexadecimal after `0x`, with at most one suffix in upper or
    /// lower case. In hexadecimal, b and e are digits. Returns `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (digits, radix) = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            Some(digits) => (digits, 16),
            None => (text, 10),
        };
        let suffix = digits.chars().next_back().filter(|last| !last.is_digit(radix));
        let digits = match suffix {
            Some(suffix) => digits.strip_suffix(suffix)?,
            None => digits,
        };
        // `from_str_radix` accepts a plus sign, which is not allowed here.
        if !digits.starts_with(|first: char| first.is_digit(radix)) {
            return None;
        }
        let number = u64::from_str_radix(digits, radix).ok()?;
        let (shift, unit) = match suffix.map(|suffix| suffix.to_ascii_lowercase()) {
            None => (0, Unit::One),
            Some('s') => (0, Unit::Sector),
            Some('b') => (0, Unit::Block),
            Some('k') => (10, Unit::One),
            Some('m') => (20, Unit::One),
            Some('g') => (30, Unit::One),
            Some('t') => (40, Unit::One),
            Some('p') => (50, Unit::One),
            Some('e') => (60, Unit::One),
            Some(_) => return None,
        };
        Some(Self { number: number.checked_mul(1 << shift)?, unit })
    }

    /// Returns the number of bytes that the number stands for, or `None` if it exceeds 64 bits.
    #[must_use]
    pub fn to_bytes(self, block_size: u32, sector_size: u32) -> Option<u64> {
        self.number.checked_mul(match self.unit {
            Unit::One => 1,
            Unit::Sector => sector_size.into(),
            Unit::Block => block_size.into(),
        })
    }
}
