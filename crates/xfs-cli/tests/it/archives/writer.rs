//! A writer of tar archives, field by field. It can also write forms that no program writes.

use xfs_testkit::Prng;

const BLOCK: usize = 512;

/// The fields of a header, as in POSIX.
#[derive(Clone)]
pub(crate) struct Head {
    pub(crate) name: Vec<u8>,
    pub(crate) mode: [u8; 8],
    pub(crate) uid: [u8; 8],
    pub(crate) gid: [u8; 8],
    /// The size field; `None` for the size of the body.
    pub(crate) size: Option<[u8; 12]>,
    pub(crate) mtime: [u8; 12],
    pub(crate) kind: u8,
    pub(crate) link: Vec<u8>,
    pub(crate) magic: [u8; 8],
    pub(crate) device: ([u8; 8], [u8; 8]),
    pub(crate) prefix: Vec<u8>,
    /// Whether the checksum is computed over signed instead of unsigned bytes.
    pub(crate) is_signed: bool,
}

impl Head {
    pub(crate) fn new(name: impl AsRef<[u8]>) -> Self {
        Self {
            name: name.as_ref().to_vec(),
            mode: *b"0000644\0",
            uid: *b"0000000\0",
            gid: *b"0000000\0",
            size: None,
            mtime: *b"00000000000\0",
            kind: b'0',
            link: Vec::new(),
            magic: *b"ustar\x0000",
            device: ([0; 8], [0; 8]),
            prefix: Vec::new(),
            is_signed: false,
        }
    }

    pub(crate) fn directory(name: impl AsRef<[u8]>) -> Self {
        Self { kind: b'5', mode: *b"0000755\0", ..Self::new(name) }
    }

    pub(crate) fn link(kind: u8, name: &str, link: &str) -> Self {
        Self { kind, link: link.into(), mode: *b"0000777\0", ..Self::new(name) }
    }

    fn bytes(&self, body: usize) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8], most: usize| {
            let length = bytes.len().min(most);
            block[at..at + length].copy_from_slice(&bytes[..length]);
        };
        put(0, &self.name, 100);
        put(100, &self.mode, 8);
        put(108, &self.uid, 8);
        put(116, &self.gid, 8);
        put(124, &self.size.unwrap_or_else(|| octal12(body as u64)), 12);
        put(136, &self.mtime, 12);
        put(148, b"        ", 8);
        put(156, &[self.kind], 1);
        put(157, &self.link, 100);
        put(257, &self.magic, 8);
        put(329, &self.device.0, 8);
        put(337, &self.device.1, 8);
        put(345, &self.prefix, 155);
        let of = |byte: &u8| {
            if self.is_signed { i64::from(byte.cast_signed()) } else { i64::from(*byte) }
        };
        let sum: i64 = block.iter().map(of).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }
}

pub(crate) fn octal8(number: u64) -> [u8; 8] {
    format!("{number:07o}\0").into_bytes().try_into().unwrap()
}

pub(crate) fn octal12(number: u64) -> [u8; 12] {
    format!("{number:011o}\0").into_bytes().try_into().unwrap()
}

/// Returns a number in two's complement with a set bit in front. GNU tar writes numbers in this
/// form if octal digits do not suffice.
pub(crate) fn binary<const N: usize>(number: i128) -> [u8; N] {
    let bytes = number.to_be_bytes();
    let mut field = [0; N];
    let length = N.min(16);
    field[N - length..].copy_from_slice(&bytes[16 - length..]);
    field[0] |= 0x80;
    field
}

pub(crate) fn record(keyword: &str, value: &[u8]) -> Vec<u8> {
    let rest = keyword.len() + value.len() + 3;
    let length = (rest..).find(|length| length.to_string().len() + rest == *length).unwrap();
    [format!("{length} {keyword}=").as_bytes(), value, b"\n"].concat()
}

/// An archive to which members are added.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    pub(crate) prng: Prng,
}

impl Writer {
    pub(crate) fn new(seed: u64) -> Self {
        Self { bytes: Vec::new(), prng: Prng::new(seed) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Adds a header and its body, padded to a block.
    pub(crate) fn add(&mut self, head: &Head, body: &[u8]) {
        self.bytes.extend_from_slice(&head.bytes(body.len()));
        self.bytes.extend_from_slice(body);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
    }

    /// Adds a header that does not describe a member, and the body after it.
    pub(crate) fn raw(&mut self, head: &Head, body: &[u8]) {
        self.add(head, body);
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Flips one bit in the byte `at` of the bytes written so far.
    pub(crate) fn damage(&mut self, at: usize) {
        self.bytes[at] ^= 1;
    }

    /// Adds extended records that describe the next member.
    pub(crate) fn pax(&mut self, records: &[(&str, &str)]) {
        self.records(b'x', records);
    }

    pub(crate) fn records(&mut self, kind: u8, records: &[(&str, &str)]) {
        let body = records.iter().map(|(keyword, value)| record(keyword, value.as_bytes()));
        let body = body.collect::<Vec<_>>().concat();
        self.add(&Head { kind, ..Head::new("PaxHeaders/x") }, &body);
    }

    pub(crate) fn file(&mut self, name: &str, body: &[u8]) {
        self.add(&Head::new(name), body);
    }

    pub(crate) fn directory(&mut self, name: &str) {
        self.add(&Head::directory(name), b"");
    }

    pub(crate) fn link(&mut self, name: &str, target: &str) {
        self.add(&Head::link(b'2', name, target), b"");
    }

    pub(crate) fn hard_link(&mut self, name: &str, target: &str) {
        self.add(&Head::link(b'1', name, target), b"");
    }

    pub(crate) fn end(&mut self) {
        self.append(&[0; 2 * BLOCK]);
    }
}
