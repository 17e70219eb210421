//! The checksum of cksum(1): a CRC-32 with the most significant bit first, over the bytes and then
//! their number.

const POLYNOMIAL: u32 = 0x04c1_1db7;

/// The state of the checksum over the bytes so far.
#[derive(Debug)]
pub(super) struct Cksum {
    /// The checksum of each byte.
    table: Vec<u32>,
    crc: u32,
    length: u64,
}

/// Returns the checksum of one byte, without a length.
fn sum_of(byte: u32) -> u32 {
    (0..8).fold(
        byte << 24,
        |crc, _| {
            if crc >> 31 == 1 { (crc << 1) ^ POLYNOMIAL } else { crc << 1 }
        },
    )
}

impl Cksum {
    /// Creates the state over no bytes.
    pub(super) fn new() -> Self {
        Self { table: (0..256).map(sum_of).collect(), crc: 0, length: 0 }
    }

    /// Adds bytes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        bytes.iter().for_each(|byte| self.add(*byte));
    }

    fn add(&mut self, byte: u8) {
        let index = (self.crc >> 24) as usize ^ usize::from(byte);
        self.crc = (self.crc << 8) ^ self.table.get(index).expect("the index has 8 bits");
    }

    /// Returns the checksum and the number of bytes, as cksum(1) prints them.
    pub(super) fn finish(mut self) -> String {
        let length = self.length;
        let mut rest = length;
        while rest != 0 {
            self.add(rest as u8);
            rest >>= 8;
        }
        format!("{} {length}", !self.crc)
    }
}
