//! `complete`: prints paths in images for the completions of shells, one per line.
//!
//! Owns: finding the image in an incomplete command line, and listing one directory of it. On any
//! failure the command prints nothing, because a completing shell has no use for an error.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use ferroxfs::{FileType, Volume};
use xfs_device::PartitionChoice;

use crate::cli::CompleteArguments;
use crate::failure::Failure;
use crate::image::address::path_separator;
use crate::image::in_partition;
use crate::run::Run;
use crate::terminal::console::Console;
use crate::text::size;

/// The limit on the number of names that are printed.
const MAX_NAMES: usize = 10_000;

struct Complete {
    devices: Option<ferroxfs::device::Devices>,
    line: CompletionLine,
    /// The words to print if the image is mounted. They come from the folder of the mount, because
    /// its contents are current. `None` if the image has to be read.
    words: Option<Vec<Vec<u8>>>,
}

/// The options with a value that say where the volume is. Completion reads the image at that place.
const OPTIONS: [&str; 7] =
    ["--image", "--log-device", "--rt-device", "--partition", "--offset", "--volume", "--member"];

/// An incomplete command line, whose last word is completed.
#[derive(Default)]
struct CompletionLine {
    image: Option<PathBuf>,
    log_device: Option<PathBuf>,
    realtime_device: Option<PathBuf>,
    partition: Option<PartitionChoice>,
    logical_volume: Option<String>,
    members: Vec<PathBuf>,
    offset: Option<u64>,
    /// The part of the last word before the path: `IMAGE:`.
    before: Vec<u8>,
    /// The directory part of the path, up to its last slash. The beginning of a name follows.
    directory: Vec<u8>,
    begun: Vec<u8>,
}

/// Opens the image that the last word names, if it names one. If the image is mounted, lists names
/// in the folder of the mount instead.
pub(crate) fn open(arguments: &CompleteArguments) -> Box<dyn Run> {
    let line = CompletionLine::read(&arguments.words);
    let words = line.as_ref().and_then(CompletionLine::names_on_mount);
    let devices = line.as_ref().filter(|_| words.is_none()).and_then(CompletionLine::open);
    Box::new(Complete { devices, line: line.unwrap_or_default(), words })
}

impl Run for Complete {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { devices, line, words } = *self;
        let words = words.or_else(|| line.names(&devices?.open().ok()?).ok());
        for word in words.unwrap_or_default() {
            console.out().write_all(&word)?;
            console.out().write_all(b"\n")?;
        }
        Ok(())
    }
}

impl CompletionLine {
    /// Parses the words of a command line, of which the last is completed. `None` if the last word
    /// is no path in an image.
    fn read(words: &[OsString]) -> Option<Self> {
        let (word, before) = words.split_last()?;
        let mut line = Self::default();
        let mut rest = before.iter();
        while let Some(word) = rest.next() {
            let text = word.to_string_lossy();
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(OsString::from(value))),
                None => (&*text, None),
            };
            if !OPTIONS.contains(&name) {
                continue;
            }
            let value = value.or_else(|| rest.next().cloned())?;
            match name {
                "--image" => line.image = Some(value.into()),
                "--log-device" => line.log_device = Some(value.into()),
                "--rt-device" => line.realtime_device = Some(value.into()),
                "--volume" => line.logical_volume = value.into_string().ok(),
                "--member" => line.members.push(value.into()),
                "--partition" => line.partition = value.to_str()?.parse().ok(),
                _ => line.offset = size::parse(value.to_str()?).ok(),
            }
        }
        let word = word.as_bytes();
        let path = if line.image.is_some() {
            word
        } else {
            let at = path_separator(word)?;
            let (image, path) = word.split_at_checked(at + 1)?;
            line.image = Some(PathBuf::from(OsStr::from_bytes(image.strip_suffix(b":")?)));
            line.before = image.to_vec();
            path
        };
        let name = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (directory, begun) = path.split_at_checked(name)?;
        (line.directory, line.begun) = (directory.to_vec(), begun.to_vec());
        Some(line)
    }

    /// Opens the image, even if another program uses it: names that are no longer valid do no harm.
    fn open(&self) -> Option<ferroxfs::device::Devices> {
        let image = self.image.as_deref().filter(|image| image.exists())?;
        self.options().open_devices(image).or_else(|_| self.live().open_devices(image)).ok()
    }

    fn live(&self) -> ferroxfs::OpenOptions {
        self.options().live(true).no_recovery(true)
    }

    fn options(&self) -> ferroxfs::OpenOptions {
        let mut open = ferroxfs::OpenOptions::new();
        if let Some(choice) = &self.partition {
            open = in_partition(open, choice);
        }
        if let Some(bytes) = self.offset {
            open = open.offset(bytes);
        }
        if let Some(name) = &self.logical_volume {
            open = open.logical_volume(name);
        }
        for member in &self.members {
            open = open.member(member);
        }
        if let Some(realtime) = &self.realtime_device {
            open = open.realtime_device(realtime);
        }
        match &self.log_device {
            Some(log) => open.log_device(log),
            None => open,
        }
    }

    /// Returns the completions of the last word: names in the folder where the image is mounted.
    /// `None` if the image is not mounted.
    fn names_on_mount(&self) -> Option<Vec<Vec<u8>>> {
        let image = self.image.as_deref()?.canonicalize().ok()?;
        let mount = xfs_fuse::mounts().into_iter().find(|mount| mount.image == image)?;
        let inside = self.directory.strip_prefix(b"/").unwrap_or(&self.directory);
        let entries = std::fs::read_dir(mount.folder.join(OsStr::from_bytes(inside))).ok()?;
        let mut words = Vec::new();
        for entry in entries.filter_map(Result::ok) {
            let name = entry.file_name().into_vec();
            if self.may_become(&name) {
                words.push(self.word(&name, entry.path().is_dir()));
            }
            if words.len() == MAX_NAMES {
                break;
            }
        }
        words.sort_unstable();
        Some(words)
    }

    fn may_become(&self, name: &[u8]) -> bool {
        let is_hidden = name.starts_with(b".") && !self.begun.starts_with(b".");
        // A newline would end the name in the output.
        name.starts_with(&self.begun) && !is_hidden && !name.contains(&b'\n')
    }

    fn word(&self, name: &[u8], is_directory: bool) -> Vec<u8> {
        let slash: &[u8] = if is_directory { b"/" } else { b"" };
        [&self.before, &self.directory, name, slash].concat()
    }

    /// Returns the completions of the last word: names in the image. Those of directories end in a
    /// slash.
    fn names(&self, volume: &Volume) -> ferroxfs::Result<Vec<Vec<u8>>> {
        let path = [b"/", self.directory.as_slice()].concat();
        let directory = volume.lookup(Path::new(OsStr::from_bytes(&path)))?;
        let mut words = Vec::new();
        for entry in directory.entries()? {
            let entry = entry?;
            let name = entry.name().as_bytes().to_vec();
            if !self.may_become(&name) {
                continue;
            }
            let is_directory = match entry.file_type() {
                Some(FileType::Directory) => true,
                Some(FileType::Symlink) => {
                    let path = [path.as_slice(), &name].concat();
                    let target = volume.lookup(Path::new(OsStr::from_bytes(&path)));
                    target.is_ok_and(|node| node.file_type() == FileType::Directory)
                }
                _ => false,
            };
            words.push(self.word(&name, is_directory));
            if words.len() == MAX_NAMES {
                break;
            }
        }
        words.sort_unstable();
        Ok(words)
    }
}

#[cfg(test)]
mod tests;
