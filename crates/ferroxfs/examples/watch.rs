//! Watches a directory while another thread changes it.
//!
//! `cargo run -p ferroxfs --example watch -- IMAGE`

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ferroxfs::OpenOptions;
use ferroxfs::watch::{Scope, WatchEvents};

fn main() -> ExitCode {
    // An error that `main` returns is printed with `Debug`, which is not for users.
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("watch: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os().nth(1).ok_or("usage: watch IMAGE")?;
    for line in run(image.as_ref())? {
        println!("{line}");
    }
    Ok(())
}

pub(crate) fn run(image: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let volume = OpenOptions::new().write(true).open(image)?;
    volume.create_dir_all("/inbox")?;
    let events = WatchEvents::CREATE | WatchEvents::DELETE;
    let watch = volume.lookup("/inbox")?.watch(events, Scope::Inode)?;

    // A volume is shared between threads by cloning it.
    let writer = volume.clone();
    let worker = std::thread::spawn(move || {
        writer.write("/inbox/letter", b"hello")?;
        writer.remove_file("/inbox/letter").map_err(std::io::Error::from)
    });

    let mut lines = Vec::new();
    while lines.len() < 2 {
        // An event comes after its change was committed, and need not be durable yet.
        let event = watch.next_within(Duration::from_secs(60)).ok_or("nothing happened")?;
        let name = event.name.unwrap_or_default();
        lines.push(format!("{:?} {}", event.event, name.display()));
    }
    worker.join().map_err(|_| "the writer panicked")??;
    drop(watch);
    volume.close()?;
    Ok(lines)
}
