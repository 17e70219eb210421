//! `chown`: changes owner and group.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::SetAttributes;

use super::chmod::{TreeReach, change_trees};
use crate::cli::{ChownArguments, GlobalOptions};
use crate::failure::Failure;
use crate::image::ImagePaths;
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::text::owners;

struct Chown {
    targets: ImagePaths,
    changes: SetAttributes,
    reach: TreeReach,
}

/// Opens the images for writing, and looks up names of users and groups on the host. Returns the
/// command, ready to run.
pub(crate) fn open(
    arguments: &ChownArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let changes = parse_owner(&arguments.owner)?;
    let targets = ImagePaths::open_for_writing(&arguments.addresses, options)?;
    // The target of a symbolic link is not the tree that was named.
    let follows = !arguments.no_dereference && !arguments.recursive;
    let reach = TreeReach { is_recursive: arguments.recursive, follows };
    Ok(Box::new(Chown { targets, changes, reach }))
}

fn parse_owner(owner: &OsStr) -> Result<SetAttributes, Failure> {
    let mut parts = owner.as_bytes().splitn(2, |byte| *byte == b':');
    let uid = parts.next().filter(|name| !name.is_empty());
    let gid = parts.next().filter(|name| !name.is_empty());
    if uid.is_none() && gid.is_none() {
        return Err(Failure::usage("chown: the owner is missing"));
    }
    let mut changes = SetAttributes::new();
    changes.uid = uid.map(|name| known("user", name, owners::user(name))).transpose()?;
    changes.gid = gid.map(|name| known("group", name, owners::group(name))).transpose()?;
    Ok(changes)
}

fn known(what: &str, name: &[u8], found: Option<u32>) -> Result<u32, Failure> {
    found.ok_or_else(|| {
        let shown = names::in_message(name);
        Failure::usage(format!("chown: {shown} is neither a {what} of this host nor a number"))
    })
}

impl Run for Chown {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, changes, reach } = *self;
        change_trees(targets, reach, console, |node| Ok(node.set_attributes(&changes)?))
    }
}
