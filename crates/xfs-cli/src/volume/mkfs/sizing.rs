//! The size of a volume that fits the files that it is filled with: `-d size=auto`. Whether files
//! fit a volume that is written in place.
//!
//! Owns: the search for the size. Does **not** own: the sums over the files
//! ([`Census`]), or the space that an empty volume has: a trial volume in a temporary file says
//! that.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferroxfs::{Error, PosixError, Space};
use xfs_device::{FileDevice, FileOptions, SharedDevice};
use xfs_image::is_address;
use xfs_mkfs::{Devices, Discard, Options, Plan, Size, TargetDevice};

use super::asked::{asked_time, geometry_failure, identity};
use super::device::device_failure;
use super::fill::Fill;
use super::free_space::FreeSpace;
use super::quota::NewQuota;
use crate::cli::MkfsArguments;
use crate::failure::Failure;
use crate::image::{Filling, Image, ImageVolume};
use crate::import::census::{Census, Need};
use crate::input::Spool;
use crate::terminal::names;

/// The smallest size that is tried, in bytes: the smallest volume of mkfs.xfs.
const SMALLEST_BYTES: u64 = 300 << 20;
/// The smallest size that is tried with `--unsupported`.
const SMALLEST_UNSUPPORTED_BYTES: u64 = 32 << 20;
/// The largest size in bytes that is tried. Metadata takes about a percent of a volume, so there is
/// no size of which more than the rest is free.
pub(super) const MOST_BYTES: u64 = 8 << 40;
/// If the options make smaller sizes impossible, this size in bytes is the last one that is tried.
const MOST_PLANNED_BYTES: u64 = 1 << 40;
/// Sizes are multiples of this number of bytes.
const STEP_BYTES: u64 = 1 << 20;
/// The largest number of trial volumes.
const MOST_TRIALS: usize = 40;
/// How often a volume is made again, a little larger, because its chosen size was too small.
const MOST_RETRIES: u32 = 8;

/// The parts of a run that decide the size of the volume.
pub(super) struct Sizing<'a> {
    pub(super) arguments: &'a MkfsArguments,
    pub(super) options: &'a Options,
    pub(super) path: &'a Path,
    /// The properties of the devices, except the length of the data.
    pub(super) target: TargetDevice,
    pub(super) standard_input: Option<Arc<Spool>>,
}

/// Returns the size to try after a volume of `bytes` bytes was too small, with `-d size=auto`.
pub(super) fn larger(bytes: u64, retries: u32) -> Option<u64> {
    (retries < MOST_RETRIES).then(|| (bytes + bytes / 16).next_multiple_of(STEP_BYTES))
}

impl Sizing<'_> {
    /// Returns the smallest size in bytes, in steps, of a volume that holds the files of the
    /// sources and has `free` space left. Reads the sources once.
    ///
    /// # Errors
    ///
    /// No sources, sources that cannot be read, or options that are impossible.
    pub(super) fn bytes(&self, free: FreeSpace) -> Result<u64, Failure> {
        let smallest = match self.arguments.unsupported {
            true => SMALLEST_UNSUPPORTED_BYTES,
            false => SMALLEST_BYTES,
        };
        let replaced = self.path.is_file().then_some(self.path);
        let policy = Fill::policy(self.arguments, self.standard_input.as_ref())?;
        let sources = Fill::sources(self.arguments, self.standard_input.clone(), &policy)?;
        let sources = sources.without(replaced.as_slice());
        let mut bytes = self.next_possible(smallest)?;
        let mut census = Census::new(self.plan(bytes)?.superblock(), sources.are_layers());
        sources.count(&mut census, &policy)?;
        let need = census.need();
        for _ in 0..MOST_TRIALS {
            let space = self.empty_space(bytes)?;
            match self.shortage(&space, need, free) {
                0 => return Ok(bytes),
                short => {
                    let next = (bytes + short + short / 16).next_multiple_of(STEP_BYTES);
                    bytes = self.next_possible(next)?;
                }
            }
            if bytes > MOST_BYTES {
                break;
            }
        }
        Err(Failure::usage("-d size=auto: no size holds the files with these options"))
    }

    /// Fails if the files of the sources do not fit the volume `plan`. Writes nothing to its
    /// device. Returns the reason if no temporary volume can tell.
    ///
    /// # Errors
    ///
    /// Too little space, sources that cannot be read, or a signal.
    pub(super) fn check_fits(&self, plan: &Plan) -> Result<Option<Failure>, Failure> {
        let bytes = self.target.data_bytes;
        let policy = Fill::policy(self.arguments, None)?;
        let sources = Fill::sources(self.arguments, None, &policy)?;
        let mut census = Census::new(plan.superblock(), sources.are_layers());
        sources.without(&[self.path]).count(&mut census, &policy)?;
        let filling = self.filling(false)?;
        let volume = match self.trial_volume(plan, bytes, filling) {
            Ok(volume) => volume,
            Err(failure) => return Ok(Some(failure)),
        };
        let space = volume.inner().space().map_err(|error| volume.whole_failure(error))?;
        // The sums are upper bounds. If they do not fit, only a trial shows whether the files do.
        if self.shortage(&space, census.need(), FreeSpace::Bytes(0)) == 0 {
            return Ok(None);
        }
        match self.blocks_in_trial(plan, bytes) {
            Ok(Some(_)) => Ok(None),
            Ok(None) => {
                let shown = names::in_message(self.path.as_os_str().as_bytes());
                let failure = Failure::from(Error::from(PosixError::NoSpace)).about(&shown);
                Err(failure.more("; nothing was written"))
            }
            Err(failure) if failure.exit().is_of_signal() => Err(failure),
            Err(failure) => Ok(Some(failure)),
        }
    }

    /// Returns the bytes by which a volume must grow.
    fn shortage(&self, space: &Space, need: Need, free: FreeSpace) -> u64 {
        let block = u64::from(space.block_size);
        let wanted = need.blocks + free.blocks(space);
        let blocks = wanted.saturating_sub(space.available_blocks);
        let inodes = need.inodes.saturating_sub(space.free_files());
        // The limit on inodes is a percentage of the volume.
        let per_file = space.total_blocks.saturating_mul(block) / space.files.max(1);
        free.step(blocks * block).max(inodes.saturating_mul(per_file.max(1)))
    }

    /// Returns the first size in bytes, from `bytes` on, of a volume that is possible with the
    /// options.
    pub(super) fn next_possible(&self, bytes: u64) -> Result<u64, Failure> {
        let Err(failure) = self.plan(bytes) else { return Ok(bytes) };
        let sizes = std::iter::successors(Some(bytes), |last| Some(last * 2));
        let mut sizes = sizes.skip(1).take_while(|bytes| *bytes <= MOST_PLANNED_BYTES);
        let high = sizes.find(|bytes| self.plan(*bytes).is_ok()).ok_or(failure)?;
        let (mut low, mut high) = (high / 2 / STEP_BYTES, high.div_ceil(STEP_BYTES));
        while high - low > 1 {
            let middle = low.midpoint(high);
            match self.plan(middle * STEP_BYTES) {
                Ok(_) => high = middle,
                Err(_) => low = middle,
            }
        }
        Ok(high * STEP_BYTES)
    }

    pub(super) fn plan(&self, bytes: u64) -> Result<Plan, Failure> {
        let mut options = self.options.clone();
        options.data.size = Some(Size::bytes(bytes));
        let target = TargetDevice { data_bytes: bytes, ..self.target };
        let identity = identity(self.arguments, &options, &target)?;
        Plan::new(&options, &target, &identity).map_err(|error| geometry_failure(self.path, &error))
    }

    /// Returns how a trial volume is filled.
    pub(super) fn filling(&self, takes_pool: bool) -> Result<Filling, Failure> {
        let quota = NewQuota::parse(self.arguments, &self.options.quota)?.options;
        Ok(Filling { time: asked_time(self.arguments)?, takes_pool, quota })
    }

    /// Makes an empty volume of this size in a temporary file, and returns its space.
    fn empty_space(&self, bytes: u64) -> Result<Space, Failure> {
        let plan = self.plan(bytes)?;
        let volume = self.trial_volume(&plan, bytes, self.filling(false)?)?;
        volume.inner().space().map_err(|error| volume.whole_failure(error))
    }

    /// Makes a volume in a temporary file of `bytes` bytes, and opens it for writing. The file has
    /// no name, and ends with the volume.
    pub(super) fn trial_volume(
        &self,
        plan: &Plan,
        bytes: u64,
        filling: Filling,
    ) -> Result<ImageVolume, Failure> {
        let data = self.temporary(bytes)?;
        let log = self.target.log_bytes.map(|bytes| self.temporary(bytes)).transpose()?;
        let devices = Devices { data: &*data, log: log.as_deref(), realtime: None };
        xfs_mkfs::write(plan, devices, Discard::Yes)
            .map_err(|error| Failure::host(self.path.as_os_str(), &error))?;
        Image::made_on(data, log, self.path, filling).read()
    }

    /// Creates an unnamed file of this length, which takes no space until it is written.
    fn temporary(&self, bytes: u64) -> Result<SharedDevice, Failure> {
        let folder = match self.path.metadata() {
            _ if is_address(self.path) => std::env::temp_dir(),
            Ok(metadata) if !metadata.is_file() => std::env::temp_dir(),
            _ => match self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                Some(folder) => folder.to_owned(),
                None => PathBuf::from("."),
            },
        };
        let failed = |error: std::io::Error| Failure::host(folder.as_os_str(), &error);
        let file: File = tempfile::tempfile_in(&folder).map_err(failed)?;
        file.set_len(bytes).map_err(failed)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let device = FileDevice::open(Path::new(&path), FileOptions::read_write());
        let device = device.map_err(|error| device_failure(&error))?;
        Ok(Arc::new(device))
    }
}
