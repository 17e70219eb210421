//! Histories on a device that records, and the images that they and their cuts leave.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ferroxfs::{SharedDevice, Superblock, Volume};
use xfs_device::FileDevice;
use xfs_oracle::harness::{TrialError, patiently};
use xfs_oracle::model::{Durable, Features, Generator, Model, Operation};
use xfs_oracle::{Chronicle, Feature, Geometry, Image, Subject, guarded};
use xfs_testkit::{CowDevice, Recording, RecordingDevice};

use crate::library::Library;
use crate::{fragments, text};

/// What an image holds, for devices in memory over it.
pub(crate) fn base(image: &Image) -> Result<SharedDevice, TrialError> {
    let file = patiently(|| FileDevice::open(&image.data, xfs_device::OpenOptions::read_only()));
    Ok(Arc::new(file.map_err(text)?))
}

/// Opens a volume in memory for writing. One with small blocks discards what is freed.
pub(crate) fn writable(device: SharedDevice) -> Result<Volume, ferroxfs::OpenError> {
    writable_by(ferroxfs::OpenOptions::new(), device)
}

/// The same with further options.
pub(crate) fn writable_by(
    options: ferroxfs::OpenOptions,
    device: SharedDevice,
) -> Result<Volume, ferroxfs::OpenError> {
    let options = options.writable(true);
    let described = options.with_devices(Arc::clone(&device), None).describe();
    let discards = described.is_ok_and(|found| found.superblock.geometry.block_size == 1024);
    options.discard(discards).with_devices(device, None).writable_volume()
}

/// Performs operations on the empty volume of an image, which is closed then. Gives what the image holds,
/// and the model of it.
pub(crate) fn prepare(
    (geometry, image): (&Geometry, &Image),
    features: Features,
    operations: &[Operation],
) -> Result<(CowDevice, Model), TrialError> {
    let mut model = Model::new(features);
    if geometry.feature == Feature::Fragmented {
        let volume = patiently(|| Volume::open_writable(&image.data)).map_err(text)?;
        fragments::make(volume, &mut model).map_err(text)?;
    }
    let volume = patiently(|| Volume::open_writable(&image.data)).map_err(text)?;
    let mut library = Library::new(volume);
    for operation in operations {
        let (expected, found) = (model.perform(operation), library.perform(operation));
        if expected != found {
            return Err(text(format!("{operation:?} gave {found:?}, not {expected:?}")));
        }
    }
    library.close().map_err(text)?;
    Ok((CowDevice::new(base(image)?), model))
}

/// A history that has been performed, and what it did to its device.
pub(crate) struct History {
    pub(crate) chronicle: Chronicle,
    operations: Vec<Operation>,
    pub(crate) recording: Recording,
    pub(crate) superblock: Superblock,
}

impl History {
    /// Performs so many operations on a volume that holds what `model` says; after every `sync_every` of
    /// them everything is made durable.
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

    /// Performs what `next` gives on a volume that holds what `model` says.
    pub(crate) fn record(
        start: CowDevice,
        mut model: Model,
        mut next: impl FnMut(&Model) -> Option<Operation>,
    ) -> Result<Self, String> {
        let device = Arc::new(RecordingDevice::of(start));
        let volume = writable(device.clone()).map_err(|error| error.to_string())?;
        let superblock = volume.superblock().clone();
        let mut library = Library::new(volume);
        let (mut chronicle, mut operations) = (Chronicle::new(model.clone()), Vec::new());
        while let Some(operation) = next(&model) {
            let began = device.position();
            let (expected, found) = (model.perform(&operation), library.perform(&operation));
            if expected != found {
                return Err(format!("{operation:?} gave {found:?}, not {expected:?}"));
            }
            chronicle.note((&operation, &found), &model, (began, device.position()));
            operations.push(operation);
        }
        let recording = device.recording();
        Ok(Self { chronicle, operations, recording, superblock })
    }

    /// The operations, each with the number of the state that it leads to.
    pub(crate) fn told(&self) -> String {
        let lines = (1..).zip(&self.operations);
        lines.map(|(state, operation)| format!("{state}: {operation:?}\n")).collect()
    }
}

/// Writes what a device holds over a copy of the image that it began with, into `folder`.
pub(crate) fn materialise(
    image: &Image,
    device: &CowDevice,
    folder: &Path,
) -> Result<Image, TrialError> {
    std::fs::create_dir_all(folder).map_err(text)?;
    let _ = std::fs::remove_file(folder.join(image.data.file_name().unwrap_or_default()));
    let copy = image.copy(folder)?;
    let file = OpenOptions::new().write(true).open(&copy.data).map_err(text)?;
    for (offset, bytes) in device.pieces() {
        file.write_all_at(&bytes, offset).map_err(text)?;
    }
    Ok(copy)
}

/// Keeps what a device holds, over a copy of the image that it began with, and what was done to it. Says
/// where.
pub(crate) fn keep((image, device): (&Image, &CowDevice), name: &str, told: &str) -> String {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let saved = materialise(image, device, &folder)
        .and_then(|_| std::fs::write(folder.join("history"), told).map_err(text));
    let unsaved = saved.err().map(|error| format!(" (only a part: {error})"));
    format!("kept as {}{}", folder.display(), unsaved.unwrap_or_default())
}

/// Recovers what a device holds. The recovery is recorded: it may be cut as well.
pub(crate) fn recover(crashed: CowDevice) -> Result<Recording, String> {
    let device = Arc::new(RecordingDevice::of(crashed));
    let options = ferroxfs::OpenOptions::new().writable(true);
    let devices = options.with_devices(device.clone(), None);
    let recovered = guarded(|| devices.recover()).map_err(|what| format!("recovery: {what}"))?;
    recovered.map_err(|error| format!("our recovery fails: {}", chain(&error)))?;
    Ok(device.recording())
}

/// An error with what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(|error| error.to_string()).collect::<Vec<_>>().join(": ")
}

/// Opens what a device holds, which must be clean, for reading.
pub(crate) fn open(device: CowDevice) -> Result<Volume, String> {
    let devices = ferroxfs::OpenOptions::new().with_devices(Arc::new(device), None);
    devices.volume().map_err(|error| chain(&error))
}
