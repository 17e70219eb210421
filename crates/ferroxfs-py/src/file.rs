//! Open files.

use std::sync::Arc;

use pyo3::prelude::{Bound, PyResult, Python, pyclass, pymethods};
use pyo3::types::PyBytes;
use xfs_sync::{Object, RwLock};

use crate::errors::{Failure, without_gil};

/// An open file, until it or its volume is closed. The volume closes the files that are left.
pub(crate) type FileSlot = Arc<RwLock<Option<ferroxfs::File>, Object>>;

/// An open regular file. The Python part wraps it as a file object.
#[pyclass(frozen, module = "ferroxfs._native")]
pub(crate) struct File {
    slot: FileSlot,
}

impl File {
    pub(crate) fn new(file: ferroxfs::File) -> Self {
        Self { slot: Arc::new(RwLock::new(Some(file))) }
    }

    pub(crate) fn slot(&self) -> &FileSlot {
        &self.slot
    }

    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&ferroxfs::File) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        without_gil(py, None, || {
            let file = self.slot.read();
            work(file.as_ref().ok_or(Failure::Closed("file"))?)
        })
    }
}

#[pymethods]
impl File {
    /// Reads up to `size` bytes at `offset`.
    fn pread<'py>(
        &self,
        py: Python<'py>,
        size: usize,
        offset: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |file| {
            // A caller may ask for more than the file has, and gets no memory for that.
            let left = file.metadata().size.saturating_sub(offset);
            let size = size.min(usize::try_from(left).unwrap_or(usize::MAX));
            let mut buffer = vec![0; size];
            let count = file.read_at(&mut buffer, offset)?;
            buffer.truncate(count);
            Ok(buffer)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes bytes at `offset`, and returns how many.
    fn pwrite(&self, py: Python<'_>, data: &[u8], offset: u64) -> PyResult<usize> {
        self.with(py, |file| Ok(file.write_at(data, offset)?))
    }

    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |file| Ok(file.metadata().size))
    }

    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.with(py, |file| Ok(file.set_len(size)?))
    }

    fn sync(&self, py: Python<'_>, data_only: bool) -> PyResult<()> {
        self.with(py, |file| Ok(if data_only { file.sync_data() } else { file.sync_all() }?))
    }

    /// Closes the file. A second call does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        without_gil(py, None, || close(&self.slot))
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.slot.read().is_none())
    }
}

/// Closes a file. An error is that of a write that was lost.
pub(crate) fn close(slot: &FileSlot) -> Result<(), Failure> {
    let file = slot.write().take();
    Ok(file.map_or(Ok(()), ferroxfs::File::close)?)
}
