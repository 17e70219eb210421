use std::sync::Arc;

use xfs_device::{BlockDevice, MemoryDevice};
use xfs_format::{BlockKind, Check, DiskAddr, Lsn};
use xfs_testkit::{FailingDevice, Fault, Persistence, RequestKind};

use super::super::BufferCache;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::map::BufferExtent;
use crate::testing::{BLOCK, TARGET, address, geometry, mark, symlink_block};

const BLOCKS: u32 = 64;

fn device() -> Arc<MemoryDevice> {
    let bytes: Vec<u8> = (0..BLOCKS).flat_map(symlink_block).collect();
    Arc::new(MemoryDevice::from_bytes(&bytes).unwrap())
}

fn cache(device: &Arc<MemoryDevice>, capacity_bytes: usize) -> BufferCache {
    BufferCache::new(Arc::<MemoryDevice>::clone(device), geometry(), capacity_bytes)
}

fn piece(block: u32, length_bytes: u32) -> BufferExtent {
    BufferExtent { at: address(block), length_bytes }
}

fn read(cache: &BufferCache, block: u32) -> Buffer {
    cache.read(address(block), BLOCK, BlockKind::Symlink).unwrap()
}

fn on_device(device: &MemoryDevice, at: DiskAddr, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    device.read_at(&mut bytes, at.byte_offset().unwrap()).unwrap();
    bytes
}

#[test]
fn claimed_buffer_is_latched_and_zero_without_a_read() {
    let device = device();
    let cache = cache(&device, 1 << 20);
    let claimed = cache.claim(&[piece(5, BLOCK)], BlockKind::Attr).unwrap();
    assert!(claimed.is_latched());
    assert_eq!(claimed.kind(), BlockKind::Attr);
    assert!(claimed.bytes().iter().all(|byte| *byte == 0));
    assert_eq!(claimed.bytes().len(), BLOCK as usize);
    let found = cache.read(address(5), BLOCK, BlockKind::Attr).unwrap();
    assert_eq!(found, claimed, "a concurrent read gets the same buffer");
}

#[test]
fn claim_of_a_cached_buffer_changes_its_kind() {
    let cache = cache(&device(), 1 << 20);
    let before = read(&cache, 5);
    let claimed = cache.claim(&[piece(5, BLOCK)], BlockKind::Attr).unwrap();
    assert_eq!(claimed, before);
    assert_eq!(before.kind(), BlockKind::Attr);
    assert!(before.bytes().iter().all(|byte| *byte == 0));
    let as_before = cache.read(address(5), BLOCK, BlockKind::Symlink);
    assert!(matches!(as_before, Err(Error::Corrupt(_))), "its kind has changed (I2)");
}

#[test]
fn claim_waits_for_the_latch() {
    let cache = cache(&device(), 1 << 20);
    let held = read(&cache, 5);
    held.latch();
    std::thread::scope(|scope| {
        let claim = scope.spawn(|| cache.claim(&[piece(5, BLOCK)], BlockKind::Attr).unwrap());
        for _ in 0..1000 {
            assert_eq!(held.kind(), BlockKind::Symlink);
            std::thread::yield_now();
        }
        held.unlatch();
        assert_eq!(claim.join().unwrap(), held);
    });
    assert!(held.is_latched());
}

#[test]
fn claim_of_another_shape_replaces_the_buffer() {
    let cache = cache(&device(), 1 << 20);
    let before = read(&cache, 5);
    let claimed = cache.claim(&[piece(5, 2 * BLOCK)], BlockKind::InodeCluster).unwrap();
    assert_ne!(claimed, before);
    assert_eq!(before.bytes()[TARGET], mark(5), "a holder of the old buffer keeps its bytes");
    let found = cache.read(address(5), 2 * BLOCK, BlockKind::InodeCluster).unwrap();
    assert_eq!(found, claimed);
    // Dropping the old buffer leaves the new one in the table.
    drop(before);
    for block in 8..BLOCKS {
        read(&cache, block);
    }
    let found = cache.read(address(5), 2 * BLOCK, BlockKind::InodeCluster).unwrap();
    assert_eq!(found, claimed);
}

#[test]
fn forgotten_buffer_is_read_again_from_the_device() {
    let cache = cache(&device(), 1 << 20);
    let before = read(&cache, 5);
    before.latch();
    before.bytes_mut()[TARGET] = b'!';
    before.unlatch();
    cache.forget(&before);
    let after = read(&cache, 5);
    assert_ne!(after, before);
    assert_eq!((before.bytes()[TARGET], after.bytes()[TARGET]), (b'!', mark(5)));
    // Forgetting the old buffer again leaves the new one in the table.
    cache.forget(&before);
    assert_eq!(read(&cache, 5), after);
}

#[test]
fn written_buffer_verifies_when_it_is_read_again() {
    let device = device();
    let cache = cache(&device, 1 << 20);
    cache.set_log_head(Lsn::new(1, 10));
    let buffer = read(&cache, 5);
    buffer.latch();
    buffer.bytes_mut()[TARGET] = b'!';
    cache.write(&buffer, Lsn::new(2, 30)).unwrap();
    buffer.unlatch();
    cache.forget(&buffer);
    let again = read(&cache, 5);
    assert_eq!(again.bytes()[TARGET], b'!');
    // The log now ends there. A block with a later LSN is still corrupt.
    let mut bytes = again.bytes().to_vec();
    BlockKind::Symlink.seal(&mut bytes, Lsn::new(2, 31));
    let outcome = BlockKind::Symlink.verify(&bytes, address(5), &cache.verify_context());
    assert!(matches!(outcome.unwrap_err().check(), Check::LsnAheadOfLog { .. }));
}

#[test]
fn readers_see_unchanged_bytes_while_a_buffer_is_written() {
    let device = device();
    let cache = cache(&device, 1 << 20);
    let buffer = read(&cache, 5);
    let before = buffer.bytes().to_vec();
    let reading = buffer.bytes();
    buffer.latch();
    cache.write(&buffer, Lsn::new(2, 30)).unwrap();
    buffer.unlatch();
    assert_eq!(*reading, *before);
    assert_ne!(on_device(&device, address(5), BLOCK as usize), before, "the device has the LSN");
}

#[test]
fn buffer_that_fails_its_verifier_is_not_written() {
    let device = device();
    let cache = cache(&device, 1 << 20);
    let buffer = read(&cache, 5);
    let before = on_device(&device, address(5), BLOCK as usize);
    buffer.latch();
    // A target longer than the block.
    buffer.bytes_mut()[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(matches!(cache.write(&buffer, Lsn::new(2, 30)), Err(Error::Corrupt(_))));
    assert_eq!(on_device(&device, address(5), BLOCK as usize), before);
}

#[test]
fn extents_of_a_buffer_are_written_to_their_addresses() {
    let device = device();
    let cache = cache(&device, 1 << 20);
    let map = [piece(9, BLOCK), piece(3, BLOCK), piece(20, BLOCK)];
    let buffer = cache.claim(&map, BlockKind::InodeCluster).unwrap();
    for (index, bytes) in buffer.bytes_mut().chunks_mut(BLOCK as usize).enumerate() {
        bytes.fill(index as u8 + 1);
    }
    cache.write(&buffer, Lsn::new(1, 1)).unwrap();
    for (block, byte) in [(9, 1), (3, 2), (20, 3)] {
        let found = on_device(&device, address(block), BLOCK as usize);
        assert!(found.iter().all(|found| *found == byte), "block {block}");
    }
    assert_eq!(on_device(&device, address(10), BLOCK as usize), symlink_block(10));
}

#[test]
fn failed_write_reports_its_address() {
    let failing = Arc::new(FailingDevice::new(device(), 0x5eed));
    let cache = BufferCache::new(Arc::<FailingDevice>::clone(&failing), geometry(), 1 << 20);
    let map = [piece(9, BLOCK), piece(3, BLOCK)];
    let buffer = cache.claim(&map, BlockKind::InodeCluster).unwrap();
    let fault = Fault { kind: RequestKind::Write, nth: 2, persistence: Persistence::Once };
    failing.set_fault(Some(fault));
    match cache.write(&buffer, Lsn::new(1, 1)) {
        Err(Error::Io(error)) => {
            assert_eq!((error.operation, error.at), ("write", address(3)));
            assert_eq!(error.length_bytes, u64::from(BLOCK));
        }
        other => panic!("{other:?}"),
    }
    assert!(cache.write(&buffer, Lsn::new(1, 1)).is_ok());
}

#[test]
#[should_panic(expected = "without its latch")]
fn write_without_the_latch_panics() {
    let cache = cache(&device(), 1 << 20);
    let _ = cache.write(&read(&cache, 5), Lsn::new(1, 1));
}

/// Checks I1 of `xfs_buffer::shard` with threads that claim, change, write, forget and read the
/// same few blocks. Each block counts its changes. If a block had two buffers at the same time,
/// some of the counts would be lost.
#[test]
fn threads_that_claim_and_read_share_one_buffer() {
    const ROUNDS: u64 = 4000;
    const THREADS: u64 = 4;
    let device = device();
    let cache = cache(&device, 4 * BLOCK as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let block = ((round * 7 + thread) % 4) as u32;
                    let at = address(block);
                    // A claim clears the contents, so the count is read from the device.
                    let buffer = cache.claim(&[piece(block, BLOCK)], BlockKind::InodeCluster);
                    let buffer = buffer.unwrap();
                    let mut bytes = vec![0; BLOCK as usize];
                    cache.device().read_at(&mut bytes, at.byte_offset().unwrap()).unwrap();
                    let counted = if bytes[..4] == *b"XSLM" { 0 } else { bytes[0] };
                    buffer.bytes_mut()[0] = counted.wrapping_add(1);
                    cache.write(&buffer, Lsn::new(1, 1)).unwrap();
                    if round % 5 == 0 {
                        cache.forget(&buffer);
                    }
                    buffer.unlatch();
                    let _ = cache.read(at, BLOCK, BlockKind::InodeCluster);
                    let _ = cache.read(address(8 + block), BLOCK, BlockKind::Symlink).unwrap();
                }
            });
        }
    });
    let counts: u64 = (0..4).map(|block| u64::from(on_device(&device, address(block), 1)[0])).sum();
    assert_eq!(counts % 256, ROUNDS * THREADS % 256);
}
