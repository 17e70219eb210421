//! An object, opened as a read-only device.

use std::io;

use xfs_device::{BlockDevice, DeviceAccess, FileOptions, check_read};

use super::address::ObjectAddress;
use super::cache::{Block, BlockCache, CacheAnswer, Claim};
use super::client::{ByteRange, ObjectFacts, Opened, RangeClient};
use super::error::ObjectError;
use super::options::ObjectOptions;
use super::read_ahead::BLOCK_BYTES;

const SECTOR_BYTES: u32 = 512;
/// The most bytes of one request. A longer range is read by several requests at the same time.
const PIECE_BYTES: u64 = 1 << 20;

/// An object of a web or S3 server.
pub(crate) struct ObjectDevice {
    client: RangeClient,
    facts: ObjectFacts,
    cache: BlockCache,
}

impl ObjectDevice {
    /// Opens the object at an address, and reads its first block.
    ///
    /// # Errors
    ///
    /// See [`ObjectError`].
    pub(crate) fn open(
        address: &str,
        options: FileOptions,
        object_options: &ObjectOptions,
    ) -> Result<Self, ObjectError> {
        if options.access() != DeviceAccess::ReadOnly {
            return Err(ObjectError::ReadOnly);
        }
        let address = ObjectAddress::parse(address, object_options)?;
        let mut client = RangeClient::new(address, object_options)?;
        let Opened { facts, first } = client.open(BLOCK_BYTES)?;
        let cache = BlockCache::new(object_options.cache_size(), facts.length_bytes);
        cache.put(0, first.into());
        Ok(Self { client, facts, cache })
    }

    /// Fetches the claimed blocks. Stores them in the cache and returns them.
    fn fetch(&self, claim: Claim<'_>) -> io::Result<Vec<Block>> {
        let start = claim.first * BLOCK_BYTES;
        // The last block of the longest object ends past the largest number.
        let end = (claim.first + claim.count).saturating_mul(BLOCK_BYTES);
        let end = end.min(self.facts.length_bytes);
        let piece = |start| ByteRange { start, length: PIECE_BYTES.min(end - start) };
        let pieces: Vec<ByteRange> =
            (start..end).step_by(PIECE_BYTES as usize).map(piece).collect();
        let fetched = match pieces.as_slice() {
            [only] => vec![self.client.fetch(*only, &self.facts)?],
            _ => self.fetch_together(&pieces)?,
        };
        let blocks = fetched.iter().flat_map(|bytes| bytes.chunks(BLOCK_BYTES as usize));
        let blocks: Vec<Block> = blocks.map(Block::from).collect();
        claim.fill(&blocks);
        Ok(blocks)
    }

    /// Fetches several ranges at the same time, each in a thread of its own.
    fn fetch_together(&self, pieces: &[ByteRange]) -> io::Result<Vec<Vec<u8>>> {
        std::thread::scope(|scope| {
            let fetch = |piece: ByteRange| {
                let fetch = move || self.client.fetch(piece, &self.facts);
                std::thread::Builder::new().spawn_scoped(scope, fetch)
            };
            let threads: Vec<_> = pieces.iter().map(|piece| fetch(*piece)).collect();
            let finish = |thread: io::Result<std::thread::ScopedJoinHandle<'_, _>>| {
                let joined = thread?.join();
                let fetched: Result<Vec<u8>, ObjectError> =
                    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                fetched.map_err(io::Error::from)
            };
            threads.into_iter().map(finish).collect()
        })
    }
}

impl BlockDevice for ObjectDevice {
    fn length_bytes(&self) -> u64 {
        self.facts.length_bytes
    }

    fn sector_size(&self) -> u32 {
        SECTOR_BYTES
    }

    xfs_device::read_only_device!();

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        check_read(self, offset, buffer.len())?;
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let number = at / BLOCK_BYTES;
            let wanted = (at + rest.len() as u64).div_ceil(BLOCK_BYTES) - number;
            let blocks = match self.cache.find(number, wanted) {
                CacheAnswer::Ready(block) => vec![block],
                CacheAnswer::Absent(claim) => self.fetch(claim)?,
            };
            for block in blocks {
                let from = block.get((at % BLOCK_BYTES) as usize..);
                let from = from.expect("a block reaches the end of the object");
                let length = from.len().min(rest.len());
                let (piece, after) = rest.split_at_mut_checked(length).expect("a part of the rest");
                piece.copy_from_slice(from.get(..length).expect("a part of the block"));
                at += length as u64;
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
        }
        Ok(())
    }
}
