//! Options that several commands share.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use xfs_device::PartitionChoice;

use crate::image::requests::Requests;
use crate::terminal::names;
use crate::text::size;

/// The help template that shows the `after_help` of a command between its usage and its options.
pub(super) const AFTER_USAGE: &str = "\
{before-help}{about-with-newline}
{usage-heading} {usage}{after-help}

{all-args}";

/// Options of every command.
#[derive(Args, Clone, Debug)]
pub(crate) struct GlobalOptions {
    /// Use this partition of a partitioned disk image: its number, counted from 1, or its name in a
    /// GPT, which no other partition may have
    #[arg(long, global = true, value_name = "N|NAME", conflicts_with = "offset")]
    #[arg(help_heading = "Image options")]
    pub(crate) partition: Option<PartitionChoice>,
    /// The filesystem starts at this byte of the image, such as 1m (not for mkfs)
    #[arg(long, global = true, value_name = "BYTES", help_heading = "Image options")]
    #[arg(value_parser = size::parse)]
    pub(crate) offset: Option<u64>,
    /// Use this logical volume of LVM, as VG/LV (not for mkfs)
    #[arg(long = "volume", global = true, value_name = "VG/LV", help_heading = "Image options")]
    #[arg(conflicts_with_all = ["partition", "offset"])]
    pub(crate) logical_volume: Option<String>,
    /// Another image or device of the same volume group or software RAID; give it once for each
    #[arg(long, global = true, value_name = "FILE", help_heading = "Image options")]
    pub(crate) member: Vec<PathBuf>,
    /// Read an image or device that is mounted right now; the output may be stale
    #[arg(long, global = true, help_heading = "Image options")]
    pub(crate) live: bool,
    /// Read a volume with a dirty log as it is on disk, instead of replaying the log in memory
    #[arg(long, global = true, help_heading = "Image options")]
    pub(crate) no_recovery: bool,
    /// The device or file that holds the external log
    #[arg(long, global = true, value_name = "FILE", help_heading = "Image options")]
    pub(crate) log_device: Option<PathBuf>,
    /// The device or file that holds the realtime section (not for mkfs)
    #[arg(long = "rt-device", global = true, value_name = "FILE", help_heading = "Image options")]
    pub(crate) realtime_device: Option<PathBuf>,
    /// The image, when the other arguments are plain paths inside it
    #[arg(long, global = true, value_name = "IMAGE", help_heading = "Image options")]
    pub(crate) image: Option<PathBuf>,
    /// Keep at most this many bytes of an image on a web or S3 server in memory
    #[cfg(feature = "object_store")]
    #[arg(long, global = true, value_name = "BYTES", default_value = "64m")]
    #[arg(value_parser = size::parse, help_heading = "Image options")]
    pub(crate) object_cache: u64,
    /// Print each request to a web or S3 server on standard error, and their sum at the end; show
    /// no progress
    #[cfg(feature = "object_store")]
    #[arg(long, global = true, help_heading = "Image options")]
    pub(crate) log_requests: bool,
    /// The requests so far.
    #[arg(skip)]
    pub(crate) requests: Requests,
    /// Give up all rights to other files, programs and the network before the image is read: as far
    /// as the kernel supports it (auto), or fail if it does not (always)
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_enum)]
    #[arg(help_heading = "Image options")]
    pub(crate) sandbox: SandboxWhen,
    /// Show no progress and no summary
    #[arg(short, long, global = true, help_heading = "Output options")]
    pub(crate) quiet: bool,
    /// When to colour the output
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", value_enum)]
    #[arg(help_heading = "Output options")]
    pub(crate) color: ColorWhen,
}

impl GlobalOptions {
    /// Returns whether each request to a web or S3 server is printed.
    pub(crate) const fn logs_requests(&self) -> bool {
        #[cfg(feature = "object_store")]
        let is_asked = self.log_requests;
        #[cfg(not(feature = "object_store"))]
        let is_asked = false;
        is_asked
    }

    /// Returns those of the given options that say where the volume is, each as ` --option value`.
    /// Messages put them into the commands that they suggest.
    pub(crate) fn place_words(&self) -> String {
        let mut words = String::new();
        let mut add = |option: &str, value: &[u8]| {
            words += &format!(" --{option} {}", names::in_message(value));
        };
        match &self.partition {
            Some(PartitionChoice::Number(number)) => {
                add("partition", number.to_string().as_bytes());
            }
            Some(PartitionChoice::Name(name)) => add("partition", name.as_bytes()),
            None => {}
        }
        if let Some(bytes) = self.offset {
            add("offset", bytes.to_string().as_bytes());
        }
        if let Some(name) = &self.logical_volume {
            add("volume", name.as_bytes());
        }
        self.member.iter().for_each(|path| add("member", path.as_os_str().as_bytes()));
        let log = self.log_device.iter().map(|path| ("log-device", path));
        let realtime = self.realtime_device.iter().map(|path| ("rt-device", path));
        log.chain(realtime).for_each(|(option, path)| add(option, path.as_os_str().as_bytes()));
        words
    }

    /// Returns whether the options name a partition or a logical volume.
    pub(crate) const fn names_a_part(&self) -> bool {
        self.partition.is_some() || self.logical_volume.is_some()
    }
}

/// When a command enters the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxWhen {
    /// Give up as many of these rights as the kernel supports, unless the command itself needs
    /// them.
    Auto,
    /// Give up all of these rights, and fail if the kernel or the command does not allow it.
    Always,
    /// Keep all rights.
    Never,
}

impl fmt::Display for SandboxWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("auto", PossibleValue::get_name))
    }
}

/// When output is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// Colour output on a terminal, unless NO_COLOR is set.
    Auto,
    /// Always colour output.
    Always,
    /// Never colour output.
    Never,
}

/// The option of commands that print facts.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct JsonOption {
    /// Print one JSON document, with "schema_version"
    #[arg(long, global = true, help_heading = "Output options")]
    pub(crate) json: bool,
}

impl GlobalOptions {
    /// Returns the files of the host that hold parts of the volume in addition to its image: an
    /// external log, a realtime device, and other members of a volume group or RAID.
    pub(crate) fn other_devices(&self) -> impl Iterator<Item = &Path> {
        let named = [&self.log_device, &self.realtime_device].into_iter().flatten();
        named.chain(&self.member).map(PathBuf::as_path)
    }
}

/// Options of commands that print lists of names.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ListOptions {
    /// End each line with a NUL byte instead of a newline, and never quote names
    #[arg(short = '0', long, conflicts_with = "json", help_heading = "Output options")]
    pub(crate) null: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// How much a run prints in addition to its output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verbosity {
    /// Whether the run prints no progress and no summary (`-q`).
    pub(crate) is_quiet: bool,
    /// Whether the run prints its result as a JSON document (`--json`).
    pub(crate) is_json: bool,
}
