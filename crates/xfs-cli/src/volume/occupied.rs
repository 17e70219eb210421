//! The check of `metadump` and `mdrestore` that they overwrite no filesystem.
//!
//! Owns: recognising the present contents of the output. Does **not** own: the kinds of contents
//! (`xfs-mkfs`), or opening the output.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use xfs_device::{Contents, FileDevice, FileOptions};
use xfs_mkfs::Occupied;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::terminal::names;

/// Returns the known kind of contents of a file or block device that an output would replace.
/// `None` if no such file exists, if it cannot be read, or if its contents are of no known kind.
fn contents_of(path: &Path) -> Result<Option<Occupied>, Failure> {
    let kind = fs::metadata(path).map(|metadata| metadata.file_type());
    if !kind.is_ok_and(|kind| kind.is_file() || kind.is_block_device()) {
        return Ok(None);
    }
    // The output is locked when it is opened, so that this look needs no lock.
    let Ok(device) = FileDevice::open(path, FileOptions::read_only().live()) else {
        return Ok(None);
    };
    xfs_mkfs::find_contents(&device).map_err(|error| Failure::host(path.as_os_str(), &error))
}

/// Fails if the output of `metadump` holds contents of a known kind, such as a volume. An older
/// metadata image at the output may be overwritten. If the source is a metadata image itself, a
/// file with contents of no known kind is refused too, because the arguments may be in the wrong
/// order.
pub(super) fn check_dump_output(
    source: &Path,
    output: &Path,
    is_source_metadump: bool,
) -> Result<(), Failure> {
    let occupied = contents_of(output)?;
    let is_metadump = matches!(occupied, Some(Occupied::Contents(Contents::XfsMetadump)));
    let is_file = fs::metadata(output).is_ok_and(|metadata| metadata.is_file());
    let is_other = is_file && fs::metadata(output).is_ok_and(|metadata| metadata.len() > 0);
    let found = match occupied {
        _ if is_metadump => return Ok(()),
        Some(occupied) => format!("holds {occupied} already"),
        None if is_source_metadump && is_other => "exists already".to_owned(),
        None => return Ok(()),
    };
    let failure = refused(output, found);
    if !is_source_metadump {
        return Err(failure.hint("choose another file, or overwrite it with --force"));
    }
    let (source, output) = (shown(source), shown(output));
    Err(failure.hint(format!(
        "{source} is a metadata image: ferroxfs mdrestore {source} {output} restores it, and \
         --force overwrites {output}"
    )))
}

/// Fails if the target of `mdrestore` holds contents of a known kind, such as a volume.
pub(super) fn check_restore_target(source: &Path, target: &Path) -> Result<(), Failure> {
    let Some(occupied) = contents_of(target)? else { return Ok(()) };
    let failure = refused(target, format!("holds {occupied} already"));
    Err(match occupied {
        Occupied::Contents(Contents::XfsMetadump) if source != Path::new("-") => {
            let (source, target) = (shown(source), shown(target));
            failure.hint(format!(
                "the metadata image comes first: ferroxfs mdrestore {target} {source}; --force \
                 overwrites {target}"
            ))
        }
        _ => failure.hint("choose another file, or overwrite it with --force"),
    })
}

fn refused(path: &Path, message: String) -> Failure {
    Failure::new(Exit::Failed, message).about(&shown(path))
}

fn shown(path: &Path) -> String {
    names::in_message(path.as_os_str().as_bytes()).into_owned()
}
