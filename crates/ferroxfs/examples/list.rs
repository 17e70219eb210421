//! Lists a directory of an XFS image: `cargo run --example list -- disk.img /etc`.

use std::error::Error;

use ferroxfs::Volume;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let image = arguments.next().ok_or("usage: list IMAGE [PATH]")?;
    let path = arguments.next().unwrap_or_else(|| "/".into());
    let volume = Volume::open(&image)?;
    for entry in volume.read_dir(&path)? {
        let entry = entry?;
        let metadata = entry.node()?.metadata();
        println!("{:o} {:>12} {}", metadata.mode, metadata.size, entry.name().display());
    }
    Ok(())
}
