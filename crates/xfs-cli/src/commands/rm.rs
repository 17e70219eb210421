//! `rm`: removing files and trees.

use ferroxfs::{Error, FileType, PosixError};

use super::Run;
use crate::cli::{GlobalOptions, RmArguments};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{Target, Targets, change_each};

struct Rm {
    targets: Targets,
    is_recursive: bool,
    is_forced: bool,
}

/// Opens the images.
pub(super) fn open(
    arguments: &RmArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let targets = Targets::open_for_writing(&arguments.addresses, options)?;
    if targets.has_root() {
        return Err(Failure::usage("rm: the root of a volume cannot be removed"));
    }
    let (is_recursive, is_forced) = (arguments.recursive, arguments.force);
    Ok(Box::new(Rm { targets, is_recursive, is_forced }))
}

impl Run for Rm {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, is_recursive, is_forced } = *self;
        change_each(targets, console, |target| remove(target, is_recursive, is_forced))
    }
}

fn remove(target: &Target, is_recursive: bool, is_forced: bool) -> Result<(), Failure> {
    let volume = target.volume.inner();
    let file_type = match volume.lookup_no_follow(&target.path) {
        Ok(node) => node.file_type(),
        Err(Error::Posix(PosixError::NotFound)) if is_forced => return Ok(()),
        Err(error) => return Err(target.failure(error)),
    };
    let removed = match (file_type, is_recursive) {
        (FileType::Directory, true) => volume.remove_dir_all(&target.path),
        (FileType::Directory, false) => {
            let failure = Failure::new(Exit::Failed, PosixError::IsDirectory.to_string());
            return Err(target.failure(failure).hint("remove directories with -r"));
        }
        _ => volume.remove_file(&target.path),
    };
    removed.map_err(|error| target.failure(error))
}
