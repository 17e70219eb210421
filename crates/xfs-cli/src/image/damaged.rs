//! Opening an image whose first superblock may be damaged: for `check`, `repair`, `metadump`,
//! `salvage`, and commands with `--damaged`.
//!
//! Owns: the decision which contents each command accepts at the start of the volume. Does **not**
//! own: finding the volume, or the search for a copy of its superblock
//! ([`OpenOptions::open_unrecognised_devices`]).

use std::path::Path;

use ferroxfs::check::Finding;
use ferroxfs::device::{DamagedStart, Devices};
use ferroxfs::{OpenError, OpenOptions};
use xfs_device::FindError;
use xfs_evidence::{SuperblockSource, find_superblock};

use super::{Image, hints, open_failure};
use crate::cli::options::GlobalOptions;
use crate::failure::Failure;

impl Image {
    /// Opens the image at `path` for `check`. If its first superblock is damaged, a copy gives the
    /// layout of the volume, and the returned finding describes the damage.
    pub(crate) fn open_for_check(
        path: &Path,
        options: &GlobalOptions,
    ) -> Result<(Self, Option<Finding>), Failure> {
        let open = Self::with_global(OpenOptions::new(), path, options)?;
        match open.open_damaged_devices(path) {
            Ok((devices, finding)) => Ok((Self { path: path.to_owned(), devices }, finding)),
            Err(error) => Err(hints::without_superblock(&error, path)),
        }
    }

    /// Opens the image at `path` for `repair`: exclusively for writing if `writes` is set,
    /// otherwise for reading.
    pub(crate) fn open_for_repair(
        path: &Path,
        options: &GlobalOptions,
        writes: bool,
    ) -> Result<Self, Failure> {
        if options.live || options.no_recovery {
            return Err(Failure::usage("--live and --no-recovery are for reading"));
        }
        let open = Self::with_global(OpenOptions::new().write(writes), path, options)?;
        Ok(Self::open_unrecognised(&open, path, DamagedStart::Unrecognised)?.0)
    }

    /// Opens the image at `path` to copy its metadata as it is on disk. If the start of the volume
    /// is not recognised, a copy of its superblock must be found.
    pub(crate) fn open_for_dump(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        let open = OpenOptions::new().live(options.live).no_recovery(true);
        let open = Self::with_global(open, path, options)?;
        let start = DamagedStart::Unrecognised;
        let (image, lack) = Self::open_unrecognised(&open, path, start)?;
        let has_copy = || {
            matches!(find_superblock(&**image.device()), Ok(Some(found))
                if matches!(found.source, SuperblockSource::Copies { .. }))
        };
        match lack {
            Some(error) if !has_copy() => Err(Self::failure_to_open(path, &error.into())),
            _ => Ok(image),
        }
    }

    /// Opens the image at `path` for `salvage`, whatever is at the place where the volume starts.
    pub(crate) fn open_for_salvage(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        let open = OpenOptions::new().live(options.live).no_recovery(options.no_recovery);
        let open = Self::with_global(open, path, options)?;
        Ok(Self::open_unrecognised(&open, path, DamagedStart::Overwritten)?.0)
    }

    /// Opens the image. Also returns the reason why no volume was recognised in it; `None` if a
    /// volume was recognised.
    fn open_unrecognised(
        open: &OpenOptions,
        path: &Path,
        start: DamagedStart,
    ) -> Result<(Self, Option<FindError>), Failure> {
        match open.open_unrecognised_devices(path, start) {
            Ok((devices, lack)) => Ok((Self { path: path.to_owned(), devices }, lack)),
            Err(error) => Err(Self::failure_to_open(path, &error)),
        }
    }

    fn failure_to_open(path: &Path, error: &OpenError) -> Failure {
        hints::at_address(open_failure(path, error), path)
    }

    /// Returns the open devices of the image.
    pub(crate) fn devices(&self) -> &Devices {
        &self.devices
    }
}
