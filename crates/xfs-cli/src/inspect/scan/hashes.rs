//! `scan --hash`: hashes of the contents of files.
//!
//! ```text
//! head:    SHA-256 of the first and the last 64 KiB; of everything, if the file has no more
//! sha256:  SHA-256 of everything, as sha256sum(1) prints it
//! ```

use ferroxfs::{File, InodeNumber, Volume};
use ring::digest::{Context, SHA256};
use xfs_scan::{ContentsHasher, FindingCode, HashFailure};

use crate::cli::ScanHash;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::text::hexadecimal;

/// Number of bytes at the start of a file, and at its end, that stand for its contents.
const HEAD_BYTES: u64 = 64 << 10;
/// Number of bytes that are read at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// Hashes the contents of files of a volume.
pub(super) struct VolumeHasher {
    pub(super) volume: Volume,
    pub(super) kind: ScanHash,
}

impl ContentsHasher for VolumeHasher {
    fn hash(&self, ino: u64) -> Result<String, HashFailure> {
        let hashed = self.digest(ino);
        // The signal explains every error after it.
        if interrupt::check().is_err() {
            return Err(HashFailure::Cancelled);
        }
        hashed.map_err(|failure| {
            let code = match failure.exit() {
                Exit::Corrupt => FindingCode::Corrupt,
                _ => FindingCode::Io,
            };
            let message = format!("its contents have no hash: {}", failure.message());
            HashFailure::Unreadable { code, message }
        })
    }
}

impl VolumeHasher {
    fn digest(&self, ino: u64) -> Result<String, Failure> {
        // The scan has just read the inode.
        let node = self.volume.node_trusted(InodeNumber(ino))?;
        let file = node.open_read_only()?;
        let size = file.metadata().size;
        let mut context = Context::new(&SHA256);
        match self.kind {
            ScanHash::Head if size > 2 * HEAD_BYTES => {
                update(&mut context, &file, 0, HEAD_BYTES)?;
                update(&mut context, &file, size - HEAD_BYTES, size)?;
            }
            ScanHash::Head | ScanHash::Full => update(&mut context, &file, 0, size)?,
        }
        let kind = match self.kind {
            ScanHash::Head => "head",
            ScanHash::Full => "sha256",
        };
        Ok(format!("{kind}:{}", hexadecimal::digits(context.finish().as_ref())))
    }
}

/// Adds the bytes of a file from `start` to `end`.
fn update(context: &mut Context, file: &File, start: u64, end: u64) -> Result<(), Failure> {
    let most = usize::try_from(end - start).unwrap_or(BUFFER_BYTES);
    let mut buffer = vec![0; most.min(BUFFER_BYTES)];
    let mut offset = start;
    while offset < end {
        interrupt::check()?;
        let wanted = (end - offset).min(buffer.len() as u64) as usize;
        let room = buffer.get_mut(..wanted).expect("at most the buffer");
        let read = file.read_at(room, offset)?;
        if read == 0 {
            let message = "it became shorter while it was read";
            return Err(Failure::new(Exit::Failed, message));
        }
        context.update(room.get(..read).expect("at most as many as wanted"));
        offset += read as u64;
    }
    Ok(())
}
