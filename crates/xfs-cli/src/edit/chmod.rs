//! `chmod`: changes permissions. Also owns `change_trees`, with which other commands too change
//! every file of a tree.

use std::os::unix::ffi::OsStrExt;

use ferroxfs::{FileType, Node, SetAttributes};

use crate::cli::{ChmodArguments, GlobalOptions};
use crate::edit::walk::{TreeWalk, WalkEvent};
use crate::failure::Failure;
use crate::image::{ImagePath, ImagePaths, change_all};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::tally::Work;
use crate::text::mode::{Circumstances, ModeChange, umask};

struct Chmod {
    targets: ImagePaths,
    mode: ModeChange,
    umask: u32,
    reach: TreeReach,
}

/// The reach of a change beyond the files that the command line names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeReach {
    /// Whether the change also reaches everything below a named directory.
    pub(super) is_recursive: bool,
    /// Whether the target of a symbolic link is changed if the command line names the link. Links
    /// below a named directory are not followed.
    pub(super) follows: bool,
}

impl TreeReach {
    /// Returns the reach of a change of whole trees in which no symbolic link is followed.
    pub(crate) const fn tree() -> Self {
        Self { is_recursive: true, follows: false }
    }
}

/// Parses the mode argument of `command`.
pub(crate) fn parse_mode(command: &str, text: &str) -> Result<ModeChange, Failure> {
    let wrong = || format!("{command}: \"{text}\" is not a mode, such as 644, u=rwX,go-w or g=u");
    ModeChange::parse(text).ok_or_else(|| Failure::usage(wrong()))
}

/// Returns the mode of a file after a change. `old` is the mode before the change, and `kind` is
/// the type of the file.
pub(crate) fn changed_mode(mode: &ModeChange, umask: u32, old: u16, kind: FileType) -> u16 {
    let is_directory = kind == FileType::Directory;
    let bits = mode.of(u32::from(old), Circumstances { is_directory, umask });
    // At most 07777.
    u16::try_from(bits).unwrap_or_default()
}

/// Opens the images for writing, and returns the command, ready to run.
pub(crate) fn open(
    arguments: ChmodArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let mode = parse_mode("chmod", &arguments.mode)?;
    let targets = ImagePaths::open_for_writing(&arguments.addresses, options)?;
    let reach = TreeReach { is_recursive: arguments.recursive, follows: true };
    Ok(Box::new(Chmod { targets, mode, umask: umask(), reach }))
}

impl Run for Chmod {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, mode, umask, reach } = *self;
        change_trees(targets, reach, console, |node| {
            let file_type = node.file_type();
            if file_type == FileType::Symlink {
                return Ok(());
            }
            let mode = changed_mode(&mode, umask, node.metadata().mode, file_type);
            Ok(node.set_attributes(&SetAttributes::new().mode(mode))?)
        })
    }
}

/// Calls `change` for each file at these paths. With `TreeReach::is_recursive` everything below is
/// changed too, each directory before its entries. A failure for one file is reported, and the
/// other files are changed.
pub(crate) fn change_trees(
    targets: ImagePaths,
    reach: TreeReach,
    console: &mut Console,
    change: impl Fn(&Node) -> Result<(), Failure>,
) -> Result<(), Failure> {
    change_all(targets, console, |targets, console| {
        let tally = console.begin(Work::change("changing", "changed"));
        let change = |node: &Node| change(node).inspect(|()| tally.add_file());
        for target in targets {
            if let Err(failure) = change_tree(target, reach, console, change) {
                console.report(&failure);
            }
        }
        Ok(())
    })?;
    Ok(console.conclude()?)
}

/// Changes the file at one path, and with [`TreeReach::is_recursive`] everything below it. A
/// failure for one file below it is reported, and the other files are changed. An error about the
/// whole volume ends the change.
fn change_tree(
    target: &ImagePath,
    reach: TreeReach,
    console: &mut Console,
    change: impl Fn(&Node) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let top = target.node(reach.follows)?;
    if !reach.is_recursive {
        return change(&top).map_err(|failure| target.failure(failure));
    }
    let path = target.path.as_os_str().as_bytes();
    let mut walk = TreeWalk::new(target.volume.inner(), top, path);
    while let Some(event) = walk.next() {
        let changed = match event {
            Ok(WalkEvent::File(node)) => change(&node),
            Ok(WalkEvent::End) => Ok(()),
            Err(error) => Err(error.into()),
        };
        if let Err(failure) = changed {
            let is_last = failure.is_of_volume();
            let failure = target.volume.failure(walk.path(), failure);
            if is_last {
                return Err(failure);
            }
            console.report(&failure);
        }
    }
    Ok(())
}
