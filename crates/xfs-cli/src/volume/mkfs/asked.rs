//! The values that the options of a new volume ask for, in addition to its geometry: lengths, the
//! time, the UUID and the inode generations. And failures about options.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ferroxfs::Timestamp;
use xfs_mkfs::{Generations, GeometryError, Identity, OptionError, Options, Size, TargetDevice};

use crate::cli::MkfsArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::names;
use crate::text::time::source_date_epoch;

/// The length in bytes of the sectors of a file.
pub(super) const SECTOR_BYTES: u32 = 512;
/// The inode generation that mkfs.xfs sets if `DETERMINISTIC_SEED` is in its environment.
const DETERMINISTIC_GENERATION: u32 = 0x5345_4544;
const DEFAULT_BLOCK_BYTES: u32 = 4096;

/// Returns the number of bytes that an option asks for. `None` if the option is not given, or if
/// the size cannot be computed. In the latter case, the planning of the volume reports the reason.
pub(super) fn asked_bytes(options: &Options, size: Option<Size>) -> Option<u64> {
    let number = |size: Option<Size>, otherwise: u32| {
        size.and_then(|size| u32::try_from(size.number).ok()).unwrap_or(otherwise)
    };
    let block = number(options.block_size, DEFAULT_BLOCK_BYTES);
    size?.to_bytes(block, number(options.sector_size, SECTOR_BYTES))
}

/// Returns the time that all files get: from the options, or from the environment. `None` if
/// neither gives one.
pub(super) fn asked_time(arguments: &MkfsArguments) -> Result<Option<Timestamp>, Failure> {
    let time = match arguments.time {
        Some(seconds) => Some(Timestamp::new(seconds, 0).unwrap_or_default()),
        None => source_date_epoch()?,
    };
    if arguments.epoch.is_some() && time.is_none() {
        return Err(Failure::usage("mkfs: --epoch needs a fixed time")
            .hint("give it with --time or SOURCE_DATE_EPOCH"));
    }
    Ok(time)
}

/// Returns the UUID, the time and the inode generations of the new volume. Without options or
/// environment variables for them, the UUID and the generations are random, and the time is the
/// current time.
pub(super) fn identity(
    arguments: &MkfsArguments,
    options: &Options,
    target: &TargetDevice,
) -> Result<Identity, Failure> {
    let random = || {
        Identity::random()
            .map_err(|error| Failure::new(Exit::Failed, format!("no random numbers: {error}")))
    };
    let mut identity = match (asked_time(arguments)?, arguments.seed) {
        (None, None) => random()?,
        (Some(time), seed) => {
            let length = target.data_bytes.to_be_bytes();
            let seed = seed.unwrap_or(0).to_be_bytes();
            let salt = [&seed, &length, options.label.as_bytes()].concat();
            Identity::reproducible(time, &salt)
        }
        (None, Some(seed)) => Identity {
            time: random()?.time,
            ..Identity::reproducible(Timestamp::default(), &seed.to_be_bytes())
        },
    };
    if std::env::var_os("DETERMINISTIC_SEED").is_some() {
        identity.generations = Generations::Fixed(DETERMINISTIC_GENERATION);
    }
    Ok(identity)
}

pub(super) fn option_failure(error: &OptionError) -> Failure {
    let exit = match error {
        OptionError::NotSupported(_) => Exit::Refused,
        _ => Exit::Usage,
    };
    let failure = Failure::new(exit, error.to_string());
    match error {
        OptionError::Unknown { .. } => {
            failure.hint("ferroxfs mkfs --help lists the options; they are those of mkfs.xfs(8)")
        }
        _ => failure,
    }
}

pub(super) fn geometry_failure(path: &Path, error: &GeometryError) -> Failure {
    let failure =
        Failure::usage(error.to_string()).about(&names::in_message(path.as_os_str().as_bytes()));
    match error {
        GeometryError::TooSmall { .. }
        | GeometryError::SmallLog { .. }
        | GeometryError::OneGroup => failure.hint("--unsupported makes it anyway, for tests only"),
        GeometryError::NoRoomForLog { .. } => {
            failure.hint("make fewer allocation groups, or a larger volume")
        }
        GeometryError::DeviceTooShort { .. } => failure.hint(
            "-d file,size=BYTES sets the length of the data's file, -l file,size=BYTES the log's",
        ),
        _ => failure,
    }
}
