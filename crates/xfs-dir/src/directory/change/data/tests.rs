//! Tests of many random changes of one data block. After each change the block's verifier checks
//! that records fill the block.

use std::collections::BTreeMap;

use xfs_format::directory::EntryType;
use xfs_format::directory::data::{DATA_HEADER, DATA_MAGIC};
use xfs_format::{BlockKind, DiskAddr, InodeNumber, Lsn, VerifyContext};
use xfs_testkit::Prng;

use super::super::NewEntry;
use super::{BestFree, BlockIdentity, entry_range, free, initialise, longest, put_entry};
use crate::edit::BlockEdit;
use crate::store::memory::geometry;

fn check_block(seed: u64, block_log: u8, steps: usize) {
    let geometry = geometry(block_log, 0);
    let context = VerifyContext { geometry: &geometry, log_head: None };
    let mut random = Prng::new(seed);
    let mut bytes = vec![0; 1 << block_log];
    let end = bytes.len();
    let identity = BlockIdentity {
        address: DiskAddr(8),
        owner: InodeNumber(131),
        uuid: geometry.meta_uuid.into_bytes(),
    };
    initialise(&mut BlockEdit::new(&mut bytes), DATA_MAGIC, &identity, end);
    let mut entries: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    for step in 0..steps {
        let grows = random.within(0..100) < if step / 200 % 2 == 0 { 70 } else { 30 };
        let mut edit = BlockEdit::new(&mut bytes);
        if grows {
            let name = vec![b'x'; random.within(1..60)];
            let room = longest(edit.bytes());
            if room.len() < super::length_of(&name) {
                continue;
            }
            let entry =
                NewEntry { name: &name, inode: InodeNumber(132), entry_type: EntryType::Regular };
            entries.insert(room.start, name.clone());
            put_entry(&mut edit, room, &entry, end);
        } else if !entries.is_empty() {
            let index = random.within(0..entries.len());
            let offset = *entries.keys().nth(index).unwrap();
            entries.remove(&offset);
            let record = entry_range(edit.bytes(), offset);
            free(&mut edit, record, end);
        }
        assert_eq!(
            BestFree::load(&bytes).records.map(|(_, length)| length),
            BestFree::scan(&bytes, end).records.map(|(_, length)| length),
            "seed {seed}, step {step}"
        );
        let mut sealed = bytes.clone();
        BlockKind::DirectoryData.seal(&mut sealed, Lsn(0));
        let verified = BlockKind::DirectoryData.verify(&sealed, DiskAddr(8), &context);
        verified.unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
    }
    for offset in entries.into_keys() {
        let mut edit = BlockEdit::new(&mut bytes);
        let record = entry_range(edit.bytes(), offset);
        free(&mut edit, record, end);
    }
    assert_eq!(longest(&bytes), DATA_HEADER..end);
}

#[test]
fn records_after_random_changes_tile_the_block() {
    for (seed, block_log) in [(1, 10), (2, 10), (3, 12), (4, 12), (5, 16)] {
        check_block(seed, block_log, 2000);
    }
}

#[test]
fn free_records_of_equal_length_keep_their_order_in_the_table() {
    let insert = |starts: [usize; 4]| {
        let mut table = BestFree::EMPTY;
        starts.iter().for_each(|start| table.insert(&(*start..*start + 16)));
        table.records
    };
    assert_eq!(insert([64, 96, 128, 160]), [(64, 16), (96, 16), (128, 16)]);
    assert_eq!(insert([160, 128, 96, 64]), [(160, 16), (128, 16), (96, 16)]);
}
