//! `umount`: makes everything durable, ends a mount and waits until its image is closed.
//!
//! A failure to make data durable is reported while the mount can still be read. After the unmount,
//! `umount` finds out how the serving process ended ([`serving`]), because that process can report
//! only to the system log.

mod exit_status;
mod serving;

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use xfs_fuse::{Unmount, unmount};

use super::mounts::folder_of;
use crate::cli::UmountArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::json::{self, Object};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::tally::Work;
pub(super) use serving::Ending;
use serving::{MountAccess, Serving};

/// The end of a mount.
pub(super) struct Umount {
    pub(super) folder: PathBuf,
    pub(super) when: Unmount,
    /// Whether to unmount even if changes cannot be made durable.
    pub(super) force: bool,
}

/// Finds the folder of the mount and returns the command, ready to run. The folder is not opened,
/// because an open folder would keep the mount in use.
pub(crate) fn open(arguments: UmountArguments) -> Result<Box<dyn Run>, Failure> {
    let UmountArguments { folder, lazy, force } = arguments;
    let when = if lazy { Unmount::WhenUnused } else { Unmount::Now };
    let folder = folder_of(folder)?;
    Ok(Box::new(Umount { folder, when, force }))
}

impl Run for Umount {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        console.begin(Work::step("unmounting"));
        let serving = Serving::find(&self.folder)?;
        if serving.as_ref().is_some_and(|serving| serving.access == MountAccess::Writes) {
            match self.sync(console) {
                Err(failure) if self.force => console.report(&failure),
                synced => synced.map_err(|failure| {
                    failure.hint("it stays mounted for reading; --force unmounts it anyway")
                })?,
            }
        }
        unmount(&self.folder, self.when).map_err(|error| match is_busy(&error) {
            true => self.failed(&error).hint(format!(
                "fuser -vm {} shows the processes that use it; --lazy detaches it at once",
                crate::terminal::names::in_message(self.folder.as_os_str().as_encoded_bytes()),
            )),
            false => self.failed(&error),
        })?;
        let (Some(serving), Unmount::Now) = (serving, self.when) else {
            return self.conclude(false, console);
        };
        let ending = serving.wait().map_err(|errno| self.failed(&errno.into()))?;
        self.judge(&ending, console)?;
        self.conclude(matches!(ending, Ending::Well), console)
    }
}

impl Umount {
    pub(super) fn failed(&self, error: &io::Error) -> Failure {
        Failure::host(self.folder.as_os_str(), error)
    }

    /// Prints a JSON document that says whether the image is known to be closed.
    fn conclude(&self, is_closed: bool, console: &mut Console) -> Result<(), Failure> {
        let mut object = Object::new();
        json::insert_name(&mut object, "mount_point", self.folder.as_os_str().as_bytes());
        object.insert("is_closed".to_owned(), is_closed.into());
        Ok(console.conclude_with(object)?)
    }

    /// Makes all changes in the kernel and the server durable. Does nothing if the root of the
    /// mount cannot be opened: the way in which the server ends then shows the same failure later.
    pub(super) fn sync(&self, console: &mut Console) -> Result<(), Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(root) = rustix::fs::open(&self.folder, flags, Mode::empty()) else { return Ok(()) };
        // The kernel has dropped the data that it could not write, and a mount that stays would not
        // bring it back. The failure may be old, and was reported to the caller of that time.
        if let Err(errno) = rustix::fs::syncfs(&root) {
            let shown =
                crate::terminal::names::in_message(self.folder.as_os_str().as_encoded_bytes());
            console.note(format!(
                "{shown}: some data could not be written, as fsync(2) or close(2) reported to its writer: \
                     {errno}"
            ));
        }
        // The kernel does not pass syncfs on. An fsync of the root syncs everything.
        match rustix::fs::fsync(&root) {
            // The server has just died. The mount can only be detached then, and the way it died is
            // reported after that.
            Ok(()) | Err(Errno::NOTCONN | Errno::CONNABORTED) => Ok(()),
            Err(errno) => {
                let message = format!("some data cannot be made durable: {errno}");
                Err(Failure::host(self.folder.as_os_str(), &io::Error::other(message)))
            }
        }
    }

    /// Returns the failure of a mount that has not ended well.
    pub(super) fn judge(&self, ending: &Ending, console: &mut Console) -> Result<(), Failure> {
        let failed = |exit, message: &str| {
            let shown =
                crate::terminal::names::in_message(self.folder.as_os_str().as_encoded_bytes());
            Err(Failure::new(exit, message).about(&shown))
        };
        match ending {
            Ending::Well => Ok(()),
            Ending::Badly(status) => {
                let exit = status.code().and_then(Exit::of_code).unwrap_or(Exit::Failed);
                let message =
                    format!("unmounted, but its server failed ({status}), and changes may be lost");
                failed(exit, &message).map_err(|failure| {
                    failure.hint("the reason is in the system log, or in the output of mount -f")
                })
            }
            Ending::LogDirty => failed(
                Exit::Failed,
                "unmounted, but its image was not closed cleanly, and changes may be lost",
            ),
            Ending::NotYet => {
                failed(Exit::Failed, "unmounted, but its image is still being closed")
            }
            Ending::Unknown => {
                console.note(
                    "unmounted; this kernel does not report whether its image was closed cleanly",
                );
                Ok(())
            }
            Ending::Unseen => failed(
                Exit::Failed,
                "unmounted, but neither its server nor its image is visible from here, so it is not known when \
                 the image is closed",
            ),
        }
    }
}

/// Returns whether unmounting failed because the mount is in use. The program fusermount3 states
/// this reason only in its message.
pub(super) fn is_busy(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::BUSY) || error.to_string().contains("busy")
}
