//! The contenders of the data benchmark: the library, a plain file, and the kernel's XFS.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ferroxfs::{CreateOptions, NewKind, Volume};
use rustix::fs::OFlags;
use xfs_oracle::{Mount, Xfsprogs};

use super::Arguments;
use crate::error::BenchError;

/// Size in bytes of the writes that fill a file before the measurement.
const FILL_BYTES: usize = 1 << 20;
/// Number of bytes by which a volume is larger than all its files together.
const SPARE_BYTES: u64 = 512 << 20;

/// A system that the data benchmark measures, with its files, which are numbered from 0 on.
pub(super) trait DataContender: Sync {
    fn write(&self, file: usize, offset: u64, bytes: &[u8]) -> Result<(), BenchError>;
    fn read(&self, file: usize, offset: u64, bytes: &mut [u8]) -> Result<(), BenchError>;
    fn sync(&self, file: usize) -> Result<(), BenchError>;
    /// Closes the files and the volume, and opens them again so that the caches are cold.
    fn reopen(&mut self) -> Result<(), BenchError>;
    fn close(self: Box<Self>) -> Result<(), BenchError>;
}

/// The library on a volume in an image.
pub(super) struct Library {
    image: PathBuf,
    count: usize,
    /// The open files of the benchmark. They are declared before the volume, so that they are
    /// dropped first.
    files: Vec<ferroxfs::File>,
    volume: Option<Volume>,
}

impl Library {
    pub(super) fn new(arguments: &Arguments, image: &Path) -> Result<Self, BenchError> {
        make_volume(image)?;
        Ok(Self {
            image: image.to_owned(),
            count: arguments.threads,
            files: Vec::new(),
            volume: None,
        })
    }

    fn file(&self, index: usize) -> &ferroxfs::File {
        self.files.get(index).expect("each thread has a file")
    }

    fn close_volume(&mut self) -> Result<(), BenchError> {
        self.files.clear();
        Ok(self.volume.take().map_or(Ok(()), Volume::close)?)
    }
}

impl DataContender for Library {
    fn write(&self, file: usize, offset: u64, bytes: &[u8]) -> Result<(), BenchError> {
        let written = self.file(file).write_at(bytes, offset)?;
        assert_eq!(written, bytes.len(), "the volume has room");
        Ok(())
    }

    fn read(&self, file: usize, offset: u64, bytes: &mut [u8]) -> Result<(), BenchError> {
        let read = self.file(file).read_at(bytes, offset)?;
        assert_eq!(read, bytes.len(), "the file is as long as it was written");
        Ok(())
    }

    fn sync(&self, file: usize) -> Result<(), BenchError> {
        Ok(self.file(file).sync_all()?)
    }

    fn reopen(&mut self) -> Result<(), BenchError> {
        self.close_volume()?;
        let volume = ferroxfs::OpenOptions::new().write(true).open(&self.image)?;
        let root = volume.root()?;
        for index in 0..self.count {
            let name = format!("file{index}");
            let node = match root.lookup(name.as_ref()) {
                Ok(node) => node,
                Err(_) => {
                    let creation = CreateOptions::new(0o644);
                    root.create(&name, &NewKind::Regular, &creation)?
                }
            };
            self.files.push(node.open()?);
        }
        self.volume = Some(volume);
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Result<(), BenchError> {
        self.close_volume()
    }
}

/// The bare device, for comparison: a file that is as large as an image. Each thread uses one part
/// of this file.
pub(super) struct Bare {
    path: PathBuf,
    part_bytes: u64,
    file: File,
}

impl Bare {
    pub(super) fn new(arguments: &Arguments, path: &Path) -> Result<Self, BenchError> {
        let part_bytes = image_bytes(arguments) / arguments.threads as u64;
        Ok(Self { path: path.to_owned(), part_bytes, file: open(path, OFlags::empty())? })
    }

    const fn at(&self, file: usize, offset: u64) -> u64 {
        self.part_bytes * file as u64 + offset
    }
}

impl DataContender for Bare {
    fn write(&self, file: usize, offset: u64, bytes: &[u8]) -> Result<(), BenchError> {
        let written = self.file.write_all_at(bytes, self.at(file, offset));
        written.map_err(BenchError::file(&self.path))
    }

    fn read(&self, file: usize, offset: u64, bytes: &mut [u8]) -> Result<(), BenchError> {
        let read = self.file.read_exact_at(bytes, self.at(file, offset));
        read.map_err(BenchError::file(&self.path))
    }

    fn sync(&self, _file: usize) -> Result<(), BenchError> {
        self.file.sync_data().map_err(BenchError::file(&self.path))
    }

    fn reopen(&mut self) -> Result<(), BenchError> {
        self.file = open(&self.path, OFlags::empty())?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

/// The kernel's XFS with direct I/O. The loop device writes the image through the host's page
/// cache. So bytes are copied once, as in the library.
pub(super) struct Kernel {
    mount: Mount,
    count: usize,
    files: Vec<File>,
}

impl Kernel {
    pub(super) fn new(arguments: &Arguments, image: &Path) -> Result<Self, BenchError> {
        make_volume(image)?;
        let mount = Mount::new(image, None, &[])?;
        Ok(Self { mount, count: arguments.threads, files: Vec::new() })
    }

    fn file(&self, index: usize) -> &File {
        self.files.get(index).expect("each thread has a file")
    }
}

impl DataContender for Kernel {
    fn write(&self, file: usize, offset: u64, bytes: &[u8]) -> Result<(), BenchError> {
        self.file(file).write_all_at(bytes, offset).map_err(BenchError::file(self.mount.path()))
    }

    fn read(&self, file: usize, offset: u64, bytes: &mut [u8]) -> Result<(), BenchError> {
        self.file(file).read_exact_at(bytes, offset).map_err(BenchError::file(self.mount.path()))
    }

    fn sync(&self, file: usize) -> Result<(), BenchError> {
        self.file(file).sync_all().map_err(BenchError::file(self.mount.path()))
    }

    fn reopen(&mut self) -> Result<(), BenchError> {
        self.files.clear();
        for index in 0..self.count {
            self.files.push(open(&self.mount.path().join(format!("file{index}")), OFlags::DIRECT)?);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        let Self { mount, files, .. } = *self;
        drop(files);
        Ok(mount.unmount()?)
    }
}

fn open(path: &Path, flags: OFlags) -> Result<File, BenchError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(flags.bits().cast_signed());
    options.open(path).map_err(BenchError::file(path))
}

/// Returns the size of an image in bytes.
const fn image_bytes(arguments: &Arguments) -> u64 {
    arguments.bytes() * arguments.threads as u64 + SPARE_BYTES
}

/// Makes files of the size of an image and fills them, unless the arguments disable filling. All
/// files grow in turns, so that they get memory of the same kind. Without turns, the read speed of
/// two files differed by half.
pub(super) fn fill(arguments: &Arguments, paths: &[PathBuf]) -> Result<(), BenchError> {
    let mut files = Vec::new();
    for path in paths {
        let file = File::create(path).map_err(BenchError::file(path))?;
        file.set_len(image_bytes(arguments)).map_err(BenchError::file(path))?;
        files.push((path, file));
    }
    if arguments.untouched {
        return Ok(());
    }
    let bytes = vec![0xa5; FILL_BYTES];
    for offset in (0..image_bytes(arguments)).step_by(FILL_BYTES) {
        for (path, file) in &files {
            file.write_all_at(&bytes, offset).map_err(BenchError::file(path))?;
        }
    }
    files.iter().try_for_each(|(path, file)| file.sync_all().map_err(BenchError::file(path)))
}

/// Makes an empty volume that takes up a whole file.
fn make_volume(image: &Path) -> Result<(), BenchError> {
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    // -K keeps the blocks that were written before.
    let status = mkfs.args(["-q", "-f", "-K"]).arg(image).status();
    let status = status.map_err(BenchError::file(image))?;
    if status.success() {
        Ok(())
    } else {
        Err(BenchError::Failed { name: "mkfs.xfs".to_owned(), status })
    }
}
