//! Tests of unlinked inodes that a crash has left, some of them damaged.

use std::sync::Arc;

use ferroxfs::{CreateOptions, Error, NewKind, OpenOptions, PosixError, Volume};
use xfs_alloc::{add_unlinked, open_journal, unlinked_lists};
use xfs_device::{Durability, SharedDevice};
use xfs_dir::remove_entry;
use xfs_format::reservation::TransactionKind;
use xfs_format::{Geometry, InodeNumber};
use xfs_inode::LiveInode;
use xfs_testkit::CowDevice;
use xfs_trans::Journal;
use xfs_trans::testing::{JournalParts, make_with, parts, superblock};

const CREATION: CreateOptions = CreateOptions::new(0o600).uid(1).gid(1);
/// Number of files. It is larger than the number of unlinked lists, so that some lists have two
/// inodes.
const FILES: usize = 150;

fn open(device: &SharedDevice) -> Volume {
    let options = OpenOptions::new().write(true);
    options.open_device(Arc::clone(device)).unwrap()
}

fn journal(device: &SharedDevice) -> Arc<Journal> {
    let JournalParts { cache, log, superblock } = parts(device, 0);
    open_journal(cache, log, &superblock).unwrap()
}

/// Removes the names of files and puts their inodes on unlinked lists, as if the files were still
/// open. Then writes all logged changes in place.
fn unlink(device: &SharedDevice, files: &[InodeNumber]) {
    let journal = journal(device);
    let root = Arc::new(LiveInode::load(&journal, superblock(device).root_inode).unwrap());
    for (number, inode) in files.iter().enumerate() {
        let live = LiveInode::load(&journal, *inode).unwrap();
        let mut tx = journal.begin(TransactionKind::Remove, 20).unwrap();
        tx.join(root.log_item());
        tx.join(live.log_item());
        add_unlinked(&mut tx, live.log_item()).unwrap();
        remove_entry(&mut tx, &root, format!("file {number}").as_bytes()).unwrap();
        live.change(&mut tx, |core| core.nlink = 0);
        tx.commit().unwrap();
    }
    journal.unmount().unwrap();
}

/// Changes the root directory and simulates a crash, which leaves the change in a dirty log.
fn crash(device: &SharedDevice) {
    let journal = journal(device);
    let root = LiveInode::load(&journal, superblock(device).root_inode).unwrap();
    let mut tx = journal.begin(TransactionKind::ChangeInode, 0).unwrap();
    tx.join(root.log_item());
    root.change(&mut tx, |core| core.mode = 0o40_700);
    tx.commit().unwrap();
    journal.force_all().unwrap();
    journal.shut_down(xfs_log::Shutdown::Now).unwrap();
}

/// Changes a byte of an inode on disk, so that its checksum is wrong.
fn damage(device: &SharedDevice, geometry: &Geometry, inode: InodeNumber) {
    let place = geometry.inode_location(inode).unwrap();
    let at = place.cluster.byte_offset().unwrap() + u64::from(place.offset_bytes) + 60;
    let mut bytes = vec![0; 512];
    let sector = at / 512 * 512;
    device.read_at(&mut bytes, sector).unwrap();
    bytes[(at - sector) as usize] ^= 0x40;
    device.write_at(&bytes, sector, Durability::Cached).unwrap();
}

#[test]
fn damaged_unlinked_inode_blocks_no_other_list() {
    let device: SharedDevice = Arc::new(CowDevice::new(make_with("-d agcount=1")));
    let geometry = superblock(&device).geometry;
    let volume = open(&device);
    let root = volume.root().unwrap();
    let files: Vec<_> = (0..FILES)
        .map(|number| {
            let name = format!("file {number}");
            root.create(name, &NewKind::Regular, &CREATION).unwrap().number()
        })
        .collect();
    drop(root);
    volume.close().unwrap();
    unlink(&device, &files);
    crash(&device);
    // The first and the last files are heads of lists, or the end of one.
    let damaged = [files[3], files[FILES - 1]];
    for inode in damaged {
        damage(&device, &geometry, inode);
    }

    let options = OpenOptions::new().write(true);
    let summary = options.with_devices(Arc::clone(&device), None).recover().unwrap().unwrap();
    assert_eq!(summary.unlinked + summary.unlinked_damaged, FILES as u64);
    // A damaged inode loses the inodes after it on its list, and no others.
    assert!((2..=2 * 3).contains(&summary.unlinked_damaged), "{}", summary.unlinked_damaged);
    let volume = open(&device);
    let inodes = volume.space().unwrap();
    let in_use = inodes.inodes - inodes.free_inodes;
    // Three are internal: the root and the two realtime inodes.
    assert_eq!(in_use, 3 + summary.unlinked_damaged);
    assert!(matches!(volume.node(damaged[0]), Err(Error::Corrupt(_))));
    assert!(matches!(volume.node(files[0]), Err(Error::Posix(PosixError::NotFound))));
    volume.close().unwrap();
    let lists = unlinked_lists(journal(&device).cache(), xfs_format::AgNumber(0)).unwrap();
    assert!(lists.is_empty(), "{lists:?}");
}

/// Checks that a bulkstat leaves out an inode without links: such an inode is being freed, or waits
/// to be freed.
#[test]
fn bulkstat_skips_an_inode_without_links() {
    use std::ops::ControlFlow;

    use ferroxfs::admin::BulkPath;

    let device = make_with("");
    let volume = open(&device);
    let root = volume.root().unwrap();
    let made = ["kept", "unlinked"].map(|name| {
        let file = root.create(name, &NewKind::Regular, &CREATION).unwrap();
        file.number()
    });
    drop(root);
    volume.close().unwrap();
    let shown = || {
        let (volume, mut shown) = (open(&device), Vec::new());
        let next = |number, _| {
            shown.push(number);
            ControlFlow::Continue(())
        };
        assert!(volume.bulkstat(InodeNumber(0), BulkPath::PastCache, next).unwrap().is_continue());
        volume.close().unwrap();
        made.map(|number| shown.contains(&number))
    };
    assert_eq!(shown(), [true, true]);
    crate::forge(&device, made[1], 16, 0);
    assert_eq!(shown(), [true, false]);
}
