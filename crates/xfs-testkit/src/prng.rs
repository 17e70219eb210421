//! Seeded random numbers: the same on every run and every machine.

use std::ops::Range;

/// A random number generator for tests (SplitMix64). Its numbers can be predicted, so they must not
/// be used as secrets.
#[derive(Clone, Debug)]
pub struct Prng(u64);

impl Prng {
    /// Creates a generator from `seed`. A failing test must print its seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64-bit number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number in `range`. If the range is empty, returns its start.
    pub const fn within(&mut self, range: Range<usize>) -> usize {
        let width = range.end.saturating_sub(range.start);
        if width == 0 { range.start } else { range.start + (self.number() % width as u64) as usize }
    }

    /// Returns a random element of `choices`, or `None` if there are none.
    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.within(0..choices.len()))
    }

    /// Changes one to four random fields of one, two, four or eight bytes, as damage or an attacker
    /// would. Most fields get one changed bit, a value near the old one, or the smallest or largest
    /// value of the field.
    pub fn mutate(&mut self, bytes: &mut [u8]) {
        for _ in 0..self.within(1..5) {
            let offset = self.within(0..bytes.len());
            let width = 1 << self.within(0..4);
            // Nearly all fields are aligned to their size.
            let offset = offset / width * width;
            let Some(field) = bytes.get_mut(offset..offset.saturating_add(width)) else { continue };
            let old = field.iter().fold(0_u64, |value, byte| (value << 8) | u64::from(*byte));
            let new = self.changed(old, width as u32 * 8);
            for (index, byte) in field.iter_mut().rev().enumerate() {
                *byte = (new >> (8 * index)) as u8;
            }
        }
    }

    fn changed(&mut self, old: u64, bits: u32) -> u64 {
        match self.within(0..10) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << (bits - 1),
            3 => (1 << (bits - 1)) - 1,
            4 => old.wrapping_add(1),
            5 => old.wrapping_sub(1),
            6 => old ^ (1 << self.within(0..bits as usize)),
            7 => old << 1,
            8 => old >> 1,
            _ => self.number(),
        }
    }
}

#[cfg(test)]
mod tests;
