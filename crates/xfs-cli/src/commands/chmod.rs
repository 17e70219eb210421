//! `chmod`: permissions.

use ferroxfs::{Changes, FileType, Node};

use super::Run;
use crate::cli::{ChmodArguments, GlobalOptions};
use crate::console::Console;
use crate::failure::Failure;
use crate::image::{Target, Targets, change_each};
use crate::mode::{Circumstances, ModeChange, umask};

struct Chmod {
    targets: Targets,
    mode: ModeChange,
    umask: u32,
    is_recursive: bool,
}

/// A mode that a command was given.
pub(super) fn parse_mode(command: &str, text: &str) -> Result<ModeChange, Failure> {
    let wrong = || format!("{command}: \"{text}\" is no mode, such as 644, u=rwX,go-w or g=u");
    ModeChange::parse(text).ok_or_else(|| Failure::usage(wrong()))
}

/// What it makes of another one.
pub(super) fn changed_mode(mode: &ModeChange, umask: u32, (old, kind): (u16, FileType)) -> u16 {
    let is_directory = kind == FileType::Directory;
    let bits = mode.of(u32::from(old), Circumstances { is_directory, umask });
    // No more than 07777.
    u16::try_from(bits).unwrap_or_default()
}

/// Opens the images.
pub(super) fn open(
    arguments: ChmodArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let mode = parse_mode("chmod", &arguments.mode)?;
    let targets = Targets::open_for_writing(&arguments.addresses, options)?;
    Ok(Box::new(Chmod { targets, mode, umask: umask(), is_recursive: arguments.recursive }))
}

impl Run for Chmod {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, mode, umask, is_recursive } = *self;
        change_each(targets, console, |target| {
            change_tree(target, target.node(true)?, is_recursive, |node| {
                if node.file_type() == FileType::Symlink {
                    return Ok(());
                }
                let mode = changed_mode(&mode, umask, (node.metadata().mode, node.file_type()));
                Ok(node.change(&Changes { mode: Some(mode), ..Changes::default() })?)
            })
        })
    }
}

/// Changes a file, and with `is_recursive` everything below it. Links below it are not followed.
pub(super) fn change_tree(
    target: &Target,
    top: Node,
    is_recursive: bool,
    change: impl Fn(&Node) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let about = |failure| target.failure(failure);
    // Without recursion in the code: the image decides how deep it goes.
    let mut waiting = vec![top];
    while let Some(node) = waiting.pop() {
        change(&node).map_err(about)?;
        if is_recursive && node.file_type() == FileType::Directory {
            for entry in node.entries().map_err(|error| target.failure(error))? {
                let below = entry.and_then(|entry| entry.node());
                waiting.push(below.map_err(|error| target.failure(error))?);
            }
        }
    }
    Ok(())
}
