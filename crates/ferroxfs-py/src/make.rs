//! Making a volume.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ferroxfs::OpenError;
use ferroxfs::device::{BlockDevice, FileDevice, FileOptions};
use pyo3::prelude::{Bound, PyAny, PyAnyMethods, PyResult, Python, pyfunction};
use uuid::Uuid;
use xfs_mkfs::{Devices, Discard, Identity, Options, Plan, TargetDevice, find_contents};

use crate::device::FileObject;
use crate::errors::{Failure, without_gil};

/// Makes a volume on a path or in a file object. `options` has suboptions of mkfs.xfs by letter.
#[pyfunction]
#[pyo3(signature = (target, *, size, label, uuid, options, force))]
pub(crate) fn mkfs(
    py: Python<'_>,
    target: &Bound<'_, PyAny>,
    size: Option<u64>,
    label: Option<Vec<u8>>,
    uuid: Option<[u8; 16]>,
    options: BTreeMap<char, String>,
    force: bool,
) -> PyResult<()> {
    let path: Option<Vec<u8>> = target.extract().ok();
    let object = match &path {
        None => Some(FileObject::new(target, true)?),
        Some(_) => None,
    };
    without_gil(py, path.as_deref(), || {
        let mut parsed = Options::default();
        let refused = |error: xfs_mkfs::OptionError| Failure::Value(error.to_string());
        for (letter, text) in options {
            parsed.parse(letter, &text).map_err(refused)?;
        }
        if let Some(label) = label {
            parsed.parse_label(&label).map_err(refused)?;
        }
        parsed.uuid = uuid.map(Uuid::from_bytes).or(parsed.uuid);
        match (&path, object) {
            (Some(path), _) => make_at(Path::new(OsStr::from_bytes(path)), size, &parsed, force),
            (None, Some(_)) if size.is_some() => {
                Err(Failure::Value("a file object has a size already".to_owned()))
            }
            (None, Some(object)) => make(&object, &parsed, force),
            (None, None) => Err(Failure::Value("no target".to_owned())),
        }
    })
}

/// Makes a volume on a path: in a new file if `size` is given, else on what exists.
fn make_at(path: &Path, size: Option<u64>, options: &Options, force: bool) -> Result<(), Failure> {
    if let Some(size) = size {
        fs::File::create_new(path)?.set_len(size)?;
    }
    let made = FileDevice::open(path, FileOptions::read_write())
        .map_err(|error| Failure::from(OpenError::from(error)))
        .and_then(|device| make(&device, options, force));
    if made.is_err() && size.is_some() {
        // This call has made the file, and it holds nothing.
        fs::remove_file(path)?;
    }
    made
}

fn make(device: &dyn BlockDevice, options: &Options, force: bool) -> Result<(), Failure> {
    let refused = |what: &str| Err(Failure::Value(format!("{what} is not supported by mkfs()")));
    if options.log.device.is_some() {
        return refused("a log on another device");
    }
    if options.realtime.device.is_some() {
        return refused("a realtime section on another device");
    }
    if options.data.name.is_some() {
        return refused("the name of a device among the options");
    }
    if !force && let Some(contents) = find_contents(device)? {
        return Err(Failure::Occupied(contents.to_string()));
    }
    let target = TargetDevice {
        data_bytes: device.length_bytes(),
        sector_size: device.sector_size(),
        log_bytes: None,
        realtime_bytes: None,
    };
    let plan = Plan::new(options, &target, &Identity::random()?);
    let plan = plan.map_err(|error| Failure::Value(error.to_string()))?;
    xfs_mkfs::write(&plan, Devices { data: device, log: None, realtime: None }, Discard::No)?;
    Ok(device.flush()?)
}
