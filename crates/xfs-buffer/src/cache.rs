//! The buffer cache: finds the buffer of a disk address, or reads and verifies it.
//!
//! A read that finds its buffer writes three things: the hold count of the buffer, the buffer's
//! reference bit if it is clear, and the thread's own part of a counter. Operations on other
//! buffers write none of these three. A read that does not find its buffer loads it. Other threads
//! that read the same buffer wait for the load. Threads that read other buffers do not wait.
//!
//! Claiming new blocks and writing in place are in [`write`](mod@write). Reads that keep no buffer
//! are in [`uncached`].
//!
//! ```text
//!            enter                    finish_load, keep
//!   absent ---------> loading (locked) ----------------> loaded <---+
//!     ^                  |                                 |  |     | find (hold + 1)
//!     +------------------+                                 |  +-----+
//!     |     forget: device or verifier failed              |
//!     +----------------------------------------------------+
//!           sweep: no holder, no second chance left;
//!           forget: freed, and that is durable
//! ```

mod uncached;
mod write;

use std::hash::BuildHasher;
use std::io;
use std::sync::Arc;

use xfs_device::BlockDevice;
use xfs_format::{BlockKind, DiskAddr, Geometry, Lsn, VerifyContext};
use xfs_sync::{AtomicU64, CachePadded, Ordering, Slot, Slots, VersionChain, Volume};

use crate::buffer::{Buffer, BufferCore, Loading};
use crate::error::{IoError, Result};
use crate::hash::AddressHash;
use crate::map::{BufferExtent, BufferMap};
use crate::shard::{Entered, Shard, ShardStatistics};

/// The least capacity in bytes of a shard, an independent part of the cache. With less capacity, a
/// shard would hold too few buffers.
const SHARD_BYTES: usize = 512 << 10;

/// The greatest number of shards. More shards gain nothing: with 64, two concurrent misses rarely
/// need the same shard.
const MAX_SHARDS: usize = 64;

/// Number of times that a structure of a live volume is read again before its failed check is
/// believed.
const LIVE_REREADS: usize = 3;

/// Whether another program may write the device while it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Liveness {
    /// No other program writes the device: a structure that fails its checks is damaged.
    #[default]
    Quiet,
    /// A kernel has the volume mounted. A structure that fails its checks may be half written, so
    /// it is read again a few times before the failure is believed.
    Live,
}

/// The cache of one volume's metadata buffers.
///
/// Every layer above receives the cache as its context: the cache knows the geometry and the
/// device.
pub struct BufferCache {
    device: Arc<dyn BlockDevice>,
    /// The device of the realtime section. `None` if the section has no device of its own, or if
    /// that device was not given.
    realtime_device: Option<Arc<dyn BlockDevice>>,
    /// The geometry of the volume, and the geometries from before the volume grew.
    geometry: Arc<VersionChain<Geometry, Volume>>,
    /// The newest LSN that a block on the device may carry; 0 while that is unknown.
    log_head: AtomicU64<Volume>,
    /// Whether a write of a buffer to the device also stores LSN and checksum in the bytes in
    /// memory: see [`keep_seals`](BufferCache::keep_seals).
    keeps_seals: bool,
    liveness: Liveness,
    hash: AddressHash,
    /// The shards of the cache. Their number is a power of two.
    shards: Box<[CachePadded<Shard>]>,
    hits: Slots<AtomicU64<Slot>>,
}

/// Counters of a buffer cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStatistics {
    /// Number of reads that found their buffer in memory.
    pub hits: u64,
    /// The counters of each shard.
    pub shards: Vec<ShardStatistics>,
}

impl CacheStatistics {
    /// Returns the sum of each counter over all shards.
    #[must_use]
    pub fn total(&self) -> ShardStatistics {
        self.shards.iter().fold(ShardStatistics::default(), |sum, shard| ShardStatistics {
            misses: sum.misses + shard.misses,
            failures: sum.failures + shard.failures,
            evictions: sum.evictions + shard.evictions,
            buffers: sum.buffers + shard.buffers,
            memory_bytes: sum.memory_bytes + shard.memory_bytes,
        })
    }
}

impl BufferCache {
    /// Creates a cache over `device` that keeps about `capacity_bytes` of unused buffers in memory.
    ///
    /// Buffers that callers hold stay in memory even beyond that capacity.
    #[must_use]
    pub fn new(
        device: Arc<dyn BlockDevice>,
        geometry: Arc<Geometry>,
        capacity_bytes: usize,
    ) -> Self {
        let hash = AddressHash::new();
        let wanted = (capacity_bytes / SHARD_BYTES).clamp(1, MAX_SHARDS);
        let count = 1 << wanted.ilog2();
        let shard = |_| CachePadded::new(Shard::new(capacity_bytes / count, hash.clone()));
        let shards = (0..count).map(shard).collect();
        let hits = Slots::new(AtomicU64::default);
        let liveness = Liveness::Quiet;
        let geometry = Arc::new(VersionChain::new(Arc::unwrap_or_clone(geometry)));
        Self {
            device,
            realtime_device: None,
            geometry,
            log_head: AtomicU64::new(0),
            keeps_seals: false,
            liveness,
            hash,
            shards,
            hits,
        }
    }

    /// Sets whether another program may write the device while this cache reads it.
    #[must_use]
    pub fn with_liveness(mut self, liveness: Liveness) -> Self {
        self.liveness = liveness;
        self
    }

    /// Sets the device of the realtime section, if the section has a device of its own. The cache
    /// reads no metadata from this device.
    #[must_use]
    pub fn with_realtime_device(mut self, device: Option<Arc<dyn BlockDevice>>) -> Self {
        self.realtime_device = device;
        self
    }

    /// Returns the device that holds the realtime section. For an internal section this is the data
    /// device. `None` if the volume has no such section, or if the section's own device was not
    /// given.
    #[must_use]
    pub fn realtime_device(&self) -> Option<&Arc<dyn BlockDevice>> {
        let realtime = &self.geometry().realtime;
        if !realtime.is_present() {
            return None;
        }
        if realtime.is_internal() { Some(&self.device) } else { self.realtime_device.as_ref() }
    }

    /// Returns the number of times that a structure that fails its checks is read again; 0 unless
    /// the volume is live.
    #[must_use]
    pub const fn rereads(&self) -> usize {
        match self.liveness {
            Liveness::Quiet => 0,
            Liveness::Live => LIVE_REREADS,
        }
    }

    /// Returns the current geometry of the volume. A reference obtained before the volume grew
    /// stays valid and unchanged.
    #[inline]
    #[must_use]
    pub fn geometry(&self) -> &Geometry {
        self.geometry.last()
    }

    /// Returns a reference to the current and earlier geometries, for a caller that holds no
    /// reference to the cache.
    #[must_use]
    pub fn shared_geometry(&self) -> Arc<VersionChain<Geometry, Volume>> {
        Arc::clone(&self.geometry)
    }

    /// Records that the volume has grown. All later reads are verified against `geometry`, so the
    /// caller must hold the latches of the group headers that changed.
    pub fn set_geometry(&self, geometry: Geometry) {
        self.geometry.push(geometry);
    }

    /// Returns the context against which structures of this volume are verified: the geometry and
    /// the end of the log.
    #[inline]
    #[must_use]
    pub fn verify_context(&self) -> VerifyContext<'_> {
        let log_head = Lsn(self.log_head.load(Ordering::Acquire));
        VerifyContext { geometry: self.geometry(), log_head: (log_head.0 != 0).then_some(log_head) }
    }

    /// Returns the data device.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// Makes [`write`](Self::write) store the LSN and the checksum in the buffer in memory too, so
    /// that its bytes are those that a later read of the device would return. The bytes that the
    /// log copies from a buffer then do not depend on whether the buffer was evicted and read again
    /// in between. Without this setting, `write` and the readers of a buffer do not wait for each
    /// other.
    #[must_use]
    pub fn keep_seals(mut self) -> Self {
        self.keeps_seals = true;
        self
    }

    /// Sets the LSN of the log's end, unless a later one is already set. From now on, a buffer that
    /// is read and carries an LSN after the log's end counts as corrupt. Buffers already in memory
    /// are not checked again.
    pub fn set_log_head(&self, head: Lsn) {
        // Load first: most writes in place belong to the checkpoint of the previous one.
        if self.log_head.load(Ordering::Acquire) < head.0 {
            self.log_head.fetch_max(head.0, Ordering::AcqRel);
        }
    }

    /// Returns the buffer of `length_bytes` bytes at `at`. A buffer that is not in memory is read
    /// from the device and verified as a block of the kind `kind`.
    ///
    /// # Errors
    ///
    /// Returns the device's error, or the check that failed. A failure is not remembered: the next
    /// read tries the device again. Returns a corruption if the buffer is in memory with another
    /// kind or length, because two pointers on the volume then claim the same address.
    pub fn read(&self, at: DiskAddr, length_bytes: u32, kind: BlockKind) -> Result<Buffer> {
        self.read_mapped(&[BufferExtent { at, length_bytes }], kind)
    }

    /// Returns a buffer over several extents of the device, in this order. A directory block whose
    /// filesystem blocks are not contiguous is such a buffer. The cache finds the buffer by the
    /// address of its first extent.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`read`](Self::read).
    pub fn read_mapped(&self, map: &[BufferExtent], kind: BlockKind) -> Result<Buffer> {
        let at = map.first().map_or(DiskAddr::NULL, |extent| extent.at);
        let shard = self.shard(at);
        // A round ends without a result only when another thread's load failed in the meantime.
        // That thread returns its error, so there are at most as many rounds as such threads.
        loop {
            let core = match shard.find(at) {
                Some(core) => core,
                None => match self.load(shard, map, kind)? {
                    Loaded::Here(buffer) => return Ok(buffer),
                    Loaded::Elsewhere(core) => core,
                },
            };
            if core.wait_until_loaded() {
                return self.share(core, map, kind);
            }
            shard.forget(&core);
        }
    }

    /// Reads and verifies a buffer from the device even if the cache has it, and does not cache the
    /// result. A caller needs this if its own check of the cached buffer has failed.
    ///
    /// # Errors
    ///
    /// Returns the device's error, or the check that failed.
    pub fn read_fresh(&self, at: DiskAddr, length_bytes: u32, kind: BlockKind) -> Result<Buffer> {
        let core = BufferCore::new(buffer_map(&[BufferExtent { at, length_bytes }])?, kind);
        self.invalidate(core.map());
        let bytes = self.read_verified(core.map(), kind)?;
        core.finish_load(core.begin_load(), bytes);
        Ok(Buffer::new(Arc::new(core)))
    }

    /// Returns the counters since the cache was created. The counters are read one after another,
    /// so they may disagree slightly while other threads run.
    #[must_use]
    pub fn statistics(&self) -> CacheStatistics {
        CacheStatistics {
            hits: self.hits.iter().map(|slot| slot.load(Ordering::Relaxed)).sum(),
            shards: self.shards.iter().map(|shard| shard.statistics()).collect(),
        }
    }

    #[expect(clippy::indexing_slicing, reason = "masked by a length that is a power of two")]
    fn shard(&self, at: DiskAddr) -> &Shard {
        // The table uses the lowest and the highest bits of the same hash.
        let middle = (self.hash.hash_one(at) >> 32) as usize;
        &self.shards[middle & (self.shards.len() - 1)]
    }

    /// Returns the buffer of a loaded core to a caller. (The core is the state that all references
    /// to a buffer share.) Returns a corruption if the core does not have the extents `map` and the
    /// kind `kind`.
    fn share(
        &self,
        core: Arc<BufferCore>,
        map: &[BufferExtent],
        kind: BlockKind,
    ) -> Result<Buffer> {
        if core.kind() != kind || !core.map().matches(map) {
            let wanted = buffer_map(map)?;
            return Err(core.map().conflict(core.kind(), &wanted, kind).into());
        }
        core.note_reference();
        self.hits.mine().fetch_add(1, Ordering::Relaxed);
        Ok(Buffer::new(core))
    }

    /// Creates the core of a buffer (the state that all references to it share), enters the core
    /// into the table, and loads it. If another thread has entered a core for this address first,
    /// returns that core, which may still be loading.
    ///
    /// If the device panics, the core is never loaded and is freed with its last waiter. The next
    /// reader of the address finds no core and loads a new one.
    fn load(&self, shard: &Shard, map: &[BufferExtent], kind: BlockKind) -> Result<Loaded> {
        let core = Arc::new(BufferCore::new(buffer_map(map)?, kind));
        // Locked before any thread can find the core: a thread that finds it waits for this lock.
        let content = core.begin_load();
        if let Entered::Present(other) = shard.enter(&core) {
            return Ok(Loaded::Elsewhere(other));
        }
        match self.read_verified(core.map(), kind) {
            Ok(bytes) => {
                core.finish_load(content, bytes);
                shard.keep(Arc::clone(&core));
                Ok(Loaded::Here(Buffer::new(core)))
            }
            Err(error) => {
                give_up(shard, &core, content);
                Err(error)
            }
        }
    }

    fn read_verified(&self, map: &BufferMap, kind: BlockKind) -> Result<Box<[u8]>> {
        let mut rereads = self.rereads();
        loop {
            let bytes = self.read_bytes(map)?;
            match kind.verify(&bytes, map.at(), &self.verify_context()) {
                Ok(()) => return Ok(bytes),
                Err(corruption) if rereads == 0 => return Err(corruption.into()),
                Err(_) => {
                    rereads -= 1;
                    self.invalidate(map);
                }
            }
        }
    }

    fn invalidate(&self, map: &BufferMap) {
        for extent in map.extents() {
            if let Some(offset) = extent.at.byte_offset() {
                self.device.invalidate(offset, extent.length_bytes.into());
            }
        }
    }

    fn read_bytes(&self, map: &BufferMap) -> Result<Box<[u8]>> {
        let length = map.length_bytes() as usize;
        let mut bytes = Vec::with_capacity(length);
        for extent in map.extents() {
            let end = io::Error::from(io::ErrorKind::UnexpectedEof);
            let failed = |source| io_error("read", extent, source);
            let offset = extent.at.byte_offset().ok_or(end).map_err(failed)?;
            let count = extent.length_bytes as usize;
            self.device.append_at(&mut bytes, count, offset).map_err(failed)?;
        }
        assert!(bytes.len() == length, "a device appends as many bytes as the map has");
        Ok(bytes.into_boxed_slice())
    }
}

/// The outcome of `load`, unless it failed: the buffer that this thread loaded, or the core (shared
/// state) that another thread had entered into the table first.
enum Loaded {
    Here(Buffer),
    Elsewhere(Arc<BufferCore>),
}

/// Removes from the table a core (the state that all references to a buffer share) that could not
/// be loaded, and counts the failure. The core leaves the table before its lock is released.
/// Threads that wait for the lock then find no core and load the buffer themselves.
fn give_up(shard: &Shard, core: &Arc<BufferCore>, content: Loading<'_>) {
    shard.forget(core);
    drop(content);
    shard.note_failure();
}

fn buffer_map(extents: &[BufferExtent]) -> Result<BufferMap> {
    let invalid = || {
        let first = extents.first().copied();
        let extent = first.unwrap_or(BufferExtent { at: DiskAddr::NULL, length_bytes: 0 });
        io_error("read", &extent, io::Error::from(io::ErrorKind::InvalidInput))
    };
    Ok(BufferMap::new(extents).ok_or_else(invalid)?)
}

#[cold]
fn io_error(operation: &'static str, extent: &BufferExtent, source: io::Error) -> IoError {
    IoError::new(operation, extent.at, extent.length_bytes.into(), source)
}

#[cfg(test)]
mod tests;
