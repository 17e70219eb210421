//! Tests of the limits that apply to hostile logs when damaged metadata blocks are looked for in
//! the log.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xfs_device::{BlockDevice, MemoryDevice, SharedDevice};
use xfs_evidence::Evidence;
use xfs_format::inode::ForkKind;
use xfs_format::log_item::{
    BufferFlags, BufferFormat, BufferRegion, BufferType, LoggedBuffer, LoggedItem,
};
use xfs_format::{BlockKind, DiskAddr, FsBlock, dabtree};
use xfs_testkit::{Image, LogRecords, delegate_device, golden};

use crate::support::{lookup, superblock};

/// The greatest length of a logged block in bytes.
const LONGEST: u32 = 64 << 10;
const CHUNK: [u8; 128] = [0x5a; 128];

/// A device that counts the bytes that are read from it.
struct CountedReads {
    inner: SharedDevice,
    bytes: AtomicU64,
}

impl BlockDevice for CountedReads {
    delegate_device!(inner: length_bytes, sector_size, is_read_only, write_at, flush, discard);

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        self.bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.inner.read_at(buffer, offset)
    }
}

/// Returns a log item for an attribute block of `length_bytes` bytes at `at`. The item has the
/// first chunk of the block if `has_chunk` is true, and otherwise no chunk.
fn item<'a>(at: u64, length_bytes: u32, has_chunk: bool) -> LoggedItem<'a> {
    let mut format = BufferFormat::clean(DiskAddr(at), length_bytes);
    format.flags = BufferType::AttrLeaf.flags();
    let mut pieces = Vec::new();
    if has_chunk {
        format.bitmap[0] = 1;
        format.regions = 2;
        pieces.push(BufferRegion { offset_bytes: 0, bytes: &CHUNK });
    }
    LoggedItem::Buffer(LoggedBuffer { format, pieces })
}

fn write(log: &mut LogRecords<'_>, items: &[LoggedItem<'_>]) {
    items.chunks(100).for_each(|items| {
        log.transaction(items);
    });
}

/// Looks in the log of the image for the damaged blocks of the volume. Returns the addresses of the
/// found blocks, and the number of bytes that were read from the volume outside of the log.
fn search(image: Image) -> (Vec<DiskAddr>, u64) {
    let superblock = superblock(&image);
    let bytes = image.bytes(DiskAddr(0), image.length_bytes()).unwrap();
    let log: SharedDevice = Arc::new(MemoryDevice::from_bytes(&bytes).unwrap());
    let device = CountedReads { inner: Arc::clone(&log), bytes: AtomicU64::new(0) };
    let evidence = Evidence::new(&device, &superblock);
    let found = evidence.logged_blocks(log, |_| true, || ControlFlow::Continue(()));
    (found.into_keys().collect(), device.bytes.load(Ordering::Relaxed))
}

fn log_bytes(image: &Image) -> u64 {
    let superblock = superblock(image);
    u64::from(superblock.log_blocks) << superblock.geometry.block_log
}

#[test]
fn items_without_chunks_read_nothing() {
    let mut image = golden();
    let mut log = LogRecords::of(&mut image);
    let items: Vec<_> = (0..300).map(|index| item(64 + index, LONGEST, false)).collect();
    write(&mut log, &items);
    log.unmount();
    assert_eq!(search(image), (Vec::new(), 0));
}

#[test]
fn block_longer_than_any_is_not_read() {
    let mut image = golden();
    let mut log = LogRecords::of(&mut image);
    write(&mut log, &[item(64, LONGEST + 512, true)]);
    log.unmount();
    assert_eq!(search(image), (Vec::new(), 0));
}

/// Checks that the budget bounds the reads of a block that the log has many times, in turn with two
/// lengths. Each change of the length makes the search read the block again.
#[test]
fn block_with_changing_length_is_read_within_the_budget() {
    let mut image = golden();
    let budget = log_bytes(&image) * 16;
    let count = budget / u64::from(LONGEST) + 200;
    let mut log = LogRecords::of(&mut image);
    let items: Vec<_> =
        (0..count).map(|index| item(64, LONGEST - (index % 2) as u32 * 512, true)).collect();
    write(&mut log, &items);
    log.unmount();
    let (_, read) = search(image);
    assert!(read <= budget + 4 * u64::from(LONGEST), "{read} bytes, and {budget} are allowed");
}

/// Checks that cancelled blocks release their memory. The log fills the memory for damaged blocks,
/// and cancels these blocks. A damaged block that is logged after that must be found.
#[test]
fn cancelled_blocks_give_their_memory_back() {
    let mut image = golden();
    let leaf = leaf(&image, false);
    let bytes = image.bytes(leaf, 1024).unwrap();
    let mut log = LogRecords::of(&mut image);
    let items: Vec<_> = (0..1024).map(|index| item(64 + index, LONGEST, true)).collect();
    write(&mut log, &items);
    let mut format = BufferFormat::clean(DiskAddr(64), 1200 * 512);
    format.flags = BufferFlags::CANCEL;
    log.transaction(&[LoggedItem::Buffer(LoggedBuffer { format, pieces: Vec::new() })]);
    log.block(leaf, BlockKind::Attr, &bytes, 0..8);
    log.unmount();
    image.replace(leaf, &[0; 1024]);
    assert_eq!(search(image).0, [leaf]);
}

#[test]
fn search_ends_when_the_caller_stops_it() {
    let mut image = golden();
    let mut log = LogRecords::of(&mut image);
    for _ in 0..20 {
        write(&mut log, &[item(64, 1024, true)]);
    }
    log.unmount();
    let superblock = superblock(&image);
    let bytes = image.bytes(DiskAddr(0), image.length_bytes()).unwrap();
    let log: SharedDevice = Arc::new(MemoryDevice::from_bytes(&bytes).unwrap());
    let evidence = Evidence::new(&image, &superblock);
    let mut polls = 0;
    let found = evidence.logged_blocks(
        log,
        |_| true,
        || {
            polls += 1;
            if polls == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    assert_eq!((found.len(), polls), (0, 3));
}

/// Returns the address of an attribute leaf of the file `attr-node`. With `before_another`, the
/// next block of the volume is also a block of these attributes.
fn leaf(image: &Image, before_another: bool) -> DiskAddr {
    let sound = superblock(image);
    let evidence = Evidence::new(image, &sound);
    let map = evidence.extents(&lookup(&evidence, "attr-node"), ForkKind::Attr);
    let blocks = map.extents.iter().flat_map(|extent| {
        (0..u64::from(extent.length_blocks)).map(|index| FsBlock(extent.start.0 + index))
    });
    let mut places = blocks.map(|block| sound.geometry.block_disk_addr(block).unwrap());
    let is_leaf = |at: DiskAddr| {
        let magic = dabtree::magic(&image.bytes(at, 1024).unwrap());
        magic == Some(xfs_format::attr::leaf::LEAF_MAGIC)
    };
    let fits = |at: &DiskAddr| is_leaf(*at) && (!before_another || is_leaf(DiskAddr(at.0 + 2)));
    places.find(fits).unwrap()
}

/// Zeros a leaf, and logs a symbolic link of `blocks` blocks in its place. The blocks after the
/// leaf are also zeroed if `zeroes_all`. Returns whether the link is found.
fn is_link_found(blocks: usize, zeroes_all: bool) -> bool {
    let mut image = golden();
    let at = leaf(&image, true);
    let mut link = vec![0; blocks * 1024];
    link[..4].copy_from_slice(b"XSLM");
    link[8..12].copy_from_slice(&4_u32.to_be_bytes());
    link[16..32].copy_from_slice(superblock(&image).geometry.meta_uuid.as_bytes());
    link[32..40].copy_from_slice(&200_u64.to_be_bytes());
    link[40..48].copy_from_slice(&at.0.to_be_bytes());
    link[56..60].copy_from_slice(b"/etc");
    let mut log = LogRecords::of(&mut image);
    log.block(at, BlockKind::Symlink, &link, 0..blocks * 8);
    log.unmount();
    image.replace(at, &vec![0; if zeroes_all { link.len() } else { 1024 }]);
    search(image).0 == [at]
}

#[test]
fn link_does_not_replace_a_sound_block_after_the_first_one() {
    assert!(is_link_found(2, true));
    assert!(!is_link_found(2, false));
}

/// Checks that a logged block of a link's target is not used if it is longer than any target. The
/// longest target takes two blocks of the golden image.
#[test]
fn link_longer_than_any_target_is_not_used() {
    assert!(!is_link_found(3, true));
}
