//! Tests that build directories in each form, decode them again, and compare the entries.

use xfs_device::BlockDevice;
use xfs_format::directory::{
    DataBlock, DirectoryForm as DiskForm, EntryType, FreeBlock, LeafBlock, ShortForm,
};
use xfs_format::kind::VerifyContext;
use xfs_format::{BlockKind, DiskAddr, Geometry, InodeNumber, Lsn, StructureAddress, Superblock};

use super::{DirectoryForm, NewDirectory, NewEntry, build};

const PLACE: StructureAddress = StructureAddress::Inode(InodeNumber(131));

fn golden_geometry() -> Geometry {
    let mut sector = [0; 512];
    xfs_testkit::golden().read_at(&mut sector, 0).unwrap();
    Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap().geometry
}

fn entries(count: u64) -> Vec<NewEntry> {
    let entry = |number: u64| NewEntry {
        name: format!("file {number} {}", "x".repeat((number % 40) as usize)).into_bytes(),
        child: InodeNumber(200 + number),
        entry_type: EntryType::Regular,
    };
    (0..count).map(entry).collect()
}

/// Builds a directory with `count` entries, and verifies each block at a disk address of its own.
/// Checks that the data blocks have the entries in the order of the list (I2), and that a second
/// build gives the same bytes (I1). Returns the number of blocks of each kind: data, index, free
/// space.
fn check_blocks(count: u64) -> [usize; 3] {
    let geometry = golden_geometry();
    let entries = entries(count);
    let directory =
        NewDirectory { number: InodeNumber(131), parent: InodeNumber(128), entries: &entries };
    let form = build(&directory, &geometry, 336).unwrap();
    assert!(build(&directory, &geometry, 336).as_ref() == Some(&form), "two builds differ");
    let DirectoryForm::Blocks { blocks, size } = form else {
        panic!("{count} entries do not fit an inode")
    };
    let context = VerifyContext { geometry: &geometry, log_head: None };
    let (mut names, mut kinds) = (Vec::new(), [0; 3]);
    let mut indexed = 0;
    for (number, block) in blocks.into_iter().enumerate() {
        let at = DiskAddr(80_000 + number as u64 * 8);
        let (kind, file_block) = (block.kind, block.file_block);
        let bytes = block.sealed(at, Lsn(0));
        kind.verify(&bytes, at, &context).unwrap();
        match kind {
            BlockKind::DirectoryData => {
                *kinds.first_mut().unwrap() += 1;
                let start = file_block.0 << geometry.block_log;
                assert!(start < size);
                let data = DataBlock::decode(&bytes, start, PLACE, DiskForm::V5).unwrap();
                let found = data.entries().map(|entry| entry.unwrap().name.to_vec());
                names.extend(found);
            }
            BlockKind::DirectoryFree => {
                *kinds.last_mut().unwrap() += 1;
                let free = FreeBlock::decode(&bytes, PLACE).unwrap();
                let data_blocks = size / u64::from(geometry.directory_block_size());
                assert_eq!(free.best_free().len() as u64, data_blocks);
            }
            _ => {
                *kinds.get_mut(1).unwrap() += 1;
                indexed += LeafBlock::decode(&bytes, PLACE).map_or(0, |leaf| leaf.entries().len());
            }
        }
    }
    let dots = [b".".to_vec(), b"..".to_vec()];
    let expected: Vec<Vec<u8>> =
        dots.into_iter().chain(entries.into_iter().map(|entry| entry.name)).collect();
    assert_eq!(names, expected);
    assert!(kinds == [1, 0, 0] || indexed == expected.len(), "{indexed} entries are indexed");
    kinds
}

#[test]
fn few_entries_give_the_short_form() {
    let geometry = golden_geometry();
    let entries = entries(4);
    let directory =
        NewDirectory { number: InodeNumber(131), parent: InodeNumber(128), entries: &entries };
    let Some(DirectoryForm::Short(bytes)) = build(&directory, &geometry, 336) else {
        panic!("four entries fit an inode")
    };
    let form = ShortForm::decode(&bytes, PLACE, DiskForm::V5).unwrap();
    form.verify(&geometry).unwrap();
    let names: Vec<_> = form.entries().map(|entry| entry.unwrap().name).collect();
    assert_eq!(names.len(), 4);
    assert!(matches!(build(&directory, &geometry, 40), Some(DirectoryForm::Blocks { .. })));
}

#[test]
fn more_entries_give_each_larger_form() {
    assert_eq!(check_blocks(20), [1, 0, 0]);
    let [data, index, free] = check_blocks(300);
    assert!(data > 1 && index == 1 && free == 0, "leaf form: {data} {index} {free}");
    let [data, index, free] = check_blocks(6000);
    assert!(data > 20 && index > 3 && free == 1, "node form: {data} {index} {free}");
}
