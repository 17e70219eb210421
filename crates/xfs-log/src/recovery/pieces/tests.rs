use xfs_format::FileBlock;
use xfs_testkit::golden;

use super::*;

/// Returns a geometry with directory blocks of four filesystem blocks.
fn geometry() -> Geometry {
    let mut geometry = golden().geometry();
    geometry.directory_block_log = 2;
    geometry
}

fn extent(file_block: u64, start: u64, length_blocks: u32) -> Extent {
    let (file_block, start) = (FileBlock(file_block), FsBlock(start));
    Extent { file_block, start, length_blocks, unwritten: false }
}

/// Passes `extents` to a `BlockMaps` with replayed pieces at the blocks `found`. Returns the maps
/// of directory blocks that the `BlockMaps` keeps, each as the block numbers at which its pieces
/// start.
fn kept(found: &[u64], extents: impl IntoIterator<Item = Extent>) -> Vec<Vec<u64>> {
    let geometry = geometry();
    let address = |block: u64| geometry.block_disk_addr(FsBlock(block)).unwrap();
    let piece = ReplayedPiece { length: geometry.block_size as usize, lsn: Lsn(1) };
    let found = found.iter().map(|block| (address(*block), piece)).collect();
    let mut maps = BlockMaps::new(&geometry, &found);
    for extent in extents {
        maps.add(&extent);
        assert!(maps.open.2.len() <= 4, "more pieces than a directory block has blocks");
    }
    let block = |at: &DiskAddr| at.0 / (u64::from(geometry.block_size) / 512);
    let maps = maps.into_maps().into_iter();
    maps.map(|map| map.iter().map(|(at, _)| block(at)).collect()).collect()
}

#[test]
fn block_is_composed_of_the_partial_blocks_around_whole_ones() {
    let extents = [extent(0, 10, 1), extent(1, 20, 7), extent(8, 30, 2), extent(10, 40, 2)];
    assert_eq!(kept(&[10, 40], extents), [[10, 20], [30, 40]]);
    // The second block of the directory lies in one piece.
    assert_eq!(kept(&[23], extents), Vec::<Vec<u64>>::new());
}

#[test]
fn block_without_a_replayed_piece_is_not_kept() {
    let many = || (0..20_000).flat_map(|block| [extent(block * 2, 100 + block, 2)]);
    assert_eq!(kept(&[], many()), Vec::<Vec<u64>>::new());
    assert_eq!(kept(&[105], many()), [[104, 105]]);
}

#[test]
fn overlapping_extents_make_no_block() {
    assert!(kept(&[10], (0..20_000).map(|at| extent(0, 10 + at % 5, 1))).is_empty());
    // A repeated extent makes four blocks by number though not in fact. Its checksum has to refuse
    // the block.
    let doubled = [extent(0, 10, 1), extent(1, 20, 1), extent(1, 20, 1), extent(3, 30, 1)];
    assert_eq!(kept(&[10], doubled).len(), 1);
}

#[test]
fn piece_belongs_to_one_block_only() {
    let lie =
        (0..20_000).flat_map(|block| [extent(block * 4, 10, 2), extent(block * 4 + 2, 20, 2)]);
    assert_eq!(kept(&[20], lie), [[10, 20]]);
}

#[test]
fn hole_makes_no_block() {
    assert!(kept(&[10], [extent(0, 10, 1), extent(2, 20, 2)]).is_empty());
}

#[test]
fn only_inodes_of_transactions_with_pieces_become_owners() {
    let mut pieces = DirectoryPieces::default();
    let transaction = |pieces: &mut DirectoryPieces, inode, piece: Option<u64>| {
        pieces.begin();
        pieces.note_inode(InodeNumber(inode));
        if let Some(at) = piece {
            pieces.note(DiskAddr(at), 4096, Lsn(1));
        }
        pieces.end();
    };
    transaction(&mut pieces, 128, None);
    transaction(&mut pieces, 129, Some(8));
    transaction(&mut pieces, 130, None);
    assert_eq!(pieces.owners, BTreeSet::from([InodeNumber(129)]));
}

#[test]
fn forget_removes_the_pieces_of_the_range() {
    let mut pieces = DirectoryPieces::default();
    (0..10).for_each(|at| pieces.note(DiskAddr(at * 8), 4096, Lsn(1)));
    pieces.forget(&(DiskAddr(15)..DiskAddr(40)));
    let left: Vec<_> = pieces.found.keys().map(|at| at.0).collect();
    assert_eq!(left, [0, 8, 40, 48, 56, 64, 72]);
}

/// Checks that `DirectoryPieces::forget` does not search all pieces. A log may hold many pieces and
/// equally many inode creations at other addresses. Searching all pieces for each creation would
/// take minutes.
#[test]
fn forget_costs_no_search_through_other_pieces() {
    const COUNT: u64 = 200_000;
    let mut pieces = DirectoryPieces::default();
    (0..COUNT).for_each(|at| pieces.note(DiskAddr(at * 8), 4096, Lsn(1)));
    for at in COUNT..2 * COUNT {
        pieces.forget(&(DiskAddr(at * 8)..DiskAddr(at * 8 + 8)));
    }
    assert_eq!(pieces.found.len() as u64, COUNT);
}
