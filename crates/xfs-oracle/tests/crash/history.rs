//! Performs histories on a device that records its requests. Makes the images that a power cut
//! leaves.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ferroxfs::Volume;
use ferroxfs::quota::{QuotaMode, QuotaOptions};
use ferroxfs::raw::Superblock;
use xfs_oracle::harness::{TrialError, patiently};
use xfs_oracle::model::{Durable, Features, Generator, Model, Operation};
use xfs_oracle::{CrashHistory, Geometry, GeometryFeature, Image, Subject, guarded};
use xfs_testkit::{CowDevice, Recording, RecordingDevice};

use crate::disks::{VolumeDisks, base};
use crate::library::Library;
use crate::{fragments, text};

/// Opens the volume of an image for writing.
fn open_writable(image: &Image) -> Result<Volume, TrialError> {
    let mut options = ferroxfs::OpenOptions::new().write(true);
    if let Some(log) = &image.log {
        options = options.log_device(log);
    }
    if let Some(realtime) = &image.realtime {
        options = options.realtime_device(realtime);
    }
    let devices = patiently(|| options.open_devices(&image.data)).map_err(text)?;
    devices.open().map_err(text)
}

/// Opens a volume in memory for writing. If its block size is 1 KiB, it is opened with discarding
/// of freed space.
pub(crate) fn writable(disks: VolumeDisks) -> Result<Volume, ferroxfs::OpenError> {
    writable_by(ferroxfs::OpenOptions::new(), disks)
}

/// Opens a volume in memory for writing, with the given options. A volume that was opened with
/// quota before is opened with quota again.
pub(crate) fn writable_by(
    options: ferroxfs::OpenOptions,
    disks: VolumeDisks,
) -> Result<Volume, ferroxfs::OpenError> {
    let mut options = options.write(true);
    if let Ok(found) = options.with_devices(Arc::clone(disks.data()), None).describe() {
        options = options.discard(found.superblock.geometry.block_size == 1024);
        if found.superblock.quota_flags != 0 {
            options = options.quota(QuotaOptions::all(QuotaMode::Enforce));
        }
    }
    disks.with(&options).open()
}

/// Opens a volume in memory with quota after a power cut, and closes it. Returns the device.
pub(crate) fn count_again(crashed: CowDevice) -> Result<CowDevice, String> {
    let device = Arc::new(RecordingDevice::of(crashed));
    let options = ferroxfs::OpenOptions::new().quota(QuotaOptions::all(QuotaMode::Enforce));
    let opened = guarded(|| writable_by(options, VolumeDisks::of_recorder(&device)));
    let volume = opened.map_err(|what| format!("opening with quota: {what}"))?;
    let volume = volume.map_err(|error| format!("opening with quota: {}", chain(&error)))?;
    volume.close().map_err(|error| format!("closing with quota: {error}"))?;
    Ok(device.recording().replay(usize::MAX))
}

/// Performs operations on the empty volume of an image and closes the volume. Returns the contents
/// of the image and the model.
pub(crate) fn prepare(
    (geometry, image): (&Geometry, &Image),
    features: Features,
    operations: &[Operation],
) -> Result<(CowDevice, Model), TrialError> {
    let mut model = Model::new(features);
    if geometry.feature == GeometryFeature::Fragmented {
        let volume = open_writable(image)?;
        fragments::make(volume, &mut model).map_err(text)?;
    }
    let volume = open_writable(image)?;
    let mut library = Library::new(volume);
    for operation in operations {
        let (expected, found) = (model.perform(operation), library.perform(operation));
        if expected != found {
            return Err(text(format!("{operation:?} gave {found:?}, not {expected:?}")));
        }
    }
    library.close().map_err(text)?;
    if geometry.feature == GeometryFeature::Quota {
        start_quota(image)?;
    }
    Ok((CowDevice::new(base(image)?), model))
}

/// Opens the volume of an image with quota, which makes the quota inodes and counts all inodes, and
/// closes it.
fn start_quota(image: &Image) -> Result<(), TrialError> {
    let all = QuotaOptions::all(QuotaMode::Enforce);
    let options = ferroxfs::OpenOptions::new().write(true).quota(all);
    let devices = patiently(|| options.open_devices(&image.data)).map_err(text)?;
    devices.open().map_err(text)?.close().map_err(text)
}

/// A performed history, and the recorded requests of its device.
pub(crate) struct RecordedHistory {
    pub(crate) states: CrashHistory,
    operations: Vec<Operation>,
    pub(crate) recording: Recording,
    pub(crate) superblock: Superblock,
}

impl RecordedHistory {
    /// Performs `operations` random operations on a volume with the state of `model`. All changes
    /// are made durable after every `sync_every` operations.
    pub(crate) fn random(
        (start, model): (CowDevice, Model),
        seed: u64,
        (operations, sync_every): (usize, usize),
    ) -> Result<Self, TrialError> {
        let mut generator = Generator::new(seed, model.features()).without_default_lists();
        let mut number = 0;
        let next = |model: &Model| {
            number += 1;
            let is_over = number > operations;
            (!is_over).then(|| match number % sync_every {
                0 => Operation::Sync(Durable::Volume),
                _ => generator.next(model),
            })
        };
        let history = Self::record(start, model, next);
        history.map_err(|what| text(format!("seed {seed}: {what}")))
    }

    /// Performs the operations that `next` returns on a volume with the state of `model`, until
    /// `next` returns `None`.
    pub(crate) fn record(
        start: CowDevice,
        mut model: Model,
        mut next: impl FnMut(&Model) -> Option<Operation>,
    ) -> Result<Self, String> {
        let device = Arc::new(RecordingDevice::of(start));
        let volume =
            writable(VolumeDisks::of_recorder(&device)).map_err(|error| error.to_string())?;
        let superblock = volume.superblock().clone();
        let mut library = Library::new(volume);
        let (mut states, mut operations) = (CrashHistory::new(model.clone()), Vec::new());
        while let Some(operation) = next(&model) {
            let began = device.position();
            let (expected, found) = (model.perform(&operation), library.perform(&operation));
            if expected != found {
                return Err(format!("{operation:?} gave {found:?}, not {expected:?}"));
            }
            states.note(&operation, &found, &model, began..device.position());
            operations.push(operation);
        }
        let recording = device.recording();
        Ok(Self { states, operations, recording, superblock })
    }

    /// Returns the operations as text, each with the number of the state to which it leads.
    pub(crate) fn operations_text(&self) -> String {
        let lines = (1..).zip(&self.operations);
        lines.map(|(state, operation)| format!("{state}: {operation:?}\n")).collect()
    }
}

/// Copies `image`, from which the history started, into `folder`. Then writes the contents of the
/// device over the copy.
pub(crate) fn materialise(
    image: &Image,
    device: &CowDevice,
    folder: &Path,
) -> Result<Image, TrialError> {
    std::fs::create_dir_all(folder).map_err(text)?;
    let files = [Some(&image.data), image.log.as_ref(), image.realtime.as_ref()];
    for file in files.into_iter().flatten() {
        let _ = std::fs::remove_file(folder.join(file.file_name().unwrap_or_default()));
    }
    let copy = image.copy(folder)?;
    let open = |path: &Path| OpenOptions::new().write(true).open(path).map_err(text);
    let data = open(&copy.data)?;
    let other = copy.log.as_deref().or(copy.realtime.as_deref());
    let other = other.map(open).transpose()?;
    let data_bytes = data.metadata().map_err(text)?.len();
    for (offset, bytes) in device.changed_chunks() {
        // The border between the devices is also a border between pieces.
        match offset.checked_sub(data_bytes).zip(other.as_ref()) {
            Some((offset, other)) => other.write_all_at(&bytes, offset).map_err(text)?,
            None => data.write_all_at(&bytes, offset).map_err(text)?,
        }
    }
    Ok(copy)
}

/// Saves the contents of a device as an image, and beside it the text of the operations (`told`).
/// Returns a note for the report that names the folder.
pub(crate) fn keep((image, device): (&Image, &CowDevice), name: &str, told: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let saved = materialise(image, device, &folder)
        .and_then(|_| std::fs::write(folder.join("history"), told).map_err(text));
    let unsaved = saved.err().map(|error| format!(" (only a part: {error})"));
    format!("kept as {}{}", folder.display(), unsaved.unwrap_or_default())
}

/// Recovers a device after a power cut. Returns the recording of the recovery's requests, so that a
/// power cut during the recovery can be tried too.
pub(crate) fn recover(crashed: CowDevice) -> Result<Recording, String> {
    let device = Arc::new(RecordingDevice::of(crashed));
    let options = ferroxfs::OpenOptions::new().write(true);
    let devices = VolumeDisks::of_recorder(&device).with(&options);
    let recovered = guarded(|| devices.recover()).map_err(|what| format!("recovery: {what}"))?;
    recovered.map_err(|error| format!("our recovery fails: {}", chain(&error)))?;
    Ok(device.recording())
}

/// Returns the text of an error and of its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(|error| error.to_string()).collect::<Vec<_>>().join(": ")
}

/// Opens a device for reading. The log of its volume must be clean.
pub(crate) fn open(device: CowDevice) -> Result<Volume, String> {
    let devices = VolumeDisks::inside(Arc::new(device)).with(&ferroxfs::OpenOptions::new());
    devices.open().map_err(|error| chain(&error))
}
