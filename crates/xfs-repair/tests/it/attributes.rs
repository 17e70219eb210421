//! Tests of damage to single entries of attribute forks, in short form and in leaves. The damage
//! must cost no other attribute, and each lost attribute must be a loss of the plan.

use xfs_format::attr::AttrLeaf;
use xfs_format::attr::leaf::{AttrLeafEntryDisk, AttrLeafHeaderDisk, LEAF_MAGIC};
use xfs_format::inode::{ForkKind, InodeCore};
use xfs_format::{BlockKind, DiskAddr, FileBlock, InodeNumber, StructureAddress};

use crate::trial::{Shape, Trial};

/// Length of the part of an inode that precedes its forks, in bytes.
const CORE_BYTES: usize = 176;
/// Length of the header of an attribute fork in short form, in bytes.
const HEADER_BYTES: usize = 4;
/// Length of the part of a short-form record that precedes the name, in bytes.
const HEAD_BYTES: usize = 3;

/// Changes the attribute fork in short form of an inode and recomputes the checksum.
fn edit_short_form(trial: &Trial, inode: InodeNumber, change: impl FnOnce(&mut [u8])) {
    let geometry = &trial.volume.geometry;
    let at = trial.inode_place(inode);
    let mut bytes = trial.volume.bytes(at, geometry.inode_size as usize);
    let core = InodeCore::decode(&bytes, inode, geometry).expect("the image can be read");
    let start = CORE_BYTES + usize::from(core.fork_offset) * 8;
    change(&mut bytes[start..]);
    xfs_format::inode::seal(&mut bytes, core.lsn);
    trial.volume.put(at, &bytes);
}

/// Returns the offset in the fork of each record of a short form.
fn records(form: &[u8]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut at = HEADER_BYTES;
    for _ in 0..form[2] {
        starts.push(at);
        at += HEAD_BYTES + usize::from(form[at]) + usize::from(form[at + 1]);
    }
    starts
}

/// Damages the field at offset `field` of record number `index` of the short form of `attr-short`,
/// which has a parent pointer and one attribute.
fn damage_record(trial: &Trial, index: usize, field: usize, bits: u8) {
    edit_short_form(trial, trial.inode("/attr-short"), |form| {
        let start = records(form)[index];
        form[start + field] ^= bits;
    });
}

// The units of xfs-evidence try all fields and bits. Each test here repairs one volume.

#[test]
fn flags_of_a_short_pointer_damaged_keep_all_attributes() {
    let trial = Trial::new();
    damage_record(&trial, 0, 2, 1 << 2);
    trial.assert_whole();
}

#[test]
fn length_of_a_short_pointer_damaged_keeps_all_attributes() {
    let trial = Trial::new();
    damage_record(&trial, 0, 0, 1);
    trial.assert_whole();
}

#[test]
fn unknown_flag_of_a_short_attribute_keeps_it() {
    let trial = Trial::new();
    damage_record(&trial, 1, 2, 1 << 4);
    trial.assert_whole();
}

#[test]
fn size_of_a_short_form_damaged_keeps_all_attributes() {
    let trial = Trial::new();
    edit_short_form(&trial, trial.inode("/attr-short"), |form| form[0] ^= 0x80);
    trial.assert_whole();
}

/// Sets the flags of two namespaces on one attribute. The repair must keep the attribute, and the
/// plan must list its inode as one that may have lost something.
#[test]
fn flags_of_two_namespaces_keep_the_attribute_and_are_a_loss() {
    let trial = Trial::new();
    let inode = trial.inode("/attr-short");
    damage_record(&trial, 1, 2, 0x06);
    let repaired = trial.volume.repair(true);
    assert!(crate::volume::report(&*repaired.device).is_clean());
    let after = Shape::of(&*repaired.device);
    assert_eq!(after.count_attributes(inode), trial.before.count_attributes(inode));
    assert_eq!(repaired.inodes_with_losses(), [inode].into());
}

/// Changes a byte in the name of an attribute to one that no name may contain. The repair must lose
/// only this attribute, and the plan must list the loss.
#[test]
fn name_of_a_short_attribute_destroyed_is_a_loss() {
    let trial = Trial::new();
    let inode = trial.inode("/attr-short");
    damage_record(&trial, 1, HEAD_BYTES, b'o');
    let repaired = trial.volume.repair(true);
    assert!(crate::volume::report(&*repaired.device).is_clean());
    let after = Shape::of(&*repaired.device);
    assert_eq!(after.paths, trial.before.paths);
    assert_eq!(after.count_attributes(inode), 0);
    assert_eq!(repaired.inodes_with_losses(), [inode].into());
}

/// Returns the disk addresses of all leaves of an attribute fork.
fn leaves(trial: &Trial, inode: InodeNumber) -> Vec<DiskAddr> {
    let extents = trial.extents(inode, ForkKind::Attr);
    let blocks = extents.iter().flat_map(|extent| extent.file_block.0..extent.end().0);
    let places = blocks.map(|block| trial.place(inode, ForkKind::Attr, FileBlock(block)));
    let length = trial.volume.geometry.block_size as usize;
    let magic = |at: &DiskAddr| xfs_format::dabtree::magic(&trial.volume.bytes(*at, length));
    places.filter(|at| magic(at) == Some(LEAF_MAGIC)).collect()
}

/// Changes entry number `index` of the first leaf of a file and recomputes the checksum.
fn damage_entry(trial: &Trial, path: &str, index: usize, change: fn(&mut AttrLeafEntryDisk)) {
    use zerocopy::FromBytes;
    let at = leaves(trial, trial.inode(path))[0];
    trial.volume.edit(at, BlockKind::Attr, |bytes| {
        let leaf = AttrLeaf::decode(bytes, StructureAddress::Disk(at)).expect("a sound leaf");
        let count = leaf.table().len();
        let (_, rest) = AttrLeafHeaderDisk::mut_from_prefix(bytes).expect("a block is longer");
        let (table, _) = <[AttrLeafEntryDisk]>::mut_from_prefix_with_elems(rest, count)
            .expect("the table lies in the block");
        change(&mut table[index]);
    });
}

#[test]
fn flags_and_hash_of_leaf_entries_damaged_keep_all_attributes() {
    let trial = Trial::new();
    damage_entry(&trial, "/attr-node", 1, |entry| entry.flags ^= 1 << 3);
    damage_entry(&trial, "/attr-node", 3, |entry| entry.flags ^= 1 << 5);
    damage_entry(&trial, "/attr-node", 5, |entry| entry.hash = (!entry.hash.get()).into());
    damage_entry(&trial, "/attr-remote", 1, |entry| entry.flags ^= 1 << 0);
    trial.assert_whole();
}

#[test]
fn place_of_a_leaf_entry_destroyed_costs_one_attribute_and_is_a_loss() {
    let trial = Trial::new();
    let inode = trial.inode("/attr-node");
    damage_entry(&trial, "/attr-node", 2, |entry| entry.name_offset = 0xfff0.into());
    let repaired = trial.volume.repair(true);
    assert!(crate::volume::report(&*repaired.device).is_clean());
    let lost =
        trial.before.count_attributes(inode) - Shape::of(&*repaired.device).count_attributes(inode);
    // The entry is the parent pointer, or one of the attributes.
    assert!(lost <= 1, "{lost} attributes");
    assert_eq!(repaired.inodes_with_losses().contains(&inode), lost == 1);
}
