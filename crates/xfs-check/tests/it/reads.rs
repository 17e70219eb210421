//! Tests of the reads of a check: each block of metadata is read once, and in the order of
//! addresses as far as the structures tell the order before.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;

use xfs_check::{CheckOptions, check};
use xfs_device::BlockDevice;
use xfs_format::btree::BtreeKind;
use xfs_format::inode::INODE_MAGIC;
use xfs_format::{DiskAddr, Geometry, StructureAddress, Superblock};
use xfs_testkit::{Image, delegate_device, golden};

/// A request of the check to the device.
#[derive(Clone, Debug)]
enum DeviceRequest {
    Read { offset: u64, bytes: Vec<u8> },
    Prefetch { offset: u64, length: u64 },
}

/// A device that records its requests, in order.
struct ReadLog {
    inner: Image,
    requests: Mutex<Vec<DeviceRequest>>,
}

impl BlockDevice for ReadLog {
    delegate_device!(inner: is_read_only, sector_size, write_at, flush, discard);

    fn length_bytes(&self) -> u64 {
        BlockDevice::length_bytes(&self.inner)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_at(buffer, offset)?;
        let request = DeviceRequest::Read { offset, bytes: buffer.to_vec() };
        self.requests.lock().expect("no thread panicked").push(request);
        Ok(())
    }

    fn prefetch(&self, offset: u64, length: u64) {
        let request = DeviceRequest::Prefetch { offset, length };
        self.requests.lock().expect("no thread panicked").push(request);
    }
}

/// The kinds of structures that a read can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ReadKind {
    /// A sector at the start of a group.
    Header,
    /// A block of the btree of inode chunks.
    InodeBtree,
    /// A block of another btree of a group.
    GroupBtree,
    /// A block of an extent btree.
    ExtentBtree,
    /// A run of inodes.
    Inodes,
    /// A block of a directory, of attributes or of a symbolic link.
    Contents,
}

fn kind_of(geometry: &Geometry, offset: u64, bytes: &[u8]) -> ReadKind {
    let (_, block) = geometry.split_disk_addr(DiskAddr(offset / 512)).expect("in the volume");
    if block.0 < geometry.header_blocks() {
        return ReadKind::Header;
    }
    if bytes.starts_with(&INODE_MAGIC.to_be_bytes()) {
        return ReadKind::Inodes;
    }
    let magic = u32::from_be_bytes(*bytes.first_chunk().expect("a sector"));
    match BtreeKind::of_magic(magic) {
        Some(BtreeKind::Inode) => ReadKind::InodeBtree,
        Some(BtreeKind::Extent) => ReadKind::ExtentBtree,
        Some(_) => ReadKind::GroupBtree,
        None => ReadKind::Contents,
    }
}

/// Checks an image with one thread. Returns the geometry and the requests of the check.
fn requests(image: Image) -> (Geometry, Vec<DeviceRequest>) {
    let mut sector = vec![0; 4096];
    image.read_at(&mut sector, 0).expect("a whole image");
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)));
    let superblock = superblock.expect("a sound image");
    let device = ReadLog { inner: image, requests: Mutex::default() };
    let report = check(&device, &superblock, &CheckOptions::default().threads(1), &());
    let report = report.expect("a sound image");
    assert!(report.is_clean(), "{:?}", report.findings);
    (superblock.geometry, device.requests.into_inner().expect("no thread panicked"))
}

/// Each sector of metadata is read once. The exceptions:
///
/// - The leaves of the btree of inode chunks are read twice: by the pass over groups, and by the
///   pass over inodes, for which each leaf is a unit of work. To keep them would need memory that
///   grows with the inodes (C4).
/// - The first superblock is read once more for each copy that is compared with it.
/// - An inode on an unlinked list is read again when the list is followed.
#[test]
fn metadata_is_read_once() {
    let (geometry, requests) = requests(golden());
    let mut counts: BTreeMap<u64, (ReadKind, u32)> = BTreeMap::new();
    for request in &requests {
        let DeviceRequest::Read { offset, bytes } = request else { continue };
        let kind = kind_of(&geometry, *offset, bytes);
        for sector in *offset / 512..(offset + bytes.len() as u64) / 512 {
            counts.entry(sector).or_insert((kind, 0)).1 += 1;
        }
    }
    let kinds: BTreeSet<ReadKind> = counts.values().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds.len(), 6, "the image has all kinds of structures: {kinds:?}");
    for (sector, (kind, count)) in counts {
        let most = match kind {
            ReadKind::InodeBtree => 2,
            ReadKind::Header if sector == 0 => 2 * geometry.ag_count,
            _ => 1,
        };
        assert!(count <= most, "sector {sector}, {kind:?}: read {count} times");
    }
}

/// Within a group, runs of inodes are read in the order of their addresses. After each run, the
/// blocks that its inodes map are announced in this order, before the first of them is read. Every
/// later read outside of inodes, up to the next run, is of an announced block.
///
/// The blocks of an extent btree announce their children in the order of keys, and its extents are
/// announced in the order of addresses once the btree was read.
#[test]
fn reads_of_inodes_are_in_order_and_their_blocks_are_announced_in_order() {
    let (geometry, requests) = requests(golden());
    let group_of = |offset: u64| geometry.split_disk_addr(DiskAddr(offset / 512)).unwrap().0;
    let mut last_run = BTreeMap::new();
    let mut announced: Vec<(u64, u64)> = Vec::new();
    let (mut is_open, mut contents, mut missed) = (false, 0, 0);
    for request in &requests {
        match request {
            DeviceRequest::Read { offset, bytes } => match kind_of(&geometry, *offset, bytes) {
                ReadKind::Inodes => {
                    let before = last_run.insert(group_of(*offset), *offset);
                    assert!(before.is_none_or(|before| before < *offset), "{offset}");
                    announced.clear();
                    is_open = true;
                }
                ReadKind::Contents | ReadKind::ExtentBtree => {
                    is_open = false;
                    let end = *offset + bytes.len() as u64;
                    contents += 1;
                    let is_known = announced
                        .iter()
                        .any(|(start, length)| start <= offset && end <= start + length);
                    missed += u32::from(!is_known);
                }
                _ => {}
            },
            DeviceRequest::Prefetch { offset, length } if is_open => {
                let end = announced.last().map_or(0, |(start, length)| start + length);
                assert!(end <= *offset, "{offset} is announced after {end}");
                announced.push((*offset, *length));
            }
            // A node of a btree announces its children.
            DeviceRequest::Prefetch { offset, length } => announced.push((*offset, *length)),
        }
    }
    assert!(contents > 100, "{contents} reads outside of inodes");
    assert_eq!(missed, 0, "of {contents} reads");
}
