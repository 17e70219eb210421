//! `parents`: shows every path of an inode.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::InodeNumber;

use crate::cli::{GlobalOptions, ListOptions, ParentsArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::ImagePaths;
use crate::json::{self, Object};
use crate::run::Run;
use crate::terminal::console::Console;

struct Parents {
    targets: ImagePaths,
    number: Option<u64>,
    list: ListOptions,
}

/// Opens the image and returns the command, ready to run.
pub(crate) fn open(
    arguments: &ParentsArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let words: &[OsString] = arguments.address.as_slice();
    let targets = ImagePaths::open(words, options)?;
    if arguments.ino.is_some() && !targets.has_root() {
        return Err(Failure::usage("parents: --ino takes an image without a path")
            .hint("leave out --ino, or the path"));
    }
    Ok(Box::new(Parents { targets, number: arguments.ino, list: arguments.list }))
}

impl Run for Parents {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let style = console.name_style(self.list.null);
        for target in self.targets.read(console) {
            let number = match self.number {
                Some(number) => InodeNumber(number),
                None => target.node(false)?.number(),
            };
            let about = format!("inode {}", number.0);
            // Without parent pointers all directories are read.
            let step = console.step("searching directories");
            let found =
                target.volume.inner().inode_paths(number).map_err(|error| {
                    target.volume.whole_failure(Failure::from(error).about(&about))
                })?;
            drop(step);
            for finding in found.findings {
                console.report(&target.volume.whole_failure(finding));
            }
            if self.list.json.json {
                let paths = found.paths.iter().map(|path| {
                    let mut object = Object::new();
                    json::insert_name(&mut object, "path", path.as_os_str().as_bytes());
                    serde_json::Value::from(object)
                });
                let mut object = Object::new();
                object.insert("ino".to_owned(), number.0.into());
                object.insert("parents".to_owned(), paths.collect());
                json::write_document(console.out(), object)?;
                continue;
            }
            for path in &found.paths {
                console.out().write_all(&style.show(path.as_os_str().as_bytes()))?;
                console.out().write_all(if self.list.null { b"\0" } else { b"\n" })?;
            }
            if found.paths.is_empty() {
                let failure = Failure::new(Exit::Failed, "no directory contains it");
                console.report(&target.volume.whole_failure(failure.about(&about)));
            }
        }
        Ok(())
    }
}
