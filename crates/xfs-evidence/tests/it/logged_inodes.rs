//! Tests of the proof that the log has the newest state of an inode.

use std::ops::ControlFlow;
use std::sync::Arc;

use xfs_device::{MemoryDevice, SharedDevice};
use xfs_evidence::Evidence;
use xfs_format::inode::InodeCore;
use xfs_format::log_item::{BufferFormat, LoggedBuffer, LoggedFields, LoggedItem};
use xfs_format::{AgInode, DiskAddr};
use xfs_testkit::{LogRecords, golden};

use crate::support::superblock;

/// Appends a transaction to the log whose only item cannot be read, because it states more regions
/// than it has.
fn append_unreadable(log: &mut LogRecords<'_>) {
    let mut format = BufferFormat::clean(DiskAddr(64), 512);
    format.regions = 9;
    log.transaction(&[LoggedItem::Buffer(LoggedBuffer { format, pieces: Vec::new() })]);
}

/// A record that a test appends to the log.
#[derive(Clone, Copy)]
enum Record {
    /// A record with the root inode.
    Root,
    /// A record with an item that cannot be read.
    Unreadable,
}

/// Returns whether a log with these records has the newest state of the root inode. `None` if the
/// log has no state of this inode. Stops the search at once if `stops` is set.
fn newest_state(records: &[Record], stops: bool) -> Option<bool> {
    let mut image = golden();
    let superblock = superblock(&image);
    let root = superblock.root_inode;
    let place = image.geometry().inode_location(root).unwrap();
    let at = DiskAddr(place.cluster.0 + u64::from(place.offset_bytes) / 512);
    let inode = image.bytes(at, image.geometry().inode_size as usize).unwrap();
    let mut log = LogRecords::of(&mut image);
    for record in records {
        match record {
            Record::Root => {
                log.inode(root, &inode, LoggedFields::CORE);
            }
            Record::Unreadable => append_unreadable(&mut log),
        }
    }
    log.unmount();
    let bytes = image.bytes(DiskAddr(0), image.length_bytes()).unwrap();
    let device: SharedDevice = Arc::new(MemoryDevice::from_bytes(&bytes).unwrap());
    let evidence = Evidence::new(&*device, &superblock);
    let poll = || if stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let found = evidence.logged_inodes(Arc::clone(&device), |number| number == root, poll);
    let inode = found.get(&root)?;
    // The items of the log have no link of an unlinked list, which a named inode is not on.
    let core = InodeCore::decode(&inode.bytes, root, &superblock.geometry).unwrap();
    assert_eq!(core.next_unlinked, AgInode::NULL);
    Some(inode.is_newest)
}

#[test]
fn state_before_an_unreadable_item_is_not_the_newest_one() {
    use Record::{Root, Unreadable};
    assert_eq!(newest_state(&[Root], false), Some(true));
    assert_eq!(newest_state(&[Root, Unreadable], false), Some(false));
    assert_eq!(newest_state(&[Unreadable, Root], false), Some(true));
}

#[test]
fn search_that_is_stopped_returns_no_inode() {
    assert_eq!(newest_state(&[Record::Root], true), None);
}
