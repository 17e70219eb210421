//! The tables of users and groups that an image will have: `--passwd-from-image`.
//!
//! The sources are written to a volume in a temporary file, without any file outside of the
//! directories in which tables lie. So the rules for layers, whiteouts, additions and links are
//! those of the image, and a table that the image will not have is not found.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use ferroxfs::Timestamp;
use xfs_device::{FileDevice, FileOptions, SharedDevice};
use xfs_mkfs::{Devices, Discard, Identity, Options, Plan, TargetDevice};

use crate::cli::PolicyOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{Filling, Image, ImageVolume};
use crate::import::policy::Policy;
use crate::import::policy::filter::Filter;
use crate::import::policy::id_tables::{IdTables, MOST_TABLE_BYTES};
use crate::import::sources::ImportSources;
use crate::import::writer::{ImageWriter, WriterOptions};

/// The directories of the image in which tables lie, or to which their links lead.
const DIRECTORIES: [&str; 3] = ["etc", "usr/etc", "usr/lib"];
/// The length of the temporary volume in bytes. Its file is sparse.
const VOLUME_BYTES: u64 = 1 << 40;
const SECTOR_BYTES: u32 = 512;

/// Reads the tables that the names in `options` need. `open` opens the sources under a policy.
///
/// # Errors
///
/// Sources that cannot be read, or an image without such a table.
pub(crate) fn tables_of_image(
    options: &PolicyOptions,
    open: impl FnOnce(&Rc<Policy>) -> Result<ImportSources, Failure>,
) -> Result<IdTables, Failure> {
    let filter = Filter::parse(&options.exclude, &options.include_from)?.within(&DIRECTORIES)?;
    let mut policy = Policy::default();
    policy.filter = Arc::new(filter);
    let policy = Rc::new(policy);
    let volume = empty_volume()?;
    // The image itself gets the same reports.
    let mut forget = drop::<Failure>;
    let mut writer =
        ImageWriter::new(WriterOptions::faithful(false, None), &mut forget).governed_by(&policy);
    let root = volume.inner().root().map_err(Failure::from);
    let filled = root.and_then(|root| open(&policy)?.fill(&root, &mut writer));
    drop(writer);
    filled?;
    let (users, groups) = options.names_of_owner();
    let read = |is_needed: bool, path: &str| {
        if is_needed { read(&volume, path).map(Some) } else { Ok(None) }
    };
    Ok(IdTables { users: read(users, "/etc/passwd")?, groups: read(groups, "/etc/group")? })
}

/// Makes an empty volume in a file without a name.
fn empty_volume() -> Result<ImageVolume, Failure> {
    let folder = std::env::temp_dir();
    let failed = |error: std::io::Error| Failure::host(folder.as_os_str(), &error);
    let file: File = tempfile::tempfile_in(&folder).map_err(failed)?;
    file.set_len(VOLUME_BYTES).map_err(failed)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let device = FileDevice::open(Path::new(&path), FileOptions::read_write());
    let device = device.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    let device: SharedDevice = Arc::new(device);
    let mut options = Options::default();
    (options.minimize, options.allow_small) = (true, true);
    let target = TargetDevice {
        data_bytes: VOLUME_BYTES,
        sector_size: SECTOR_BYTES,
        log_bytes: None,
        realtime_bytes: None,
    };
    let plan = Plan::new(&options, &target, &Identity::reproducible(Timestamp::default(), b""))
        .expect("the options of this volume fit each other");
    let devices = Devices { data: &*device, log: None, realtime: None };
    xfs_mkfs::write(&plan, devices, Discard::Yes).map_err(failed)?;
    Image::made_on(device, None, &folder, Filling::default()).read()
}

/// Reads the table at this path.
fn read(volume: &ImageVolume, path: &str) -> Result<Vec<u8>, Failure> {
    let failed = |reason: String| {
        let message = format!("--passwd-from-image: {path} of the image: {reason}");
        Failure::new(Exit::Failed, message).placed()
    };
    let file = volume.inner().open_file_read_only(path);
    let file = file.map_err(|error| failed(error.to_string()))?;
    if file.metadata().size > MOST_TABLE_BYTES {
        return Err(failed("is longer than a table, of at most 64 MiB".to_owned()));
    }
    let mut table = Vec::new();
    let read = file.take(MOST_TABLE_BYTES).read_to_end(&mut table);
    read.map(|_| table).map_err(|error| failed(error.to_string()))
}
