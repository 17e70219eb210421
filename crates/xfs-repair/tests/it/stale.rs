//! Tests of lost writes: an inode or a block has an older state, with a right checksum.

use xfs_format::attr::{AttrEntry, AttrValue, Namespace, short_form};
use xfs_format::inode::{ForkFormat, ForkKind, InodeCore};
use xfs_format::parent::ParentDisk;
use xfs_format::{InodeNumber, Lsn};
use zerocopy::IntoBytes;

use crate::trial::Trial;

/// Gives the file `short/a`, which has 261 names, the state that it had with its first name only:
/// one link, and one parent pointer in the inode.
fn make_older(trial: &Trial, lsn: impl FnOnce(Lsn) -> Lsn) -> InodeNumber {
    let geometry = &trial.volume.geometry;
    let (file, directory) = (trial.inode("/short/a"), trial.inode("/short"));
    let blocks = trial.extents(file, ForkKind::Attr);
    let blocks: u64 = blocks.iter().map(|extent| u64::from(extent.length_blocks)).sum();
    let place = trial.inode_place(directory);
    let bytes = trial.volume.bytes(place, geometry.inode_size as usize);
    let parent = InodeCore::decode(&bytes, directory, geometry).expect("the image can be read");
    let pointer = ParentDisk { inode: directory.0.into(), generation: parent.generation.into() };
    let value = AttrValue::Local(pointer.as_bytes());
    let entry = AttrEntry { namespace: Namespace::Parent, name: b"a", value };
    let form = short_form::encode(&[entry]).expect("the pointer is short");

    let at = trial.inode_place(file);
    let mut bytes = trial.volume.bytes(at, geometry.inode_size as usize);
    let mut core = InodeCore::decode(&bytes, file, geometry).expect("the image can be read");
    core.nlink = 1;
    core.attr_format = ForkFormat::Local;
    core.attr_extents = 0;
    core.blocks -= blocks;
    core.lsn = lsn(core.lsn);
    let disk = core.encode(geometry).expect("the image can be read");
    bytes[..disk.as_bytes().len()].copy_from_slice(disk.as_bytes());
    let start = 176 + usize::from(core.fork_offset) * 8;
    bytes[start..].fill(0);
    bytes[start..start + form.len()].copy_from_slice(&form);
    xfs_format::inode::seal(&mut bytes, core.lsn);
    trial.volume.put(at, &bytes);
    file
}

#[test]
fn inode_of_an_older_state_keeps_all_names() {
    for lsn in [0, 1] {
        let trial = Trial::new();
        make_older(&trial, |_| Lsn(lsn));
        let repaired = trial.assert_whole();
        assert!(repaired.rules().contains(&"links"), "{:?}", repaired.rules());
    }
}

/// Gives an inode the state from before its last extent was allocated. The repair must add the
/// extent again, because the reverse map and the free space show that it belongs to the file.
#[test]
fn inode_of_an_older_state_gets_its_last_extent_again() {
    let trial = Trial::new();
    let file = trial.inode("/files/unwritten");
    let before = trial.extents(file, ForkKind::Data);
    let last = before.last().expect("the file has extents");
    trial.edit_core(file, |core| {
        core.extents -= 1;
        core.blocks -= u64::from(last.length_blocks);
        core.size = last.file_block.0 << trial.volume.geometry.block_log;
    });
    let repaired = trial.assert_whole();
    assert_eq!(trial.volume.extents_of(&*repaired.device, file), before);
}
