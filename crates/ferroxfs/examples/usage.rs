//! Sums up the space of all files below a directory, each hard-linked file once: `cargo run
//! --example usage -- disk.img /`.

use std::collections::HashSet;
use std::error::Error;

use ferroxfs::Volume;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let image = arguments.next().ok_or("usage: usage IMAGE [PATH]")?;
    let path = arguments.next().unwrap_or_else(|| "/".into());
    let volume = Volume::open(&image)?;
    let mut seen = HashSet::new();
    let mut bytes = 0;
    for entry in volume.walk(&path)? {
        match entry {
            Ok(entry) if seen.insert(entry.node.number()) => {
                bytes += entry.node.metadata().blocks * 512;
            }
            Ok(_) => {}
            Err(error) => eprintln!("{error}"),
        }
    }
    println!("{bytes} bytes in {} inodes", seen.len());
    Ok(())
}
