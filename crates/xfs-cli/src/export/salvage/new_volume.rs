//! `salvage --new-volume`: copies into a new volume.
//!
//! Owns: the new file, its length, and the volume in it. Does **not** own: the layout of a new
//! volume (`xfs-mkfs`), or the writing of files into it ([`ImageWriter`]).
//!
//! # Invariants
//!
//! - **I1** No file is replaced. The new file gets its name when the volume is complete, and only
//!   if no other file has this name.
//!
//! The length of the volume depends on the survey, but after the survey no file can be opened any
//! more. So the file is opened with a greater length, and the volume is made in its first part. At
//! the end the file is cut to the length of the volume.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferroxfs::Timestamp;
use ferroxfs::raw::format::Superblock;
use xfs_device::{FileDevice, FileOptions, SharedDevice, WindowDevice};
use xfs_mkfs::{Devices, Discard, Identity, Options, Plan, TargetDevice};
use xfs_salvage::Salvage;

use crate::damaged::source::SalvageSource;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::source::{InodeSpace, SourceLocation};
use crate::image::{Filling, Image};
use crate::import::writer::{ImageWriter, WriterOptions};
use crate::output::{StagedFile, space};
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::tally::Tally;
use crate::text::time::source_date_epoch;

/// The least length of a new volume, in bytes.
const LEAST_BYTES: u64 = 300 << 20;
/// The bytes that a file is assumed to take in addition to its blocks: for its inode, its name, and
/// its reverse mappings.
const INODE_BYTES: u64 = 2048;
/// The bytes of the new volume that are allowed for its log and the headers of its groups.
const SPARE_BYTES: u64 = 256 << 20;
/// The largest length of a file of the host.
const MOST_BYTES: u64 = i64::MAX as u64;
const SECTOR_BYTES: u32 = 512;

/// A new volume that is not complete yet.
pub(super) struct NewVolume {
    path: PathBuf,
    staged: StagedFile,
    device: SharedDevice,
    /// The length in bytes of the file while it is filled. The finished volume can be no longer.
    room_bytes: u64,
    /// The length in bytes that the user asked for; `None` if the user gave no length.
    asked_bytes: Option<u64>,
    latest: Option<Timestamp>,
}

impl NewVolume {
    /// Creates the file of the new volume, without a name. Fails if `path` exists. `source_bytes`
    /// is the length of the damaged volume's device.
    pub(super) fn open(
        path: &Path,
        asked_bytes: Option<u64>,
        source_bytes: u64,
    ) -> Result<Self, Failure> {
        let shown = names::in_message(path.as_os_str().as_encoded_bytes()).into_owned();
        if path.as_os_str() == "-" {
            return Err(Failure::usage("-: a volume cannot be made on standard output")
                .hint("name a file; ./- is a file of that name"));
        }
        let exists = || {
            Failure::new(Exit::Failed, "exists already")
                .about(&shown)
                .hint("choose a new name: salvage replaces no file and no device")
        };
        // I1: a file that is there is refused before anything is written.
        if fs::symlink_metadata(path).is_ok() {
            return Err(exists());
        }
        let failed = |error: io::Error| Failure::host(path.as_os_str(), &error);
        let staged = StagedFile::of_image(path).map_err(failed)?.ok_or_else(exists)?;
        let most = source_bytes.saturating_mul(2).saturating_add(1 << 30).min(MOST_BYTES);
        let room_bytes = asked_bytes.unwrap_or(most);
        space::lengthen(staged.file(), room_bytes)
            .map_err(|error| failed(error).hint("give a length with --new-volume-size BYTES"))?;
        let device = FileDevice::open(&staged.path(), FileOptions::read_write())
            .map_err(|error| Failure::new(Exit::Failed, error.reason()).about(&shown))?;
        let (path, device) = (path.to_owned(), Arc::new(device));
        let latest = source_date_epoch()?;
        Ok(Self { path, staged, device, room_bytes, asked_bytes, latest })
    }

    pub(super) fn reach(&self) -> Reach<'_> {
        self.staged.reach()
    }

    /// Makes the new volume, copies everything that can be read from the damaged volume into it,
    /// and gives the file its name.
    pub(super) fn fill(
        self,
        survey: &Salvage<'_>,
        location: SourceLocation,
        tally: &Arc<Tally>,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let length = self.length(survey)?;
        let shown = names::in_message(self.path.as_os_str().as_encoded_bytes()).into_owned();
        let failed = |error: io::Error| Failure::host(self.path.as_os_str(), &error);
        let device: SharedDevice = Arc::new(WindowDevice::new(self.device, 0, length));
        let plan = plan(length, survey.evidence().superblock(), self.latest)
            .map_err(|failure| failure.about(&shown))?;
        xfs_mkfs::write(&plan, Devices { data: &*device, log: None, realtime: None }, Discard::No)
            .map_err(failed)?;
        let filling = Filling { time: self.latest, ..Filling::default() };
        let volume = Image::made_on(device, None, &self.path, filling).read()?;
        let mut report = |failure: Failure| console.report(&volume.whole_failure(failure));
        let options = WriterOptions::faithful(false, self.latest);
        let mut writer = ImageWriter::new(options, &mut report).counted_by(tally);
        writer.start_source(InodeSpace::default(), Some(location));
        let root = volume.inner().root().map_err(Failure::from);
        let filled = root.and_then(|root| {
            writer.put_contents(root, SalvageSource::new(survey.top()))?;
            writer.seal()
        });
        drop(writer);
        // A file that gets no name need not be closed.
        filled.map_err(|failure| volume.whole_failure(failure).hint("no file was created"))?;
        volume.close()?;
        self.staged.file().set_len(length).map_err(failed)?;
        // I1: another program may have taken the name since.
        self.staged.publish_new().map_err(failed)
    }

    /// Returns the length of the volume in bytes: the length that the user asked for. If the user
    /// gave none, it is the length of the damaged volume, or more if the files need more. Blocks
    /// that files share are copied for each of them.
    fn length(&self, survey: &Salvage<'_>) -> Result<u64, Failure> {
        if let Some(bytes) = self.asked_bytes {
            return Ok(bytes);
        }
        let geometry = survey.evidence().geometry();
        let on_device = survey.evidence().device().length_bytes();
        let blocks = survey.block_count().checked_shl(geometry.block_log.into());
        let inodes = survey.inode_count().saturating_mul(INODE_BYTES);
        let files = blocks.unwrap_or(u64::MAX).saturating_add(inodes);
        let needed = files.saturating_add(files / 8).saturating_add(SPARE_BYTES);
        let length = geometry.data_bytes().min(on_device).max(LEAST_BYTES);
        if needed <= length {
            return Ok(length);
        }
        let needed = needed.checked_next_multiple_of(1 << 20).unwrap_or(u64::MAX);
        if needed > self.room_bytes {
            let message = format!(
                "the files need {needed} bytes, far more than the damaged volume has, because they \
                 share blocks or their sizes are damaged"
            );
            let shown = names::in_message(self.path.as_os_str().as_encoded_bytes());
            return Err(Failure::new(Exit::Failed, message)
                .about(&shown)
                .hint("give a length with --new-volume-size BYTES, or salvage into a directory"));
        }
        Ok(needed)
    }
}

/// Returns the layout of a volume of `length` bytes with the label of the damaged one.
fn plan(length: u64, damaged: &Superblock, time: Option<Timestamp>) -> Result<Plan, Failure> {
    let mut options = Options::default();
    // A label that a new volume cannot have is dropped.
    _ = options.parse_label(damaged.label.as_bytes());
    let target = TargetDevice {
        data_bytes: length,
        sector_size: SECTOR_BYTES,
        log_bytes: None,
        realtime_bytes: None,
    };
    let identity = match time {
        Some(time) => Identity::reproducible(time, &length.to_be_bytes()),
        None => Identity::random()
            .map_err(|error| Failure::new(Exit::Failed, format!("no random numbers: {error}")))?,
    };
    Plan::new(&options, &target, &identity).map_err(|error| Failure::usage(error.to_string()))
}
