use std::io::ErrorKind;
use std::sync::{Arc, Barrier, Weak};

use xfs_device::BlockDevice;
use xfs_format::{BlockKind, Check, DiskAddr, StructureAddress};
use xfs_sync::{SetOnce, Volume};
use xfs_testkit::delegate_device;

use super::{BufferCache, BufferExtent, LIVE_REREADS, Liveness};
use crate::error::Error;
use crate::testing::{BLOCK, BLOCKS, TARGET, TestDevice, address, geometry, mark};

/// A device that, during each read, takes the lock of the eviction clock of every shard of the
/// cache. A thread that held such a lock while it reads would wait for itself.
struct LookingDevice {
    device: Arc<TestDevice>,
    cache: SetOnce<Weak<BufferCache>, Volume>,
}

impl BlockDevice for LookingDevice {
    delegate_device!(device: length_bytes, sector_size);
    xfs_device::read_only_device!();

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        let cache = self.cache.value().and_then(Weak::upgrade).unwrap();
        assert!(cache.statistics().total().memory_bytes < 1 << 20);
        self.device.read_at(buffer, offset)
    }
}

fn cache(device: &Arc<TestDevice>, capacity_bytes: usize) -> BufferCache {
    BufferCache::new(Arc::<TestDevice>::clone(device), geometry(), capacity_bytes)
}

fn check_mark(cache: &BufferCache, block: u32) {
    let buffer = cache.read(address(block), BLOCK, BlockKind::Symlink).unwrap();
    assert_eq!(buffer.bytes()[TARGET], mark(block));
    assert_eq!(buffer.bytes().len(), BLOCK as usize);
}

fn check_conflict(outcome: Result<super::Buffer, Error>, expected: &Check) {
    match outcome {
        Err(Error::Corrupt(corruption)) => assert_eq!(corruption.check(), expected),
        other => panic!("{other:?}"),
    }
}

/// Returns the next number of a small random generator (xorshift), whose numbers are the same on
/// every run.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn second_read_is_served_from_memory() {
    let device = TestDevice::new();
    let cache = cache(&device, 1 << 20);
    for _ in 0..3 {
        check_mark(&cache, 7);
    }
    assert_eq!(device.reads(), 1);
    let statistics = cache.statistics();
    assert_eq!((statistics.hits, statistics.total().misses), (2, 1));
}

#[test]
fn failed_read_reports_its_address_and_is_not_remembered() {
    let device = TestDevice::new();
    let cache = cache(&device, 1 << 20);
    device.fail(address(3).byte_offset().unwrap()..u64::MAX);
    match cache.read(address(3), BLOCK, BlockKind::Symlink) {
        Err(Error::Io(error)) => {
            assert_eq!((error.operation, error.at), ("read", address(3)));
            assert_eq!(error.length_bytes, u64::from(BLOCK));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(cache.statistics().total().failures, 1);
    assert_eq!(cache.statistics().total().buffers, 0);
    device.fail(0..0);
    check_mark(&cache, 3);
}

#[test]
fn read_past_the_device_returns_unexpected_eof() {
    let cache = cache(&TestDevice::new(), 1 << 20);
    for at in [address(BLOCKS), DiskAddr(u64::MAX - 1), DiskAddr(u64::MAX / 512)] {
        match cache.read(at, BLOCK, BlockKind::Symlink) {
            Err(Error::Io(error)) => assert_eq!(error.source.kind(), ErrorKind::UnexpectedEof),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn invalid_map_is_refused_without_a_read() {
    let device = TestDevice::new();
    let cache = cache(&device, 1 << 20);
    let piece = |length_bytes| BufferExtent { at: address(1), length_bytes };
    let maps: [&[BufferExtent]; 5] = [
        &[],
        &[piece(0)],
        &[piece(BLOCK), piece(0)],
        &[piece(u32::MAX)],
        &[piece(u32::MAX), piece(u32::MAX)],
    ];
    for map in maps {
        match cache.read_mapped(map, BlockKind::Symlink) {
            Err(Error::Io(error)) => assert_eq!(error.source.kind(), ErrorKind::InvalidInput),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(device.reads(), 0);
}

#[test]
fn read_as_another_kind_or_length_is_corruption() {
    let cache = cache(&TestDevice::new(), 1 << 20);
    check_mark(&cache, 5);
    let in_use = |wanted, wanted_bytes| Check::BufferInUse {
        cached: BlockKind::Symlink,
        cached_bytes: BLOCK,
        wanted,
        wanted_bytes,
    };
    let as_other_kind = cache.read(address(5), BLOCK, BlockKind::Attr);
    check_conflict(as_other_kind, &in_use(BlockKind::Attr, BLOCK));
    let longer = cache.read(address(5), 2 * BLOCK, BlockKind::Symlink);
    check_conflict(longer, &in_use(BlockKind::Symlink, 2 * BLOCK));
    // The buffer itself is still valid.
    check_mark(&cache, 5);
}

/// Checks I2 of `xfs_buffer::buffer`: the extents of a buffer never change. A read of the buffer's
/// address with other extents is a corruption.
#[test]
fn read_with_another_map_from_one_address_is_corruption() {
    let cache = cache(&TestDevice::new(), 1 << 20);
    let map = |second| {
        [1, second].map(|block| BufferExtent { at: address(block), length_bytes: BLOCK / 2 })
    };
    // Half blocks do not verify as any kind, so the cached core is entered by hand.
    let core =
        Arc::new(super::BufferCore::new(super::buffer_map(&map(9)).unwrap(), BlockKind::Symlink));
    core.finish_load(core.begin_load(), Box::default());
    let shard = cache.shard(address(1));
    assert!(matches!(shard.enter(&core), super::Entered::New));
    shard.keep(core);
    assert!(cache.read_mapped(&map(9), BlockKind::Symlink).is_ok());
    let expected = Check::BufferElsewhere { cached: address(9), wanted: address(8) };
    check_conflict(cache.read_mapped(&map(8), BlockKind::Symlink), &expected);
}

#[test]
fn damaged_block_fails_on_read_and_is_not_cached() {
    let at = address(2);
    let device = TestDevice::with_damage(at.byte_offset().unwrap() as usize + 100);
    let cache = cache(&device, 1 << 20);
    for _ in 0..2 {
        match cache.read(at, BLOCK, BlockKind::Symlink) {
            Err(Error::Corrupt(corruption)) => {
                assert!(matches!(corruption.check(), Check::Checksum { .. }));
                assert_eq!(corruption.address(), StructureAddress::Disk(at));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(device.reads(), 2);
}

/// Checks I1 of `xfs_buffer::shard`: there is one live core (shared state of a buffer) per address.
/// Threads read one buffer at the same time, and the device must be read once.
#[test]
fn concurrent_reads_of_one_buffer_read_the_device_once() {
    let device = TestDevice::new();
    let cache = cache(&device, 1 << 20);
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for block in 0..200 {
                    start.wait();
                    check_mark(&cache, block);
                }
            });
        }
    });
    assert_eq!(device.reads(), 200);
}

#[test]
fn memory_of_unused_buffers_stays_within_the_capacity() {
    const CAPACITY: usize = 1 << 20;
    // A shard may exceed its capacity by the buffers that one arrival's sweep leaves.
    const SLACK: usize = CAPACITY / 8;
    let cache = cache(&TestDevice::new(), CAPACITY);
    let mut random = 0x5eed;
    for round in 0..60_000_u32 {
        // A few busy blocks among all of them, so that second chances are granted.
        let number = next(&mut random) as u32;
        let block = if round % 4 == 0 { number % BLOCKS } else { number % 300 };
        check_mark(&cache, block);
        if round % 512 == 0 {
            let total = cache.statistics().total();
            assert!(total.memory_bytes <= CAPACITY + SLACK, "{total:?}");
        }
    }
    let total = cache.statistics().total();
    assert!(total.evictions > 0);
    assert_eq!(total.misses - total.evictions, total.buffers as u64);
}

/// Checks that in a cache of capacity 0, buffers stay in memory as long as callers hold references
/// to them (I3 of `xfs_buffer::buffer`), and are evicted afterwards.
#[test]
fn held_buffers_stay_and_released_ones_are_evicted() {
    let cache = cache(&TestDevice::new(), 0);
    let held: Vec<_> = (0..100)
        .map(|block| cache.read(address(block), BLOCK, BlockKind::Symlink).unwrap())
        .collect();
    assert_eq!(cache.statistics().total().buffers, 100);
    for (block, buffer) in held.iter().enumerate() {
        assert_eq!(buffer.bytes()[TARGET], mark(block as u32));
    }
    drop(held);
    for block in 200..220 {
        check_mark(&cache, block);
    }
    let total = cache.statistics().total();
    assert!(total.buffers <= 2, "{total:?}");
}

#[test]
fn buffer_in_repeated_use_outlives_a_scan() {
    let cache = cache(&TestDevice::new(), 64 * BLOCK as usize);
    let mut busy_misses = 0;
    for block in 0..2000 {
        let before = cache.statistics().total().misses;
        check_mark(&cache, 4000);
        busy_misses += cache.statistics().total().misses - before;
        check_mark(&cache, block);
    }
    assert_eq!(busy_misses, 1);
}

#[test]
fn held_buffer_outlives_its_cache() {
    let cache = cache(&TestDevice::new(), 1 << 20);
    let buffer = cache.read(address(9), BLOCK, BlockKind::Symlink).unwrap();
    drop(cache);
    assert_eq!(buffer.bytes()[TARGET], mark(9));
    assert_eq!((buffer.at(), buffer.kind()), (address(9), BlockKind::Symlink));
}

/// Checks that many threads can use a cache that is far too small, over a device that fails now and
/// then. Each read returns the right bytes or the device's error, and never a buffer that is being
/// evicted (I2 of `xfs_buffer::shard`).
#[test]
fn threads_over_a_small_cache_read_the_right_bytes() {
    let device = TestDevice::new();
    let cache = cache(&device, 32 * BLOCK as usize);
    let bad = address(40).byte_offset().unwrap()..address(44).byte_offset().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (cache, device, bad) = (&cache, &device, bad.clone());
            scope.spawn(move || {
                let mut random = 0x5eed + thread;
                for round in 0..20_000 {
                    let block = (next(&mut random) % 64) as u32;
                    if thread == 0 && round % 100 == 0 {
                        device.fail(if round % 200 == 0 { bad.clone() } else { 0..0 });
                    }
                    match cache.read(address(block), BLOCK, BlockKind::Symlink) {
                        Ok(buffer) => assert_eq!(buffer.bytes()[TARGET], mark(block)),
                        Err(Error::Io(_)) => assert!((40..44).contains(&block)),
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let total = cache.statistics().total();
    assert!(total.evictions > 0 && total.failures > 0);
    assert_eq!(total.misses - total.evictions, total.buffers as u64);
}

#[cfg(feature = "count")]
#[test]
fn hit_writes_no_word_of_volume_or_group_scope() {
    const HITS: u64 = 1000;
    let cache = cache(&TestDevice::new(), 1 << 20);
    check_mark(&cache, 7);
    check_mark(&cache, 7);
    let before = xfs_sync::thread_counts();
    for _ in 0..HITS {
        drop(cache.read(address(7), BLOCK, BlockKind::Symlink).unwrap());
    }
    let read = xfs_sync::thread_counts().since(&before);
    assert_eq!((read.volume.total(), read.group.total(), read.object.total()), (0, 0, 0));
    assert_eq!(read.slot.total(), HITS);
    let before = xfs_sync::thread_counts();
    for _ in 0..HITS {
        let buffer = cache.read(address(7), BLOCK, BlockKind::Symlink).unwrap();
        assert_eq!(buffer.bytes()[TARGET], mark(7));
    }
    let used = xfs_sync::thread_counts().since(&before);
    assert_eq!((used.volume.total(), used.group.total()), (0, 0));
    assert_eq!(used.object.total(), HITS, "the lock on the bytes");
}

#[cfg(feature = "count")]
#[test]
fn miss_takes_one_lock_of_its_shard() {
    let device = TestDevice::new();
    let cache = cache(&device, 1 << 20);
    check_mark(&cache, 1);
    let before = xfs_sync::thread_counts();
    check_mark(&cache, 2);
    let counted = xfs_sync::thread_counts().since(&before);
    assert_eq!(counted.group.total(), 1);
    // The two counters of the test device.
    assert_eq!(counted.volume.total(), 2);
}

/// Checks I3 of `xfs_buffer::shard`: no I/O happens under the lock of a shard's clock. The test
/// device takes the lock of every clock in each read, which would deadlock if the reading thread
/// held such a lock.
#[test]
fn read_holds_no_clock_while_the_device_works() {
    let device = Arc::new(LookingDevice { device: TestDevice::new(), cache: SetOnce::new() });
    let cache = Arc::new(BufferCache::new(
        Arc::<LookingDevice>::clone(&device),
        geometry(),
        4 * BLOCK as usize,
    ));
    device.cache.value_or_init(|| Arc::downgrade(&cache));
    for block in 0..100 {
        check_mark(&cache, block);
    }
    assert!(cache.statistics().total().evictions > 0);
}

#[test]
fn torn_block_of_a_live_volume_is_read_again() {
    let device = TestDevice::new();
    let cache = cache(&device, 1 << 20).with_liveness(Liveness::Live);
    device.tear(LIVE_REREADS as u64);
    check_mark(&cache, 5);
    assert_eq!(device.reads(), LIVE_REREADS as u64 + 1);
}

#[test]
fn block_that_stays_torn_is_reported_corrupt() {
    let device = TestDevice::new();
    let live = cache(&device, 1 << 20).with_liveness(Liveness::Live);
    device.tear(LIVE_REREADS as u64 + 1);
    assert!(matches!(live.read(address(5), BLOCK, BlockKind::Symlink), Err(Error::Corrupt(_))));
    let quiet = cache(&device, 1 << 20);
    device.tear(1);
    assert!(matches!(quiet.read(address(5), BLOCK, BlockKind::Symlink), Err(Error::Corrupt(_))));
}

#[test]
fn fresh_read_ignores_memory_and_is_not_cached() {
    let device = TestDevice::new();
    let cache = cache(&device, 1 << 20);
    check_mark(&cache, 5);
    let fresh = cache.read_fresh(address(5), BLOCK, BlockKind::Symlink).unwrap();
    assert_eq!(fresh.bytes()[TARGET], mark(5));
    assert_eq!(device.reads(), 2);
    assert_eq!(cache.statistics().total().buffers, 1);
}
