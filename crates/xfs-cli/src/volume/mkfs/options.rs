//! The options of a new volume: reading them.
//!
//! Owns: the order in which the command line, configuration files and `--for` decide. Does **not**
//! own: the geometry (`Plan` of `xfs_mkfs`), or what else follows from the options
//! ([`asked`](super::asked)).

use std::os::unix::ffi::OsStrExt;

use xfs_mkfs::{Options, Reader};

use super::asked::option_failure;
use super::configuration;
use super::free_space::{FreeSpace, is_automatic, split_automatic};
use crate::cli::{GlobalOptions, MkfsArguments};
use crate::failure::Failure;

/// Reads the options of the command line and of files. Returns them, and the free space of a volume
/// whose size is chosen to fit the files.
pub(super) fn read_options(
    arguments: &MkfsArguments,
    global: &GlobalOptions,
) -> Result<(Options, Option<FreeSpace>), Failure> {
    let (data, free) = split_automatic(arguments)?;
    let mut options = Options::default();
    configuration::read_defaults(&arguments.configuration, &mut options)?;
    options.allow_small = arguments.unsupported;
    options.minimize = arguments.minimize;
    let groups = [
        ('b', &arguments.block),
        ('d', &data),
        ('i', &arguments.inode),
        ('l', &arguments.log),
        ('m', &arguments.metadata),
        ('n', &arguments.naming),
        ('r', &arguments.realtime),
        ('s', &arguments.sector),
    ];
    for (letter, texts) in groups {
        for text in texts {
            options.parse(letter, text).map_err(|error| option_failure(&error))?;
        }
    }
    configuration::read(&arguments.configuration, &mut options)?;
    if let Some(label) = &arguments.label {
        options.parse_label(label.as_bytes()).map_err(|error| option_failure(&error))?;
    }
    if let Some(realtime) = &global.realtime_device
        && options.realtime.device.replace(realtime.clone()).is_some()
    {
        return Err(Failure::usage("-r rtdev and --rt-device exclude each other"));
    }
    if let Some(log) = &global.log_device
        && options.log.device.replace(log.clone()).is_some()
    {
        return Err(Failure::usage("-l logdev and --log-device exclude each other"));
    }
    restrict(&mut options, &arguments.readers)?;
    match (options.data.size, free) {
        (Some(_), Some(_)) if is_automatic(arguments) => {
            Err(Failure::usage("-d size= is given twice, once as auto"))
        }
        (Some(_), Some(_)) if arguments.free.is_some() => {
            Err(Failure::usage("-d size= and --free exclude each other"))
        }
        // Without overhead, and of this size.
        (Some(_), _) => Ok((options, None)),
        (None, free) => Ok((options, free)),
    }
}

/// Applies the options `--for`: turns features off that a named reader cannot mount.
fn restrict(options: &mut Options, names: &[String]) -> Result<(), Failure> {
    let parse = |name: &String| name.parse::<Reader>();
    let readers: Result<Vec<_>, _> = names.iter().map(parse).collect();
    let restricted = readers.and_then(|readers| options.restrict_to(&readers));
    restricted.map_err(|error| Failure::usage(format!("--for: {error}")))
}
