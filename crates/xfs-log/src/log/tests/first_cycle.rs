//! A check of the end of a log's first cycle (I6 of `xfs_log::writer`).

use xfs_device::{BlockDevice, Durability};
use xfs_format::log_record::block_cycle;
use xfs_testkit::{Recording, Request};

/// Checks a recording of the device of a new log of `log_blocks` blocks: at each write of a block
/// of cycle 2, all blocks of cycle 1 are durable. Returns whether cycle 2 has begun.
pub(super) fn check_first_cycle(recording: &Recording, log_blocks: u32) -> Result<bool, String> {
    let mut log = vec![0; log_blocks as usize * 512];
    recording.replay(0).read_at(&mut log, 0).unwrap();
    let mut durable: Vec<bool> = log.chunks(512).map(|block| block_cycle(block) != 0).collect();
    let (mut cached, mut has_wrapped) = (Vec::new(), false);
    for request in recording.requests() {
        let (offset, bytes, durability) = match request {
            Request::Write { offset, bytes, durability } => (*offset, bytes, *durability),
            Request::Flush | Request::FlushPart(_) => {
                cached.drain(..).for_each(|block: usize| durable[block] = true);
                continue;
            }
            Request::Discard { .. } => continue,
        };
        let written = (offset as usize / 512..durable.len()).zip(bytes.chunks(512));
        for (block, _) in written.clone().filter(|(_, bytes)| block_cycle(bytes) == 2) {
            has_wrapped = true;
            if let Some(missing) = durable.iter().position(|durable| !durable) {
                return Err(format!(
                    "{block} is written in cycle 2, {missing} is not durable (I6)"
                ));
            }
        }
        match durability {
            Durability::Durable => written.for_each(|(block, _)| durable[block] = true),
            Durability::Cached => cached.extend(written.map(|(block, _)| block)),
        }
    }
    Ok(has_wrapped)
}
