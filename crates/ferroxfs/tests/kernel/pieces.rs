//! Tests of directory blocks that lie in several extents when the power is cut. ferroxfs must
//! recover such blocks from a log of the kernel, which the kernel itself cannot do, and from its
//! own log.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use ferroxfs::contents::ForkKind;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::{NewKind, OpenOptions, Volume};
use rustix::fs::FallocateFlags;
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Image, Xfsprogs, ready};

use crate::{CREATION, failed};

/// Size in bytes of the largest free extents that the test leaves on the volume. A directory block
/// has 64 KiB.
const PIECE_BYTES: u64 = 16 << 10;
const BLOCK_BYTES: u64 = 64 << 10;
const VOLUME_BYTES: u64 = 320 << 20;
/// Number of bytes that the kernel is made to allocate: more than there are in all free extents
/// that are larger than `PIECE_BYTES`.
const TAKEN_BYTES: u64 = 24 << 20;
/// Number of files that the test makes. It makes them before the volume is fragmented, because
/// later no free extent is large enough for an inode chunk.
const FILES: usize = 1500;

pub(crate) fn check() -> Result<(), TrialError> {
    ready()?;
    for options in ["size=64k", "size=64k,parent=1"] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
        let image = make(&folder.path().join("volume"), options)?;
        let copies = ["kernel", "ours"].map(|name| folder.path().join(name));
        for copy in &copies {
            fs::create_dir(copy).map_err(failed)?;
        }
        let [by_kernel, by_us] = copies.map(|copy| image.copy(&copy));
        let by_kernel = by_kernel?;
        crash_kernel(&by_kernel)?;
        judge(&by_kernel, "a log of the kernel")?;
        let by_us = crash_ours(&by_us?)?;
        judge(&by_us, "a log of ours")?;
    }
    Ok(())
}

fn name(number: usize) -> String {
    format!("a name that is rather long, so that many of them fill a directory block {number}")
}

/// Makes a volume that has files in one directory, an empty directory, and only small free extents.
fn make(path: &Path, options: &str) -> Result<Image, TrialError> {
    File::create_new(path).and_then(|file| file.set_len(VOLUME_BYTES)).map_err(failed)?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    mkfs.args(["-q", "-m", "rmapbt=0,reflink=0", "-n", options]);
    let output = mkfs.arg(path).output().map_err(failed)?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr)));
    }
    let volume = OpenOptions::new().write(true).open(path).map_err(failed)?;
    for directory in ["/from", "/to"] {
        volume.create_dir(directory).map_err(failed)?;
    }
    let from = volume.lookup("/from").map_err(failed)?;
    for number in 0..FILES {
        from.create(name(number), &NewKind::Regular, &CREATION).map_err(failed)?;
    }
    let sieve = volume.root().and_then(|root| root.create("sieve", &NewKind::Regular, &CREATION));
    let sieve = sieve.and_then(|sieve| sieve.open()).map_err(failed)?;
    let (mut end, mut step) = (0, 64 << 20);
    while step >= 4096 {
        match sieve.change_range(end..end + step, RangeMode::Allocate(AllocateMode::Extend)) {
            Ok(()) => end += step,
            Err(_) => step /= 2,
        }
    }
    for start in (0..end - PIECE_BYTES).step_by(2 * PIECE_BYTES as usize) {
        sieve.change_range(start..start + PIECE_BYTES, RangeMode::Punch).map_err(failed)?;
    }
    drop((sieve, from));
    volume.close().map_err(failed)?;
    let image = Image { data: path.to_owned(), log: None, realtime: None };
    take_larger_extents(&image)?;
    Ok(image)
}

/// Makes the kernel allocate the larger free extents, so that no later directory block gets one.
/// For a large request, the kernel takes these extents first.
fn take_larger_extents(image: &Image) -> Result<(), TrialError> {
    let mount = image.mount(&[])?;
    let file = File::create_new(mount.path().join("taker")).map_err(failed)?;
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, TAKEN_BYTES).map_err(failed)?;
    drop(file);
    Ok(mount.unmount()?)
}

/// Renames all files into the empty directory through the kernel. Then shuts down the kernel's
/// mount, as after a crash.
fn crash_kernel(image: &Image) -> Result<(), TrialError> {
    let mount = image.mount(&[])?;
    for number in 0..FILES {
        let at = |folder: &str| mount.path().join(folder).join(name(number));
        fs::rename(at("from"), at("to")).map_err(failed)?;
    }
    let mut stop = Command::new("xfs_io");
    let stopped = stop.args(["-x", "-c", "shutdown -f"]).arg(mount.path()).status();
    if !stopped.map_err(failed)?.success() {
        return Err(failed("xfs_io does not shut the volume down"));
    }
    Ok(mount.unmount()?)
}

/// Renames all files into another directory with ferroxfs. Returns a copy of the image as a crash
/// would leave it.
fn crash_ours(image: &Image) -> Result<Image, TrialError> {
    let volume = OpenOptions::new().write(true).open(&image.data).map_err(failed)?;
    let [from, to] = ["/from", "/to"].map(|path| volume.lookup(path));
    let (from, to) = (from.map_err(failed)?, to.map_err(failed)?);
    for number in 0..FILES {
        let name = name(number);
        from.rename(&name, &to, &name, ferroxfs::RenameMode::Replace).map_err(failed)?;
    }
    volume.sync().map_err(failed)?;
    let crashed = image.data.with_file_name("crashed");
    fs::copy(&image.data, &crashed).map_err(failed)?;
    drop((from, to));
    volume.close().map_err(failed)?;
    Ok(Image { data: crashed, log: None, realtime: None })
}

/// Recovers a volume with ferroxfs, and checks it with xfs_repair and the kernel.
fn judge(image: &Image, what: &str) -> Result<(), TrialError> {
    let options = OpenOptions::new().write(true);
    let devices = options.open_devices(&image.data).map_err(failed)?;
    let recovered = devices.recover().map_err(|error| failed(format!("{what}: {error}")))?;
    if recovered.is_none() {
        return Err(failed(format!("{what} is clean")));
    }
    drop(devices);
    if let Some(findings) = image.findings()? {
        return Err(failed(format!("{what}: {findings}")));
    }
    let volume = Volume::open(&image.data).map_err(failed)?;
    let node = volume.lookup("/to").map_err(failed)?;
    let extents: Result<Vec<_>, _> = node.extents(ForkKind::Data).collect();
    if !extents.map_err(failed)?.iter().any(|extent| extent.length_bytes % BLOCK_BYTES != 0) {
        return Err(failed("no directory block lies in pieces"));
    }
    drop((node, volume));
    let mount = image.mount(&[])?;
    let listed = fs::read_dir(mount.path().join("to")).map_err(failed)?;
    let names = listed.map(|entry| entry.map(|entry| entry.file_name()));
    let names: BTreeSet<_> = names.collect::<Result<_, _>>().map_err(failed)?;
    mount.unmount()?;
    let expected: BTreeSet<_> = (0..FILES).map(|number| name(number).into()).collect();
    if names != expected {
        return Err(failed(format!("{what}: {} of {FILES} names are there", names.len())));
    }
    Ok(())
}
