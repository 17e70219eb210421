//! The fuzz target for metadata images.

use std::hint::black_box;
use std::sync::Arc;

use xfs_device::{BlockDevice, MemoryDevice, open_metadump};

const SECTOR: usize = 512;
const VOLUME_BLOCKS: u64 = 256;
/// The largest number of bytes of the volume that the target reads.
const MOST_BYTES: u64 = 1 << 20;

/// Fuzzes a metadata image, which is the input. The target opens the image as a device, and reads
/// the start of the volume twice: in one read, and in small parts.
pub fn metadump(input: &[u8]) {
    let Ok(image) = MemoryDevice::from_bytes(input) else { return };
    let Ok(device) = open_metadump(Arc::new(image)) else { return };
    let length = device.length_bytes().min(MOST_BYTES);
    let mut all = vec![0xaa; usize::try_from(length).unwrap_or_default()];
    drop(black_box(device.read_at(&mut all, 0)));
    for (at, expected) in (0..).step_by(SECTOR + 8).zip(all.chunks(SECTOR + 8)) {
        let mut part = vec![0xaa; expected.len()];
        if device.read_at(&mut part, at).is_ok() {
            assert!(part == expected, "one read gives other bytes than another");
        }
    }
}

/// Returns one metadata image for each version of the format. Each image contains a superblock, and
/// two adjacent blocks.
pub(super) fn inputs() -> Vec<Vec<u8>> {
    let mut superblock = b"XFSB".to_vec();
    superblock.extend(512_u32.to_be_bytes());
    superblock.extend(VOLUME_BLOCKS.to_be_bytes());
    superblock.resize(SECTOR, 0);
    let mut one = b"XFSM\0\x03\x09\x01".to_vec();
    one.extend([0, 8, 9].iter().flat_map(|at: &u64| at.to_be_bytes()));
    one.resize(SECTOR, 0);
    one.extend(&superblock);
    one.extend([0x11; 2 * SECTOR]);
    let mut two = b"XMD2\0\0\0\x02".to_vec();
    two.resize(24, 0);
    let extents = [(0_u64, superblock), (8, vec![0x22; 2 * SECTOR]), (9, vec![0x33; SECTOR])];
    for (at, bytes) in extents {
        two.extend(at.to_be_bytes());
        two.extend(((bytes.len() / SECTOR) as u32).to_be_bytes());
        two.extend(bytes);
    }
    vec![one, two]
}
