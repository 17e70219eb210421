//! Tests that grow a volume with ferroxfs, and a copy of it with the kernel. The headers of both
//! must be equal, and xfs_repair must find nothing wrong in either. The kernel then uses the blocks
//! that ferroxfs has added.

use std::fs;
use std::path::Path;
use std::process::Command;

use ferroxfs::raw::Superblock;
use ferroxfs::{OpenOptions, Volume};
use xfs_alloc::AgHeaders;
use xfs_oracle::harness::{TrialError, patiently};
use xfs_oracle::{Geometry, Image, Xfsprogs, ready};

use crate::failed;
use crate::identity::options;

pub(crate) fn check(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let image = geometry.make(folder.path())?;
    let reading = options(&image).write(false);
    let volume = patiently(|| reading.open(&image.data)).map_err(failed)?;
    let (has, group) = (volume.geometry().data_blocks, u64::from(volume.geometry().ag_blocks));
    let block = u64::from(volume.geometry().block_size);
    drop(volume);
    // Within the last group if it is not full, into a new group, over several, and a little too
    // much.
    for (number, added) in [1000, group, 2 * group + 777, group + 63].into_iter().enumerate() {
        let part = folder.path().join(number.to_string());
        let wanted = has + added;
        let grow = |name: &str| -> Result<Image, TrialError> {
            let part = part.join(name);
            fs::create_dir_all(&part).map_err(failed)?;
            let copy = image.copy(&part)?;
            let file = fs::File::options().write(true).open(&copy.data).map_err(failed)?;
            file.set_len(wanted * block).map_err(failed)?;
            Ok(copy)
        };
        let (ours, kernel) = (grow("ours")?, grow("kernel")?);
        by_us(&ours, wanted)?;
        by_the_kernel(&kernel, wanted)?;
        for grown in [&ours, &kernel] {
            if let Some(findings) = grown.findings()? {
                return Err(failed(findings));
            }
        }
        compare(&ours, &kernel)?;
        use_it(&ours)?;
    }
    Ok(())
}

fn by_us(image: &Image, wanted: u64) -> Result<(), TrialError> {
    let volume = patiently(|| options(image).open(&image.data)).map_err(failed)?;
    volume.grow(Some(wanted)).map_err(failed)?;
    volume.close().map_err(failed)
}

fn by_the_kernel(image: &Image, wanted: u64) -> Result<(), TrialError> {
    let mount = image.mount(&[])?;
    let mut growfs = Xfsprogs::newer()?.command("xfs_growfs");
    let status = growfs.arg("-D").arg(wanted.to_string()).arg(mount.path()).output();
    let status = status.map_err(failed)?;
    mount.unmount()?;
    if status.status.success() {
        Ok(())
    } else {
        Err(failed(String::from_utf8_lossy(&status.stderr)))
    }
}

/// Returns the superblocks of all groups, without the fields that depend on the time of the write
/// or on the writer.
fn superblocks(volume: &Volume) -> Result<Vec<Superblock>, TrialError> {
    let geometry = volume.geometry();
    let read = |group| {
        let at = geometry.header_disk_addr(group, 0);
        let mut sector = vec![0; geometry.sector_size as usize];
        let offset = at.byte_offset().ok_or_else(|| failed("no such place"))?;
        volume.device().read_at(&mut sector, offset).map_err(failed)?;
        let place = ferroxfs::error::StructureAddress::Disk(at);
        let found = Superblock::decode(&sector, place).map_err(failed)?;
        let is_copy = group.0 > 0;
        let counts = if is_copy {
            (0, 0, 0)
        } else {
            (found.inode_count, found.free_inodes, found.free_blocks)
        };
        let (inode_count, free_inodes, free_blocks) = counts;
        Ok(Superblock {
            lsn: ferroxfs::raw::format::Lsn(0),
            inode_count,
            free_inodes,
            free_blocks,
            ..found
        })
    };
    geometry.groups().map(read).collect()
}

fn headers(volume: &Volume) -> Result<Vec<AgHeaders>, TrialError> {
    let read = |group| {
        let mut headers = AgHeaders::read(volume.cache(), group).map_err(failed)?;
        headers.agf.lsn = ferroxfs::raw::format::Lsn(0);
        headers.agi.lsn = ferroxfs::raw::format::Lsn(0);
        Ok(headers)
    };
    volume.geometry().groups().map(read).collect()
}

fn compare(ours: &Image, kernel: &Image) -> Result<(), TrialError> {
    let open = |image: &Image| {
        let options: OpenOptions = options(image).write(false);
        patiently(|| options.open(&image.data)).map_err(failed)
    };
    let (ours, kernel) = (open(ours)?, open(kernel)?);
    let pairs = superblocks(&ours)?.into_iter().zip(superblocks(&kernel)?);
    for (number, (ours, kernel)) in pairs.enumerate() {
        if ours != kernel {
            return Err(failed(format!(
                "superblock {number}: {ours:#?}\nof the kernel: {kernel:#?}"
            )));
        }
    }
    for (ours, kernel) in headers(&ours)?.into_iter().zip(headers(&kernel)?) {
        if ours != kernel {
            return Err(failed(format!("headers: {ours:#?}\nof the kernel: {kernel:#?}")));
        }
    }
    let space = |volume: &Volume| volume.space().map_err(failed);
    if space(&ours)? == space(&kernel)? { Ok(()) } else { Err(failed("other space")) }
}

/// Mounts the volume that ferroxfs has grown with the kernel, fills it with files, and checks it
/// with xfs_repair.
fn use_it(image: &Image) -> Result<(), TrialError> {
    let mount = image.mount(&[])?;
    fill(mount.path())?;
    mount.unmount()?;
    match image.findings()? {
        None => Ok(()),
        Some(findings) => Err(failed(findings)),
    }
}

fn fill(mount: &Path) -> Result<(), TrialError> {
    for number in 0..64_u8 {
        let folder = mount.join(format!("folder {number}"));
        fs::create_dir(&folder).map_err(failed)?;
        fs::write(folder.join("file"), [number; 5000]).map_err(failed)?;
    }
    let status = Command::new("fallocate").args(["-l", "900m"]).arg(mount.join("large")).status();
    status.map(drop).map_err(failed)
}
