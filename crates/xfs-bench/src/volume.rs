//! The volumes that the benchmarks of scan and check read.
//!
//! The newest mkfs.xfs makes each volume, with parent pointers and with 32-bit extent counters. One
//! of the contenders silently stops at an inode with 64-bit counters.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use xfs_oracle::{Mount, Random, Xfsprogs};

use crate::error::BenchError;

/// Number of files per directory of the volume of empty files.
const FLAT_FILES: u64 = 1000;
/// Number of threads that fill a volume.
const THREADS: u64 = 4;

/// Arguments of the benchmarks that read whole volumes.
#[derive(clap::Args)]
pub(crate) struct VolumeArguments {
    /// Number of files per volume
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) inodes: u64,
    /// Folder for volumes and output: memory (tmpfs) for warm runs, a disk for cold ones
    #[arg(long, default_value = "/dev/shm")]
    pub(crate) folder: PathBuf,
    /// Drop the host's caches before each run
    #[arg(long)]
    cold: bool,
    /// Number of runs per contender; the fastest counts
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: u32,
    /// Leave out the other programs, for volumes that are too large for some of them
    #[arg(long)]
    pub(crate) alone: bool,
    /// The ferroxfs binary to measure
    #[arg(long, default_value = "target/release/ferroxfs")]
    pub(crate) ferroxfs: PathBuf,
}

impl VolumeArguments {
    /// Prints which volume the rows of the next table are about.
    pub(crate) fn print_heading(&self, name: &str) {
        let storage = if self.cold { "cold" } else { "warm" };
        println!("\n{} files, {name}, {storage}, best of {}\n", self.inodes, self.runs);
    }

    /// Prepares a run: drops the host's caches if the runs are cold ones.
    pub(crate) fn prepare_run(&self) -> Result<(), BenchError> {
        if self.cold { drop_caches() } else { Ok(()) }
    }
}

/// The files of a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Contents {
    /// Empty files, a thousand per directory.
    Empty,
    /// Files of up to 3000 bytes in a tree similar to a source code archive: directories of 1 to 40
    /// files, up to 9 levels deep.
    Small,
}

/// Makes a volume and fills it with about `inodes` inodes. Returns the path of the image.
pub(crate) fn make(image: &Path, contents: Contents, inodes: u64) -> Result<PathBuf, BenchError> {
    let bytes = match contents {
        Contents::Empty => inodes * 1024 + (1 << 30),
        Contents::Small => inodes * 6144 + (1 << 30),
    };
    let file = File::create(image).map_err(BenchError::file(image))?;
    file.set_len(bytes).map_err(BenchError::file(image))?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    mkfs.args(["-q", "-f", "-n", "parent=1", "-i", "nrext64=0,maxpct=0"]).arg(image);
    let status = mkfs.status().map_err(BenchError::file(image))?;
    if !status.success() {
        return Err(BenchError::Failed { name: "mkfs.xfs".to_owned(), status });
    }
    let mount = Mount::new(image, None, &[])?;
    let outcomes: Vec<_> = thread::scope(|scope| {
        let fill = |thread| {
            let root = mount.path();
            scope.spawn(move || fill(root, contents, inodes / THREADS, thread))
        };
        let threads: Vec<_> = (0..THREADS).map(fill).collect();
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    for outcome in outcomes {
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    mount.unmount()?;
    Ok(image.to_owned())
}

fn fill(root: &Path, contents: Contents, inodes: u64, thread: u64) -> Result<(), BenchError> {
    let top = root.join(format!("thread-{thread}"));
    match contents {
        Contents::Empty => fill_flat(&top, inodes),
        Contents::Small => fill_tree(&top, inodes, thread),
    }
}

fn make_folder(path: &Path) -> Result<(), BenchError> {
    fs::create_dir(path).map_err(BenchError::file(path))
}

fn fill_flat(top: &Path, inodes: u64) -> Result<(), BenchError> {
    make_folder(top)?;
    for number in 0..inodes {
        let folder = top.join(format!("folder-{}", number / FLAT_FILES));
        if number % FLAT_FILES == 0 {
            make_folder(&folder)?;
        }
        let path = folder.join(format!("file-{number}"));
        File::create(&path).map_err(BenchError::file(&path))?;
    }
    Ok(())
}

fn fill_tree(top: &Path, inodes: u64, thread: u64) -> Result<(), BenchError> {
    let mut random = Random::new(thread + 1);
    let block: Vec<u8> = random.bytes(3000);
    let mut folders = vec![(top.to_owned(), 0)];
    make_folder(top)?;
    let mut made = 0;
    while made < inodes {
        let parent = random.below(folders.len() as u64) as usize;
        let Some((parent, depth)) = folders.get(parent).cloned() else { continue };
        let folder = parent.join(format!("module_{made}"));
        make_folder(&folder)?;
        if depth < 8 {
            folders.push((folder.clone(), depth + 1));
        }
        for number in 0..=random.below(40) {
            let path = folder.join(format!("source_{number}_{}.c", random.below(1000)));
            let length = random.below(block.len() as u64) as usize;
            let bytes = block.get(..length).unwrap_or_default();
            let mut file = File::create(&path).map_err(BenchError::file(&path))?;
            file.write_all(bytes).map_err(BenchError::file(&path))?;
            made += 1;
        }
        made += 1;
    }
    Ok(())
}

/// Writes back and drops the host's page, dentry and inode caches.
pub(crate) fn drop_caches() -> Result<(), BenchError> {
    let path = Path::new("/proc/sys/vm/drop_caches");
    let status = Command::new("sync").status().map_err(BenchError::file(Path::new("sync")))?;
    if !status.success() {
        return Err(BenchError::Failed { name: "sync".to_owned(), status });
    }
    fs::write(path, "3").map_err(BenchError::file(path))
}
