//! `edit`: edits a file of an image in an editor of the host.
//!
//! ```text
//!  read the file -> private copy -> editor, image not locked -> lock the image
//!       -> is the file unchanged? -> new contents in one step
//! ```
//!
//! Owns: the copy for the editor, and the check that the file in the image was not changed while
//! the editor ran. Does **not** own: replacing the contents of a file ([`put`]).
//!
//! # Invariants
//!
//! - **I1** The image is not open while the editor runs.
//! - **I2** The copy with changed text is removed only after the text is durable in the image.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use ferroxfs::{Error, Node, PosixError};
use signal_hook::consts::{SIGINT, SIGQUIT};
use signal_hook::iterator::Signals;
use tempfile::TempDir;

use crate::cli::{EditArguments, GlobalOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::file::node;
use crate::image::{ImagePath, ImagePaths, change_each};
use crate::import::put;
use crate::input::Spool;
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::tally::Work;

/// The editor that runs if the user has chosen none, as in POSIX.
const USUAL_EDITOR: &str = "vi";
/// The mode of the file in the image if `edit` creates it.
const NEW_MODE: u16 = 0o644;
const CHUNK_BYTES: usize = 256 << 10;
/// The exit code of a shell that did not find the command.
const NOT_FOUND: i32 = 127;

struct Edit {
    address: OsString,
    options: GlobalOptions,
    editor: OsString,
    is_forced: bool,
}

/// Chooses the editor, and returns the command, ready to run. The image is opened later.
pub(crate) fn open(
    arguments: &EditArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    if options.live || options.no_recovery {
        return Err(Failure::usage("--live and --no-recovery are for reading"));
    }
    let named = |name| env::var_os(name).filter(|editor| !editor.is_empty());
    let editor = arguments.with.clone().or_else(|| named("VISUAL")).or_else(|| named("EDITOR"));
    Ok(Box::new(Edit {
        address: arguments.address.clone(),
        options: options.clone(),
        editor: editor.unwrap_or_else(|| USUAL_EDITOR.into()),
        is_forced: arguments.force,
    }))
}

impl Run for Edit {
    /// Returns the rights that the command keeps: all of them, because it starts an editor and
    /// opens the image a second time.
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let words = std::slice::from_ref(&self.address);
        let targets = ImagePaths::open(words, &self.options)?.read(console);
        let Some(target) = targets.first() else { return Ok(()) };
        let copy = Copy::of(target)?;
        let shown = String::from_utf8_lossy(self.address.as_bytes()).into_owned();
        // The image is closed before the editor runs (I1).
        drop(targets);
        let ended = copy.run(&self.editor);
        let compared = copy.read().and_then(|edited| Ok((copy.is_unchanged(&edited)?, edited)));
        let (is_unchanged, edited) = match (ended, compared) {
            (Ok(()), Ok(compared)) => compared,
            (Err(failure), Ok((true, _))) => return Err(failure),
            // Text that may be changed stays, also if it cannot be read (I2).
            (Err(failure), _) | (Ok(()), Err(failure)) => return Err(copy.keep(failure)),
        };
        if is_unchanged {
            if !console.is_json() {
                console.note(format!("{}: not changed", names::in_message(shown.as_bytes())));
            }
            console.begin(Work::change("changing", "changed"));
            return Ok(console.conclude()?);
        }
        let targets = match ImagePaths::open_for_writing(words, &self.options) {
            Ok(targets) => targets,
            Err(failure) => return Err(copy.keep(failure)),
        };
        let mut is_done = false;
        let changed = change_each(targets, console, |target| {
            let put = copy.put(&edited, target, self.is_forced);
            is_done = put.is_ok();
            put.map_err(|failure| copy.hint(failure))
        });
        match (changed, is_done) {
            // The image is closed, so the text is durable, and its copy is removed (I2).
            (Ok(()), true) => Ok(()),
            (Ok(()), false) => {
                copy.leave();
                Ok(())
            }
            (Err(failure), _) => Err(copy.keep(failure)),
        }
    }
}

/// The copy of a file, on the host, that the editor works on.
struct Copy {
    directory: TempDir,
    path: PathBuf,
    /// The original contents; `None` if the file did not exist.
    original: Option<Spool>,
}

impl Copy {
    fn of(target: &ImagePath) -> Result<Self, Failure> {
        let node = match target.volume.inner().lookup(&target.path) {
            Err(Error::Posix(PosixError::NotFound)) => None,
            node => Some(node.map_err(|error| target.failure(error))?),
        };
        let name = match &node {
            None => target.place_to_make()?.1,
            Some(node) => {
                check_regular(node, target)?;
                let name = target.path.file_name();
                name.ok_or_else(|| target.failure(PosixError::InvalidArgument))?.to_owned()
            }
        };
        let failed = |error: io::Error| Failure::host(env::temp_dir().as_os_str(), &error);
        let directory = tempfile::Builder::new()
            .prefix("ferroxfs-edit-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(failed)?;
        let path = directory.path().join(name);
        let mut file = File::options();
        let file = file.write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        let mut copy = Self { directory, path, original: None };
        if node.is_some() {
            write_contents(&file, target)?;
            drop(file);
            // An editor may write to the file in place, so keep a separate copy.
            let copied = copy.open()?;
            copy.original = Some(Spool::read(copied, &copy.shown())?);
        }
        Ok(copy)
    }

    fn open(&self) -> Result<File, Failure> {
        let failed = |error: io::Error| Failure::host(self.path.as_os_str(), &error);
        // The editor may have left anything: to open a pipe would wait for ever.
        if !self.is_there().map_err(failed)? {
            let message = format!("{}: is no longer a regular file", self.shown());
            return Err(Failure::new(Exit::Failed, message).placed());
        }
        File::open(&self.path).map_err(failed)
    }

    fn is_there(&self) -> io::Result<bool> {
        Ok(std::fs::metadata(&self.path)?.is_file())
    }

    /// Runs the editor, and waits until it ends.
    fn run(&self, editor: &OsStr) -> Result<(), Failure> {
        // An interrupt from the terminal is meant for the editor. Dropping this restores the
        // default.
        let _ignored = Signals::new([SIGINT, SIGQUIT]);
        let script = [editor.as_bytes(), b" \"$@\""].concat();
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(OsStr::from_bytes(&script)).arg(editor).arg(&self.path);
        let shown = names::in_message(editor.as_bytes());
        let failed = |message: String| Failure::new(Exit::Failed, format!("{shown}: {message}"));
        let status = shell.status().map_err(|error| failed(error.to_string()))?;
        let nothing = "nothing is written";
        match (status.code(), status.signal()) {
            (Some(0), _) => Ok(()),
            (Some(NOT_FOUND), _) => {
                let failure = failed(format!("ended with exit code {NOT_FOUND}, {nothing}"));
                Err(failure.hint("name an editor in VISUAL or EDITOR, or by --with COMMAND"))
            }
            (Some(code), _) => Err(failed(format!("ended with exit code {code}, {nothing}"))),
            (None, signal) => {
                let signal = signal.unwrap_or_default();
                Err(failed(format!("was ended by signal {signal}, {nothing}")))
            }
        }
    }

    /// Reads the copy as the editor has left it.
    fn read(&self) -> Result<Spool, Failure> {
        Spool::of_file(self.open()?, &self.shown())
    }

    fn is_unchanged(&self, edited: &Spool) -> Result<bool, Failure> {
        let Some(original) = &self.original else { return Ok(edited.length() == 0) };
        original.is_same(edited).map_err(|error| Failure::host(self.path.as_os_str(), &error))
    }

    /// Replaces the contents of the file in the image by the edited contents. Without `is_forced`,
    /// the call fails if the file in the image was changed after the copy was made.
    fn put(&self, edited: &Spool, target: &ImagePath, is_forced: bool) -> Result<(), Failure> {
        let found = match target.volume.inner().lookup(&target.path) {
            Err(Error::Posix(PosixError::NotFound)) => None,
            node => Some(node.map_err(|error| target.failure(error))?),
        };
        if let Some(node) = &found {
            check_regular(node, target)?;
        }
        let changed = match (&found, &self.original) {
            (None, None) => None,
            (None, Some(_)) => Some("was removed"),
            (Some(_), None) => Some("was created"),
            (Some(_), Some(original)) => (!holds(original, target)?).then_some("was changed"),
        };
        if let Some(changed) = changed.filter(|_| !is_forced) {
            let message = format!("{changed} in the image meanwhile, nothing is written");
            return Err(target.failure(Failure::new(Exit::Failed, message)));
        }
        match found {
            Some(node) => put::replace(&node, edited, target),
            None => put::make(edited, NEW_MODE, target),
        }
    }

    /// Adds to the failure a hint that says where the edited text is.
    fn hint(&self, failure: Failure) -> Failure {
        failure.hint(format!("the text is kept in {}", self.shown()))
    }

    /// Keeps the copy on the host, and adds its path to the failure.
    fn keep(self, failure: Failure) -> Failure {
        if !self.is_there().unwrap_or(false) {
            return failure;
        }
        let failure = self.hint(failure);
        self.leave();
        failure
    }

    fn leave(self) {
        _ = self.directory.keep();
    }

    fn shown(&self) -> String {
        names::in_message(self.path.as_os_str().as_bytes()).into_owned()
    }
}

fn check_regular(node: &Node, target: &ImagePath) -> Result<(), Failure> {
    match node::kind(node.file_type()) {
        FileKind::Regular => Ok(()),
        kind => {
            let message = format!("is a {}, and only regular files are edited", kind.name());
            Err(target.failure(Failure::new(Exit::Failed, message)))
        }
    }
}

/// Writes the contents of a file of an image into an empty file of the host.
fn write_contents(mut file: &File, target: &ImagePath) -> Result<(), Failure> {
    let source = target.open()?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        let read = source.read_at(&mut buffer, offset).map_err(|error| target.failure(error))?;
        if read == 0 {
            return Ok(());
        }
        file.write_all(buffer.get(..read).unwrap_or_default())
            .map_err(|error| Failure::host(env::temp_dir().as_os_str(), &error))?;
        offset += read as u64;
    }
}

/// Returns whether a file of an image still has the contents `original`.
fn holds(original: &Spool, target: &ImagePath) -> Result<bool, Failure> {
    let source = target.open()?;
    if source.metadata().size != original.length() {
        return Ok(false);
    }
    let (mut one, mut two) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let mut offset = 0;
    while offset < original.length() {
        let read = original.read_at(&mut one, offset);
        let read = read.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
        let expected = one.get(..read).unwrap_or_default();
        let mut filled = 0;
        while filled < read {
            let rest = two.get_mut(filled..read).unwrap_or_default();
            let more = source.read_at(rest, offset + filled as u64);
            match more.map_err(|error| target.failure(error))? {
                0 => return Ok(false),
                more => filled += more,
            }
        }
        if two.get(..read) != Some(expected) {
            return Ok(false);
        }
        offset += read as u64;
    }
    Ok(true)
}
