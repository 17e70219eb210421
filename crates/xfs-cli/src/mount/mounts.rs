//! `mounts`: lists the visible mounts of ferroxfs.
//!
//! No mount is asked, because a server that hangs would block the list.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde_json::Value;
use xfs_device::LockHolder;
use xfs_fuse::MountedVolume;

use crate::cli::MountsArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;

struct Mounts(MountsArguments);

/// Opens nothing.
pub(crate) fn open(arguments: MountsArguments) -> Box<dyn Run> {
    Box::new(Mounts(arguments))
}

/// Returns the folder that is meant: the named folder, or the mount point of the named image.
///
/// # Errors
///
/// The image is not mounted, or at several places.
pub(crate) fn folder_of(named: PathBuf) -> Result<PathBuf, Failure> {
    // The folder of a server that was killed has no metadata, but it has a path.
    let is_image = fs::metadata(&named).is_ok_and(|metadata| !metadata.is_dir());
    let image = match named.canonicalize() {
        Ok(image) if is_image => image,
        _ => return Ok(named),
    };
    let shown = names::in_message(named.as_os_str().as_bytes()).into_owned();
    let mounts = xfs_fuse::mounts();
    let places: Vec<_> = mounts.into_iter().filter(|mount| mount.image == image).collect();
    match places.as_slice() {
        [mount] => Ok(mount.folder.clone()),
        [] => Err(Failure::new(Exit::Failed, "is not mounted")
            .about(&shown)
            .hint("ferroxfs mounts lists all mounts")),
        several => {
            let folders = several
                .iter()
                .map(|mount| names::in_message(mount.folder.as_os_str().as_bytes()).into_owned());
            let folders = folders.collect::<Vec<_>>().join(", ");
            Err(Failure::usage(format!("is mounted at several places: {folders}"))
                .about(&shown)
                .hint("name one of them"))
        }
    }
}

impl Run for Mounts {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let mounts = xfs_fuse::mounts();
        if self.0.json.json {
            let mut list = List::begin(console.out(), "mounts")?;
            for mount in &mounts {
                list.push(console.out(), &describe(mount))?;
            }
            return Ok(list.end(console.out())?);
        }
        let style = console.name_style(false);
        for mount in &mounts {
            let folder = style.show(mount.folder.as_os_str().as_bytes());
            let image = style.show(mount.image.as_os_str().as_bytes());
            let access = if mount.is_read_only { "read-only" } else { "read-write" };
            let out = console.out();
            out.write_all(&image)?;
            out.write_all(b" on ")?;
            out.write_all(&folder)?;
            match LockHolder::find(&mount.image) {
                Some(holder) => writeln!(out, " ({access}, process {})", holder.process)?,
                None => writeln!(out, " ({access})")?,
            }
        }
        Ok(())
    }
}

fn describe(mount: &MountedVolume) -> Object {
    let mut object = Object::new();
    json::insert_name(&mut object, "image", mount.image.as_os_str().as_bytes());
    json::insert_name(&mut object, "mount_point", mount.folder.as_os_str().as_bytes());
    object.insert("read_only".to_owned(), mount.is_read_only.into());
    let process = LockHolder::find(&mount.image).map(|holder| holder.process);
    object.insert("process".to_owned(), process.map_or(Value::Null, Value::from));
    object
}
