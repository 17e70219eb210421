//! Tests that replay handwritten logs, valid and invalid ones, onto the golden image.

use std::sync::Arc;

use xfs_buffer::{Error, Result};
use xfs_device::{BlockDevice, Durability, MemoryDevice, SharedDevice};
use xfs_format::agf::AGF_SECTOR;
use xfs_format::agi::{AGI_SECTOR, Agi};
use xfs_format::inode::{InodeCore, InodeDisk};
use xfs_format::log_item::{
    BufferFlags, BufferFormat, BufferRegion, BufferType, ExtentFree, HostOrder, InodeCreate,
    InodeFormat, InodeItem, IntentDone, IntentExtents, ItemKind, LogItemCheck, LoggedBuffer,
    LoggedFields, LoggedItem, core_to_log,
};
use xfs_format::log_record::RecordChecksums;
use xfs_format::{
    AgBlock, AgInode, AgNumber, Check, DiskAddr, FsBlock, InodeNumber, Lsn, StructureAddress,
    Superblock,
};
use xfs_testkit::golden;
use zerocopy::{FromBytes, IntoBytes};

use super::{RecoveryError, Refusal, Replayed, replay, replay_past_damage};
use crate::device::LogDevice;
use crate::find_head_and_tail;
use crate::testing::LogImage;

mod before_damage;
mod dquot;
mod open;
mod realtime;
mod version4;

const LOG_BLOCKS: u32 = 2048;
/// The cycle in which the tests write their logs: later than any cycle in the golden image.
const CYCLE: u32 = 50;
const ORDER: HostOrder = HostOrder::Little;

/// The golden image of a volume, and a log that the tests write and that lies on a device of its
/// own.
struct Bench {
    data: SharedDevice,
    superblock: Superblock,
    log: LogImage,
}

impl Bench {
    fn new() -> Self {
        Self::with_log(LOG_BLOCKS)
    }

    fn with_log(log_blocks: u32) -> Self {
        let image = golden();
        let bytes = image.bytes(DiskAddr(0), image.length_bytes()).unwrap();
        let mut superblock =
            Superblock::decode(&bytes, StructureAddress::Disk(DiskAddr(0))).unwrap();
        superblock.log_start = FsBlock(0);
        let data = Arc::new(MemoryDevice::from_bytes(&bytes).unwrap());
        let mut log = LogImage::new(log_blocks);
        for block in 0..log_blocks {
            log.block_mut(block)[..4].copy_from_slice(&(CYCLE - 1).to_be_bytes());
        }
        log.head = Lsn::new(CYCLE, 0);
        log.append_unmount();
        log.tail = log.head;
        Self { data, superblock, log }
    }

    fn replay(&self) -> Result<Replayed, RecoveryError> {
        replay(self.data.clone(), &self.log.device(), &self.superblock)
    }

    fn refusal(&self) -> Refusal {
        match self.replay().map(|_| ()) {
            Err(RecoveryError::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        }
    }

    fn check(&self) -> Check {
        match self.replay().map(|_| ()) {
            Err(RecoveryError::Failed(Error::Corrupt(corruption))) => corruption.check().clone(),
            other => panic!("{other:?}"),
        }
    }

    fn item_check(&self) -> LogItemCheck {
        match self.check() {
            Check::LogItem(check) => check,
            other => panic!("{other:?}"),
        }
    }

    fn root(&self) -> InodeNumber {
        self.superblock.root_inode
    }

    /// Returns the bytes of an inode as they lie on `device`.
    fn inode(&self, device: &dyn BlockDevice, number: InodeNumber) -> Vec<u8> {
        let place = self.superblock.geometry.inode_location(number).unwrap();
        let offset = place.cluster.byte_offset().unwrap() + u64::from(place.offset_bytes);
        read(device, offset, self.superblock.geometry.inode_size as usize)
    }

    fn decode_inode(&self, device: &dyn BlockDevice, number: InodeNumber) -> InodeCore {
        let bytes = self.inode(device, number);
        InodeCore::decode(&bytes, number, &self.superblock.geometry).unwrap()
    }

    /// Returns the format (the first region) of an inode item that logs the core and these fields.
    fn inode_format(&self, number: InodeNumber, fields: LoggedFields) -> InodeFormat {
        let place = self.superblock.geometry.inode_location(number).unwrap();
        InodeFormat {
            regions: 2 + (fields.intersects(LoggedFields::DATA)) as u16,
            fields: fields | LoggedFields::CORE,
            attr_bytes: 0,
            data_bytes: 0,
            inode: number,
            device: 0,
            cluster: place.cluster,
            cluster_blocks: place.cluster_bytes / 512,
            offset_bytes: place.offset_bytes,
        }
    }

    /// Returns the core of the root inode, after `change`, as it would be logged.
    fn core(&self, change: impl FnOnce(&mut InodeDisk)) -> [u8; 176] {
        let bytes = self.inode(&*self.data, self.root());
        let (mut disk, _) = InodeDisk::read_from_prefix(&bytes).unwrap();
        change(&mut disk);
        core_to_log(disk.as_bytes().try_into().unwrap(), ORDER)
    }

    fn append_mode(&mut self, mode: u16) -> Lsn {
        let core = self.core(|disk| disk.mode = (0o040_000 | mode).into());
        let format = self.inode_format(self.root(), LoggedFields::empty());
        let item = InodeItem { format, core: &core, data: None, attr: None };
        self.log.append_transaction(1, &[LoggedItem::Inode(item)])
    }

    fn agi_at(&self) -> DiskAddr {
        self.superblock.geometry.header_disk_addr(AgNumber(0), AGI_SECTOR)
    }

    /// Returns an item that logs the first 128 bytes of the AGI of group 0, with `inode` as the
    /// head of the first unlinked list. These bytes are stored in `chunk`, to which the item
    /// refers.
    fn unlinked_item<'a>(&self, chunk: &'a mut [u8; 128], inode: u32) -> LoggedItem<'a> {
        let sector = read(&*self.data, self.agi_at().byte_offset().unwrap(), 512);
        chunk.copy_from_slice(&sector[..128]);
        chunk[40..44].copy_from_slice(&inode.to_be_bytes());
        buffer(self.agi_at(), 1, BufferType::Agi, 0, chunk)
    }
}

fn read(device: &dyn BlockDevice, offset: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    device.read_at(&mut bytes, offset).unwrap();
    bytes
}

/// Returns an item of a buffer of `blocks` basic blocks at `at`. The item logs `bytes` as chunk
/// number `chunk` of the buffer. A chunk has 128 bytes.
fn buffer(
    at: DiskAddr,
    blocks: u16,
    kind: BufferType,
    chunk: usize,
    bytes: &[u8],
) -> LoggedItem<'_> {
    let mut bitmap = vec![0; (usize::from(blocks) * 4).div_ceil(32)];
    bitmap[chunk / 32] |= 1 << (chunk % 32);
    let format = BufferFormat { regions: 2, flags: kind.flags(), at, blocks, bitmap };
    let pieces = vec![BufferRegion { offset_bytes: chunk * 128, bytes }];
    LoggedItem::Buffer(LoggedBuffer { format, pieces })
}

fn cancel(at: DiskAddr, blocks: u16) -> LoggedItem<'static> {
    let flags = BufferFlags::CANCEL;
    let format = BufferFormat { regions: 1, flags, at, blocks, bitmap: vec![0] };
    LoggedItem::Buffer(LoggedBuffer { format, pieces: Vec::new() })
}

fn intent(id: u64) -> LoggedItem<'static> {
    let extents = vec![ExtentFree { start: FsBlock(100), length_blocks: 1 }];
    LoggedItem::ExtentFree(IntentExtents { id, extents })
}

fn intent_done(id: u64) -> LoggedItem<'static> {
    let extents = vec![ExtentFree { start: FsBlock(100), length_blocks: 1 }];
    LoggedItem::ExtentFreeDone(IntentExtents { id, extents })
}

#[test]
fn inode_gets_its_last_logged_change() {
    let mut bench = Bench::new();
    bench.append_mode(0o700);
    let lsn = bench.append_mode(0o711);
    let replayed = bench.replay().unwrap();
    let core = bench.decode_inode(&*replayed.device(), bench.root());
    assert_eq!((core.mode, core.lsn), (0o040_711, lsn));
    assert_eq!(replayed.summary().items, 2);
    let before = bench.decode_inode(&*bench.data, bench.root());
    assert_eq!(core, InodeCore { mode: core.mode, lsn, ..before });
}

/// Logs changes of two inodes, then destroys one of them (the root inode) and the AGF of group 1 on
/// disk. Checks that replay changes the other inode and leaves the destroyed one as it is.
#[test]
fn replay_past_damage_skips_destroyed_inodes_and_applies_the_rest() {
    let mut bench = Bench::new();
    bench.append_mode(0o700);
    let other = bench.superblock.realtime_bitmap_inode;
    let bytes = bench.inode(&*bench.data, other);
    let (mut disk, _) = InodeDisk::read_from_prefix(&bytes).unwrap();
    disk.uid = 4711.into();
    let core = core_to_log(disk.as_bytes().try_into().unwrap(), ORDER);
    let format = bench.inode_format(other, LoggedFields::empty());
    let item = InodeItem { format, core: &core, data: None, attr: None };
    bench.log.append_transaction(2, &[LoggedItem::Inode(item)]);

    let geometry = &bench.superblock.geometry;
    let root = geometry.inode_location(bench.root()).unwrap();
    let root = root.cluster.byte_offset().unwrap() + u64::from(root.offset_bytes);
    bench.data.write_at(&[0x5a; 512], root, Durability::Cached).unwrap();
    assert!(matches!(bench.check(), Check::Magic { .. }));
    let agf = geometry.header_disk_addr(AgNumber(1), AGF_SECTOR).byte_offset().unwrap();
    bench.data.write_at(&[0x5a; 512], agf, Durability::Cached).unwrap();

    let replayed = replay_past_damage(bench.data.clone(), &bench.log.device(), &bench.superblock);
    let replayed = replayed.unwrap();
    assert_eq!((replayed.summary().items, replayed.summary().skipped), (2, 1));
    assert_eq!(bench.decode_inode(&*replayed.device(), other).uid, 4711);
    assert_eq!(bench.inode(&*replayed.device(), bench.root()), [0x5a; 512]);
}

#[test]
fn newer_inode_is_skipped() {
    let mut bench = Bench::new();
    let lsn = bench.append_mode(0o700);
    bench.append_mode(0o711);
    let replayed = bench.replay().unwrap();
    replayed.device.write_back(&[]).unwrap();
    // The second transaction wrote the inode on disk, so the first one is skipped.
    let again = bench.replay().unwrap();
    assert_eq!((again.summary().items, again.summary().skipped), (2, 1));
    let core = bench.decode_inode(&*again.device(), bench.root());
    assert!(core.lsn > lsn);
    assert_eq!(core.mode, 0o040_711);
}

#[test]
fn all_changes_of_one_lsn_are_applied_to_a_buffer() {
    let mut bench = Bench::new();
    let at = bench.agi_at();
    let sector = read(&*bench.data, at.byte_offset().unwrap(), 512);
    let free = u32::from_be_bytes(sector[28..32].try_into().unwrap());
    let mut first = sector[..128].to_vec();
    let mut second = first.clone();
    first[28..32].copy_from_slice(&(free - 1).to_be_bytes());
    second[28..32].copy_from_slice(&(free - 2).to_be_bytes());
    let items = [first, second];
    let items: Vec<_> =
        items.iter().map(|chunk| buffer(at, 1, BufferType::Agi, 0, chunk)).collect();
    // Both in one record, so with one LSN.
    let lsn = bench.log.append_together(&items);
    let replayed = bench.replay().unwrap();
    let sector = read(&*replayed.device(), at.byte_offset().unwrap(), 512);
    let agi = Agi::decode(&sector, at, &bench.superblock.geometry).unwrap();
    assert_eq!((agi.free_count, agi.lsn), (free - 2, lsn));
    assert_eq!(replayed.superblock().free_inodes, bench.superblock.free_inodes - 2);
}

#[test]
fn buffer_that_is_cancelled_later_is_not_replayed() {
    let mut bench = Bench::new();
    let at = bench.agi_at();
    let rubbish = [0xff; 128];
    let item = buffer(at, 1, BufferType::Agi, 0, &rubbish);
    bench.log.append_transaction(1, std::slice::from_ref(&item));
    bench.log.append_transaction(2, &[cancel(at, 1)]);
    assert_eq!(bench.replay().unwrap().summary().skipped, 1);
    // After the cancellation the buffer is replayed again.
    bench.log.append_transaction(3, &[item]);
    assert!(matches!(bench.check(), Check::Magic { .. }));
}

#[test]
fn transaction_without_a_commit_is_not_replayed() {
    let mut bench = Bench::new();
    bench.append_mode(0o700);
    bench.log.append_unfinished(2);
    let replayed = bench.replay().unwrap();
    assert_eq!(replayed.summary().transactions, 1);
}

#[test]
fn inode_creation_is_replayed_before_inode_items() {
    let mut bench = Bench::new();
    let geometry = bench.superblock.geometry.clone();
    let root = bench.root();
    let (group, in_group) = geometry.split_inode(root).unwrap();
    let first = geometry.ag_inode_block(in_group);
    let create = InodeCreate {
        group,
        start: first,
        count: 64,
        inode_size: geometry.inode_size,
        length_blocks: geometry.chunk_blocks(),
        generation: 99,
    };
    let core = bench.core(|disk| disk.mode = 0o040_500.into());
    let bytes = bench.inode(&*bench.data, root);
    let format = bench.inode_format(root, LoggedFields::DATA_LOCAL);
    let fork = &bytes[176..176 + 64];
    let inode = LoggedItem::Inode(InodeItem { format, core: &core, data: Some(fork), attr: None });
    // The creation comes last in the log, and is still the first to be replayed.
    bench.log.append_transaction(1, &[inode, LoggedItem::InodeCreate(create)]);
    let replayed = bench.replay().unwrap();
    let core = bench.decode_inode(&*replayed.device(), root);
    assert_eq!(core.mode, 0o040_500);
    let next = bench.decode_inode(&*replayed.device(), InodeNumber(root.0 + 3));
    assert_eq!((next.mode, next.generation), (0, 99));
    // A chunk that is freed again is not created.
    let at = geometry.ag_block_disk_addr(group, first);
    let blocks = geometry.cluster_blocks() * geometry.block_basic_blocks();
    bench.log.append_transaction(2, &[cancel(at, blocks as u16)]);
    assert_eq!(bench.replay().unwrap().summary().skipped, 2);
}

#[test]
fn only_unlinked_links_of_an_inode_buffer_are_replayed() {
    let mut bench = Bench::new();
    let geometry = bench.superblock.geometry.clone();
    let place = geometry.inode_location(bench.root()).unwrap();
    let mut chunk = [0xee; 128];
    chunk[96..100].copy_from_slice(&77_u32.to_be_bytes());
    let index = place.offset_bytes as usize / 128;
    let blocks = (place.cluster_bytes / 512) as u16;
    let item = |chunk: &'static [u8; 128]| {
        let mut item = buffer(place.cluster, blocks, BufferType::Inodes, index, chunk);
        if let LoggedItem::Buffer(item) = &mut item {
            item.format.flags |= BufferFlags::INODES;
        }
        item
    };
    bench.log.append_transaction(1, &[item(Box::leak(Box::new(chunk)))]);
    let replayed = bench.replay().unwrap();
    let before = bench.decode_inode(&*bench.data, bench.root());
    let core = bench.decode_inode(&*replayed.device(), bench.root());
    assert_eq!(core.next_unlinked.0, 77);
    assert_eq!(core, InodeCore { next_unlinked: core.next_unlinked, ..before });
    chunk[96..100].fill(0);
    bench.log.append_transaction(2, &[item(Box::leak(Box::new(chunk)))]);
    assert_eq!(bench.item_check(), LogItemCheck::NextUnlinked);
}

#[test]
fn open_intents_are_refused_by_name() {
    let mut bench = Bench::new();
    bench.log.append_transaction(1, &[intent(7), intent(8)]);
    bench.log.append_transaction(2, &[intent_done(7)]);
    // A completion of another kind, or without an intent, completes nothing.
    let other = LoggedItem::Done(IntentDone { kind: ItemKind::RmapDone, id: 8 });
    bench.log.append_transaction(3, &[other, intent_done(9)]);
    let refusal = bench.refusal();
    assert!(matches!(
        refusal,
        Refusal::UnfinishedIntents { count: 1, kind: ItemKind::ExtentFree, .. }
    ));
    bench.log.append_transaction(4, &[intent_done(8)]);
    assert!(bench.replay().is_ok());
}

#[test]
fn unlinked_inodes_are_refused_by_name() {
    let mut bench = Bench::new();
    let mut chunk = [0; 128];
    let item = bench.unlinked_item(&mut chunk, 128);
    bench.log.append_transaction(1, &[item]);
    let inode = InodeNumber(128);
    assert_eq!(bench.refusal(), Refusal::UnlinkedInode { group: AgNumber(0), inode });
}

#[test]
fn item_outside_the_volume_is_refused() {
    let chunk = [0; 128];
    let end = Bench::new().superblock.geometry.data_bytes() / 512;
    for (at, blocks) in [(end, 1), (end - 1, 2), (u64::MAX, 1), (u64::MAX - 1, 8)] {
        let mut bench = Bench::new();
        let item = buffer(DiskAddr(at), blocks, BufferType::Agi, 0, &chunk);
        bench.log.append_transaction(1, &[item]);
        let blocks = blocks.into();
        assert_eq!(bench.item_check(), LogItemCheck::OutsideVolume { at, blocks });
    }
    let mut bench = Bench::new();
    let mut format = bench.inode_format(bench.root(), LoggedFields::empty());
    format.offset_bytes += 512;
    let core = bench.core(|_| ());
    let item = InodeItem { format, core: &core, data: None, attr: None };
    bench.log.append_transaction(1, &[LoggedItem::Inode(item)]);
    assert!(matches!(bench.item_check(), LogItemCheck::OutOfRange { field: "cluster", .. }));
}

#[test]
fn item_inside_the_log_is_refused() {
    let mut bench = Bench::new();
    let geometry = &bench.superblock.geometry;
    // The volume's own log is elsewhere; the superblock names the first blocks of the disk as the
    // log.
    bench.superblock.log_start = geometry.join_block(AgNumber(0), AgBlock(1));
    let chunk = [0; 128];
    let item = buffer(DiskAddr(u64::from(LOG_BLOCKS) - 1), 1, BufferType::Agi, 0, &chunk);
    bench.log.append_transaction(1, &[item]);
    assert!(matches!(bench.item_check(), LogItemCheck::OutsideVolume { .. }));
}

/// Checks I2 of `xfs_log::recovery`: each replayed object is verified in its last state.
#[test]
fn replayed_object_that_fails_its_verifier_is_refused() {
    let mut bench = Bench::new();
    let at = bench.agi_at();
    let mut chunk = read(&*bench.data, at.byte_offset().unwrap(), 128);
    chunk[8..12].copy_from_slice(&1_u32.to_be_bytes());
    bench.log.append_transaction(1, &[buffer(at, 1, BufferType::Agi, 0, &chunk)]);
    assert!(matches!(bench.check(), Check::Agi(_)));

    let mut bench = Bench::new();
    bench.log.append_transaction(1, &[buffer(at, 1, BufferType::Agf, 0, &chunk)]);
    assert!(matches!(bench.check(), Check::Magic { .. }));

    let mut bench = Bench::new();
    bench.log.append_transaction(1, &[buffer(at, 1, BufferType::Unknown, 0, &chunk)]);
    assert_eq!(bench.item_check(), LogItemCheck::BufferType { raw: 0 });

    let mut bench = Bench::new();
    bench.log.append_transaction(1, &[buffer(at, 2, BufferType::Agi, 0, &chunk)]);
    assert!(matches!(bench.check(), Check::Truncated { available: 1024, needed: 512 }));

    let mut bench = Bench::new();
    bench.append_mode(0o7_777);
    let core = bench.core(|disk| disk.mode = 0o170_000.into());
    let format = bench.inode_format(bench.root(), LoggedFields::empty());
    let item = InodeItem { format, core: &core, data: None, attr: None };
    bench.log.append_transaction(2, &[LoggedItem::Inode(item)]);
    assert!(matches!(bench.check(), Check::Inode(_)));
}

#[test]
fn fork_that_overruns_the_inode_is_refused() {
    for (fields, length) in [(LoggedFields::DATA_LOCAL, 340), (LoggedFields::DATA_ROOT, 72 + 16)] {
        let mut bench = Bench::new();
        let core = bench.core(|disk| disk.fork_offset = 0);
        let format = bench.inode_format(bench.root(), fields);
        let data = vec![0xff; length];
        let item = InodeItem { format, core: &core, data: Some(&data), attr: None };
        bench.log.append_transaction(1, &[LoggedItem::Inode(item)]);
        assert!(matches!(
            bench.item_check(),
            LogItemCheck::Fork { bytes: 340, room: 336 }
                | LogItemCheck::Root { bytes: 88, records: 0xffff, room: 336 }
        ));
    }
    let mut bench = Bench::new();
    let core = bench.core(|disk| disk.fork_offset = 255);
    let format = bench.inode_format(bench.root(), LoggedFields::empty());
    let item = InodeItem { format, core: &core, data: None, attr: None };
    bench.log.append_transaction(1, &[LoggedItem::Inode(item)]);
    assert!(matches!(bench.item_check(), LogItemCheck::Fork { .. }));
}

#[test]
fn creation_of_a_part_of_a_chunk_is_replayed() {
    let mut bench = Bench::new();
    let geometry = bench.superblock.geometry.clone();
    let length_blocks = geometry.sparse_alignment_blocks;
    assert!(length_blocks != 0 && length_blocks < geometry.chunk_blocks(), "parts are possible");
    let create = InodeCreate {
        group: AgNumber(0),
        start: AgBlock(64),
        count: length_blocks << geometry.inodes_per_block_log,
        inode_size: geometry.inode_size,
        length_blocks,
        generation: 5,
    };
    bench.log.append_transaction(1, &[LoggedItem::InodeCreate(create)]);
    let replayed = bench.replay().unwrap();
    let first = 64 << geometry.inodes_per_block_log;
    for index in [0, create.count - 1] {
        let number = geometry.join_inode(create.group, AgInode(first + index));
        let core = bench.decode_inode(&*replayed.device(), number);
        assert_eq!((core.mode, core.generation), (0, 5), "{number}");
    }
}

#[test]
fn inode_creation_that_does_not_fit_the_volume_is_refused() {
    let geometry = Bench::new().superblock.geometry;
    let sound = InodeCreate {
        group: AgNumber(0),
        start: AgBlock(64),
        count: 64,
        inode_size: geometry.inode_size,
        length_blocks: geometry.chunk_blocks(),
        generation: 1,
    };
    let of_length = |length_blocks: u32| {
        let count = length_blocks << geometry.inodes_per_block_log;
        InodeCreate { length_blocks, count, ..sound }
    };
    let lies = [
        InodeCreate { group: AgNumber(geometry.ag_count), ..sound },
        InodeCreate { start: AgBlock(u32::MAX), ..sound },
        InodeCreate { start: AgBlock(geometry.ag_blocks - 1), ..sound },
        InodeCreate { start: AgBlock(0), ..sound },
        InodeCreate { count: 63, ..sound },
        InodeCreate { count: u32::MAX, ..sound },
        InodeCreate { inode_size: 1024, ..sound },
        InodeCreate { length_blocks: 0, count: 0, ..sound },
        InodeCreate { length_blocks: u32::MAX, ..sound },
        // Neither a whole chunk nor the part of one that is allocated alone.
        of_length(geometry.chunk_blocks() - 1),
        of_length(geometry.chunk_blocks() + 1),
        of_length(2 * geometry.chunk_blocks()),
    ];
    for lie in lies {
        let mut bench = Bench::new();
        bench.log.append_transaction(1, &[LoggedItem::InodeCreate(lie)]);
        assert!(matches!(bench.item_check(), LogItemCheck::OutOfRange { .. }), "{lie:?}");
    }
}

#[test]
fn write_back_leaves_a_clean_log() {
    for (stripe_unit, sector) in [(1, 512), (1, 4096), (32 << 10, 512), (256 << 10, 512)] {
        for torn in [0, 3] {
            let mut bench = Bench::new();
            bench.append_mode(0o700);
            let head = bench.log.head;
            // Records that were in flight at the crash, of which the first is missing.
            for _ in 0..torn {
                bench.log.append(20);
            }
            for block in 0..if torn == 0 { 0 } else { 21 } {
                bench.log.make_stale(head.block() + block);
            }
            let log = device_with(&bench.log, stripe_unit, sector);
            let replayed = replay(bench.data.clone(), &log, &bench.superblock).unwrap();
            assert_eq!(replayed.log_state().head, head);
            replayed.write_back(&log).unwrap();
            let state = find_head_and_tail(&log).unwrap();
            assert!(state.clean && state.tail > head, "{stripe_unit} {sector} {torn}");
            let (header, _) = log.read_record(head.block()).unwrap();
            assert_ne!(header.crc, 0);
            let core = bench.decode_inode(&*bench.data, bench.root());
            assert_eq!(core.mode, 0o040_700);
            assert!(replay(bench.data.clone(), &log, &bench.superblock).is_ok());
        }
    }
}

fn device_with(image: &LogImage, stripe_unit_bytes: u32, sector_bytes: u32) -> LogDevice {
    let device = MemoryDevice::from_bytes(&image.bytes).unwrap();
    let geometry = *image.device().geometry();
    let geometry = crate::LogGeometry { stripe_unit_bytes, sector_bytes, ..geometry };
    LogDevice::with_geometry(Arc::new(device), geometry).unwrap()
}

#[test]
fn unmount_record_of_a_clean_log_wraps_around_the_end() {
    for left in 0..4 {
        let mut bench = Bench::new();
        while bench.log.length() - bench.log.head.block() > 60 {
            bench.log.append_transaction(1, &[intent_done(1)]);
        }
        let lsn = bench.append_mode(0o700);
        bench.log.tail = lsn;
        while bench.log.length() - bench.log.head.block() > left + 2 {
            bench.log.append_transaction(1, &[intent_done(1)]);
        }
        let log = device_with(&bench.log, 4096, 512);
        let replayed = replay(bench.data.clone(), &log, &bench.superblock).unwrap();
        replayed.write_back(&log).unwrap();
        let state = find_head_and_tail(&log).unwrap();
        assert!(state.clean);
        assert_eq!(state.head.cycle(), CYCLE + 1);
    }
}

/// Checks that a completion does not search all intents. A log may hold many intents and equally
/// many completions without an intent. Searching all open intents for each completion would take
/// minutes.
#[test]
fn completion_costs_no_search_through_other_intents() {
    const TOGETHER: u64 = 500;
    const TRANSACTIONS: u64 = 128;
    let mut bench = Bench::with_log(16 << 10);
    let mut append = |make: fn(u64) -> LoggedItem<'static>, from: u64| {
        for number in 0..TRANSACTIONS {
            let first = from + number * TOGETHER;
            let items: Vec<_> = (first..first + TOGETHER).map(make).collect();
            bench.log.append_transaction(number as u32, &items);
        }
    };
    append(intent, 0);
    // One of them completes the last intent.
    append(intent_done, TRANSACTIONS * TOGETHER - 1);
    let refusal = bench.refusal();
    let Refusal::UnfinishedIntents { count, .. } = refusal else { panic!("{refusal}") };
    assert_eq!(count as u64, TRANSACTIONS * TOGETHER - 1);
}

#[test]
fn hostile_logs_never_panic() {
    let mut bench = Bench::new();
    let mut chunk = [0; 128];
    let unlinked = bench.unlinked_item(&mut chunk, 128);
    bench.log.append_transaction(1, &[unlinked, intent(3)]);
    bench.append_mode(0o700);
    let end = bench.log.head.block() as usize * 512;
    let sound = bench.log.bytes.clone();
    let mut random = xfs_testkit::Prng::new(1);
    for _ in 0..2000 {
        bench.log.bytes.clone_from(&sound);
        random.mutate(&mut bench.log.bytes[1024..end]);
        // A log of version 4 accepts a record without a checksum.
        for block in bench.log.bytes[1024..end].chunks_exact_mut(512) {
            if block[0] == 0xfe {
                block[32..36].fill(0);
            }
        }
        let log = bench.log.device_with(RecordChecksums::Optional);
        let _ = replay(bench.data.clone(), &log, &bench.superblock);
    }
}

#[test]
fn formatted_log_is_clean_in_its_cycle_after_any_contents() {
    for fill in [0, 0xff, 0x5a] {
        let device: SharedDevice = Arc::new(xfs_testkit::CowDevice::new(Arc::new(golden())));
        let mut sector = [0; 512];
        device.read_at(&mut sector, 0).unwrap();
        let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).unwrap();
        let log = LogDevice::new(device.clone(), &superblock).unwrap();
        let noise = vec![fill; log.length_blocks() as usize * 512];
        log.write_blocks(0, &noise, xfs_device::Durability::Cached).unwrap();
        super::format_log(&log, 7).unwrap();
        let state = find_head_and_tail(&log).unwrap();
        assert!(state.clean && !state.is_blank, "{state:?}");
        assert_eq!((state.head.cycle(), state.tail), (7, state.head));
    }
}
