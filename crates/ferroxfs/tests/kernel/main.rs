//! Tests that compare the library with the kernel.
//!
//! In the first test, four threads fill a volume to the last block and empty it again. The volume
//! must be consistent at any time, and `statfs` must agree with the kernel. The modules test the
//! limit of inodes, access control lists, permissions, labels and UUIDs, copies of frozen volumes,
//! growth and shrinking, directory blocks in several extents, and logical volumes of LVM.

mod freeze;
mod grow;
mod identity;
mod inodes;
mod lists;
mod logical_volumes;
mod permissions;
mod pieces;
mod shrink;

use std::io;
use std::process::{Command, ExitCode};

use ferroxfs::{CreateOptions, Error, NewKind, OpenOptions, PosixError, Volume};
use xfs_oracle::harness::{Trial, TrialError, run};
use xfs_oracle::{Geometry, Image, guarded, ready};

const THREADS: usize = 4;
/// The most blocks that may still be free on a volume that ferroxfs has filled: as many as a change
/// of a directory entry reserves.
const LEFT_BLOCKS: u64 = 100;
const CREATION: CreateOptions = CreateOptions::new(0o600).uid(1).gid(1);

fn main() -> ExitCode {
    let trials = |name, geometries: &'static [&str], body: Body| {
        let chosen = |geometry: &Geometry| geometries.contains(&geometry.name);
        Geometry::ALL.into_iter().filter(chosen).map(move |geometry| {
            Trial::new(format!("{name}::{}", geometry.name), move || body(&geometry))
        })
    };
    let filled = ["default", "block-1k", "no-reflink", "parent-exchange"].as_slice();
    let lists = ["default", "block-1k", "parent-exchange"].as_slice();
    let grown = ["default", "block-1k", "external-log", "parent-exchange"].as_slice();
    let identities = ["default", "external-log", "renamed"].as_slice();
    let in_use = ["default", "external-log", "renamed", "parent-exchange"].as_slice();
    run(trials("filled_and_emptied", filled, check)
        .chain(trials("access_lists", lists, lists::check))
        .chain(trials("permissions", lists, permissions::check))
        .chain(trials("uuid", identities, identity::check_uuid))
        .chain(trials("uuid_in_use", in_use, identity::check_uuid_in_use))
        .chain(trials("freeze", identities, freeze::check))
        .chain(trials("grow", grown, grow::check))
        .chain(trials("label", identities, identity::check_label))
        .chain([
            Trial::new("inodes_run_out", inodes::check_limit),
            Trial::new("directory_blocks_in_pieces", pieces::check),
            Trial::new("logical_volumes", logical_volumes::check),
            Trial::new("shrink", shrink::check),
        ])
        .collect())
}

type Body = fn(&Geometry) -> Result<(), TrialError>;

fn failed(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}

fn check(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let image = geometry.make(folder.path())?;
    let rounds = if std::env::var_os("FERROXFS_LONG").is_some() { 4 } else { 2 };
    for _ in 0..rounds {
        let before = judge(&image)?;
        let volume = OpenOptions::new().write(true).open(&image.data).map_err(failed)?;
        on_threads(&volume, fill)?;
        volume.close().map_err(failed)?;
        let left = judge(&image)?;
        if left > LEFT_BLOCKS {
            return Err(failed(format!("{left} blocks of {before} are left")));
        }
        let volume = OpenOptions::new().write(true).open(&image.data).map_err(failed)?;
        // The first half of the files.
        on_threads(&volume, |volume, directory| empty(volume, directory, 2))?;
        volume.close().map_err(failed)?;
        judge(&image)?;
        let volume = OpenOptions::new().write(true).open(&image.data).map_err(failed)?;
        on_threads(&volume, |volume, directory| empty(volume, directory, 1))?;
        volume.close().map_err(failed)?;
        judge(&image)?;
    }
    Ok(())
}

/// Checks a volume with `xfs_repair`, and compares the `statfs` of ferroxfs with that of the
/// kernel. Returns the number of free blocks.
fn judge(image: &Image) -> Result<u64, TrialError> {
    if let Some(findings) = image.findings()? {
        return Err(failed(findings));
    }
    let mount = image.mount(&[])?;
    let figures = ["-f", "-c", "%b %f %c %d"];
    let output = Command::new("stat").args(figures).arg(mount.path()).output();
    let output = output.map_err(failed)?;
    mount.unmount()?;
    let kernel = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let volume = Volume::open(&image.data).map_err(failed)?;
    let space = volume.space().map_err(failed)?;
    let ours = format!(
        "{} {} {} {}",
        space.total_blocks,
        space.available_blocks,
        space.files,
        space.free_files()
    );
    if ours != kernel {
        return Err(failed(format!(
            "blocks and files, free ones: {ours}; the kernel has {kernel}"
        )));
    }
    Ok(space.available_blocks)
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Work = fn(&Volume, &str) -> Result<(), Failure>;

fn on_threads(volume: &Volume, work: Work) -> Result<(), TrialError> {
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let directory = format!("/directory {number}");
                scope.spawn(move || guarded(|| work(volume, &directory)))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for result in results {
        result.map_err(|_| failed("a thread panicked"))?.map_err(failed)?.map_err(failed)?;
    }
    Ok(())
}

/// Returns whether an operation had space: `false` for ENOSPC. Any other error is returned.
fn had_room<T>(result: Result<T, Error>) -> Result<bool, Error> {
    match result {
        Ok(_) => Ok(true),
        Err(Error::Posix(PosixError::NoSpace)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Fills a directory with large files, then with smaller files, and at last with empty files.
fn fill(volume: &Volume, directory: &str) -> Result<(), Failure> {
    match volume.create_dir(directory) {
        Ok(_) | Err(Error::Posix(PosixError::Exists)) => {}
        Err(error) => return Err(error.into()),
    }
    let folder = volume.lookup(directory)?;
    let mut made = 0_u32;
    let mut bytes = 4 << 20;
    while bytes > 512 {
        let name = format!("file {made}");
        made += 1;
        if !had_room(folder.create(&name, &NewKind::Regular, &CREATION))? {
            break;
        }
        match volume.write(format!("{directory}/{name}"), vec![made as u8; bytes]) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => bytes /= 2,
            Err(error) => return Err(error.into()),
        }
    }
    loop {
        made += 1;
        let name = format!("a name without contents {made}");
        if !had_room(folder.create(name, &NewKind::Regular, &CREATION))? {
            return Ok(());
        }
    }
}

/// Removes every n-th file of a directory, where n is `one_in`.
fn empty(volume: &Volume, directory: &str, one_in: usize) -> Result<(), Failure> {
    let folder = volume.lookup(directory)?;
    let names = folder.entries()?.map(|entry| entry.map(|entry| entry.name().to_owned()));
    for name in names.collect::<Result<Vec<_>, _>>()?.into_iter().step_by(one_in) {
        folder.remove_file(name)?;
    }
    Ok(())
}
