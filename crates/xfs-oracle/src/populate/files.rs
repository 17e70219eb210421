//! Creates regular files: all sizes, holes, unwritten and shared extents, extent maps of every
//! format.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::Populate;
use crate::error::{Context, OracleError};

pub(super) fn populate(here: &mut Populate) -> Result<(), OracleError> {
    sizes(here)?;
    sparse(here)?;
    preallocated(here)?;
    fragmented(here)?;
    shared(here)
}

/// Writes `count` single blocks of `path`, with a hole after each.
pub(super) fn scatter(path: &Path, count: u64, block_bytes: u64) -> Result<(), OracleError> {
    let file = open(path)?;
    for index in 0..count {
        file.write_all_at(&index.to_be_bytes(), index * 2 * block_bytes)
            .context(|| path.display().to_string())?;
    }
    Ok(())
}

fn open(path: &Path) -> Result<File, OracleError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .context(|| path.display().to_string())
}

fn sizes(here: &mut Populate) -> Result<(), OracleError> {
    let block = here.block_bytes as usize;
    for size in [1, 2, 511, 512, 513, block - 1, block, block + 1, 3 * block + 7, 1 << 20] {
        let contents = here.random.bytes(size);
        here.write(format!("size-{size}"), &contents)?;
    }
    Ok(())
}

/// Creates holes at the start, in the middle and at the end of files, and files of the largest
/// size.
fn sparse(here: &mut Populate) -> Result<(), OracleError> {
    let sizes = [1 << 20, 1 << 31, (1 << 32) + 5, 1 << 40, 1 << 53, 1 << 62, i64::MAX as u64];
    for size in sizes {
        let path = here.touch(format!("hole-{size}"))?;
        let file = open(&path)?;
        file.set_len(size).context(|| path.display().to_string())?;
        // A block in the middle of a hole, and the last byte that a file of this size can have.
        file.write_all_at(b"middle", size / 2).context(|| path.display().to_string())?;
        if size % 2 == 1 {
            file.write_all_at(b"z", size - 1).context(|| path.display().to_string())?;
        }
    }
    let path = here.touch("truncated")?;
    let file = open(&path)?;
    let contents = here.random.bytes(100_000);
    file.write_all_at(&contents, 0).context(|| path.display().to_string())?;
    file.set_len(12_345).context(|| path.display().to_string())?;
    file.set_len(60_000).context(|| path.display().to_string())
}

/// Allocates unwritten space: in a file without data, past the end of a file, and with written
/// parts.
fn preallocated(here: &mut Populate) -> Result<(), OracleError> {
    let block = here.block_bytes;
    let all = FallocateFlags::empty();
    for (name, flags) in [("unwritten", all), ("beyond-end", FallocateFlags::KEEP_SIZE)] {
        let path = here.touch(name)?;
        allocate(&open(&path)?, flags, 0, 64 * block)?;
    }
    let path = here.touch("half-written")?;
    let file = open(&path)?;
    allocate(&file, all, 0, 64 * block)?;
    for index in (0..64).step_by(5) {
        let contents = here.random.bytes(block as usize + 100);
        file.write_all_at(&contents, index * block).context(|| path.display().to_string())?;
    }
    let path = here.touch("zeroed")?;
    let file = open(&path)?;
    let contents = here.random.bytes(40 * block as usize);
    file.write_all_at(&contents, 0).context(|| path.display().to_string())?;
    file.sync_all().context(|| path.display().to_string())?;
    allocate(&file, FallocateFlags::ZERO_RANGE, 3 * block, 7 * block)?;
    allocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 15 * block, block)?;
    allocate(&file, FallocateFlags::COLLAPSE_RANGE, 20 * block, 4 * block)?;
    allocate(&file, FallocateFlags::INSERT_RANGE, 25 * block, 2 * block)
}

fn allocate(
    file: &File,
    flags: FallocateFlags,
    offset: u64,
    length: u64,
) -> Result<(), OracleError> {
    rustix::fs::fallocate(file, flags, offset, length).context(|| format!("fallocate {flags:?}"))
}

/// Creates extent maps in the inode, in a btree of one level, and of two levels (with blocks of 1
/// KiB also of three). Reduces one of the maps to a few extents.
fn fragmented(here: &mut Populate) -> Result<(), OracleError> {
    let most = match here.block_bytes {
        0..=1024 => 4000,
        1025..=4096 => 6000,
        4097..=16384 => 2000,
        _ => 400,
    };
    for count in [2, 9, 15, 19, 20, 21, 22, 30, 200, most] {
        let path = here.touch(format!("scattered-{count}"))?;
        scatter(&path, count, here.block_bytes)?;
    }
    let path = here.touch("scattered-and-cut")?;
    scatter(&path, most / 4, here.block_bytes)?;
    let file = open(&path)?;
    file.sync_all().context(|| path.display().to_string())?;
    file.set_len(10 * here.block_bytes + 1).context(|| path.display().to_string())?;
    // Written, unwritten and missing blocks in turns.
    let path = here.touch("mixed")?;
    let file = open(&path)?;
    for index in 0..most / 4 {
        let at = index * 4 * here.block_bytes;
        allocate(&file, FallocateFlags::empty(), at, 3 * here.block_bytes)?;
        file.write_all_at(b"mixed", at + here.block_bytes)
            .context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Creates extents that several files share, wholly and in part.
fn shared(here: &mut Populate) -> Result<(), OracleError> {
    let block = here.block_bytes as usize;
    let contents = here.random.bytes(200 * block);
    let source = here.write("shared", &contents)?;
    let file = open(&source)?;
    for index in 0..8 {
        let copy = here.touch(format!("shared-{index}"))?;
        let copy = open(&copy)?;
        match rustix::fs::ioctl_ficlone(&copy, &file) {
            Err(Errno::OPNOTSUPP | Errno::INVAL) => return Ok(()),
            other => other.context(|| "FICLONE".to_owned())?,
        }
        // Each copy diverges at offsets of its own.
        for part in 0..index {
            let at = (part * 37 + index * 11) % 190 * block;
            let contents = here.random.bytes(block);
            copy.write_all_at(&contents, at as u64).context(|| "shared".to_owned())?;
        }
    }
    file.set_len(150 * block as u64 + 3).context(|| "shared".to_owned())
}
