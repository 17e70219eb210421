//! Opening a volume that may be damaged, even in its first superblock. A map of ddrescue can say
//! which bytes of the image could not be copied.
//!
//! Owns: the device, the superblock that is used in place of a damaged one, and the replay of the
//! log in memory. Does **not** own: the search for a superblock (`xfs-evidence`).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferroxfs::device::Devices;
use ferroxfs::raw::format::superblock::{Superblock, Unsupported, VolumeAccess, seal};
use ferroxfs::raw::log::{
    LogDevice, LogState, find_head_and_tail, replay_before_damage, replay_past_damage,
};
use ferroxfs::{OpenError, OpenOptions};
use xfs_device::{BlockDevice, Durability, OverlayDevice, SharedDevice};
use xfs_evidence::{SuperblockEvidence, SuperblockSource, complete_by_log, find_superblock};
use xfs_format::IncompatFeatures;
use xfs_salvage::{RescueMap, RescuedDevice, SalvageOptions};

use crate::cli::GlobalOptions;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{Image, about_image, torn_log_text};
use crate::terminal::names;

/// The limit, in bytes, on the memory for the blocks that a replay of the log changes.
const REPLAY_BYTES: u64 = 1 << 30;
/// The largest size, in bytes, of a map of ddrescue.
const MAP_BYTES: u64 = 1 << 30;

/// An image whose devices are open, before the search for its superblock.
pub(crate) struct DamagedImage {
    path: PathBuf,
    device: SharedDevice,
    log: Option<SharedDevice>,
    realtime: Option<SharedDevice>,
    replays: bool,
}

/// A volume that is ready to be surveyed.
pub(crate) struct DamagedVolume {
    pub(crate) device: SharedDevice,
    pub(crate) superblock: Superblock,
    /// The device that holds the log; `None` if the log is external and was not named.
    pub(crate) log: Option<SharedDevice>,
    /// The realtime device; `None` if the volume has none, or if none was named.
    pub(crate) realtime: Option<SharedDevice>,
    /// Which changes of the log are visible in the volume.
    pub(crate) replay: LogReplayed,
    /// The remarks about superblock and log.
    pub(crate) notes: Vec<String>,
}

/// The changes of the log that are visible in a damaged volume, after a replay in memory or without
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogReplayed {
    /// No replay was needed: all changes of the log are in their places on disk.
    Clean,
    /// All changes of the log.
    Whole,
    /// Some changes of the log.
    InPart,
    /// None, although the log may have changes.
    Nothing,
}

impl LogReplayed {
    /// Returns the value of the key `log` in the manifest of a salvage.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Whole => "replayed",
            Self::InPart => "in_part",
            Self::Nothing => "not_replayed",
        }
    }

    /// Returns whether files may lack changes that only the log has.
    pub(crate) const fn is_lacking(self) -> bool {
        matches!(self, Self::InPart | Self::Nothing)
    }
}

impl DamagedVolume {
    /// Returns the options of a survey that restores damaged inodes from the log, and does not
    /// search for deleted files.
    pub(crate) fn survey_options(&self) -> SalvageOptions {
        let (log, realtime) = (self.log.clone(), self.realtime.clone());
        SalvageOptions { deleted: false, log, realtime }
    }
}

impl DamagedImage {
    /// Opens the image, and reads the map of ddrescue if one is named.
    pub(crate) fn open(
        path: &Path,
        map: Option<&Path>,
        options: &GlobalOptions,
    ) -> Result<Self, Failure> {
        let map = map.map(read_map).transpose()?;
        let image = Image::open_for_salvage(path, options)?;
        let replays = !options.no_recovery && !options.live;
        Self::of_devices(path, map, image.devices(), replays)
    }

    /// Creates the damaged image from devices that are open already. `replays` says whether a dirty
    /// log is replayed.
    pub(crate) fn of_devices(
        path: &Path,
        map: Option<RescueMap>,
        devices: &Devices,
        replays: bool,
    ) -> Result<Self, Failure> {
        let (device, start) = (Arc::clone(devices.data()), devices.start());
        if !device.holds_file_contents() {
            let message = "is a metadata image, which holds no file contents";
            return Err(about_image(Failure::new(Exit::Refused, message), path)
                .hint("salvage the volume itself; ls, find and check read the metadata image"));
        }
        let log = devices.external_log().cloned();
        let realtime = devices.realtime().cloned();
        let device = match map {
            Some(map) => RescuedDevice::new(device, map, start),
            None => device,
        };
        let path = xfs_image::without_credentials(path).into_owned();
        Ok(Self { path, device, log, realtime, replays })
    }

    /// Returns the number of bytes from the start of the volume to the end of the device.
    pub(crate) fn length_bytes(&self) -> u64 {
        self.device.length_bytes()
    }

    /// Returns the name of the image for messages.
    pub(crate) fn shown(&self) -> String {
        names::in_message(self.path.as_os_str().as_encoded_bytes()).into_owned()
    }

    /// Finds the superblock and replays the log. Passes remarks for the user, such as that the
    /// superblock is damaged, to `note`. The returned volume lists the same remarks.
    pub(crate) fn read(self, mut note: impl FnMut(String)) -> Result<DamagedVolume, Failure> {
        let mut notes = Vec::new();
        let volume = self.read_noting(&mut |text: String| {
            notes.push(text.clone());
            note(text);
        })?;
        Ok(DamagedVolume { notes, ..volume })
    }

    fn read_noting(self, note: &mut dyn FnMut(String)) -> Result<DamagedVolume, Failure> {
        let failure = |failure: Failure| about_image(failure, &self.path);
        let found = find_superblock(&*self.device)
            .map_err(|error| failure(Failure::new(Exit::Refused, error.to_string())))?
            .ok_or_else(|| {
                let message = "no superblock was found, neither in its place nor a copy";
                let hint = "choose the start of the volume with --partition N or --offset BYTES";
                failure(Failure::new(Exit::Refused, message).hint(hint))
            })?;
        let found = complete_by_log(&self.device, found);
        match found.source {
            SuperblockSource::Primary => {}
            SuperblockSource::PrimaryWithoutRoot => note(format!(
                "the superblock names another inode as the root; the root directory is inode {}",
                found.superblock.root_inode
            )),
            SuperblockSource::Copies { agreeing, found } => note(format!(
                "the superblock is damaged; {agreeing} of {found} copies agree on the sizes"
            )),
            SuperblockSource::Log => {
                note("no superblock is left; the newest one in the log takes its place".to_owned())
            }
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
        let as_it_is = DamagedVolume {
            log,
            device: Arc::clone(&self.device),
            superblock: found.superblock.clone(),
            realtime: self.realtime.clone(),
            replay: self.state_unreplayed(&found.superblock),
            notes: Vec::new(),
        };
        let is_log_lost =
            found.source == SuperblockSource::GroupHeaders && found.superblock.has_external_log();
        if !self.replays || is_log_lost {
            note("the log was not replayed: files may be older than the last changes".to_owned());
            return Ok(as_it_is);
        }
        if let Some(text) = self.describe_torn_log(&found.superblock) {
            note(text);
        }
        let error = match self.replay(&found) {
            Ok(volume) => return Ok(volume),
            Err(error) => error,
        };
        if let Some((volume, text)) = self.replay_in_part(&found.superblock) {
            note(format!("{text}: {error}"));
            return Ok(volume);
        }
        note(format!(
            "the log was not replayed, so files may be older than the last changes: {error}"
        ));
        Ok(as_it_is)
    }

    /// Replays in memory the part of a log that can be replayed in spite of damage: all changes
    /// except those of destroyed structures or, if the log itself is damaged, all changes before
    /// the damage. Does not finish operations that a crash interrupted. Returns the volume and the
    /// text of a note for the user. `None` if no part can be replayed.
    fn replay_in_part(&self, superblock: &Superblock) -> Option<(DamagedVolume, String)> {
        let mut superblock = superblock.clone();
        // The mark forbids a replay. Here nothing is written but memory.
        superblock.incompat.remove(IncompatFeatures::NEEDSREPAIR);
        let log = LogDevice::new(self.log_of(&superblock)?, &superblock).ok()?;
        let data = || Arc::clone(&self.device);
        let (replayed, text) = match replay_past_damage(data(), &log, &superblock) {
            Ok(replayed) => {
                let text = "the log was replayed without the changes of what is destroyed";
                (replayed, text.to_owned())
            }
            Err(_) => {
                let cut = replay_before_damage(data(), &log, &superblock).ok()??;
                let end = cut.end_block();
                let text = format!("the log was replayed up to its block {end} only");
                (cut.replayed, text)
            }
        };
        let volume = DamagedVolume {
            log: self.log_of(&superblock),
            device: replayed.device(),
            superblock: replayed.superblock().clone(),
            realtime: self.realtime.clone(),
            replay: LogReplayed::InPart,
            notes: Vec::new(),
        };
        Some((volume, text))
    }

    /// Returns which changes of the log are visible without a replay: `Clean` if the log is clean
    /// and belongs to the superblock, otherwise `Nothing`.
    fn state_unreplayed(&self, superblock: &Superblock) -> LogReplayed {
        let log = self.log_of(superblock).and_then(|log| LogDevice::new(log, superblock).ok());
        let state = log.and_then(|log| find_head_and_tail(&log).ok());
        // A log that is older than the superblock was replaced, and may have had changes.
        let is_clean = |state: &LogState| state.clean && superblock.verify_lsn(state.head).is_ok();
        if state.is_some_and(|state| is_clean(&state)) {
            LogReplayed::Clean
        } else {
            LogReplayed::Nothing
        }
    }

    /// Returns the device that holds the log; `None` if the log is external and was not named.
    fn log_of(&self, superblock: &Superblock) -> Option<SharedDevice> {
        match superblock.has_external_log() {
            true => self.log.clone(),
            false => Some(Arc::clone(&self.device)),
        }
    }

    /// Returns a note if the log ends in records that are not replayed.
    fn describe_torn_log(&self, superblock: &Superblock) -> Option<String> {
        let log = LogDevice::new(self.log_of(superblock)?, superblock).ok()?;
        // The replay reports a log that cannot be read.
        let state = find_head_and_tail(&log).ok()?;
        torn_log_text(&state)
    }

    /// Replays the log in memory. If the first superblock is damaged, the superblock `found` takes
    /// its place.
    fn replay(&self, found: &SuperblockEvidence) -> Result<DamagedVolume, OpenError> {
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
        let replay = match self.state_unreplayed(&found.superblock) {
            LogReplayed::Clean => LogReplayed::Clean,
            _ => LogReplayed::Whole,
        };
        Ok(DamagedVolume {
            log: self.log_of(&found.superblock),
            device: Arc::clone(volume.cache().device()),
            superblock: volume.superblock().clone(),
            realtime: self.realtime.clone(),
            replay,
            notes: Vec::new(),
        })
    }
}

fn io_error(source: std::io::Error) -> ferroxfs::IoError {
    ferroxfs::IoError::new("write", xfs_format::DiskAddr(0), 0, source)
}

/// Reads a map of ddrescue, which lists the bytes that ddrescue could not copy.
fn read_map(path: &Path) -> Result<RescueMap, Failure> {
    let failed = |error| Failure::host(path.as_os_str(), &error);
    // The length of a pipe is not known before it is read.
    let file = File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(MAP_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAP_BYTES {
        let shown = names::in_message(path.as_os_str().as_encoded_bytes());
        return Err(Failure::new(Exit::Failed, format!("{shown}: is too long for a map")));
    }
    RescueMap::parse(&text).map_err(|error| about_image(Failure::usage(error.to_string()), path))
}
