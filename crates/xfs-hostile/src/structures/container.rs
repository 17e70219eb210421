//! The fuzz target for containers: disk images, physical volumes of LVM, members of a RAID.

use std::hint::black_box;
use std::sync::Arc;

use xfs_device::{Durability, MemoryDevice, Selection, SharedDevice, detect, find_filesystem};
use xfs_image::open_image;

const SECTOR: usize = 512;
const DISK_BYTES: u64 = 8 << 20;
/// The largest number of bytes of a disk that the target reads.
const MOST_BYTES: u64 = 256 << 10;
/// The parts of which the input for a VHDX image consists, one after the other. Each part has an
/// offset in the image and a length.
const VHDX_PARTS: [Part; 6] = [
    Part { at: 64 << 10, length: 128 },
    Part { at: 192 << 10, length: 128 },
    Part { at: 320 << 10, length: 256 },
    Part { at: 384 << 10, length: 64 },
    Part { at: 392 << 10, length: 64 },
    Part { at: 400 << 10, length: 8192 },
];
const VHDX_BYTES: usize = 512 << 10;

/// A part of a VHDX image: its offset in the image and its length, in bytes.
#[derive(Clone, Copy)]
struct Part {
    at: usize,
    length: usize,
}

/// Fuzzes a container, which is the input.
///
/// A disk image is opened, and its disk is read in one read and in small parts. The parts of a VHDX
/// image lie far from each other, so its input has only these parts, and their checksums are
/// recomputed. Anything else is the start of a disk, in which the target looks for a volume.
pub fn container(input: &[u8]) {
    match input.strip_prefix(b"vhdxfile") {
        Some(parts) => read_image(&spread_vhdx(parts)),
        None => read_image(input),
    }
    let disk: SharedDevice = Arc::new(MemoryDevice::new(DISK_BYTES));
    let length = input.len().min(DISK_BYTES as usize);
    drop(disk.write_at(input.get(..length).unwrap_or_default(), 0, Durability::Cached));
    for selection in [Selection::Auto, Selection::Volume("vg0/root".to_owned())] {
        match find_filesystem(Arc::clone(&disk), &selection) {
            Ok(found) => drop(black_box(found.device.read_at(&mut [0; SECTOR], 0))),
            Err(error) => drop(black_box((error.to_string(), error.hint()))),
        }
    }
}

fn read_image(bytes: &[u8]) {
    let Ok(file) = MemoryDevice::from_bytes(bytes) else { return };
    let Ok(contents) = detect(&file, 0) else { return };
    let disk = match open_image(Arc::new(file), contents, None) {
        Ok(disk) => disk,
        Err(error) => return drop(black_box(error.to_string())),
    };
    let length = disk.length_bytes().min(MOST_BYTES);
    let mut all = vec![0xaa; usize::try_from(length).unwrap_or_default()];
    let is_read = disk.read_at(&mut all, 0).is_ok();
    for (at, expected) in (0..).step_by(8 * SECTOR + 8).zip(all.chunks(8 * SECTOR + 8)) {
        let mut part = vec![0xaa; expected.len()];
        if is_read && disk.read_at(&mut part, at).is_ok() {
            assert!(part == expected, "one read gives other bytes than another");
        }
    }
    let end = disk.length_bytes().saturating_sub(SECTOR as u64);
    drop(black_box(disk.read_at(&mut [0; SECTOR], end)));
}

/// Puts the parts of a VHDX image in their places, with the right checksums.
fn spread_vhdx(parts: &[u8]) -> Vec<u8> {
    let mut image = vec![0; VHDX_BYTES];
    let mut rest = parts;
    let mut put = |at: usize, bytes: &[u8]| {
        let place = image.get_mut(at..).and_then(|image| image.get_mut(..bytes.len()));
        place.expect("the parts are in the image").copy_from_slice(bytes);
    };
    put(0, b"vhdxfile");
    for Part { at, length } in VHDX_PARTS {
        let (part, after) = rest.split_at(length.min(rest.len()));
        put(at, part);
        rest = after;
    }
    for Part { at, length } in [
        Part { at: 64 << 10, length: 4096 },
        Part { at: 192 << 10, length: 64 << 10 },
        Part { at: 400 << 10, length: 8192 },
    ] {
        let bytes = image.get_mut(at..).and_then(|image| image.get_mut(..length));
        seal(bytes.expect("the parts are in the image"));
    }
    image
}

/// Puts the CRC-32C of a structure into its bytes 4 to 8.
fn seal(bytes: &mut [u8]) {
    let place = 4..8;
    bytes.get_mut(place.clone()).expect("a structure is longer").fill(0);
    let crc = crc32c::crc32c(bytes).swap_bytes().to_be_bytes();
    bytes.get_mut(place).expect("a structure is longer").copy_from_slice(&crc);
}

/// The bytes of a container under construction. The methods write at given offsets.
struct Sketch(Vec<u8>);

impl Sketch {
    fn new(length: usize) -> Self {
        Self(vec![0; length])
    }

    fn bytes(mut self, at: usize, bytes: &[u8]) -> Self {
        self.0.splice(at..at + bytes.len(), bytes.iter().copied());
        self
    }

    /// Writes a little-endian number of 4 bytes.
    fn word(self, at: usize, value: u32) -> Self {
        self.bytes(at, &value.swap_bytes().to_be_bytes())
    }

    /// Writes a little-endian number of 8 bytes.
    fn long(self, at: usize, value: u64) -> Self {
        self.bytes(at, &value.swap_bytes().to_be_bytes())
    }
}

/// Returns one small container of each kind.
pub(super) fn inputs() -> Vec<Vec<u8>> {
    vec![qcow2(), vdi(), vmdk(), descriptor(), vhdx(), physical_volume(), mirror()]
}

/// Returns a qcow2 image of two clusters of 512 bytes: one is stored, and one is absent.
fn qcow2() -> Vec<u8> {
    let sketch = Sketch::new(2048)
        .bytes(0, b"QFI\xfb\0\0\0\x03")
        .bytes(20, &9_u32.to_be_bytes())
        .bytes(24, &1024_u64.to_be_bytes())
        .bytes(36, &1_u32.to_be_bytes())
        .bytes(40, &512_u64.to_be_bytes())
        .bytes(100, &104_u32.to_be_bytes())
        .bytes(512, &1024_u64.to_be_bytes())
        .bytes(1024, &1536_u64.to_be_bytes());
    sketch.bytes(1536, b"stored").0
}

fn vdi() -> Vec<u8> {
    let sketch = Sketch::new(1536)
        .word(64, 0xbeda_107f)
        .word(68, 0x1_0001)
        .word(76, 2)
        .word(340, 512)
        .word(344, 1024)
        .long(368, 1024)
        .word(376, 512)
        .word(384, 2)
        .word(516, u32::MAX);
    sketch.bytes(1024, b"stored").0
}

fn vmdk() -> Vec<u8> {
    let text = b"# Disk DescriptorFile\nparentCID=ffffffff\nRW 4 SPARSE \"disk\"\n";
    let sketch = Sketch::new(3072)
        .bytes(0, b"KDMV")
        .word(4, 1)
        .word(8, 3)
        .long(12, 4)
        .long(20, 1)
        .long(28, 1)
        .long(36, 1)
        .word(44, 16)
        .long(56, 2)
        .bytes(512, text)
        .word(1024, 3)
        .word(1536, 4);
    sketch.bytes(2048, b"stored").0
}

fn descriptor() -> Vec<u8> {
    let mut text = b"# Disk DescriptorFile\nparentCID=ffffffff\nRW 64 ZERO\n".to_vec();
    text.resize(1024, b'\n');
    text
}

/// Returns the parts of a VHDX image whose disk has one block. The log has one entry, which
/// overwrites a sector of the block allocation table.
fn vhdx() -> Vec<u8> {
    let id = [7; 16];
    let blocks = *b"\x66\x77\xc2\x2d\x23\xf6\x00\x42\x9d\x64\x11\x5e\x9b\xfd\x4a\x08";
    let metadata = *b"\x06\xa2\x7c\x8b\x90\x47\x9a\x4b\xb8\xfe\x57\x5f\x05\x0f\x88\x6e";
    let file = *b"\x37\x67\xa1\xca\x36\xfa\x43\x4d\xb3\xb6\x33\xf0\xaa\x44\xe7\x6b";
    let size = *b"\x24\x42\xa5\x2f\x1b\xcd\x76\x48\xb2\x11\x5d\xbe\xd8\x3b\xf4\xb8";
    let sector = *b"\x1d\xbf\x41\x81\x6f\xa9\x09\x47\xba\x47\xf2\x33\xa8\xfa\xab\x5f";
    let header = Sketch::new(128)
        .bytes(0, b"head")
        .long(8, 1)
        .bytes(48, &id)
        .bytes(66, &[1, 0])
        .word(68, 8192)
        .long(72, 400 << 10);
    let regions = Sketch::new(128)
        .bytes(0, b"regi")
        .word(8, 2)
        .bytes(16, &blocks)
        .long(32, 392 << 10)
        .word(40, 64)
        .bytes(48, &metadata)
        .long(64, 320 << 10)
        .word(72, 128 << 10);
    let mut table = Sketch::new(256).bytes(0, b"metadata").bytes(10, &[3, 0]);
    for (index, item) in [file, size, sector].into_iter().enumerate() {
        let at = 32 + index * 32;
        table =
            table.bytes(at, &item).word(at + 16, (64 << 10) + index as u32 * 16).word(at + 24, 4);
    }
    let items = Sketch::new(64).word(0, 1 << 20).long(16, 64 << 10).word(32, 512);
    let entry = Sketch::new(8192)
        .bytes(0, b"loge")
        .word(8, 8192)
        .long(16, 1)
        .word(24, 1)
        .bytes(32, &id)
        .bytes(64, b"desc")
        .long(80, 392 << 10)
        .long(88, 1)
        .bytes(4096, b"data")
        .word(4096 + 4092, 1);
    let parts = [header.0, regions.0, table.0, items.0, vec![0; 64], entry.0];
    [b"vhdxfile".to_vec(), parts.concat()].concat()
}

fn physical_volume() -> Vec<u8> {
    let text = b"vg0 {\nid = \"g\"\nseqno = 1\nextent_size = 2\nphysical_volumes {\npv0 {\n\
        id = \"0123456789abcdef0123456789abcdef\"\npe_start = 16\n}\n}\nlogical_volumes {\nroot {\n\
        status = [\"READ\", \"WRITE\", \"VISIBLE\"]\nsegment1 {\nstart_extent = 0\n\
        extent_count = 2\ntype = \"striped\"\nstripe_count = 2\nstripe_size = 1\n\
        stripes = [\n\"pv0\", 0,\n\"pv0\", 4\n]\n}\n}\n}\n}\n\0";
    let sketch = Sketch::new(9216)
        .bytes(512, b"LABELONE\x01")
        .word(532, 32)
        .bytes(536, b"LVM2 001")
        .bytes(544, b"0123456789abcdef0123456789abcdef")
        .long(584, 8192)
        .long(616, 4096)
        .long(624, 4096)
        .bytes(4100, b" LVM2 x[5A%r0N*>\x01")
        .long(4128, 4096)
        .long(4136, 512)
        .long(4144, text.len() as u64)
        .bytes(4608, text);
    sketch.bytes(8192, b"XFSB").0
}

/// Returns a member of a RAID 1 with metadata of version 1.2. The checksum of its superblock is the
/// sum of the 32-bit words.
fn mirror() -> Vec<u8> {
    let superblock = Sketch::new(512)
        .word(0, 0xa92b_4efc)
        .word(4, 1)
        .word(72, 1)
        .long(80, 8)
        .word(92, 2)
        .long(128, 16)
        .long(136, 8)
        .long(144, 8)
        .long(200, 20)
        .long(208, u64::MAX)
        .word(220, 2)
        .bytes(256, &[0, 0, 1, 0]);
    let word = |chunk: &[u8]| chunk.iter().rev().fold(0_u64, |n, byte| (n << 8) | u64::from(*byte));
    let sum: u64 = superblock.0.chunks(4).take(65).map(word).sum();
    let superblock = superblock.word(216, ((sum & 0xffff_ffff) + (sum >> 32)) as u32);
    Sketch::new(12288).bytes(4096, &superblock.0).bytes(8192, b"XFSB").0
}
