//! A check of the end of a log's first cycle (I6 of `xfs_log::writer`).

use std::ops::Range;

use xfs_device::{BlockDevice, Durability};
use xfs_format::log_record::block_cycle;
#[cfg(not(shuttle))]
use xfs_testkit::{Recording, Request};

/// The blocks of a new log that are durable, according to the writes and flushes that its device
/// has completed. Checks that all of cycle 1 is durable when a write of a block of cycle 2 begins.
pub(super) struct FirstCycle {
    durable: Vec<bool>,
    /// The blocks whose writes have ended since the last flush began.
    cached: Vec<usize>,
    has_wrapped: bool,
}

impl FirstCycle {
    /// Creates a check for the log that takes the first `log_blocks` blocks of `device`.
    pub(super) fn new(device: &dyn BlockDevice, log_blocks: u32) -> Self {
        let mut log = vec![0; log_blocks as usize * 512];
        device.read_at(&mut log, 0).unwrap();
        let durable = log.chunks(512).map(|block| block_cycle(block) != 0).collect();
        Self { durable, cached: Vec::new(), has_wrapped: false }
    }

    /// Returns whether a write of a block of cycle 2 has begun.
    pub(super) fn has_wrapped(&self) -> bool {
        self.has_wrapped
    }

    fn blocks(&self, offset: u64, bytes: &[u8]) -> Range<usize> {
        let start = offset as usize / 512;
        start..self.durable.len().min(start + bytes.len() / 512)
    }

    /// Notes that a write begins. Returns an error if it writes a block of cycle 2 before all of
    /// cycle 1 is durable.
    pub(super) fn begin_write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        for (block, bytes) in self.blocks(offset, bytes).zip(bytes.chunks(512)) {
            if block_cycle(bytes) != 2 {
                continue;
            }
            self.has_wrapped = true;
            if let Some(missing) = self.durable.iter().position(|durable| !durable) {
                return Err(format!(
                    "{block} is written in cycle 2, {missing} is not durable (I6)"
                ));
            }
        }
        Ok(())
    }

    /// Notes that the device has completed a write.
    pub(super) fn end_write(&mut self, offset: u64, bytes: &[u8], durability: Durability) {
        match durability {
            Durability::Durable => self.end_flush(self.blocks(offset, bytes)),
            Durability::Cached => self.cached.extend(self.blocks(offset, bytes)),
        }
    }

    /// Notes that a flush begins. Returns the blocks that will be durable when the flush has ended.
    pub(super) fn begin_flush(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.cached)
    }

    /// Notes that a flush has ended, which has made these blocks durable.
    pub(super) fn end_flush(&mut self, blocks: impl IntoIterator<Item = usize>) {
        blocks.into_iter().for_each(|block| self.durable[block] = true);
    }
}

/// Checks the recording of a new log's device: all of cycle 1 must be durable when a write of a
/// block of cycle 2 begins. The log has `log_blocks` blocks. Returns whether the log has wrapped.
#[cfg(not(shuttle))]
pub(super) fn check_first_cycle(recording: &Recording, log_blocks: u32) -> Result<bool, String> {
    let mut cycle = FirstCycle::new(&recording.replay(0), log_blocks);
    for request in recording.requests() {
        match request {
            Request::Write { offset, bytes, durability } => {
                cycle.begin_write(*offset, bytes)?;
                cycle.end_write(*offset, bytes, *durability);
            }
            Request::Flush | Request::FlushPart(_) => {
                let blocks = cycle.begin_flush();
                cycle.end_flush(blocks);
            }
            Request::Discard { .. } => {}
        }
    }
    Ok(cycle.has_wrapped())
}
