//! Measures lookups of cached buffers by 1 to 4 threads, for the lookup table that the cache uses
//! and for the designs that were rejected. The results are in docs/adr/0002-buffer-lookup.md.
//!
//! `cargo bench -p xfs-buffer`

#[path = "../src/testing.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod testing;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use xfs_buffer::BufferCache;
use xfs_format::BlockKind;
use xfs_sync::{AtomicU32, Group, Mutex, Ordering, RwLock, Volume};

const BUFFERS: u32 = testing::BLOCKS;
/// Number of lookups of each thread in one round. A round is short, so that some of the rounds run
/// without disturbance by other work on the machine.
const LOOKUPS: u32 = 50_000;
const ROUNDS: u32 = 100;
const SHARDS: usize = 64;

type Table = HashMap<u64, Arc<Vec<u8>>>;

fn table(keep: impl Fn(u64) -> bool) -> Table {
    let all = (0..BUFFERS).map(|block| (testing::address(block).0, Arc::new(vec![0; 64])));
    all.filter(|(at, _)| keep(*at)).collect()
}

/// Returns the time from the start of the first thread to the end of the last one. Each thread does
/// `LOOKUPS` lookups of random block numbers below `range`.
fn time(threads: u32, range: u32, lookup: &(impl Fn(u32) + Sync)) -> Duration {
    let ready = AtomicU32::<Volume>::new(0);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let ready = &ready;
                scope.spawn(move || {
                    let mut random = 0x5eed_u64 + u64::from(thread);
                    ready.fetch_add(1, Ordering::AcqRel);
                    while ready.load(Ordering::Acquire) < threads {
                        std::hint::spin_loop();
                    }
                    let begin = Instant::now();
                    for _ in 0..LOOKUPS {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        lookup((random % u64::from(range)) as u32);
                    }
                    (begin, Instant::now())
                })
            })
            .collect();
        let spans: Vec<_> = running.into_iter().filter_map(|thread| thread.join().ok()).collect();
        let begin = spans.iter().map(|(begin, _)| begin).min();
        let end = spans.iter().map(|(_, end)| end).max();
        begin.zip(end).map_or(Duration::MAX, |(begin, end)| end.duration_since(*begin))
    })
}

fn report(name: &str, lookup: impl Fn(u32) + Sync) {
    for (range, which) in [(BUFFERS, "any of 4096"), (1, "the same one")] {
        print!("{name:38} {which:13}");
        for threads in [1, 2, 4] {
            // The best round: disturbance only ever makes a round slower.
            let best = (0..ROUNDS).map(|_| time(threads, range, &lookup)).min().unwrap_or_default();
            let rate = f64::from(LOOKUPS * threads) / best.as_secs_f64() / 1e6;
            print!(" {rate:8.1}");
        }
        println!();
    }
}

fn main() {
    println!("lookups, millions per second, by threads           1        2        4");
    let addresses: Vec<u64> = (0..BUFFERS).map(|block| testing::address(block).0).collect();
    let address = |block: u32| addresses.get(block as usize).copied().unwrap_or_default();

    let cache = BufferCache::new(testing::TestDevice::new(), testing::geometry(), 64 << 20);
    report("this cache", |block| {
        let at = xfs_format::DiskAddr(address(block));
        black_box(cache.read(at, testing::BLOCK, BlockKind::Symlink).ok());
    });
    report("this cache, bytes locked too", |block| {
        let at = xfs_format::DiskAddr(address(block));
        if let Ok(buffer) = cache.read(at, testing::BLOCK, BlockKind::Symlink) {
            black_box(buffer.bytes().first());
        }
    });
    let one = RwLock::<Table, Volume>::new(table(|_| true));
    report("one table under a read-write lock", |block| {
        black_box(one.read().get(&address(block)).cloned());
    });
    let hash = RandomState::new();
    let shard_of = |at: u64| (hash.hash_one(at) >> 32) as usize % SHARDS;
    let shards: Vec<_> = (0..SHARDS).map(|shard| table(|at| shard_of(at) == shard)).collect();
    let locked: Vec<_> = shards.iter().cloned().map(RwLock::<Table, Group>::new).collect();
    report("64 tables under read-write locks", |block| {
        let at = address(block);
        black_box(locked.get(shard_of(at)).and_then(|table| table.read().get(&at).cloned()));
    });
    let locked: Vec<_> = shards.into_iter().map(Mutex::<Table, Group>::new).collect();
    report("64 tables under mutexes", |block| {
        let at = address(block);
        black_box(locked.get(shard_of(at)).and_then(|table| table.lock().get(&at).cloned()));
    });
}
