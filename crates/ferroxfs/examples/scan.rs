//! Walks a tree of a volume, and sums up the inodes and the space of each owner. A file with
//! several names counts once.
//!
//! `cargo run -p ferroxfs --example scan -- IMAGE PATH`
//!
//! The crate `xfs-scan` lists all inodes of a volume faster, in the order of their place on disk.

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use ferroxfs::Volume;

/// Number of inodes that a user owns, and the bytes that they use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) inodes: u64,
    pub(crate) bytes: u64,
}

fn main() -> ExitCode {
    // An error that `main` returns is printed with `Debug`, which is not for users.
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scan: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let image = arguments.next().ok_or("usage: scan IMAGE [PATH]")?;
    let path = arguments.next().unwrap_or_else(|| "/".into());
    for (uid, usage) in run(image.as_ref(), path.as_ref())? {
        println!("user {uid}: {} bytes in {} inodes", usage.bytes, usage.inodes);
    }
    Ok(())
}

pub(crate) fn run(image: &Path, path: &Path) -> Result<BTreeMap<u32, Usage>, Box<dyn Error>> {
    let volume = Volume::open(image)?;
    let mut seen = HashSet::new();
    let mut users: BTreeMap<u32, Usage> = BTreeMap::new();
    for entry in volume.walk(path)? {
        match entry {
            Ok(entry) if seen.insert(entry.node.number()) => {
                let metadata = entry.node.metadata();
                let usage = users.entry(metadata.uid).or_default();
                usage.inodes += 1;
                usage.bytes += metadata.blocks * 512;
            }
            // Another name of an inode that was counted.
            Ok(_) => {}
            Err(error) => eprintln!("{error}"),
        }
    }
    Ok(users)
}
