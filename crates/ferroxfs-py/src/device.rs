//! A file object of Python as a block device.
//!
//! The object needs `seek`, `read` and, for writing, `write` and `flush`. Requests come one after
//! the other, because an object has one position.

use std::io;

use ferroxfs::device::{BlockDevice, Durability};
use pyo3::prelude::{Bound, Py, PyAny, PyAnyMethods, PyErr, PyResult, Python};
use pyo3::types::{PyBytes, PyBytesMethods};
use xfs_sync::{Mutex, Object};

/// The sector size that is assumed for an object, in bytes.
const SECTOR_BYTES: u32 = 512;

/// A block device made of a file object.
pub(crate) struct FileObject {
    object: Mutex<Py<PyAny>, Object>,
    length_bytes: u64,
    is_writable: bool,
}

impl FileObject {
    /// Makes a device of an object. Its length is the position of its end.
    pub(crate) fn new(object: &Bound<'_, PyAny>, is_writable: bool) -> PyResult<Self> {
        let length_bytes: u64 = object.call_method1("seek", (0, 2))?.extract()?;
        let object = Mutex::new(object.clone().unbind());
        Ok(Self { object, length_bytes, is_writable })
    }

    /// Calls `work` with the object. The lock comes first and the GIL second: a thread that waits
    /// for the lock holds no GIL.
    fn with<R>(&self, work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<R>) -> io::Result<R> {
        let object = self.object.lock();
        let run = |py: Python<'_>| work(object.bind(py)).map_err(|error| io_error(py, &error));
        Python::try_attach(run)
            .unwrap_or_else(|| Err(io::Error::other("the interpreter has ended")))
    }

    fn check_range(&self, offset: u64, length: usize) -> io::Result<()> {
        let end = u64::try_from(length).ok().and_then(|length| offset.checked_add(length));
        match end {
            Some(end) if end <= self.length_bytes => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Returns the errno of an OSError, and the text of any other exception.
fn io_error(py: Python<'_>, error: &PyErr) -> io::Error {
    let errno = error.value(py).getattr("errno").and_then(|errno| errno.extract::<i32>());
    errno.map_or_else(|_| io::Error::other(error.to_string()), io::Error::from_raw_os_error)
}

impl BlockDevice for FileObject {
    fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    fn sector_size(&self) -> u32 {
        SECTOR_BYTES
    }

    fn is_read_only(&self) -> bool {
        !self.is_writable
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.check_range(offset, buffer.len())?;
        let filled = self.with(|object| {
            object.call_method1("seek", (offset,))?;
            let mut done = 0;
            // A raw file may return fewer bytes than it was asked for.
            while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
                let read = object.call_method1("read", (rest.len(),))?;
                let bytes = read.cast::<PyBytes>().map_err(PyErr::from)?.as_bytes();
                let Some(bytes) = bytes.get(..bytes.len().min(rest.len())) else { break };
                if bytes.is_empty() {
                    break;
                }
                let (start, _) = rest.split_at_mut(bytes.len());
                start.copy_from_slice(bytes);
                done += bytes.len();
            }
            Ok(done == buffer.len())
        })?;
        if filled { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        if !self.is_writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.check_range(offset, bytes.len())?;
        self.with(|object| {
            object.call_method1("seek", (offset,))?;
            let mut done = 0;
            while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
                let written = object.call_method1("write", (PyBytes::new(object.py(), rest),))?;
                done += written.extract::<usize>()?.min(rest.len());
            }
            Ok(())
        })?;
        match durability {
            Durability::Cached => Ok(()),
            Durability::Durable => self.flush(),
        }
    }

    /// Flushes the object, and its file if it has one.
    fn flush(&self) -> io::Result<()> {
        if !self.is_writable {
            return Ok(());
        }
        self.with(|object| {
            object.call_method0("flush")?;
            // io.BytesIO has no descriptor. A file of the host must reach its disk.
            if let Ok(descriptor) = object.call_method0("fileno") {
                object.py().import("os")?.call_method1("fsync", (descriptor,))?;
            }
            Ok(())
        })
    }

    fn discard(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}
