//! `readlink`: shows where symbolic links point.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;

use ferroxfs::Node;

use crate::cli::{GlobalOptions, ListOptions, ReadlinkArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{ImagePath, ImagePaths};
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::terminal::console::Console;

struct Readlink {
    targets: ImagePaths,
    list: ListOptions,
}

/// Opens the images and returns the command, ready to run.
pub(crate) fn open(
    arguments: &ReadlinkArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let targets = ImagePaths::open(&arguments.addresses, options)?;
    Ok(Box::new(Readlink { targets, list: arguments.list }))
}

impl Run for Readlink {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let style = console.name_style(self.list.null);
        let mut list = match self.list.json.json {
            true => Some(List::begin(console.out(), "links")?),
            false => None,
        };
        for target in self.targets.read(console) {
            let found = target.node(false).and_then(|node| read_link(&target, &node));
            let link = match found {
                Ok(link) => link.into_vec(),
                Err(failure) => {
                    console.report(&failure);
                    continue;
                }
            };
            if let Some(list) = &mut list {
                let mut object = Object::new();
                json::insert_name(&mut object, "path", &target.shown());
                json::insert_name(&mut object, "target", &link);
                list.push(console.out(), &object)?;
            } else {
                console.out().write_all(&style.show(&link))?;
                console.out().write_all(if self.list.null { b"\0" } else { b"\n" })?;
            }
        }
        match list {
            Some(list) => Ok(list.end(console.out())?),
            None => Ok(()),
        }
    }
}

/// Returns the target of a symbolic link. For any other file, the message of the failure says that
/// the file is no symbolic link, which the text for EINVAL would not say.
fn read_link(target: &ImagePath, node: &Node) -> Result<OsString, Failure> {
    if !node.metadata().is_symlink() {
        return Err(target.failure(Failure::new(Exit::Failed, "not a symbolic link")));
    }
    node.read_link().map_err(|error| target.failure(error))
}
