//! Helpers for files of the host: the target of a restore, comparisons of files, and files with a
//! marker in their names and values.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::process::Command;

use xfs_metadump::RestoreTarget;
use xfs_oracle::next_data_range;

/// A new file, as the target of a restore.
pub(crate) struct Target(File);

impl Target {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Ok(Self(File::create(path)?))
    }
}

impl RestoreTarget for Target {
    fn set_length(&mut self, length_bytes: u64) -> io::Result<()> {
        self.0.set_len(length_bytes)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }
}

const CHUNK: usize = 1 << 20;

/// Reads a file in chunks, without its holes, and calls `visit` with the offset and the bytes of
/// each chunk. Stops at the first chunk for which `visit` returns an offset, and returns that
/// offset. Returns `None` if `visit` returned none.
fn each_chunk(
    file: &File,
    mut visit: impl FnMut(u64, &[u8]) -> Option<u64>,
) -> io::Result<Option<u64>> {
    let mut bytes = vec![0; CHUNK];
    let mut at = 0;
    while let Some(range) = next_data_range(file, at)? {
        at = range.start;
        while at < range.end {
            let wanted = CHUNK.min(usize::try_from(range.end - at).unwrap_or(CHUNK));
            let chunk = bytes.get_mut(..wanted).expect("at most a chunk");
            file.read_exact_at(chunk, at)?;
            if let Some(found) = visit(at, chunk) {
                return Ok(Some(found));
            }
            at += wanted as u64;
        }
    }
    Ok(None)
}

/// Returns the offset of the first chunk in which the files differ, or the shorter length if their
/// lengths differ. `None` if they are equal.
pub(crate) fn first_difference(one: &Path, other: &Path) -> io::Result<Option<u64>> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    let lengths = (one.metadata()?.len(), other.metadata()?.len());
    if lengths.0 != lengths.1 {
        return Ok(Some(lengths.0.min(lengths.1)));
    }
    let differs = |from: &File, against: &File| {
        each_chunk(from, |at, bytes| {
            let mut compared = vec![0; bytes.len()];
            let read = against.read_exact_at(&mut compared, at);
            (read.is_err() || bytes != compared).then_some(at)
        })
    };
    // A byte in a hole of both files is 0 in both.
    Ok(differs(&one, &other)?.or(differs(&other, &one)?))
}

/// Returns the offset of the first unit of 512 bytes that is not all zeros in the file `of` and is
/// different in the file `against`. `None` if there is no such unit.
pub(crate) fn first_loss(of: &Path, against: &Path) -> io::Result<Option<u64>> {
    let compared = File::open(against)?;
    each_chunk(&File::open(of)?, |at, bytes| {
        let mut other = vec![0; bytes.len()];
        if compared.read_exact_at(&mut other, at).is_err() {
            return Some(at);
        }
        let units = bytes.chunks(512).zip(other.chunks(512));
        let lost = |(unit, other): (&[u8], &[u8])| unit != other && unit.iter().any(|b| *b != 0);
        let found = units.enumerate().find(|(_, pair)| lost(*pair));
        found.map(|(index, _)| at + index as u64 * 512)
    })
}

/// Returns whether the text occurs in the file. Calls grep, which is faster than Rust code in a
/// debug build.
pub(crate) fn contains(path: &Path, text: &str) -> io::Result<bool> {
    Ok(Command::new("grep").args(["-q", "-a", "-F", "-e", text]).arg(path).status()?.success())
}

/// Creates files, directories, attributes and symbolic links in every format. Their names, values
/// and targets contain `marker`. Removes a third of the files again, so that stale entries contain
/// the marker too.
pub(crate) fn mark(root: &Path, marker: &str) -> io::Result<()> {
    let set = |path: &Path, name: &str, value: &[u8]| {
        let flags = rustix_flags();
        rustix::fs::setxattr(path, format!("user.{name}"), value, flags).map_err(io::Error::from)
    };
    for count in [2, 12, 60, 800] {
        let folder = root.join(format!("{marker}-{count}"));
        std::fs::create_dir(&folder)?;
        for index in 0..count {
            File::create(folder.join(format!("{index}-{marker}-{count}")))?;
        }
        for index in (0..count).step_by(3) {
            std::fs::remove_file(folder.join(format!("{index}-{marker}-{count}")))?;
        }
        let file = folder.join(format!("1-{marker}-{count}"));
        for index in 0..count.min(70) {
            set(&file, &format!("{index}{marker}"), format!("{marker}-value").as_bytes())?;
        }
        for index in (0..count.min(70)).step_by(2) {
            rustix::fs::removexattr(&file, format!("user.{index}{marker}"))?;
        }
        symlink(format!("/{marker}/a/{marker}"), folder.join("short"))?;
        // 9 bytes and a slash, up to a thousand bytes.
        symlink(format!("{marker}/").repeat(90), folder.join("long"))?;
    }
    let file = root.join(format!("big-{marker}"));
    File::create(&file)?;
    set(&file, &format!("big{marker}"), marker.repeat(1500).as_bytes())?;
    set(&file, &format!("mid{marker}"), marker.repeat(30).as_bytes())
}

const fn rustix_flags() -> rustix::fs::XattrFlags {
    rustix::fs::XattrFlags::empty()
}
