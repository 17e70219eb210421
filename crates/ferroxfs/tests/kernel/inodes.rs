//! Tests a volume with a low limit of inodes. ferroxfs and the kernel must reach the limit at about
//! the same number of inodes, and `statfs` must show this number.

use std::fs::File;
use std::path::Path;

use ferroxfs::{NewKind, OpenOptions, Volume};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Image, Xfsprogs, ready};

use crate::{CREATION, Failure, THREADS, empty, failed, had_room, judge, on_threads};

const VOLUME_BYTES: u64 = 320 << 20;
/// The limit of inodes of the volume: as many inodes of 512 bytes as one percent of the volume
/// holds.
const LIMIT: u64 = VOLUME_BYTES / 100 / 512;
/// The largest allowed difference between the numbers of inodes on the volume that ferroxfs has
/// filled and on the one that the kernel has filled. They can differ because threads allocate in
/// parallel.
const MARGIN: u64 = 64 * THREADS as u64;

pub(crate) fn check_limit() -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let image = make(&folder.path().join("volume"))?;
    let other = folder.path().join("theirs");
    std::fs::create_dir(&other).map_err(failed)?;
    let theirs = image.copy(&other)?;
    let by_kernel = fill_by_kernel(&theirs)?;
    judge(&theirs)?;

    let volume = OpenOptions::new().write(true).open(&image.data).map_err(failed)?;
    on_threads(&volume, fill)?;
    check_count(&volume, "ours", by_kernel)?;
    volume.close().map_err(failed)?;
    judge(&image)?;
    let volume = OpenOptions::new().write(true).open(&image.data).map_err(failed)?;
    on_threads(&volume, |volume, directory| empty(volume, directory, 2))?;
    volume.close().map_err(failed)?;
    judge(&image)?;
    // The freed inodes can be used again, and no more.
    let volume = OpenOptions::new().write(true).open(&image.data).map_err(failed)?;
    on_threads(&volume, fill)?;
    check_count(&volume, "ours again", by_kernel)?;
    volume.close().map_err(failed)?;
    judge(&image).map(drop)
}

fn make(path: &Path) -> Result<Image, TrialError> {
    let file = File::create_new(path).map_err(failed)?;
    file.set_len(VOLUME_BYTES).map_err(failed)?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    let output = mkfs.args(["-q", "-i", "maxpct=1"]).arg(path).output().map_err(failed)?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr)));
    }
    Ok(Image { data: path.to_owned(), log: None, realtime: None })
}

/// Makes files through the kernel until no inode is left on the volume. Returns the number of
/// inodes.
fn fill_by_kernel(image: &Image) -> Result<u64, TrialError> {
    let mount = image.mount(&[])?;
    let refused = (0..2 * LIMIT).find_map(|number| {
        File::create(mount.path().join(format!("file {number}"))).map(drop).err()
    });
    mount.unmount()?;
    match refused {
        Some(error) if error.kind() == std::io::ErrorKind::StorageFull => {}
        other => return Err(failed(format!("the kernel runs out of inodes with {other:?}"))),
    }
    let volume = Volume::open(&image.data).map_err(failed)?;
    check_count(&volume, "the kernel", LIMIT)?;
    Ok(volume.space().map_err(failed)?.inodes)
}

fn check_count(volume: &Volume, who: &str, expected: u64) -> Result<(), TrialError> {
    let space = volume.space().map_err(failed)?;
    let (inodes, free) = (space.inodes, space.free_inodes);
    if inodes.abs_diff(expected) > MARGIN || free > MARGIN || space.available_blocks < 10_000 {
        return Err(failed(format!(
            "{who}: {inodes} inodes, {free} free, not {expected}: {space:?}"
        )));
    }
    Ok(())
}

/// Makes files with ferroxfs until the volume has no inode left.
fn fill(volume: &Volume, directory: &str) -> Result<(), Failure> {
    if volume.lookup(directory).is_err() && !had_room(volume.create_dir(directory))? {
        return Ok(());
    }
    let folder = volume.lookup(directory)?;
    for number in 0..2 * LIMIT {
        let name = format!("file {number}");
        if folder.lookup(name.as_ref()).is_ok() {
            continue;
        }
        if !had_room(folder.create(name, &NewKind::Regular, &CREATION))? {
            return Ok(());
        }
    }
    Err("the limit of inodes does not hold".into())
}
