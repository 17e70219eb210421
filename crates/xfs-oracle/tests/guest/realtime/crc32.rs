//! The checksum of busybox's crc32: CRC-32 with the least significant bit first.

const POLYNOMIAL: u32 = 0xedb8_8320;

/// The state of the checksum over the bytes so far.
#[derive(Debug)]
pub(super) struct Crc32 {
    /// A table with the checksum of each possible byte.
    table: Vec<u32>,
    crc: u32,
}

/// Returns the table entry for one byte: the checksum of that byte, without the inversions at the
/// start and the end.
fn sum_of(byte: u32) -> u32 {
    (0..8).fold(byte, |crc, _| if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 })
}

impl Crc32 {
    /// Creates the state of the checksum before the first byte.
    pub(super) fn new() -> Self {
        Self { table: (0..256).map(sum_of).collect(), crc: u32::MAX }
    }

    /// Adds bytes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let index = (self.crc & 0xff) as usize ^ usize::from(*byte);
            let sum = self.table.get(index).expect("the index has 8 bits");
            self.crc = (self.crc >> 8) ^ sum;
        }
    }

    /// Returns the checksum in hexadecimal digits.
    pub(super) fn finish(self) -> String {
        format!("{:08x}", !self.crc)
    }
}
