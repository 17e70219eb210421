//! `chmod`: permissions.

use ferroxfs::{Changes, FileType, Node};

use super::Run;
use crate::cli::{ChmodArguments, GlobalOptions};
use crate::console::Console;
use crate::failure::Failure;
use crate::image::{Target, Targets, change_each};
use crate::predicate::change_mode;

struct Chmod {
    targets: Targets,
    mode: String,
    is_recursive: bool,
}

/// What a mode that a command was given makes of another one.
pub(super) fn mode_of(
    command: &str,
    text: &str,
    (mode, kind): (u16, FileType),
) -> Result<u16, Failure> {
    let is_directory = kind == FileType::Directory;
    let changed = change_mode(text, u32::from(mode) & 0o7777, is_directory);
    let changed = changed.and_then(|mode| u16::try_from(mode).ok());
    let wrong = || format!("{command}: \"{text}\" is no mode, such as 644 or u=rwX,go-w");
    changed.ok_or_else(|| Failure::usage(wrong()))
}

/// Opens the images.
pub(super) fn open(
    arguments: ChmodArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    mode_of("chmod", &arguments.mode, (0, FileType::Regular))?;
    let targets = Targets::open_for_writing(&arguments.addresses, options)?;
    let (mode, is_recursive) = (arguments.mode, arguments.recursive);
    Ok(Box::new(Chmod { targets, mode, is_recursive }))
}

impl Run for Chmod {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, mode, is_recursive } = *self;
        change_each(targets, console, |target| {
            change_tree(target, target.node(true)?, is_recursive, |node| {
                if node.file_type() == FileType::Symlink {
                    return Ok(());
                }
                let mode = mode_of("chmod", &mode, (node.metadata().mode, node.file_type()))?;
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
