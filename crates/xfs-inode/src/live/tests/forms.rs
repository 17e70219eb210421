//! Conversions between the forms of a fork, and moves of the attribute fork.

use xfs_buffer::{Buffer, Error, Result};
use xfs_format::extent::Extent;
use xfs_format::inode::{FileType, ForkFormat, ForkKind};
use xfs_format::reservation::TransactionKind;
use xfs_format::superblock::Unsupported;
use xfs_format::{BlockKind, FileBlock};
use xfs_trans::Transaction;

use super::volume::{Volume, now};
use crate::edit::BlockRange;
use crate::fork_block::BlockShape;
use crate::live::with_transaction::with_transaction;
use crate::live::{LiveInode, MapRequest, image_of, view_of_image};

fn map(volume: &Volume, live: &LiveInode, at: u64, length: u64) -> Extent {
    let blocks = length + LiveInode::grow_blocks(volume.journal.geometry(), ForkKind::Data, 1);
    let range = BlockRange { start: FileBlock(at), length_blocks: length };
    let request = MapRequest { fork: ForkKind::Data, range, unwritten: true };
    with_transaction(&volume.journal, TransactionKind::Write, blocks, |tx| live.map(tx, &request))
        .unwrap()
}

#[test]
fn extent_list_becomes_a_btree_and_a_list_again() {
    let geometries =
        ["-b size=1024 -l size=16m", "-l size=16m", "-i size=2048 -l size=16m", "-b size=65536"];
    for options in geometries {
        let volume = Volume::new(options);
        let live = volume.file();
        for index in 0..700 {
            map(&volume, &live, 2 * (index * 337 % 700), 1);
        }
        assert_eq!(live.inode().core().data_format, ForkFormat::Btree);
        assert_eq!(live.inode().core().extents, 700);
        // More extents than fit an inode of 2 KiB, then fewer than fit one of 512 bytes.
        for kept in [150, 20] {
            let rest = BlockRange { start: FileBlock(2 * kept), length_blocks: 10_000 };
            live.free_range(&volume.journal, rest).unwrap();
            assert_eq!(live.inode().core().extents, kept);
        }
        let all = BlockRange { start: FileBlock(40), length_blocks: 10_000 };
        live.free_range(&volume.journal, all).unwrap();
        assert_eq!(live.inode().core().data_format, ForkFormat::Extents);
        assert_eq!(live.inode().core().extents, 20);
        let all = BlockRange { start: FileBlock(0), length_blocks: 10_000 };
        live.free_range(&volume.journal, all).unwrap();
        assert_eq!(live.inode().core().blocks, 0);
        volume.unmount();
    }
}

#[test]
fn inode_with_a_btree_of_metadata_is_not_loaded_for_writing() {
    let volume = Volume::new("-l size=16m");
    let live = volume.file();
    let geometry = volume.journal.geometry();
    let image = |format: ForkFormat| {
        let mut image = image_of(&live.inode());
        image.core.data_format = format;
        view_of_image(image, geometry).map(|_| ())
    };
    image(ForkFormat::Extents).unwrap();
    let refused = image(ForkFormat::MetadataBtree);
    assert!(matches!(refused, Err(Error::Unsupported(Unsupported::MetadirWrite))), "{refused:?}");
}

#[test]
fn attributes_in_the_inode_move_data_out() {
    let volume = Volume::new("-l size=16m");
    let geometry = volume.journal.geometry().clone();
    for extents in [0_u64, 5, 15, 20, 60, 3000] {
        let live = volume.file();
        for index in 0..extents {
            map(&volume, &live, 2 * index, 1);
        }
        let blocks = LiveInode::grow_blocks(&geometry, ForkKind::Data, 4);
        with_transaction(&volume.journal, TransactionKind::AddAttrFork, blocks, |tx| {
            live.add_attr_fork(tx, 60)
        })
        .unwrap();
        let room = live.local_room(&geometry, ForkKind::Attr);
        assert!(room >= 60, "{extents}: {room}");
        with_transaction(&volume.journal, TransactionKind::SetAttr, blocks, |tx| {
            live.set_local(tx, ForkKind::Attr, &vec![7; room])
        })
        .unwrap();
        assert_eq!(live.inode().core().attr_format, ForkFormat::Local);
        assert_eq!(live.inode().core().extents, extents);
        map(&volume, &live, 2 * extents, 1);
        with_transaction(&volume.journal, TransactionKind::SetAttr, blocks, |tx| {
            live.set_empty_extents(tx, ForkKind::Attr)?;
            live.remove_attr_fork(tx)
        })
        .unwrap();
        let is_btree = live.inode().core().data_format == ForkFormat::Btree;
        assert_eq!(live.inode().core().has_attr_fork(), is_btree);
    }
    volume.unmount();
}

#[test]
fn metadata_blocks_are_allocated_and_freed() {
    let volume = Volume::new("-b size=1024 -n size=8192 -l size=16m");
    let live = volume.create(FileType::Directory.mode_bits() | 0o755, true);
    let shape = BlockShape { length_blocks: 8, kind: BlockKind::DirectoryData };
    let blocks = LiveInode::grow_blocks(volume.journal.geometry(), ForkKind::Data, 8);
    for at in [0, 16, 8] {
        with_transaction(&volume.journal, TransactionKind::MakeDirectory, blocks, |tx| {
            tx.join(live.log_item());
            let buffer = live.grow_fork(tx, ForkKind::Data, FileBlock(at), shape)?;
            assert_eq!(buffer.length_bytes(), 8192);
            let free = live.first_unused(tx, ForkKind::Data, FileBlock(0), 8)?;
            assert_eq!(free, FileBlock([8, 8, 24][at as usize % 16 / 8 + usize::from(at == 8)]));
            let last = live.last_before(tx, ForkKind::Data, FileBlock(1 << 20))?;
            assert_eq!(last, FileBlock(if at == 0 { 8 } else { 24 }));
            live.shrink_fork(tx, ForkKind::Data, FileBlock(at), &buffer)?;
            live.map_run(tx, ForkKind::Data, FileBlock(at), 8).map(|_| ())
        })
        .unwrap();
    }
    volume.unmount();
}

/// Frees a directory block and maps its file block to another disk block.
///
/// Checks I1 of `xfs_inode::live::recent_buffers`: the remembered buffer is forgotten with the
/// change of the extent map.
#[test]
fn remembered_block_is_looked_up_again_after_it_has_moved() {
    let volume = Volume::new("-l size=16m");
    let live = volume.create(FileType::Directory.mode_bits() | 0o755, true);
    let shape = BlockShape { length_blocks: 1, kind: BlockKind::DirectoryData };
    let blocks = 3 * LiveInode::grow_blocks(volume.journal.geometry(), ForkKind::Data, 1);
    let run = |act: &mut dyn FnMut(&mut Transaction<'_>) -> Result<Buffer>| {
        with_transaction(&volume.journal, TransactionKind::MakeDirectory, blocks, |tx| {
            tx.join(live.log_item());
            act(tx)
        })
        .unwrap()
    };
    let first = FileBlock(0);
    let read = || run(&mut |tx| live.fork_block(tx, ForkKind::Data, first, shape));
    let hits = || volume.journal.cache().statistics().hits;
    let grow = |at: u64| {
        run(&mut |tx| {
            let buffer = live.grow_fork(tx, ForkKind::Data, FileBlock(at), shape)?;
            tx.change(&buffer, 0..1, |bytes| bytes.fill(1));
            Ok(buffer)
        })
    };
    let made = grow(0);
    assert_eq!(read(), made);
    let before = hits();
    assert_eq!((read(), hits()), (made.clone(), before), "it is known");
    // The block is freed, and its disk block is allocated again for another one before it returns.
    run(&mut |tx| {
        let buffer = live.fork_block(tx, ForkKind::Data, first, shape)?;
        live.shrink_fork(tx, ForkKind::Data, first, &buffer)?;
        Ok(buffer)
    });
    assert!(live.recent.find(first).is_none(), "it is forgotten with the change of the map");
    volume.journal.force_all().unwrap();
    assert_eq!(grow(1).at(), made.at());
    let moved = grow(0);
    assert_ne!(moved.at(), made.at());
    // The blocks hold no directory: the volume is not unmounted, which would write them.
    assert_eq!(read(), moved);
}

#[test]
fn link_targets_of_every_length_are_read_back() {
    for options in ["-b size=1024 -l size=16m", "-l size=16m"] {
        let volume = Volume::new(options);
        let mut links = Vec::new();
        for length in [1, 100, 336, 337, 900, 968, 969, 1023, 1024] {
            let live = volume.create(FileType::Symlink.mode_bits() | 0o777, false);
            let target: Vec<u8> = (0..length).map(|index| b'a' + (index % 26) as u8).collect();
            let blocks = LiveInode::target_blocks(volume.journal.geometry(), length);
            with_transaction(&volume.journal, TransactionKind::Symlink, blocks, |tx| {
                live.set_target(tx, &target)
            })
            .unwrap();
            assert_eq!(live.inode().read_target(volume.journal.cache()).unwrap(), target);
            links.push((live, target));
        }
        for (live, _) in links.iter().skip(4) {
            live.inactivate(&volume.journal).unwrap();
        }
        let numbers: Vec<_> =
            links.into_iter().take(4).map(|(live, target)| (live.number(), target)).collect();
        let (_, cache) = volume.unmount();
        for (number, target) in numbers {
            let inode = crate::Inode::read(&cache, number).unwrap();
            assert_eq!(inode.read_target(&cache).unwrap(), target);
        }
    }
}

#[test]
fn long_link_target_moves_out_for_attributes() {
    let volume = Volume::new("-l size=16m");
    let geometry = volume.journal.geometry().clone();
    for length in [100, 200, 330] {
        let live = volume.create(FileType::Symlink.mode_bits() | 0o777, false);
        let target = vec![b't'; length];
        let blocks = LiveInode::target_blocks(&geometry, length) + 10;
        with_transaction(&volume.journal, TransactionKind::Symlink, blocks, |tx| {
            live.set_target(tx, &target)
        })
        .unwrap();
        with_transaction(&volume.journal, TransactionKind::AddAttrFork, blocks, |tx| {
            live.add_attr_fork(tx, 200)?;
            live.set_local(tx, ForkKind::Attr, &[5; 140])
        })
        .unwrap();
        assert_eq!(live.inode().core().extents, u64::from(length > 192));
        assert_eq!(live.inode().read_target(volume.journal.cache()).unwrap(), target);
    }
    volume.unmount();
}

#[test]
fn write_past_the_end_leaves_a_hole() {
    let volume = Volume::new("-l size=16m");
    let live = volume.file();
    live.write_at(&volume.journal, 100_000, b"end", now()).unwrap();
    assert_eq!(live.inode().core().size, 100_003);
    assert_eq!(live.inode().core().blocks, 1);
    volume.unmount();
}
