//! Tests that damage hides only the damaged part of a volume.

use std::sync::Arc;

use ferroxfs::admin::Staleness;
use ferroxfs::contents::ForkKind;
use ferroxfs::error::DiskAddr;
use ferroxfs::raw::format::BlockKind;
use ferroxfs::{Error, OpenOptions, Volume};
use xfs_testkit::{Image, golden};

use super::{open, volume};

/// Returns the disk address of block `index` among the data blocks of a directory.
fn directory_block(volume: &Volume, path: &str, index: usize) -> DiskAddr {
    let node = volume.lookup(path).unwrap();
    let mut blocks = node.extents(ForkKind::Data).map(Result::unwrap).flat_map(|extent| {
        let block = u64::from(volume.geometry().block_size);
        (0..extent.length_bytes / block)
            .map(move |i| DiskAddr((extent.device_offset_bytes + i * block) / 512))
    });
    blocks.nth(index).unwrap()
}

fn spoil(image: &mut Image, at: DiskAddr) {
    image.replace(at, &[0x5a; 512]);
}

/// Checks I3 of the crate: a damaged block of a directory is one error of the listing, which
/// continues with the next block.
#[test]
fn damaged_directory_block_is_one_error_of_the_listing() {
    let mut image = golden();
    spoil(&mut image, directory_block(&volume(), "/node", 3));
    let volume = open(image);
    let (good, bad): (Vec<_>, Vec<_>) = volume.read_dir("/node").unwrap().partition(Result::is_ok);
    assert_eq!(bad.len(), 1);
    assert!(matches!(bad[0], Err(Error::Corrupt(_))));
    assert!(good.len() > 700 && good.len() < 800, "{}", good.len());
}

/// Checks I3 of `ferroxfs::walk`: an error is an item of the walk, and the walk continues after it.
#[test]
fn walk_continues_after_an_unreadable_inode() {
    let mut image = golden();
    let whole = volume();
    let victim = whole.lookup("/deep/1/2").unwrap().number();
    let place = whole.geometry().inode_location(victim).unwrap();
    let sectors = u64::from(place.offset_bytes / 512);
    spoil(&mut image, DiskAddr(place.cluster.0 + sectors));
    let volume = open(image);
    let (good, bad): (Vec<_>, Vec<_>) = volume.walk("/").unwrap().partition(Result::is_ok);
    assert_eq!(bad.len(), 1);
    let lost = 7;
    assert_eq!(good.len() + lost, whole.walk("/").unwrap().count());
}

/// Checks I1 of `ferroxfs::walk`: in a volume where a directory is its own descendant, a walk
/// reports one error and ends.
#[test]
fn cycle_of_directories_ends_a_walk() {
    // The last directory of the chain is empty. The entry for it now leads to the top.
    let whole = volume();
    let (top, low) = (whole.lookup("/deep").unwrap(), whole.lookup("/deep/1/2/3").unwrap());
    let victim = whole.lookup("/deep/1/2/3/4").unwrap();
    let mut image = golden();
    let place = whole.geometry().inode_location(low.number()).unwrap();
    let (start, length) = (place.offset_bytes as usize, place.cluster_bytes as usize);
    let old = u32::try_from(victim.number().0).unwrap().to_be_bytes();
    let new = u32::try_from(top.number().0).unwrap().to_be_bytes();
    image.edit(place.cluster, length, BlockKind::InodeCluster, |cluster| {
        let inode = &mut cluster[start..start + 512];
        let at = (176..508).find(|at| inode[*at..at + 4] == old).unwrap();
        inode[at..at + 4].copy_from_slice(&new);
    });
    let volume = open(image);
    let errors: Vec<_> = volume.walk("/").unwrap().filter_map(Result::err).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].source.to_string().contains("its own ancestor"), "{}", errors[0]);
}

#[test]
fn truncated_image_shows_its_remaining_files() {
    let image = golden();
    let half = Arc::new(Image::new(image.bytes(DiskAddr(0), image.length_bytes() / 2).unwrap()));
    // The log is in the missing half, so its state is unknown.
    let devices = OpenOptions::new().with_devices(Arc::<Image>::clone(&half) as _, None);
    let volume = devices.open().unwrap();
    assert_eq!(volume.staleness(), Some(Staleness::LogNotRecovered));
    assert_eq!(volume.findings().len(), 2, "{:?}", volume.findings());
    assert!(volume.root().is_ok());
    let options = OpenOptions::new().no_recovery(true);
    let volume = options.open_device(half).unwrap();
    assert_eq!(volume.staleness(), Some(Staleness::LogNotRecovered));
    let (good, bad): (Vec<_>, Vec<_>) = volume.walk("/").unwrap().partition(Result::is_ok);
    assert!(!good.is_empty() && !bad.is_empty());
    for error in bad.into_iter().filter_map(Result::err) {
        assert!(matches!(error.source, Error::Io(_)), "{error}");
    }
}
