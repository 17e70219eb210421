//! How much is fetched at a time: one block for a lone read, and up to [`MAX_WINDOW_BYTES`] for a
//! reader that moves forwards.
//!
//! Owns: the recognition of sequential readers. Does **not** own the blocks.

/// The size of a block in bytes: the smallest part of an object that is fetched and cached.
pub(super) const BLOCK_BYTES: u64 = 64 << 10;
/// The most bytes that are fetched for one read at a time.
pub(super) const MAX_WINDOW_BYTES: u64 = 8 << 20;
/// The most sequential readers that are followed at the same time.
const STREAMS: usize = 8;

/// The state that recognises the sequential readers of an object. It determines how much is read
/// ahead for each of them.
pub(super) struct ReadAhead {
    streams: Vec<Stream>,
    /// The most blocks that are fetched at a time for one reader.
    limit: u64,
    clock: u64,
}

/// A reader that moves forwards.
struct Stream {
    /// The first block after those that were fetched for this reader.
    next: u64,
    /// The number of blocks that the last fetch for this reader had.
    window: u64,
    used: u64,
}

impl ReadAhead {
    /// Creates the state for a cache of this many blocks. Blocks that were fetched ahead must stay
    /// in the cache until they are read, for all readers together. So the window of a reader is at
    /// most a part of the cache.
    pub(super) fn new(cache_blocks: u64) -> Self {
        let limit = (cache_blocks / STREAMS as u64).clamp(1, MAX_WINDOW_BYTES / BLOCK_BYTES);
        Self { streams: Vec::new(), limit, clock: 0 }
    }

    /// Returns the number of blocks to fetch from block `first` on, for a reader that needs
    /// `wanted` blocks. The number doubles with each fetch that continues an earlier one.
    pub(super) fn window(&mut self, first: u64, wanted: u64) -> u64 {
        self.clock += 1;
        let wanted = wanted.clamp(1, MAX_WINDOW_BYTES / BLOCK_BYTES);
        let continues = |stream: &Stream| {
            (stream.next..=stream.next.saturating_add(stream.window)).contains(&first)
        };
        let window = match self.streams.iter().position(continues) {
            Some(at) => {
                let window = self.streams.swap_remove(at).window;
                window.saturating_mul(2).min(self.limit).max(wanted)
            }
            None => wanted,
        };
        if self.streams.len() >= STREAMS {
            let oldest = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.used);
            if let Some(at) = oldest.map(|(at, _)| at) {
                self.streams.swap_remove(at);
            }
        }
        let stream = Stream { next: first.saturating_add(window), window, used: self.clock };
        self.streams.push(stream);
        window
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK_BYTES, MAX_WINDOW_BYTES, ReadAhead, STREAMS};

    #[test]
    fn lone_reads_fetch_one_block() {
        let mut ahead = ReadAhead::new(1024);
        for first in [500, 7, 9000, 0, 300] {
            assert_eq!(ahead.window(first, 1), 1, "{first}");
        }
    }

    #[test]
    fn sequential_reader_gets_a_window_that_doubles_up_to_the_limit() {
        let mut ahead = ReadAhead::new(1024);
        let (mut at, mut windows) = (40, Vec::new());
        for _ in 0..10 {
            let window = ahead.window(at, 1);
            at += window;
            windows.push(window);
        }
        assert_eq!(windows, [1, 2, 4, 8, 16, 32, 64, 128, 128, 128]);
        assert_eq!(128 * BLOCK_BYTES, MAX_WINDOW_BYTES);
    }

    #[test]
    fn readers_in_turns_are_all_followed() {
        let mut ahead = ReadAhead::new(1024);
        let mut at: Vec<u64> = (0..STREAMS as u64).map(|reader| reader * 10_000).collect();
        for round in 0..4 {
            for next in &mut at {
                let window = ahead.window(*next, 1);
                assert_eq!(window, 1 << round);
                *next += window;
            }
        }
    }

    #[test]
    fn windows_of_all_readers_fit_into_a_small_cache() {
        let mut ahead = ReadAhead::new(16);
        let mut at = 0;
        for _ in 0..10 {
            at += ahead.window(at, 1);
        }
        assert_eq!(ahead.window(at, 1), 2);
        assert_eq!(ahead.window(5000, 1000), 128, "a long read is fetched in whole windows");
    }
}
