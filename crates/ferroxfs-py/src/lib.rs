//! The native part of the Python module `ferroxfs`.
//!
//! Owns: handles, calls without the GIL, exceptions, record batches of a scan. Does **not** own:
//! what a Python program sees. That is in `python/ferroxfs`: paths, files, findings, the file
//! system of fsspec. `docs/adr/0016-the-python-module.md` has the reasons.
//!
//! # The GIL
//!
//! - Every call that may read or write a device runs without the GIL: `errors::without_gil`. A test
//!   lets a device wait for another thread of Python.
//! - No thread waits for a lock of this crate, or for a scan, while it holds the GIL. A device that
//!   is a Python object needs the GIL for each request.

#![allow(clippy::too_many_arguments, reason = "Python calls have keyword arguments")]

mod device;
mod errors;
mod file;
mod make;
mod scan;
mod volume;

use pyo3::prelude::{Bound, PyModule, PyModuleMethods, PyResult, pymodule};
use pyo3::wrap_pyfunction;

/// Adds the classes and functions to the module `ferroxfs._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<volume::Volume>()?;
    module.add_class::<file::File>()?;
    module.add_class::<scan::Scan>()?;
    module.add_function(wrap_pyfunction!(volume::open, module)?)?;
    module.add_function(wrap_pyfunction!(make::mkfs, module)?)?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
