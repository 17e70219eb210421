//! Errors as exceptions of Python.

use std::io;

use ferroxfs::check::CheckError;
use ferroxfs::{Error, OpenError, PosixError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::{Py, PyAny, PyAnyMethods, PyErr, PyResult, Python};
use pyo3::sync::PyOnceLock;

/// The reason why a call has failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Volume(Error),
    Open(OpenError),
    Host(io::Error),
    Check(CheckError),
    /// An argument that the call does not take: a `ValueError`.
    Value(String),
    /// The volume or the file is closed: a `ValueError`, as for a file of Python.
    Closed(&'static str),
    /// The device holds something, and it was not said that it may be overwritten.
    Occupied(String),
    /// An exception that a Python object has raised.
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Volume(error)
    }
}

impl From<PosixError> for Failure {
    fn from(error: PosixError) -> Self {
        Self::Volume(error.into())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Host(error)
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

/// The parts of an exception.
struct Description {
    /// The class, by its name in `ferroxfs._errors`. "" means the class of the errno.
    class: &'static str,
    errno: i32,
    message: String,
    /// Structure, address and check of damage.
    damage: Option<(String, String, String)>,
}

fn describe(error: &Error) -> Description {
    let damage = match error {
        Error::Corrupt(damage) => Some((
            damage.structure().name().to_owned(),
            damage.address().to_string(),
            damage.check().to_string(),
        )),
        _ => None,
    };
    let class = match error {
        Error::Corrupt(_) => "CorruptError",
        Error::Unsupported(_) => "UnsupportedError",
        Error::Shutdown => "ShutdownError",
        _ => "",
    };
    Description { class, errno: error.errno(), message: error.to_string(), damage }
}

impl Failure {
    fn describe(&self) -> Option<Description> {
        let plain = |class, errno, message| Description { class, errno, message, damage: None };
        Some(match self {
            Self::Volume(error) => describe(error),
            Self::Open(error) => match error {
                OpenError::Volume(inner)
                | OpenError::Recovery(inner)
                | OpenError::Quota(inner)
                | OpenError::Log(inner) => {
                    Description { message: error.to_string(), ..describe(inner) }
                }
                OpenError::DirtyLog(_) => {
                    plain("UnsupportedError", error.errno(), error.to_string())
                }
                OpenError::Find(_) => plain("NotXfsError", error.errno(), error.to_string()),
                _ => plain("", error.errno(), error.to_string()),
            },
            Self::Host(error) => {
                plain("", error.raw_os_error().unwrap_or(libc::EIO), error.to_string())
            }
            Self::Check(CheckError::Refused(error)) => describe(error),
            Self::Check(error @ CheckError::OpenForWriting) => {
                plain("", libc::EBUSY, error.to_string())
            }
            Self::Check(error) => plain("UnsupportedError", libc::EOPNOTSUPP, error.to_string()),
            Self::Occupied(contents) => {
                let message = format!("contains {contents}; pass force=True to overwrite it");
                plain("", libc::EEXIST, message)
            }
            Self::Value(_) | Self::Closed(_) | Self::Python(_) => return None,
        })
    }

    /// Returns the exception. `path` is the path of the volume or the host that the call was about.
    pub(crate) fn into_exception(self, py: Python<'_>, path: Option<&[u8]>) -> PyErr {
        match self {
            Self::Python(error) => error,
            Self::Value(message) => PyValueError::new_err(message),
            Self::Closed(what) => PyValueError::new_err(format!("I/O operation on closed {what}")),
            failure => make(py, &failure, path).unwrap_or_else(|error| error),
        }
    }
}

fn make(py: Python<'_>, failure: &Failure, path: Option<&[u8]>) -> PyResult<PyErr> {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let Some(it) = failure.describe() else {
        return Ok(PyValueError::new_err(format!("{failure:?}")));
    };
    let function = MAKE.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("ferroxfs._errors")?.getattr("make")?.unbind())
    })?;
    let exception = function.call1(py, (it.class, it.errno, it.message, path, it.damage))?;
    Ok(PyErr::from_value(exception.into_bound(py)))
}

/// Runs `work` without the GIL, and makes an exception of its failure.
pub(crate) fn without_gil<R: Send>(
    py: Python<'_>,
    path: Option<&[u8]>,
    work: impl FnOnce() -> Result<R, Failure> + Send,
) -> PyResult<R> {
    py.detach(work).map_err(|failure| failure.into_exception(py, path))
}
