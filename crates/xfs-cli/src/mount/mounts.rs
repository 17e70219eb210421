//! `mounts`: lists the mounts of ferroxfs that are visible to this process.
//!
//! The command sends no request to a mount, because a server that hangs would block it.

use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::Value;
use xfs_device::{FileDevice, FileOptions, KernelUse, LockHolder, share_bytes};
use xfs_fuse::MountEntry;

use crate::cli::MountsArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;

struct Mounts(MountsArguments);

/// Creates the command. No image is opened.
pub(crate) fn open(arguments: MountsArguments) -> Box<dyn Run> {
    Box::new(Mounts(arguments))
}

/// Returns the folder of a mount: the named folder itself, or the mount point of the named image.
///
/// # Errors
///
/// The image is not mounted, or it is mounted at several places.
pub(crate) fn folder_of(named: PathBuf) -> Result<PathBuf, Failure> {
    // The folder of a server that was killed has no metadata, but it has a path.
    let is_image = fs::metadata(&named).is_ok_and(|metadata| !metadata.is_dir());
    let image = match named.canonicalize() {
        Ok(image) if is_image => image,
        _ => return Ok(named),
    };
    let shown = names::in_message(named.as_os_str().as_bytes()).into_owned();
    let mounts = xfs_fuse::mounts();
    // A loop device over the image is another way to it.
    let is_meant = |mount: &MountEntry| mount.image == image || share_bytes(&mount.image, &image);
    let places: Vec<_> = mounts.into_iter().filter(is_meant).collect();
    match places.as_slice() {
        [mount] => Ok(mount.folder.clone()),
        [] => Err(not_mounted(&image).about(&shown)),
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

/// Returns the failure for an image that ferroxfs has not mounted. Its message says whether another
/// program has mounted the image.
fn not_mounted(image: &Path) -> Failure {
    let options = FileOptions::read_only().live();
    let usage = FileDevice::open(image, options).ok().and_then(|device| device.usage().cloned());
    match usage {
        Some(KernelUse::Mounted { mount_point }) => {
            let shown = names::in_message(mount_point.as_os_str().as_bytes());
            Failure::new(Exit::Failed, format!("is mounted at {shown}, and not by ferroxfs"))
                .hint(format!("umount {shown}"))
        }
        _ => Failure::new(Exit::Failed, "is not mounted").hint("ferroxfs mounts lists what is"),
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
                list.push(console.out(), &describe(mount, &mounts))?;
            }
            return Ok(list.end(console.out())?);
        }
        let style = console.name_style(false);
        for mount in &mounts {
            let folder = style.show(mount.folder.as_os_str().as_bytes());
            let image = style.show(mount.image.as_os_str().as_bytes());
            let access = if mount.is_read_only { "read-only" } else { "read-write" };
            let options = mount.options.join(",");
            let out = console.out();
            out.write_all(&image)?;
            out.write_all(b" on ")?;
            out.write_all(&folder)?;
            match server_of(mount, &mounts) {
                Some(process) => {
                    writeln!(out, " ({access}, options {options}, process {process})")?;
                }
                None => writeln!(out, " ({access}, options {options})")?,
            }
        }
        Ok(())
    }
}

/// Returns the PID of the process that serves a mount: the process that holds the lock on the
/// image. `None` if several mounts read the image, because the locks do not show which process
/// serves which mount.
fn server_of(mount: &MountEntry, mounts: &[MountEntry]) -> Option<u32> {
    let is_alone = mounts.iter().filter(|other| other.image == mount.image).count() == 1;
    is_alone.then(|| LockHolder::find(&mount.image)).flatten().map(|holder| holder.process)
}

fn describe(mount: &MountEntry, mounts: &[MountEntry]) -> Object {
    let mut object = Object::new();
    json::insert_name(&mut object, "image", mount.image.as_os_str().as_bytes());
    json::insert_name(&mut object, "mount_point", mount.folder.as_os_str().as_bytes());
    object.insert("read_only".to_owned(), mount.is_read_only.into());
    object.insert("options".to_owned(), mount.options.clone().into());
    let process = server_of(mount, mounts);
    object.insert("process".to_owned(), process.map_or(Value::Null, Value::from));
    object
}
