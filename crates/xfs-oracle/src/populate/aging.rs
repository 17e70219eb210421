//! Aging a volume, so that its free space is fragmented, and filling a volume completely.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::{Populate, Random};
use crate::error::{Context, OracleError};
use crate::run::run;

/// Number of files that exist at the same time while a volume is aged. For each further file, one
/// is removed.
const ALIVE: u64 = 4000;
/// Number of files that are created in total.
const MADE: u64 = 16_000;

/// Creates and removes files of all sizes, so that inodes are freed and reused and the free space
/// is fragmented.
pub fn age(root: &Path, seed: u64) -> Result<(), OracleError> {
    let mut top = open(root, seed)?;
    let here = top.inside("aged")?;
    let folders: Vec<_> =
        (0..20).map(|index| top.inside(&format!("aged-{index}"))).collect::<Result<_, _>>()?;
    let mut random = here.random.clone();
    let mut alive = Vec::new();
    for index in 0..MADE {
        let folder = folders.get(random.below(20) as usize).unwrap_or(&here);
        let size = 1 << random.below(16);
        let contents = random.bytes(random.clone().below(size) as usize);
        alive.push(folder.write(format!("file {index}"), &contents)?);
        if alive.len() as u64 > ALIVE {
            let path = alive.swap_remove(random.below(ALIVE) as usize);
            std::fs::remove_file(&path).context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Uses up all space except for small pieces, then creates inodes until no inode fits any more.
/// This creates partial inode chunks.
pub fn fill(root: &Path, seed: u64) -> Result<(), OracleError> {
    let mut top = open(root, seed)?;
    let here = top.inside("full")?;
    // The kernel keeps a reserve in which it would allocate whole chunks.
    run(Command::new("xfs_io").args(["-x", "-c", "resblks 0"]).arg(root))?;
    let path = here.touch("filler")?;
    let what = || path.display().to_string();
    let file = OpenOptions::new().write(true).open(&path).context(what)?;
    let mut length = 0;
    for step in [64 << 20, 1 << 20, 64 << 10, here.block_bytes] {
        loop {
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), length, step) {
                Ok(()) => length += step,
                Err(Errno::NOSPC) => break,
                other => other.context(what)?,
            }
        }
    }
    let mut random = here.random.clone();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // Pieces of at most five blocks: too small for a whole chunk, large enough for a partial one.
    for piece in 0..2000 {
        let at = piece * 16 * here.block_bytes;
        let pieces = 1 + random.below(5);
        if at < length {
            rustix::fs::fallocate(&file, punch, at, pieces * here.block_bytes).context(what)?;
        }
    }
    file.sync_all().context(what)?;
    for index in 0..40_000 {
        let path = here.path(format!("inode {index}"));
        match std::fs::File::create(&path) {
            Err(error) if error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => break,
            other => other.context(|| path.display().to_string())?,
        };
    }
    Ok(())
}

fn open(root: &Path, seed: u64) -> Result<Populate, OracleError> {
    let stat = rustix::fs::statvfs(root).context(|| root.display().to_string())?;
    Ok(Populate {
        folder: root.to_path_buf(),
        block_bytes: stat.f_frsize,
        random: Random::new(seed),
    })
}
