//! Opens an image for reading. Lists one of its directories, and prints one of its files.
//!
//! `cargo run -p ferroxfs --example read -- IMAGE DIRECTORY FILE`

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use ferroxfs::Volume;

fn main() -> ExitCode {
    // An error that `main` returns is printed with `Debug`, which is not for users.
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("read: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [image, directory, file] = arguments.as_slice() else {
        return Err("usage: read IMAGE DIRECTORY FILE".into());
    };
    run(image.as_ref(), directory.as_ref(), file.as_ref(), &mut io::stdout().lock())
}

pub(crate) fn run(
    image: &Path,
    directory: &Path,
    file: &Path,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error>> {
    // The image is never written to. A log that a crash left dirty is replayed in memory.
    let volume = Volume::open(image)?;
    for entry in volume.read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.node()?.metadata();
        writeln!(out, "{:o} {:>10} {}", metadata.mode, metadata.size, entry.name().display())?;
    }
    // A `File` implements `Read`, `Write` and `Seek`.
    io::copy(&mut volume.open_file(file)?, out)?;
    Ok(())
}
