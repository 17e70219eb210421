//! The fuzz target for partition tables.

use std::hint::black_box;

use xfs_device::{BlockDevice, Durability, MemoryDevice, partitions};

const SECTOR: usize = 512;
const DISK_BYTES: u64 = 1 << 20;

/// Fuzzes the first and the last sectors of a partitioned disk, which are the two halves of the
/// input.
///
/// The first half is the MBR, a GPT header and its entries. The second half ends with the backup
/// GPT header. The target reads the sectors as they are, and again with the checksums of both
/// headers recomputed.
pub fn partition_table(input: &[u8]) {
    let (head, tail) = input.split_at(input.len() / 2);
    look(head, tail);
    let (mut head, mut tail) = (head.to_vec(), tail.to_vec());
    reseal(&mut head, SECTOR, 2 * SECTOR);
    let end = tail.len();
    reseal(&mut tail, end.saturating_sub(SECTOR), end.saturating_sub(2 * SECTOR));
    look(&head, &tail);
}

fn look(head: &[u8], tail: &[u8]) {
    let disk = MemoryDevice::new(DISK_BYTES);
    let write = |offset, bytes: &[u8]| drop(disk.write_at(bytes, offset, Durability::Cached));
    write(0, head);
    write(DISK_BYTES.saturating_sub(tail.len() as u64), tail);
    black_box(format!("{:?}", partitions(&disk)));
}

/// Recomputes the checksums of the GPT header at offset `header`, whose entries are at offset
/// `entries`.
fn reseal(bytes: &mut [u8], header: usize, entries: usize) {
    let field = |bytes: &[u8], offset: usize| {
        let field = bytes.get(header..)?.get(offset..offset + 4)?;
        Some(u32::from_be_bytes(field.try_into().ok()?).swap_bytes() as usize)
    };
    let set = |bytes: &mut [u8], offset: usize, value: u32| {
        let field = bytes.get_mut(header..).and_then(|bytes| bytes.get_mut(offset..offset + 4));
        field.into_iter().for_each(|field| {
            field.copy_from_slice(&value.swap_bytes().to_be_bytes());
        });
    };
    let length = field(bytes, COUNT).and_then(|count| count.checked_mul(field(bytes, ENTRY_SIZE)?));
    let listed = length.and_then(|length| bytes.get(entries..)?.get(..length));
    let crc = listed.map_or(0, crc32fast::hash);
    set(bytes, ENTRIES_CRC, crc);
    set(bytes, HEADER_CRC, 0);
    let size = field(bytes, HEADER_SIZE).unwrap_or_default();
    let crc = bytes.get(header..).and_then(|bytes| bytes.get(..size)).map_or(0, crc32fast::hash);
    set(bytes, HEADER_CRC, crc);
}

/// Offset of the header's size in a GPT header. The next constants are the offsets of other fields.
/// Integers in the header are little-endian.
const HEADER_SIZE: usize = 12;
const HEADER_CRC: usize = 16;
const COUNT: usize = 80;
const ENTRY_SIZE: usize = 84;
const ENTRIES_CRC: usize = 88;

/// Returns inputs for disks with one partition: one with an MBR table, and one with a GPT.
pub(super) fn inputs() -> Vec<Vec<u8>> {
    let last = DISK_BYTES / SECTOR as u64 - 1;
    let mut mbr = vec![0; SECTOR];
    // One partition of type Linux, and the signature.
    let entry = [&[0_u8, 0, 2, 0, 0x83, 0, 0, 0][..], &[8, 0, 0, 0, 0, 4, 0, 0]].concat();
    mbr.splice(446..462, entry);
    mbr.splice(510..512, [0x55, 0xaa]);
    let mut protective = mbr.clone();
    protective.splice(450..451, [0xee]);
    let mut entries = vec![0; SECTOR];
    let one = [number(0x1122), number(0x3344), number(0x5566), number(0x7788)].concat();
    entries.splice(0..48, [one, number(8), number(1000)].concat());
    let head = [protective, header(1, last, 2), entries.clone()].concat();
    let tail = [vec![0; SECTOR], entries, header(last, 1, last - 1)].concat();
    let mut gpt = [head, tail].concat();
    let half = gpt.len() / 2;
    reseal(gpt.get_mut(..half).unwrap_or_default(), SECTOR, 2 * SECTOR);
    reseal(gpt.get_mut(half..).unwrap_or_default(), 2 * SECTOR, SECTOR);
    vec![[mbr, vec![0; SECTOR]].concat(), gpt]
}

/// Encodes an integer in eight bytes, little-endian as in a GPT.
fn number(value: u64) -> Vec<u8> {
    value.swap_bytes().to_be_bytes().to_vec()
}

/// Encodes a GPT header at sector `own`, with its copy at sector `other` and four entries from
/// sector `entries` on.
fn header(own: u64, other: u64, entries: u64) -> Vec<u8> {
    let mut bytes = b"EFI PART\0\0\x01\0\x5c\0\0\0".to_vec();
    bytes.resize(24, 0);
    let usable = [number(own), number(other), number(4), number(2000)].concat();
    bytes.extend(usable);
    bytes.extend([0x77; 16]);
    bytes.extend(number(entries));
    bytes.extend([4, 0, 0, 0, 128, 0, 0, 0]);
    bytes.resize(SECTOR, 0);
    bytes
}

#[cfg(test)]
mod tests;
