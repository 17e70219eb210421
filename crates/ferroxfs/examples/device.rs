//! Opens a volume on a block device that the program implements itself: here a device in memory
//! that counts requests. Such a device may also be a network protocol, an encrypted file, or a part
//! of a larger image.
//!
//! `cargo run -p ferroxfs --example device -- IMAGE`

use std::error::Error;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ferroxfs::OpenOptions;
use ferroxfs::device::{BlockDevice, Durability};

/// A device in memory that counts its requests. The documentation of [`BlockDevice`] says how a
/// device must behave. The most important rule is that a read fills the whole buffer or fails.
pub(crate) struct CountingDevice {
    bytes: RwLock<Vec<u8>>,
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
}

fn main() -> ExitCode {
    // An error that `main` returns is printed with `Debug`, which is not for users.
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("device: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<(), Box<dyn Error>> {
    let image = std::env::args_os().nth(1).ok_or("usage: device IMAGE")?;
    let device = run(image.as_ref())?;
    let (reads, writes) =
        (device.reads.load(Ordering::Relaxed), device.writes.load(Ordering::Relaxed));
    println!("{reads} reads, {writes} writes, none of them in the file");
    Ok(())
}

pub(crate) fn run(image: &Path) -> Result<Arc<CountingDevice>, Box<dyn Error>> {
    let device = Arc::new(CountingDevice {
        bytes: RwLock::new(std::fs::read(image)?),
        reads: AtomicU64::new(0),
        writes: AtomicU64::new(0),
    });
    let volume = OpenOptions::new().write(true).open_device(device.clone())?;
    volume.write("/only-in-memory", b"gone when the program ends")?;
    volume.close()?;
    Ok(device)
}

impl CountingDevice {
    /// Returns the byte range of a request. If the request is not inside the device, returns the
    /// error that `BlockDevice` requires.
    fn range(&self, offset: u64, length: usize) -> io::Result<std::ops::Range<usize>> {
        let start = usize::try_from(offset).ok().filter(|_| {
            offset.checked_add(length as u64).is_some_and(|end| end <= self.length_bytes())
        });
        let start = start.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(start..start + length)
    }
}

impl BlockDevice for CountingDevice {
    fn length_bytes(&self) -> u64 {
        self.bytes.read().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    fn sector_size(&self) -> u32 {
        512
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let range = self.range(offset, buffer.len())?;
        let bytes = self.bytes.read().unwrap_or_else(PoisonError::into_inner);
        buffer.copy_from_slice(bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64, _: Durability) -> io::Result<()> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let range = self.range(offset, data.len())?;
        let mut bytes = self.bytes.write().unwrap_or_else(PoisonError::into_inner);
        bytes.get_mut(range).ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        Ok(())
    }

    /// Does nothing, because a device in memory has no durable contents.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}
