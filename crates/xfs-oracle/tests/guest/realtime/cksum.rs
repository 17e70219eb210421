//! The checksum of cksum(1): a CRC-32 with the most significant bit first, over the bytes and then
//! their number.

/// The state of the checksum over the bytes so far.
#[derive(Debug, Default)]
pub(super) struct Cksum {
    crc: u32,
    length: u64,
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = (index as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc >> 31 == 1 { (crc << 1) ^ 0x04c1_1db7 } else { crc << 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

impl Cksum {
    /// Adds bytes.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.length += bytes.len() as u64;
        bytes.iter().for_each(|byte| self.add(*byte));
    }

    fn add(&mut self, byte: u8) {
        let index = (self.crc >> 24) as usize ^ usize::from(byte);
        self.crc = (self.crc << 8) ^ TABLE.get(index).expect("the index has 8 bits");
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
