//! Opens an image for writing, changes it, and makes the changes durable.
//!
//! `cargo run -p ferroxfs --example write -- IMAGE`

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use ferroxfs::OpenOptions;

fn main() -> ExitCode {
    // An error that `main` returns is printed with `Debug`, which is not for users.
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("write: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os().nth(1).ok_or("usage: write IMAGE")?;
    run(image.as_ref())
}

pub(crate) fn run(image: &Path) -> Result<(), Box<dyn Error>> {
    let volume = OpenOptions::new().write(true).open(image)?;
    volume.create_dir_all("/srv/www")?;
    volume.write("/srv/www/new.html", b"<h1>It works</h1>\n")?;

    // The usual way to replace a file. First the new contents are durable, then the name changes.
    let file = volume.open_file("/srv/www/new.html")?;
    file.sync_all()?;
    drop(file);
    volume.rename("/srv/www/new.html", "/srv/www/index.html")?;

    // Positions and threads: `write_at` takes the offset after the bytes, as in std.
    let log = volume.create_file("/srv/access.log")?;
    log.write_at(b"GET /\n", 0)?;
    log.close()?;

    // Everything is durable now. Without it, everything is within five seconds.
    volume.sync()?;

    // `close` also marks the log clean, and returns errors that dropping the volume cannot return.
    volume.close()?;
    Ok(())
}
