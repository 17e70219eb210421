//! Files of the host as sources of an import.
//!
//! Owns: reading trees of the host in a fixed order, and recognising that several names mean one
//! file. Does **not** own: writing the files into the image ([`writer`](crate::import::writer)).

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use xfs_sync::{Mutex, Object};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::{Facts, Time};
use crate::file::source::{NamedValue, Source, fill_chunk, is_carried_over};
use crate::import::policy::filter::Filter;
use crate::terminal::names;

/// The length in bytes up to which a file with enough blocks for all its bytes counts as one
/// without holes. Two calls of lseek(2) would take as long as reading it.
const SMALL_BYTES: u64 = 64 << 10;

/// The identity of a file on the host: the numbers of its device and its inode.
type FileIdentity = (u64, u64);

/// Numbers that stand for the inode numbers of files on several devices. No two files get the same
/// number.
#[derive(Clone, Default)]
pub(crate) struct Numbers(Arc<Mutex<GivenNumbers, Object>>);

#[derive(Default)]
struct GivenNumbers {
    last: u64,
    /// The numbers of files that have several names. Only these files are met again, and most files
    /// have one name: a tree of millions of files needs no memory for them.
    linked: HashMap<FileIdentity, u64>,
}

impl Numbers {
    /// Returns the number of the file with this metadata: a new one, unless the file has several
    /// names and has a number already.
    fn number(&self, metadata: &Metadata) -> u64 {
        let GivenNumbers { last, linked } = &mut *self.0.lock();
        let mut new = || {
            *last += 1;
            *last
        };
        match metadata.nlink() {
            0 | 1 => new(),
            _ if metadata.is_dir() => new(),
            _ => *linked.entry(identity(metadata)).or_insert_with(new),
        }
    }
}

/// A file of the host, as a source of an import.
pub(crate) struct HostSource {
    path: PathBuf,
    metadata: Metadata,
    number: u64,
    file: Option<File>,
    /// The length of the contents in bytes; `None` if it cannot be taken from the size of the file.
    length: Option<u64>,
    numbers: Numbers,
    omission: Arc<Omission>,
}

/// The files of a tree that are not copied.
#[derive(Default)]
struct Omission {
    /// The images to which the command writes.
    images: Vec<FileIdentity>,
    /// The choice of the files that are copied, and the top of the tree. Paths in its patterns are
    /// relative to the top.
    filter: Option<(Arc<Filter>, PathBuf)>,
}

impl Omission {
    /// Returns whether the filter takes the file at `path`. A file that it leaves out need not be
    /// readable.
    fn takes(&self, path: &Path, is_directory: bool) -> bool {
        self.filter.as_ref().is_none_or(|(filter, top)| {
            let below = path.strip_prefix(top).unwrap_or(path);
            filter.takes(below.as_os_str().as_bytes(), is_directory)
        })
    }
}

impl HostSource {
    /// Opens the file at `path`. With `follows`, a symbolic link at the end of the path is
    /// followed.
    pub(crate) fn open(path: &Path, follows: bool) -> Result<Self, Failure> {
        Self::open_numbered(path, follows, &Numbers::default())
    }

    /// Works as [`open`](Self::open), but shares `numbers` with other sources, so that a file with
    /// several names has the same number in all of them.
    pub(crate) fn open_numbered(
        path: &Path,
        follows: bool,
        numbers: &Numbers,
    ) -> Result<Self, Failure> {
        Self::with(path.to_owned(), follows, numbers.clone(), Arc::default())
    }

    /// Leaves out the images `images`, to which the command writes, if they are below this
    /// directory. An image would grow while the command reads it.
    pub(crate) fn without<'a>(mut self, images: impl IntoIterator<Item = &'a Path>) -> Self {
        let identities = images.into_iter().filter_map(|image| fs::metadata(image).ok());
        let images = identities.map(|image| identity(&image)).collect();
        self.omission = Arc::new(Omission { images, filter: self.omission.filter.clone() });
        self
    }

    /// Leaves out the files below this directory that `filter` does not take. They are not opened.
    pub(crate) fn filtered(mut self, filter: &Arc<Filter>) -> Self {
        let images = self.omission.images.clone();
        let filter = Some((Arc::clone(filter), self.path.clone()));
        self.omission = Arc::new(Omission { images, filter });
        self
    }

    /// Returns whether this file is an image to which the command writes.
    pub(crate) fn is_left_out(&self) -> bool {
        self.omission.images.contains(&identity(&self.metadata))
    }

    /// Returns a note that the file is left out. The note is not an error.
    pub(crate) fn leaving_out(&self) -> Failure {
        let shown = names::in_message(self.path.as_os_str().as_bytes());
        Failure::new(
            Exit::Fine,
            format!("{shown}: is the image that is written to, and is left out"),
        )
        .placed()
    }

    fn with(
        path: PathBuf,
        follows: bool,
        numbers: Numbers,
        omission: Arc<Omission>,
    ) -> Result<Self, Failure> {
        let metadata = if follows { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        let metadata = metadata.map_err(|error| Failure::host(path.as_os_str(), &error))?;
        Self::with_metadata(path, metadata, numbers, omission)
    }

    fn with_metadata(
        path: PathBuf,
        metadata: Metadata,
        numbers: Numbers,
        omission: Arc<Omission>,
    ) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::host(path.as_os_str(), &error);
        let file = metadata.is_file().then(|| File::open(&path)).transpose().map_err(failed)?;
        let number = numbers.number(&metadata);
        let length = true_length(&metadata, file.as_ref());
        Ok(Self { path, metadata, number, file, length, numbers, omission })
    }

    /// Returns the path of the file on the host.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::host(self.path.as_os_str(), error)
    }

    fn attribute(&self, name: &[u8]) -> Result<NamedValue, Failure> {
        let value = of_unknown_size(|buffer| rustix::fs::lgetxattr(&self.path, name, buffer))
            .map_err(|error| self.failed(&error.into()))?;
        Ok(NamedValue { name: name.to_vec(), value })
    }

    /// Finds with lseek(2) the next byte of data (`SeekFrom::Data`) or of a hole
    /// (`SeekFrom::Hole`). Returns its offset; `None` if there is none up to the end of the file.
    fn seek(&self, file: &File, to: SeekFrom) -> Result<Option<u64>, Failure> {
        match seek(file, to) {
            Ok(offset) => Ok(Some(offset)),
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(self.failed(&error.into())),
        }
    }
}

impl Source for HostSource {
    type Entries = HostEntries;

    fn facts(&self) -> Facts {
        let metadata = &self.metadata;
        let time = |seconds, nanoseconds: i64| Time {
            seconds,
            nanoseconds: u32::try_from(nanoseconds).unwrap_or_default(),
        };
        let device = metadata.rdev();
        Facts {
            inode: self.number,
            mode: metadata.mode(),
            links: u32::try_from(metadata.nlink()).unwrap_or(u32::MAX),
            uid: metadata.uid(),
            gid: metadata.gid(),
            project: 0,
            size: metadata.size(),
            blocks: metadata.blocks(),
            device: (rustix::fs::major(device), rustix::fs::minor(device)),
            accessed: time(metadata.atime(), metadata.atime_nsec()),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
            born: Time::default(),
            created: None,
            xflags: 0,
            extent_size_hints: None,
        }
    }

    fn length(&self) -> Option<u64> {
        self.length
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Failure> {
        match &self.file {
            Some(file) => file.read_at(buffer, offset).map_err(|error| self.failed(&error)),
            None => Ok(0),
        }
    }

    fn read_chunk(&self, chunk: &mut Vec<u8>, offset: u64, wanted: usize) -> Result<(), Failure> {
        // Most files of unknown length are empty, and need no memory for a whole chunk.
        if self.length.is_none() && self.read_at(&mut [0; 1], offset)? == 0 {
            chunk.clear();
            return Ok(());
        }
        fill_chunk(self, chunk, offset, wanted)
    }

    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>, Failure> {
        let Some(file) = &self.file else { return Ok(None) };
        let Some(length) = self.length else { return Ok(Some(offset..u64::MAX)) };
        if length <= SMALL_BYTES && self.metadata.blocks() * 512 >= length {
            return Ok((offset < length).then_some(offset..u64::MAX));
        }
        let Some(start) = self.seek(file, SeekFrom::Data(offset))? else { return Ok(None) };
        let end = self.seek(file, SeekFrom::Hole(start))?;
        // If the host reports a hole where it reported data, it knows no holes: then everything is
        // data.
        Ok(Some(start..end.filter(|end| *end > start).unwrap_or(u64::MAX)))
    }

    fn lies_on_host(&self) -> bool {
        true
    }

    fn target(&self) -> Result<Vec<u8>, Failure> {
        let target = fs::read_link(&self.path).map_err(|error| self.failed(&error))?;
        Ok(target.as_os_str().as_bytes().to_vec())
    }

    /// Returns those attributes of the file that its copy gets. Two kinds are left out: the names
    /// `trusted.SGI_ACL_*`, under which Linux shows access control lists a second time, and the
    /// properties of a whole volume.
    fn attributes(&self) -> Vec<Result<NamedValue, Failure>> {
        let list = match of_unknown_size(|list| rustix::fs::llistxattr(&self.path, list)) {
            Ok(list) => list,
            Err(Errno::NOTSUP) => return Vec::new(),
            Err(error) => return vec![Err(self.failed(&error.into()))],
        };
        let mut names: Vec<_> = list
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty() && is_carried_over(name))
            .collect();
        names.sort_unstable();
        names.into_iter().map(|name| self.attribute(name)).collect()
    }

    fn entries(&self) -> Result<HostEntries, Failure> {
        let listed = fs::read_dir(&self.path).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<Vec<_>, _>>()
        });
        let mut names = listed.map_err(|error| self.failed(&error))?;
        names.sort_unstable();
        Ok(HostEntries {
            directory: self.path.clone(),
            names: names.into_iter(),
            numbers: self.numbers.clone(),
            omission: Arc::clone(&self.omission),
        })
    }
}

/// Returns the bytes that `read` puts into a buffer, of which it returns the number. It may fail
/// with ERANGE if the buffer has fewer than 64 KiB, the most that Linux returns.
fn of_unknown_size(
    read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    const FEW_BYTES: usize = 512;
    const MOST_BYTES: usize = 64 << 10;
    // Nearly all files have a few short attributes or none: no memory is zeroed for more.
    let mut few = [0; FEW_BYTES];
    match read(&mut few) {
        Ok(length) => Ok(few.get(..length).expect("fits the buffer").to_vec()),
        Err(Errno::RANGE) => {
            let mut most = vec![0; MOST_BYTES];
            let length = read(&mut most)?;
            Ok(most.get(..length).expect("fits the buffer").to_vec())
        }
        Err(error) => Err(error),
    }
}

/// Returns the length of a file in bytes, or `None` if the kernel may generate its contents: then
/// its size need not be its length. Such a file has size 0 (in /proc), or it has data without
/// blocks or does not support seeking for data (in /sys).
fn true_length(metadata: &Metadata, file: Option<&File>) -> Option<u64> {
    let is_made_up = |file: &File| match (metadata.size(), metadata.blocks()) {
        (0, _) => true,
        // Both kinds of generated files have no blocks.
        (_, 1..) => false,
        (_, 0) => match seek(file, SeekFrom::Data(0)) {
            Ok(_) => true,
            Err(error) => error == Errno::INVAL,
        },
    };
    (!file.is_some_and(is_made_up)).then(|| metadata.size())
}

fn identity(metadata: &Metadata) -> FileIdentity {
    (metadata.dev(), metadata.ino())
}

/// The entries of a directory of the host, sorted by name.
pub(crate) struct HostEntries {
    directory: PathBuf,
    names: std::vec::IntoIter<OsString>,
    numbers: Numbers,
    omission: Arc<Omission>,
}

impl Iterator for HostEntries {
    type Item = Result<(Vec<u8>, HostSource), Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let name = self.names.next()?;
            let path = self.directory.join(&name);
            let metadata = match fs::symlink_metadata(&path) {
                Ok(metadata) => metadata,
                Err(error) => return Some(Err(Failure::host(path.as_os_str(), &error))),
            };
            if !self.omission.takes(&path, metadata.is_dir()) {
                continue;
            }
            let (numbers, omission) = (self.numbers.clone(), Arc::clone(&self.omission));
            let source = HostSource::with_metadata(path, metadata, numbers, omission);
            return Some(source.and_then(|source| match source.is_left_out() {
                true => Err(source.leaving_out()),
                false => Ok((name.as_bytes().to_vec(), source)),
            }));
        }
    }
}
