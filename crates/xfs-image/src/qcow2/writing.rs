//! Writes a new qcow2 image of a disk.
//!
//! Owns: the layout of the new file, its reference counts, and the compression of clusters. Does
//! **not** own: the bytes of the disk, or the name of the file.
//!
//! ```text
//! | header | L1 table | clusters, after each 8192 their L2 table | counts | their table |
//! ```
//!
//! Everything but the header is written once, from the front to the back. Compressed clusters
//! follow each other without gaps, as far as no table stands between them. A cluster of zeros takes
//! no space, and one that does not become smaller is stored as it is.
//!
//! # Invariants
//!
//! - **I1** A compressed cluster counts in every cluster of the file that one of its sectors
//!   touches. A cluster of the file holds fewer than 65,536 of them, because none takes less than
//!   two bytes.
//! - **I2** The bytes of the image depend on the disk and the compression only: not on the number
//!   of threads, and not on the holes of the disk.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::thread;

use flate2::{Compress, FlushCompress, Status};
use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::{COMPRESSED, SECTOR_BYTES};

const CLUSTER_LOG: u32 = 16;
const CLUSTER_BYTES: u64 = 1 << CLUSTER_LOG;
/// Number of entries of a table that fills a cluster.
const TABLE_ENTRIES: u64 = CLUSTER_BYTES / 8;
/// Number of 16-bit reference counts in a cluster.
const COUNTS: u64 = CLUSTER_BYTES / 2;
/// Position of the number of sectors in the L2 entry of a compressed cluster.
const SECTORS_SHIFT: u32 = 62 - (CLUSTER_LOG - 8);
/// Bit of an entry whose target is referenced once.
const COPIED: u64 = 1 << 63;
const HEADER_BYTES: usize = 112;
/// The incompatible feature of clusters that are not compressed by deflate.
const OTHER_COMPRESSION: u64 = 1 << 3;
const ZSTD: u8 = 1;
/// The window of deflate: qemu decompresses with no larger one.
const DEFLATE_WINDOW_LOG: u8 = 12;
const DEFLATE_LEVEL: u32 = 6;
const ZSTD_LEVEL: i32 = 3;
/// The number of clusters that are compressed at once.
const BATCH: usize = 256;
const MOST_THREADS: usize = 8;

/// The largest disk in bytes of a new qcow2 image: qemu reads no larger table of tables.
pub const MAX_QCOW2_BYTES: u64 = (32 << 20) / 8 * TABLE_ENTRIES * CLUSTER_BYTES;

/// The compression of the clusters of a new image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterCompression {
    /// Clusters are stored as they are.
    None,
    /// Raw deflate, which every qemu reads.
    Deflate,
    /// Zstandard, which qemu 5.1 and later read.
    Zstd,
}

/// Writes the bytes of `disk`, which is a raw image, as a qcow2 image to `image`, which is empty.
/// Calls `passed` with the number of bytes of the disk that were written since the last call; an
/// error of it ends the work.
///
/// # Errors
///
/// The errors of the files and of `passed`. [`io::ErrorKind::FileTooLarge`] for a disk of more than
/// [`MAX_QCOW2_BYTES`].
pub fn write_qcow2(
    disk: &File,
    image: &File,
    compression: ClusterCompression,
    passed: &mut dyn FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    write_with(disk, image, Packing { compression, threads }, passed)
}

/// How clusters are compressed.
#[derive(Clone, Copy)]
struct Packing {
    compression: ClusterCompression,
    threads: usize,
}

/// A cluster of the disk that is not all zeros.
struct DataCluster {
    /// Its number on the disk.
    number: u64,
    bytes: Vec<u8>,
    /// The compressed bytes; `None` if they are not fewer.
    packed: Option<Vec<u8>>,
}

fn write_with(
    disk: &File,
    image: &File,
    packing: Packing,
    passed: &mut dyn FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    let length = image_length(disk.metadata()?.len())?;
    let mut writer = ImageWriter::new(image, length);
    let mut batch = Vec::with_capacity(BATCH);
    let mut next = 0;
    while let Some(range) = data_range(disk, next * CLUSTER_BYTES, length)? {
        let first = (range.start / CLUSTER_BYTES).max(next);
        next = range.end.div_ceil(CLUSTER_BYTES);
        for number in first..next {
            let bytes = read_cluster(disk, number * CLUSTER_BYTES)?;
            if bytes.iter().any(|byte| *byte != 0) {
                batch.push(DataCluster { number, bytes, packed: None });
            }
            if batch.len() == BATCH {
                writer.write_batch(&mut batch, packing, passed)?;
            }
        }
    }
    writer.write_batch(&mut batch, packing, passed)?;
    writer.finish(packing.compression)
}

/// Returns the length of the disk in the image of a raw disk of `length` bytes: whole sectors.
fn image_length(length: u64) -> io::Result<u64> {
    let whole = length.checked_next_multiple_of(SECTOR_BYTES);
    whole.filter(|whole| *whole <= MAX_QCOW2_BYTES).ok_or_else(|| {
        let message = format!("{length} bytes are more than a qcow2 image can have");
        io::Error::new(io::ErrorKind::FileTooLarge, message)
    })
}

/// Returns the next range of a file that may hold other bytes than zeros. `None` if only a hole
/// follows.
fn data_range(disk: &File, offset: u64, length: u64) -> io::Result<Option<Range<u64>>> {
    if offset >= length {
        return Ok(None);
    }
    let start = match rustix::fs::seek(disk, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        // The filesystem does not know its holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(offset..length)),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(disk, SeekFrom::Hole(start))?;
    Ok(Some(start..end.min(length)))
}

/// Reads a cluster of the disk. Bytes past the end of the disk are zeros.
fn read_cluster(disk: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; CLUSTER_BYTES as usize];
    let mut rest = bytes.as_mut_slice();
    let mut at = offset;
    while !rest.is_empty() {
        match disk.read_at(rest, at) {
            Ok(0) => break,
            Ok(read) => {
                at += read as u64;
                rest = rest.get_mut(read..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// A new image while its clusters are written.
struct ImageWriter<'a> {
    image: &'a File,
    length: u64,
    l1: Vec<u64>,
    /// The L2 table of the clusters that are written now, and its index in the L1 table.
    table: Option<(u64, Vec<u64>)>,
    /// The reference count of each cluster of the file up to its end.
    counts: Vec<u16>,
    /// The bytes after the last compressed cluster, up to the end of its cluster of the file.
    rest: Range<u64>,
}

impl<'a> ImageWriter<'a> {
    fn new(image: &'a File, length: u64) -> Self {
        let l1 = vec![0; length.div_ceil(TABLE_ENTRIES * CLUSTER_BYTES) as usize];
        let before = 1 + clusters_of(&l1);
        Self { image, length, l1, table: None, counts: vec![1; before as usize], rest: 0..0 }
    }

    /// Adds a cluster to the file, and returns its offset.
    fn allocate(&mut self, count: u16) -> u64 {
        self.counts.push(count);
        (self.counts.len() as u64 - 1) * CLUSTER_BYTES
    }

    /// Compresses and writes the clusters of a batch, and empties it.
    fn write_batch(
        &mut self,
        batch: &mut Vec<DataCluster>,
        packing: Packing,
        passed: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> io::Result<()> {
        pack(batch, packing)?;
        for cluster in batch.drain(..) {
            passed(CLUSTER_BYTES)?;
            let (first, second) = (cluster.number / TABLE_ENTRIES, cluster.number % TABLE_ENTRIES);
            if self.table.as_ref().is_none_or(|(index, _)| *index != first) {
                self.end_table()?;
            }
            let entry = match &cluster.packed {
                Some(packed) => self.write_packed(packed)?,
                None => {
                    let offset = self.allocate(1);
                    self.image.write_all_at(&cluster.bytes, offset)?;
                    COPIED | offset
                }
            };
            let empty = || (first, vec![0; TABLE_ENTRIES as usize]);
            let (_, entries) = self.table.get_or_insert_with(empty);
            let slot = entries.get_mut(second as usize).expect("the remainder is in the table");
            *slot = entry;
        }
        Ok(())
    }

    /// Writes a compressed cluster, and returns its L2 entry.
    fn write_packed(&mut self, packed: &[u8]) -> io::Result<u64> {
        let length = packed.len() as u64;
        if self.rest.end - self.rest.start < length {
            let end = self.counts.len() as u64 * CLUSTER_BYTES;
            if self.rest.end != end {
                self.rest = end..end;
            }
            self.allocate(0);
            self.rest.end += CLUSTER_BYTES;
        }
        let start = self.rest.start;
        self.rest.start += length;
        let (first, last) = (start / SECTOR_BYTES, (start + length - 1) / SECTOR_BYTES);
        let clusters = first * SECTOR_BYTES / CLUSTER_BYTES..=last * SECTOR_BYTES / CLUSTER_BYTES;
        for cluster in clusters {
            let count = self.counts.get_mut(cluster as usize).expect("the cluster is allocated");
            *count = count.checked_add(1).expect("I1: few compressed clusters share a cluster");
        }
        self.image.write_all_at(packed, start)?;
        Ok(COMPRESSED | (last - first) << SECTORS_SHIFT | start)
    }

    /// Writes the current L2 table, if there is one.
    fn end_table(&mut self) -> io::Result<()> {
        let Some((index, entries)) = self.table.take() else { return Ok(()) };
        let offset = self.allocate(1);
        self.image.write_all_at(&encode(&entries), offset)?;
        let slot = self.l1.get_mut(index as usize).expect("the L1 table covers the disk");
        *slot = COPIED | offset;
        Ok(())
    }

    /// Writes the reference counts, the L1 table and the header.
    fn finish(mut self, compression: ClusterCompression) -> io::Result<()> {
        self.end_table()?;
        let used = self.counts.len() as u64;
        // The counts count themselves, too.
        let (mut blocks, mut tables) = (1, 1);
        loop {
            let all = used + blocks + tables;
            let needed = (all.div_ceil(COUNTS), blocks.div_ceil(TABLE_ENTRIES));
            if needed == (blocks, tables) {
                break;
            }
            (blocks, tables) = needed;
        }
        self.counts.resize((used + blocks + tables) as usize, 1);
        let mut counts: Vec<u8> =
            self.counts.iter().flat_map(|count| count.to_be_bytes()).collect();
        counts.resize((blocks * CLUSTER_BYTES) as usize, 0);
        self.image.write_all_at(&counts, used * CLUSTER_BYTES)?;
        let places: Vec<u64> = (used..used + blocks).map(|block| block * CLUSTER_BYTES).collect();
        let table = (used + blocks) * CLUSTER_BYTES;
        self.image.write_all_at(&encode(&places), table)?;
        self.image.write_all_at(&encode(&self.l1), CLUSTER_BYTES)?;
        let header = self.header(compression, table, tables);
        self.image.write_all_at(&header, 0)?;
        self.image.set_len(self.counts.len() as u64 * CLUSTER_BYTES)
    }

    fn header(
        &self,
        compression: ClusterCompression,
        counts: u64,
        count_clusters: u64,
    ) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let is_zstd = compression == ClusterCompression::Zstd;
        put(&mut bytes, 0, b"QFI\xfb");
        put(&mut bytes, 4, &3_u32.to_be_bytes());
        put(&mut bytes, 20, &CLUSTER_LOG.to_be_bytes());
        put(&mut bytes, 24, &self.length.to_be_bytes());
        put(&mut bytes, 36, &(self.l1.len() as u32).to_be_bytes());
        put(&mut bytes, 40, &CLUSTER_BYTES.to_be_bytes());
        put(&mut bytes, 48, &counts.to_be_bytes());
        put(&mut bytes, 56, &(count_clusters as u32).to_be_bytes());
        put(&mut bytes, 72, &if is_zstd { OTHER_COMPRESSION } else { 0 }.to_be_bytes());
        // The base-2 logarithm of the bits of a reference count.
        put(&mut bytes, 96, &4_u32.to_be_bytes());
        put(&mut bytes, 100, &(HEADER_BYTES as u32).to_be_bytes());
        put(&mut bytes, 104, &[if is_zstd { ZSTD } else { 0 }]);
        bytes
    }
}

fn put(header: &mut [u8], at: usize, bytes: &[u8]) {
    let field = header.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len()));
    field.expect("a constant is in the header").copy_from_slice(bytes);
}

fn encode(entries: &[u64]) -> Vec<u8> {
    entries.iter().flat_map(|entry| entry.to_be_bytes()).collect()
}

fn clusters_of(entries: &[u64]) -> u64 {
    (entries.len() as u64).div_ceil(TABLE_ENTRIES)
}

/// Compresses the clusters of a batch, each for itself (I2).
fn pack(batch: &mut [DataCluster], packing: Packing) -> io::Result<()> {
    if packing.compression == ClusterCompression::None || batch.is_empty() {
        return Ok(());
    }
    let part = batch.len().div_ceil(packing.threads);
    thread::scope(|scope| {
        let workers: Vec<_> = batch
            .chunks_mut(part)
            .map(|clusters| scope.spawn(move || pack_all(clusters, packing.compression)))
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

fn pack_all(clusters: &mut [DataCluster], compression: ClusterCompression) -> io::Result<()> {
    for cluster in clusters {
        let packed = match compression {
            ClusterCompression::None => continue,
            ClusterCompression::Zstd => Some(zstd::bulk::compress(&cluster.bytes, ZSTD_LEVEL)?),
            ClusterCompression::Deflate => deflate(&cluster.bytes)?,
        };
        cluster.packed = packed.filter(|packed| (packed.len() as u64) < CLUSTER_BYTES);
    }
    Ok(())
}

/// Compresses a cluster by raw deflate. Returns `None` if it does not become smaller.
fn deflate(bytes: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let level = flate2::Compression::new(DEFLATE_LEVEL);
    let mut compress = Compress::new_with_window_bits(level, false, DEFLATE_WINDOW_LOG);
    let mut packed = Vec::with_capacity(bytes.len());
    match compress.compress_vec(bytes, &mut packed, FlushCompress::Finish) {
        Ok(Status::StreamEnd) => Ok(Some(packed)),
        Ok(_) => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}

#[cfg(test)]
mod tests;
