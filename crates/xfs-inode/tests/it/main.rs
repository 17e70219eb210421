//! Tests that read every inode of the golden image (a volume that is stored with the tests). They
//! find the inodes through the inode btrees.

use std::sync::Arc;

use xfs_alloc::inode_chunks;
use xfs_buffer::{BufferCache, Error, PosixError};
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::{BlockKind, FileBlock, InodeNumber};
use xfs_inode::{Fork, Inode, Mapping};
use xfs_testkit::{Image, golden};

fn cache_of(image: Image) -> BufferCache {
    let geometry = Arc::new(image.geometry());
    BufferCache::new(Arc::new(image), geometry, 1 << 20)
}

/// Returns all inode numbers of the chunks in the inode btrees, each with whether the inode is in
/// use.
fn numbers(cache: &BufferCache) -> Vec<(InodeNumber, bool)> {
    let geometry = cache.geometry();
    let mut numbers = Vec::new();
    for group in geometry.groups() {
        for chunk in inode_chunks(cache, group).expect("the headers are valid") {
            let chunk = chunk.expect("the btree is valid");
            for index in (0..64).filter(|index| chunk.present() >> index & 1 != 0) {
                let inode = chunk.start.checked_add(index).expect("a chunk does not wrap");
                let is_used = chunk.allocated() >> index & 1 != 0;
                numbers.push((geometry.join_inode(group, inode), is_used));
            }
        }
    }
    numbers
}

/// Returns all inodes in use that are of the type `file_type`.
fn inodes(cache: &BufferCache, file_type: FileType) -> Vec<Inode> {
    let used = numbers(cache).into_iter().filter(|(_, is_used)| *is_used);
    let inodes = used.map(|(number, _)| Inode::read(cache, number).expect("used inodes are valid"));
    inodes.filter(|inode| inode.file_type() == file_type).collect()
}

fn is_not_found<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Posix(PosixError::NotFound)))
}

/// Checks I1 of `xfs_inode`: an `Inode` was verified, and is not free. Reads every inode of the
/// golden image: each used one is read, and each free one is reported as not found.
#[test]
fn used_inodes_are_read_and_free_inodes_are_not_found() {
    let cache = cache_of(golden());
    let numbers = numbers(&cache);
    assert!(numbers.iter().filter(|(_, is_used)| *is_used).count() > 500);
    assert!(numbers.iter().filter(|(_, is_used)| !is_used).count() > 20);
    for (number, is_used) in numbers {
        for found in [Inode::read(&cache, number), Inode::read_untrusted(&cache, number)] {
            assert_eq!(found.is_ok(), is_used, "{number}");
            assert!(is_used || is_not_found(found), "{number}");
        }
    }
}

/// Checks I2 of `xfs_inode`: the extents that an extent map lists are in file order, and a lookup
/// finds each one.
#[test]
fn every_extent_is_listed_and_found() {
    let cache = cache_of(golden());
    let mut levels = 0;
    for (number, _) in numbers(&cache).into_iter().filter(|(_, is_used)| *is_used) {
        let inode = Inode::read(&cache, number).unwrap();
        for kind in [ForkKind::Data, ForkKind::Attr] {
            let extents: Vec<_> = inode.extents(&cache, kind).collect::<Result<_, _>>().unwrap();
            assert_eq!(extents.len() as u64, inode.core().fork_extents(kind), "{number}");
            for extent in &extents {
                let found = inode.find(&cache, kind, extent.file_block).unwrap();
                assert_eq!(found, Mapping::Extent(*extent));
            }
            if let Fork::Btree(btree) = inode.fork(kind) {
                let root = xfs_format::extent::ExtentRoot::decode(btree.root()).unwrap();
                levels = levels.max(root.level());
            }
        }
    }
    assert_eq!(levels, 2, "the image holds a tree of two levels");
}

#[test]
fn link_targets_in_and_outside_the_inode_are_read() {
    let cache = cache_of(golden());
    let links = inodes(&cache, FileType::Symlink);
    let targets = links.iter().map(|inode| inode.read_target(&cache).unwrap());
    let mut lengths: Vec<_> = targets.map(|target| target.len()).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [6, 1000]);
}

#[test]
fn bytes_of_a_file_equal_its_blocks() {
    let cache = cache_of(golden());
    for inode in inodes(&cache, FileType::Regular) {
        let map = inode.extent_map(&cache, ForkKind::Data).unwrap();
        for extent in map.iter() {
            let offset = cache.geometry().blocks_to_bytes(extent.file_block.0).unwrap();
            let end = inode.core().size.min(offset + 1024);
            let mut read = vec![0xff; usize::try_from(end.saturating_sub(offset)).unwrap()];
            inode.read_at(&cache, offset, &mut read).unwrap();
            let at = cache.geometry().block_disk_addr(extent.start).unwrap();
            let block = cache.read(at, 1024, BlockKind::InodeCluster).unwrap();
            let expected = if extent.unwritten {
                vec![0; read.len()]
            } else {
                block.bytes()[..read.len()].to_vec()
            };
            assert_eq!(read, expected, "{} at {offset}", inode.number());
        }
    }
}

#[test]
fn old_generation_is_stale() {
    let cache = cache_of(golden());
    let numbers = numbers(&cache);
    let (used, _) = numbers.iter().find(|(_, is_used)| *is_used).unwrap();
    let (free, _) = numbers.iter().find(|(_, is_used)| !is_used).unwrap();
    let generation = Inode::read(&cache, *used).unwrap().core().generation;
    Inode::read_generation(&cache, *used, generation).unwrap();
    for (number, generation) in [(used, generation ^ 1), (free, 0)] {
        let found = Inode::read_generation(&cache, *number, generation);
        assert!(matches!(found, Err(Error::Posix(PosixError::Stale))));
    }
}

#[test]
fn file_bytes_that_look_like_an_inode_are_not_found() {
    let mut image = golden();
    let cache = cache_of(image.clone());
    let geometry = cache.geometry();
    let (source, _) = numbers(&cache).into_iter().find(|(_, is_used)| *is_used).unwrap();
    let file = inodes(&cache, FileType::Regular).into_iter().find(|inode| {
        matches!(inode.find(&cache, ForkKind::Data, FileBlock(0)), Ok(Mapping::Extent(_)))
    });
    let Ok(Mapping::Extent(extent)) = file.unwrap().find(&cache, ForkKind::Data, FileBlock(0))
    else {
        panic!("the file has a first block");
    };
    // The number of an inode at the start of the file's first block.
    let (group, block) = geometry.split_block(extent.start).unwrap();
    let forged = geometry.join_inode(group, (block.0 << geometry.inodes_per_block_log).into());
    let place = geometry.inode_location(source).unwrap();
    let cluster = image.bytes(place.cluster, place.cluster_bytes as usize).unwrap();
    let record = &cluster[place.offset_bytes as usize..][..512];
    let at = geometry.block_disk_addr(extent.start).unwrap();
    image.edit(at, 512, BlockKind::InodeCluster, |bytes| {
        bytes.copy_from_slice(record);
        bytes[152..160].copy_from_slice(&forged.0.to_be_bytes());
    });
    let cache = cache_of(image);
    assert_eq!(Inode::read(&cache, forged).unwrap().number(), forged);
    assert!(is_not_found(Inode::read_untrusted(&cache, forged)));
}
