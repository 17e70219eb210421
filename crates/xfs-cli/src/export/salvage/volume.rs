//! Opening a damaged volume: also without a superblock in its place, and with a map of ddrescue.
//!
//! Owns: the device, the superblock that stands for the damaged one, and the replay of the log in
//! memory. Does **not** own: the search for a superblock (`xfs-evidence`).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferroxfs::raw::format::superblock::{Superblock, Unsupported, VolumeAccess, seal};
use ferroxfs::{OpenError, OpenOptions};
use xfs_device::{BlockDevice, Durability, OverlayDevice, SharedDevice, WindowDevice, partitions};
use xfs_evidence::{SuperblockEvidence, SuperblockSource, find_superblock};
use xfs_format::IncompatFeatures;
use xfs_salvage::{RescueMap, RescuedDevice};

use crate::cli::GlobalOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{about_image, open_failure};
use crate::output::check_not_stdout;
use crate::terminal::names;

/// The most memory for the blocks that a replay of the log changes.
const REPLAY_BYTES: u64 = 1 << 30;
/// The longest map that is read, in bytes.
const MAP_BYTES: u64 = 1 << 30;

/// An open image.
pub(super) struct SalvageImage {
    path: PathBuf,
    device: SharedDevice,
    log: Option<SharedDevice>,
    replays: bool,
}

/// A volume that is ready to be surveyed.
pub(super) struct SalvageVolume {
    pub(super) device: SharedDevice,
    pub(super) superblock: Superblock,
    /// The device that holds the log; `None` if the log is external and was not named.
    pub(super) log: Option<SharedDevice>,
}

impl SalvageImage {
    /// Opens the image and reads the map.
    pub(super) fn open(
        path: &Path,
        map: Option<&Path>,
        options: &GlobalOptions,
    ) -> Result<Self, Failure> {
        check_not_stdout(path)?;
        let map = map.map(read_map).transpose()?;
        let (device, start) = open_volume(path, options)?;
        if !device.holds_file_contents() {
            let message = "is a metadata image, which holds no file contents";
            return Err(about_image(Failure::new(Exit::Refused, message), path)
                .hint("salvage the volume itself; ls, find and check read the metadata image"));
        }
        let log = match &options.log_device {
            Some(log) => {
                check_not_stdout(log)?;
                Some(open_raw(log, options)?)
            }
            None => None,
        };
        let device = match map {
            Some(map) => RescuedDevice::new(device, map, start),
            None => device,
        };
        let replays = !options.no_recovery && !options.live;
        Ok(Self { path: path.to_owned(), device, log, replays })
    }

    /// Returns the name of the image for messages.
    pub(super) fn shown(&self) -> String {
        names::in_message(self.path.as_os_str().as_encoded_bytes()).into_owned()
    }

    /// Finds the superblock and replays the log. Everything worth knowing goes to `note`.
    pub(super) fn read(self, mut note: impl FnMut(String)) -> Result<SalvageVolume, Failure> {
        let failure = |failure: Failure| about_image(failure, &self.path);
        let found = find_superblock(&*self.device)
            .map_err(|error| failure(Failure::new(Exit::Refused, error.to_string())))?
            .ok_or_else(|| {
                let message = "no superblock was found, neither in its place nor a copy";
                let hint = "choose the start of the volume with --partition N or --offset BYTES";
                failure(Failure::new(Exit::Refused, message).hint(hint))
            })?;
        match found.source {
            SuperblockSource::Primary => {}
            SuperblockSource::Copies { agreeing, found } => note(format!(
                "the superblock is damaged; {agreeing} of {found} copies agree on the sizes"
            )),
            SuperblockSource::GroupHeaders => note(
                "no superblock is left; the sizes come from the headers of groups and from inodes"
                    .to_owned(),
            ),
        }
        if let Some(doubt) = found.doubt {
            note(format!("the superblock may belong to another volume: {doubt}"));
        }
        match found.superblock.refusal(VolumeAccess::Read) {
            None | Some(Unsupported::NeedsRepair) => {}
            Some(reason) => {
                return Err(failure(Failure::new(Exit::Refused, reason.to_string())));
            }
        }
        let log = self.log_of(&found.superblock);
        let as_it_is = SalvageVolume {
            log,
            device: Arc::clone(&self.device),
            superblock: found.superblock.clone(),
        };
        if !self.replays || found.source == SuperblockSource::GroupHeaders {
            note("the log was not replayed: files may be older than the last changes".to_owned());
            return Ok(as_it_is);
        }
        match self.replay(&found) {
            Ok(volume) => Ok(volume),
            Err(error) => {
                note(format!(
                    "the log was not replayed, so files may be older than the last changes: {error}"
                ));
                Ok(as_it_is)
            }
        }
    }

    /// Returns the device that holds the log, as it is on disk.
    fn log_of(&self, superblock: &Superblock) -> Option<SharedDevice> {
        match superblock.has_external_log() {
            true => self.log.clone(),
            false => Some(Arc::clone(&self.device)),
        }
    }

    /// Replays the log in memory, over the superblock that was found.
    fn replay(&self, found: &SuperblockEvidence) -> Result<SalvageVolume, OpenError> {
        let overlay = OverlayDevice::new(Arc::clone(&self.device), REPLAY_BYTES);
        let needs_repair = found.superblock.has_incompat(IncompatFeatures::NEEDSREPAIR);
        if found.source != SuperblockSource::Primary || needs_repair {
            let mut sector = found.sector.clone();
            let mut superblock = found.superblock.clone();
            // The mark forbids opening. Here nothing is written but memory.
            superblock.incompat.remove(IncompatFeatures::NEEDSREPAIR);
            superblock.encode(&mut sector);
            seal(&mut sector);
            overlay
                .write_at(&sector, 0, Durability::Cached)
                .map_err(|error| OpenError::Log(ferroxfs::Error::Io(io_error(error))))?;
        }
        let options = OpenOptions::new();
        let volume = options.with_devices(Arc::new(overlay), self.log.clone()).open()?;
        Ok(SalvageVolume {
            log: self.log_of(&found.superblock),
            device: Arc::clone(volume.cache().device()),
            superblock: volume.superblock().clone(),
        })
    }
}

fn io_error(source: std::io::Error) -> ferroxfs::IoError {
    ferroxfs::IoError::new("write", xfs_format::DiskAddr(0), 0, source)
}

/// Reads the map of ddrescue.
fn read_map(path: &Path) -> Result<RescueMap, Failure> {
    let failed = |error| Failure::host(path.as_os_str(), &error);
    if fs::metadata(path).map_err(failed)?.len() > MAP_BYTES {
        let shown = names::in_message(path.as_os_str().as_encoded_bytes());
        return Err(Failure::new(Exit::Failed, format!("{shown}: is too long for a map")));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    RescueMap::parse(&text).map_err(|error| about_image(Failure::usage(error.to_string()), path))
}

fn open_raw(path: &Path, options: &GlobalOptions) -> Result<SharedDevice, Failure> {
    let open = xfs_device::OpenOptions::read_only();
    let open = if options.live { open.live() } else { open };
    let opened = xfs_image::open_device(path, open);
    let opened = opened.map_err(|error| open_failure(path, &OpenError::Device(error)))?;
    Ok(opened.device)
}

/// Opens the bytes of the volume, and returns the byte of the image at which they start. If no
/// volume is recognised, because its start is damaged, the options decide where it starts.
fn open_volume(path: &Path, options: &GlobalOptions) -> Result<(SharedDevice, u64), Failure> {
    let device = open_raw(path, options)?;
    let window = |start: u64, length: u64| -> SharedDevice {
        Arc::new(WindowDevice::new(Arc::clone(&device), start, length))
    };
    if let Some(start) = options.offset {
        return Ok((window(start, u64::MAX), start));
    }
    if let Some(number) = options.partition {
        let table = partitions(&*device).ok().flatten();
        let partition = table.and_then(|table| {
            table.partitions.into_iter().find(|partition| partition.number == number)
        });
        let partition = partition.ok_or_else(|| {
            let failure = Failure::usage(format!("there is no partition {number}"));
            about_image(failure.hint("give the start of the volume with --offset BYTES"), path)
        })?;
        return Ok((window(partition.start, partition.length_bytes), partition.start));
    }
    match xfs_device::find_filesystem(Arc::clone(&device), xfs_device::Selection::Auto) {
        Ok(found) => Ok((found.device, found.start)),
        Err(xfs_device::FindError::Several(table)) => {
            Err(open_failure(path, &OpenError::Find(xfs_device::FindError::Several(table))))
        }
        Err(_) => Ok((device, 0)),
    }
}
