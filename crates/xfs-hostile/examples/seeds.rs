//! Writes the seeds of all fuzz targets as files: `cargo run -p xfs-hostile --example seeds
//! DIRECTORY`.

use std::fs;
use std::io;
use std::path::PathBuf;

use xfs_hostile::TARGETS;

fn main() -> io::Result<()> {
    let usage = || io::Error::new(io::ErrorKind::InvalidInput, "usage: seeds DIRECTORY");
    let directory = PathBuf::from(std::env::args_os().nth(1).ok_or_else(usage)?);
    for target in TARGETS {
        let corpus = directory.join(target.name);
        fs::create_dir_all(&corpus)?;
        for (index, seed) in (target.seeds)().into_iter().enumerate() {
            fs::write(corpus.join(format!("seed-{index}")), seed)?;
        }
    }
    Ok(())
}
