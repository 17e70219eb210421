//! Copies a file of an XFS image to standard output: `cargo run --example cat -- disk.img
//! /etc/fstab`.

use std::error::Error;
use std::io;

use ferroxfs::Volume;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(image), Some(path)) = (arguments.next(), arguments.next()) else {
        return Err("usage: cat IMAGE PATH".into());
    };
    let mut file = Volume::open(&image)?.open_file(&path)?;
    io::copy(&mut file, &mut io::stdout().lock())?;
    Ok(())
}
