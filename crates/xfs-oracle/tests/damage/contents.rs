//! The contents of an image in memory, without its holes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use xfs_oracle::harness::TrialError;

use crate::text;

/// The contents of an image: its length, and the parts that are not holes, in order.
pub(crate) struct Contents {
    length: u64,
    parts: Vec<(u64, Vec<u8>)>,
}

/// Bytes to write at an offset of the image.
#[derive(Clone, Debug)]
pub(crate) struct Patch {
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Contents {
    /// Reads the contents of an image.
    pub(crate) fn read(path: &Path) -> Result<Self, TrialError> {
        let file = File::open(path).map_err(text)?;
        let length = file.metadata().map_err(text)?.len();
        let mut parts = Vec::new();
        let mut at = 0;
        loop {
            let start = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
                Ok(start) => start,
                Err(Errno::NXIO) => break,
                Err(error) => return Err(text(error)),
            };
            let end = rustix::fs::seek(&file, SeekFrom::Hole(start)).map_err(text)?;
            let mut bytes = vec![0; (end - start) as usize];
            file.read_exact_at(&mut bytes, start).map_err(text)?;
            parts.push((start, bytes));
            at = end;
        }
        Ok(Self { length, parts })
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Returns bytes of the image. Bytes of holes and past the end are 0.
    pub(crate) fn bytes(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let end = offset + length as u64;
        for (start, part) in &self.parts {
            let (from, to) = (offset.max(*start), end.min(start + part.len() as u64));
            if from < to {
                let target = bytes.get_mut((from - offset) as usize..(to - offset) as usize);
                let source = part.get((from - start) as usize..(to - start) as usize);
                target.zip(source).expect("both are parts").0.copy_from_slice(
                    part.get((from - start) as usize..(to - start) as usize).expect("a part"),
                );
            }
        }
        bytes
    }

    /// Returns the sectors in which a file differs from these contents, with the bytes of the file.
    /// Ranges that are holes in these contents are not compared.
    pub(crate) fn changes(&self, file: &File) -> Result<Vec<Patch>, TrialError> {
        let mut patches = Vec::new();
        let mut found = vec![0; PIECE];
        for (start, part) in &self.parts {
            for (piece, bytes) in (0..).step_by(PIECE).zip(part.chunks(PIECE)) {
                let found = found.get_mut(..bytes.len()).expect("a piece is not longer");
                file.read_exact_at(found, start + piece).map_err(text)?;
                if found == bytes {
                    continue;
                }
                let sectors = found.chunks(SECTOR).zip(bytes.chunks(SECTOR));
                for (index, (sector, _)) in (0..).zip(sectors).filter(|(_, (a, b))| a != b) {
                    let offset = start + piece + index * SECTOR as u64;
                    patches.push(Patch { offset, bytes: sector.to_vec() });
                }
            }
        }
        Ok(patches)
    }

    /// Undoes `patches`: writes the bytes of these contents over their ranges.
    pub(crate) fn restore(&self, file: &File, patches: &[Patch]) -> Result<(), TrialError> {
        file.set_len(self.length).map_err(text)?;
        for patch in patches {
            let bytes = self.bytes(patch.offset, patch.bytes.len());
            file.write_all_at(&bytes, patch.offset).map_err(text)?;
        }
        Ok(())
    }

    /// Restores the length of a truncated file, and writes these contents from offset `from` on.
    pub(crate) fn restore_end(&self, file: &File, from: u64) -> Result<(), TrialError> {
        file.set_len(self.length).map_err(text)?;
        for (start, part) in &self.parts {
            let skipped = from.saturating_sub(*start).min(part.len() as u64);
            let rest = part.get(skipped as usize..).expect("at most the length");
            file.write_all_at(rest, start + skipped).map_err(text)?;
        }
        Ok(())
    }
}

const PIECE: usize = 64 << 10;
const SECTOR: usize = 512;
