//! Volumes: opening, closing, and every call that takes a path.

mod changes;
mod populate;
mod report;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use ferroxfs::{Credentials, InodeNumber, Metadata, Node, OpenOptions, PosixError};
use pyo3::prelude::{
    Bound, PyAny, PyAnyMethods, PyErr, PyResult, Python, pyclass, pyfunction, pymethods,
};
use pyo3::types::PyBytes;
use xfs_sync::{Mutex, Object, RwLock};

use crate::device::FileObject;
use crate::errors::{Failure, without_gil};
use crate::file::{self, File};
use crate::scan::{Scan, ScanArguments};
use populate::{Identity, identity_of};

/// The properties of an inode, in the order that the class `Stat` of Python has them.
type StatTuple =
    ((u32, u64, u32, u32, u32, u64, u64), (u32, u32, u64), [(i64, u32); 4], (u32, u32, u32, u64));

/// A name of a directory: the name, the inode number, and the type bits of its mode if known.
type EntryTuple = (Vec<u8>, u64, Option<u16>);

/// An open file that belongs to a volume but does not keep it open.
type WeakFile = Weak<RwLock<Option<ferroxfs::File>, Object>>;

/// An open volume. Any number of threads may use it.
#[pyclass(frozen, module = "ferroxfs._native", weakref)]
pub(crate) struct Volume {
    volume: RwLock<Option<ferroxfs::Volume>, Object>,
    /// The open files, which closing the volume closes, too.
    files: Mutex<Vec<WeakFile>, Object>,
    /// Whether the device is a Python object, whose requests need the GIL.
    needs_gil: bool,
    is_writable: bool,
    /// Whether this is a view of another volume for a user. Closing it closes nothing.
    acts_for_user: bool,
    /// The files of the host that have the volume, as far as they are known.
    images: Vec<Identity>,
}

/// The options of opening, as the Python part passes them.
struct OpenArguments {
    write: bool,
    no_recovery: bool,
    live: bool,
    partition: Option<u32>,
    offset: Option<u64>,
    log_device: Option<Vec<u8>>,
    realtime_device: Option<Vec<u8>>,
    cache_bytes: Option<usize>,
}

impl OpenArguments {
    fn options(&self) -> OpenOptions {
        let path = |bytes: &Vec<u8>| PathBuf::from(OsStr::from_bytes(bytes));
        let mut options =
            OpenOptions::new().write(self.write).no_recovery(self.no_recovery).live(self.live);
        if let Some(partition) = self.partition {
            options = options.partition(partition);
        }
        if let Some(offset) = self.offset {
            options = options.offset(offset);
        }
        if let Some(device) = &self.log_device {
            options = options.log_device(path(device));
        }
        if let Some(device) = &self.realtime_device {
            options = options.realtime_device(path(device));
        }
        if let Some(bytes) = self.cache_bytes {
            options = options.cache_bytes(bytes);
        }
        options
    }
}

/// Opens a volume: `source` is a path as bytes, a descriptor, or a file object.
#[pyfunction]
#[pyo3(signature = (
    source, *, write, no_recovery, live, partition, offset, log_device, realtime_device, cache_bytes
))]
pub(crate) fn open(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    write: bool,
    no_recovery: bool,
    live: bool,
    partition: Option<u32>,
    offset: Option<u64>,
    log_device: Option<Vec<u8>>,
    realtime_device: Option<Vec<u8>>,
    cache_bytes: Option<usize>,
) -> PyResult<Volume> {
    let arguments = OpenArguments {
        write,
        no_recovery,
        live,
        partition,
        offset,
        log_device,
        realtime_device,
        cache_bytes,
    };
    let paths = [source.extract::<Vec<u8>>().ok(), arguments.log_device.clone()];
    let paths = paths.into_iter().chain([arguments.realtime_device.clone()]).flatten();
    let images: Vec<Identity> = paths.filter_map(|path| identity_of(&path)).collect();
    if let Ok(path) = source.extract::<Vec<u8>>() {
        let opened = without_gil(py, Some(&path), || {
            Ok(arguments.options().open(OsStr::from_bytes(&path))?)
        })?;
        return Ok(Volume { images, ..Volume::new(opened, write, false) });
    }
    if let Ok(descriptor) = source.extract::<u32>() {
        let path = format!("/proc/self/fd/{descriptor}");
        let images: Vec<Identity> =
            identity_of(path.as_bytes()).into_iter().chain(images).collect();
        let opened = without_gil(py, None, || Ok(arguments.options().open(path)?))?;
        return Ok(Volume { images, ..Volume::new(opened, write, false) });
    }
    let device = Arc::new(FileObject::new(source, write)?);
    let opened = without_gil(py, None, || {
        if partition.is_some() || offset.is_some() {
            let rule = "a file object has no partition or offset: pass one of the volume";
            return Err(Failure::Value(rule.to_owned()));
        }
        Ok(arguments.options().open_device(device)?)
    })?;
    Ok(Volume::new(opened, write, true))
}

impl Volume {
    fn new(volume: ferroxfs::Volume, is_writable: bool, needs_gil: bool) -> Self {
        let (volume, files) = (RwLock::new(Some(volume)), Mutex::new(Vec::new()));
        let images = Vec::new();
        Self { volume, files, needs_gil, is_writable, acts_for_user: false, images }
    }

    /// Runs `work` with the open volume, without the GIL. The volume stays open meanwhile.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        path: Option<&[u8]>,
        work: impl FnOnce(&ferroxfs::Volume) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        without_gil(py, path, || {
            let volume = self.volume.read();
            work(volume.as_ref().ok_or(Failure::Closed("volume"))?)
        })
    }

    /// Runs `work` with the node of a path.
    fn with_node<R: Send>(
        &self,
        py: Python<'_>,
        path: &[u8],
        follow: bool,
        work: impl FnOnce(&Node) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        self.with(py, Some(path), |volume| {
            let path = OsStr::from_bytes(path);
            let node = if follow { volume.lookup(path) } else { volume.lookup_no_follow(path) };
            work(&node?)
        })
    }

    fn remember(&self, file: &File) {
        let mut files = self.files.lock();
        files.retain(|file| file.strong_count() > 0);
        files.push(Arc::downgrade(file.slot()));
    }
}

fn stat_of(metadata: &Metadata) -> StatTuple {
    let time = |time: ferroxfs::Timestamp| (time.seconds(), time.nanoseconds());
    let device = metadata.device.map_or((0, 0), |device| (device.major, device.minor));
    let it = metadata;
    (
        (u32::from(it.mode), it.number.0, it.nlink, it.uid, it.gid, it.size, it.blocks),
        (device.0, device.1, it.extents),
        [time(it.accessed), time(it.modified), time(it.changed), time(it.created)],
        (it.generation, it.project_id, it.xflags.bits(), u64::from(it.attr_extents)),
    )
}

#[pymethods]
impl Volume {
    /// Closes the files that are left, and the volume. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        without_gil(py, None, || {
            // New files need the lock of the volume, which this call holds from here on.
            let mut slot = self.volume.write();
            let files = std::mem::take(&mut *self.files.lock());
            let mut outcome = Ok(());
            for file in files.iter().filter_map(Weak::upgrade) {
                outcome = outcome.and(file::close(&file));
            }
            let closed = match slot.take() {
                Some(volume) if !self.acts_for_user => volume.close().map_err(Failure::from),
                _ => Ok(()),
            };
            outcome.and(closed)
        })
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.volume.read().is_none())
    }

    #[getter]
    fn writable(&self) -> bool {
        self.is_writable
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, None, |volume| Ok(volume.sync()?))
    }

    fn as_user(&self, py: Python<'_>, uid: u32, gid: u32, groups: Vec<u32>) -> PyResult<Self> {
        let user = self.with(py, None, |volume| {
            Ok(volume.as_user(Credentials::new(uid, gid).groups(groups)))
        })?;
        let images = self.images.clone();
        let user = Self::new(user, self.is_writable, self.needs_gil);
        Ok(Self { acts_for_user: true, images, ..user })
    }

    fn label(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        self.with(py, None, |volume| Ok(volume.label()?.as_bytes().to_vec()))
    }

    fn uuid(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, None, |volume| Ok(volume.uuid()?.to_string()))
    }

    /// Returns block size, blocks, free and available blocks, files and free files.
    fn space(&self, py: Python<'_>) -> PyResult<(u32, u64, u64, u64, u64, u64)> {
        self.with(py, None, |volume| {
            let it = volume.space()?;
            let files = (it.files, it.free_files());
            let blocks = (it.total_blocks, it.free_blocks, it.available_blocks);
            Ok((it.block_size, blocks.0, blocks.1, blocks.2, files.0, files.1))
        })
    }

    fn stat(&self, py: Python<'_>, path: &[u8], follow: bool) -> PyResult<StatTuple> {
        self.with_node(py, path, follow, |node| Ok(stat_of(&node.metadata())))
    }

    /// Returns the paths of an inode number.
    fn paths_of(&self, py: Python<'_>, number: u64) -> PyResult<Vec<Vec<u8>>> {
        self.with(py, None, |volume| {
            let found = volume.inode_paths(InodeNumber(number))?;
            Ok(found.paths.iter().map(|path| path.as_os_str().as_bytes().to_vec()).collect())
        })
    }

    fn readlink(&self, py: Python<'_>, path: &[u8]) -> PyResult<Vec<u8>> {
        self.with_node(py, path, false, |node| Ok(node.read_link()?.as_bytes().to_vec()))
    }

    /// Returns all names of a directory that can be read, and the first error among them.
    fn listdir(&self, py: Python<'_>, path: &[u8]) -> PyResult<(Vec<EntryTuple>, Option<PyErr>)> {
        let (entries, error) = self.with_node(py, path, true, |node| {
            let (mut entries, mut first) = (Vec::new(), None);
            for entry in node.entries()? {
                match entry {
                    Ok(entry) => {
                        let bits = entry.file_type().map(ferroxfs::FileType::mode_bits);
                        entries.push((entry.name().as_bytes().to_vec(), entry.number().0, bits));
                    }
                    Err(error) => first = first.or(Some(error)),
                }
            }
            Ok((entries, first))
        })?;
        let error = error.map(|error| Failure::Volume(error).into_exception(py, Some(path)));
        Ok((entries, error))
    }

    /// Returns all names of attributes that can be read, and the first error among them.
    fn listxattr(
        &self,
        py: Python<'_>,
        path: &[u8],
        follow: bool,
    ) -> PyResult<(Vec<Vec<u8>>, Option<PyErr>)> {
        let (names, error) = self.with_node(py, path, follow, |node| {
            let (mut names, mut first) = (Vec::new(), None);
            for attribute in node.attributes() {
                match attribute {
                    Ok(attribute) => names.push(attribute.name.as_bytes().to_vec()),
                    Err(error) => first = first.or(Some(error)),
                }
            }
            Ok((names, first))
        })?;
        let error = error.map(|error| Failure::Volume(error).into_exception(py, Some(path)));
        Ok((names, error))
    }

    fn getxattr<'py>(
        &self,
        py: Python<'py>,
        path: &[u8],
        follow: bool,
        name: &[u8],
    ) -> PyResult<Bound<'py, PyBytes>> {
        let value =
            self.with_node(py, path, follow, |node| Ok(node.attribute(OsStr::from_bytes(name))?))?;
        Ok(PyBytes::new(py, &value))
    }

    /// Opens a regular file. `create` makes a missing file, with `mode`; `exclusive` makes an
    /// existing one an error.
    #[pyo3(signature = (path, *, read, write, create, exclusive, truncate, mode))]
    fn open(
        &self,
        py: Python<'_>,
        path: &[u8],
        read: bool,
        write: bool,
        create: bool,
        exclusive: bool,
        truncate: bool,
        mode: u16,
    ) -> PyResult<File> {
        let file = self.with(py, Some(path), |volume| {
            let node = changes::find_or_create(volume, path, create, exclusive, mode)?;
            let file = match (read, write) {
                (true, true) => node.open()?,
                (false, true) => node.open_write_only()?,
                _ => node.open_read_only()?,
            };
            if write && !file.is_writable() {
                return Err(PosixError::ReadOnly.into());
            }
            if truncate {
                file.set_len(0)?;
            }
            let file = File::new(file);
            self.remember(&file);
            Ok(file)
        })?;
        Ok(file)
    }

    /// Reads a whole file.
    fn read<'py>(&self, py: Python<'py>, path: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with_node(py, path, true, |node| {
            let file = node.open_read_only()?;
            let size = usize::try_from(file.metadata().size)
                .map_err(|_| Failure::from(PosixError::FileTooLarge))?;
            let mut bytes = Vec::new();
            bytes
                .try_reserve_exact(size)
                .map_err(|_| std::io::Error::from(std::io::ErrorKind::OutOfMemory))?;
            bytes.resize(size, 0);
            let count = file.read_at(&mut bytes, 0)?;
            bytes.truncate(count);
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Prepares a scan. The columns are those of the command `scan`.
    #[pyo3(signature = (fields, threads, memory_bytes, strict))]
    fn scan(
        &self,
        py: Python<'_>,
        fields: Option<Vec<String>>,
        threads: usize,
        memory_bytes: Option<u64>,
        strict: bool,
    ) -> PyResult<Scan> {
        let wanted = ScanArguments { fields, threads, memory_bytes, strict };
        let is_writable = self.is_writable;
        let needs_gil = self.needs_gil;
        self.with(py, None, |volume| {
            if is_writable {
                let rule = "cannot scan a volume that is open for writing: close it first";
                return Err(Failure::Value(rule.to_owned()));
            }
            Scan::new(volume, wanted, needs_gil)
        })
    }

    /// Checks the volume. Returns the parts of a report.
    fn check(&self, py: Python<'_>) -> PyResult<report::ReportTuple> {
        self.with(py, None, report::check)
    }
}

/// Returns the path of a directory and the name of an entry in it.
fn split(path: &[u8]) -> Result<(&Path, &OsStr), Failure> {
    let path = Path::new(OsStr::from_bytes(path));
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(PosixError::InvalidArgument.into()),
    }
}
