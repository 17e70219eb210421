//! Tests of the formats of metadata images. The tests build the images byte by byte; images that
//! xfs_metadump has written are read in `xfs-metadump`.

use std::sync::Arc;

use super::{MetadumpError, MetadumpVersion, open_metadump};
use crate::device::BlockDevice;
use crate::memory::MemoryDevice;

const VOLUME_BLOCKS: u64 = 256;

/// Returns the first sector of a volume of `VOLUME_BLOCKS` blocks of 512 bytes.
fn superblock() -> Vec<u8> {
    let mut sector = b"XFSB".to_vec();
    sector.extend(512_u32.to_be_bytes());
    sector.extend(VOLUME_BLOCKS.to_be_bytes());
    sector.resize(512, 0);
    sector
}

/// Returns the contents of the block at this address: the superblock for address 0; otherwise 512
/// copies of the low byte of the address.
fn block(address: u64) -> Vec<u8> {
    if address == 0 { superblock() } else { vec![address as u8; 512] }
}

/// Returns an image of version 1 with the blocks at `addresses`, and these flags in each index.
fn version_1(addresses: &[u64], flags: u8) -> Vec<u8> {
    let mut image = Vec::new();
    let mut batches: Vec<&[u64]> = addresses.chunks(63).collect();
    if addresses.len().is_multiple_of(63) {
        batches.push(&[]);
    }
    for batch in batches {
        image.extend(b"XFSM");
        image.extend((batch.len() as u16).to_be_bytes());
        image.extend([9, flags]);
        let padded = batch.iter().copied().chain(std::iter::repeat(0)).take(63);
        image.extend(padded.flat_map(u64::to_be_bytes));
        image.extend(batch.iter().flat_map(|address| block(*address)));
    }
    image
}

/// Returns an image of version 2 with these extents, each an address and a number of blocks.
/// `words` are the version, the flags and the incompatible flags in its header.
fn version_2(extents: &[(u64, u32)], words: [u32; 3]) -> Vec<u8> {
    let mut image = b"XMD2".to_vec();
    image.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    image.extend([0; 8]);
    for (address, length) in extents {
        image.extend(address.to_be_bytes());
        image.extend(length.to_be_bytes());
        image.extend((*address..*address + u64::from(*length)).flat_map(block));
    }
    image
}

fn open(image: Vec<u8>) -> Result<super::MetadumpDevice, MetadumpError> {
    open_metadump(Arc::new(MemoryDevice::from_bytes(&image).unwrap()))
}

/// Opens the image and compares each block of its volume: those in `present` with their contents,
/// and the others with zeros. Reads each block by itself, and then all blocks at once.
fn check_blocks(image: Vec<u8>, present: &[u64]) {
    let device = open(image).unwrap();
    assert_eq!(device.length_bytes(), VOLUME_BLOCKS * 512);
    let expected: Vec<u8> = (0..VOLUME_BLOCKS)
        .flat_map(|at| if present.contains(&at) { block(at) } else { vec![0; 512] })
        .collect();
    let mut all = vec![0xaa; expected.len()];
    device.read_at(&mut all, 0).unwrap();
    assert!(all == expected);
    for (at, expected) in expected.chunks(512).enumerate() {
        let mut read = vec![0xaa; 512];
        device.read_at(&mut read, at as u64 * 512).unwrap();
        assert!(read == expected, "block {at}");
    }
    let mut across = vec![0xaa; 1000];
    device.read_at(&mut across, 300).unwrap();
    assert!(across == expected.get(300..1300).unwrap());
}

#[test]
fn version_1_blocks_in_any_order_read_back() {
    for count in [1, 2, 62, 63, 64, 126, 200] {
        let addresses: Vec<u64> = (0..count).map(|index| (index * 7) % VOLUME_BLOCKS).collect();
        check_blocks(version_1(&addresses, 1), &addresses);
    }
}

#[test]
fn version_2_extents_read_back() {
    let extents = [(0, 1), (200, 56), (10, 4), (14, 2), (5, 1)];
    let present: Vec<u64> =
        extents.iter().flat_map(|(at, length)| *at..*at + u64::from(*length)).collect();
    check_blocks(version_2(&extents, [2, 0, 0]), &present);
}

#[test]
fn flags_of_both_versions_are_decoded() {
    let one = open(version_1(&[0], 1 | 2 | 8)).unwrap().header();
    assert_eq!(one.version, MetadumpVersion::One);
    assert!(one.is_obfuscated && one.has_dirty_log && !one.has_whole_blocks);
    assert_eq!((one.flags_of_version_1(), one.flags_of_version_2()), (11, 5));
    let two = open(version_2(&[(0, 1)], [2, 2, 0])).unwrap().header();
    assert!(!two.is_obfuscated && two.has_whole_blocks && two.is_described);
    let undescribed = open(version_1(&[0], 2)).unwrap().header();
    assert!(!undescribed.is_described && !undescribed.is_obfuscated);
}

#[test]
fn later_extent_replaces_bytes_of_earlier_ones() {
    let mut image = version_2(&[(0, 1), (10, 4), (20, 2)], [2, 0, 0]);
    image.extend(12_u64.to_be_bytes());
    image.extend(9_u32.to_be_bytes());
    image.extend(vec![0xee; 9 * 512]);
    let device = open(image).unwrap();
    let first_bytes = |range: std::ops::Range<u64>| {
        let mut bytes = vec![0; ((range.end - range.start) * 512) as usize];
        device.read_at(&mut bytes, range.start * 512).unwrap();
        bytes.chunks(512).map(|block| block.first().copied().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(first_bytes(10..13), [10, 11, 0xee]);
    assert_eq!(first_bytes(20..23), [0xee, 21, 0]);
}

#[test]
fn device_without_file_contents_says_so() {
    let device = open(version_1(&[0], 1)).unwrap();
    assert!(!device.holds_file_contents() && device.is_read_only());
    let window = crate::window::WindowDevice::new(Arc::new(device), 0, 1024);
    assert!(!window.holds_file_contents());
}

#[test]
fn damaged_images_are_refused_by_name() {
    let good = version_1(&(0..70).collect::<Vec<_>>(), 1);
    let refusal = |image: Vec<u8>| open(image).err().expect("the image is refused").to_string();
    let cut = |length: usize| good.get(..length).unwrap().to_vec();
    for length in [513, 1024, 512 + 63 * 512 + 2, good.len() - 1] {
        assert!(refusal(cut(length)).contains("cut off"), "{length}");
    }
    assert!(refusal(b"XF".to_vec()).contains("not a metadata image"));
    let changed = |at: usize, byte: u8| {
        let mut image = good.clone();
        *image.get_mut(at).unwrap() = byte;
        image
    };
    assert!(refusal(changed(6, 12)).contains("2^12"));
    assert!(refusal(changed(4, 1)).contains("damaged"));
    assert!(refusal(changed(8, 0xff)).contains("damaged"));
    assert!(refusal(changed(512, b'Y')).contains("does not begin with the superblock"));
    assert!(refusal(changed(64 * 512, b'Y')).contains("damaged"));
    assert!(refusal(version_2(&[(0, 1)], [3, 0, 0])).contains("version 3"));
    assert!(refusal(version_2(&[(0, 1)], [2, 0, 8])).contains("incompatible features 0x8"));
    assert!(refusal(version_2(&[(0, 1), (9, 0)], [2, 0, 0])).contains("damaged"));
    assert!(refusal(version_2(&[(0, 1), (256, 1)], [2, 0, 0])).contains("a volume of 131072"));
    assert!(refusal(version_2(&[(0, 1), (1 << 54, 1)], [2, 0, 0])).contains("an external log"));
    assert!(refusal(version_2(&[(0, 1), (2 << 54, 1)], [2, 0, 0])).contains("a realtime device"));
    assert!(refusal(version_2(&[], [2, 0, 0])).contains("does not begin with the superblock"));
}
