//! Damages a volume of mkfs.xfs, repairs it, and asks xfs_repair whether it is clean.
//!
//! The base volume has 4,000 files with parent pointers, which mkfs.xfs copies from a folder.

mod matrix;
mod quota;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::OnceLock;

use tempfile::TempDir;
use xfs_check::{CheckOptions, check};
use xfs_device::{BlockDevice, Durability, FileDevice, FileOptions, OverlayDevice, SharedDevice};
use xfs_evidence::{Evidence, find_superblock};
use xfs_format::inode::FileType;
use xfs_format::{AgNumber, DiskAddr, Geometry, InodeNumber, Superblock};
use xfs_oracle::Xfsprogs;
use xfs_oracle::harness::{Trial, TrialError, run};
use xfs_repair::{RehearsalOptions, rehearse};

/// The most bytes of writes that an overlay device keeps in memory. The overlay never writes to the
/// device below it.
const OVERLAY_BYTES: u64 = 256 << 20;

/// The damage to make: ranges to fill with zeros, each as its disk address and its length in bytes.
type Damage = Vec<(DiskAddr, u64)>;

fn main() -> ExitCode {
    let trials = [
        trial("nothing", |_| Vec::new()),
        trial("all_agfs", |geometry| headers(geometry, 1)),
        trial("all_agis", |geometry| headers(geometry, 2)),
        trial("all_free_lists", |geometry| headers(geometry, 3)),
        trial("superblock", |geometry| vec![(geometry.header_disk_addr(AgNumber(0), 0), 512)]),
        trial("copies_of_the_superblock", |geometry| headers(geometry, 0).split_off(1)),
        trial("headers_and_roots_of_the_first_group", |geometry| start_of(geometry, AgNumber(0))),
        trial("headers_and_roots_of_the_second_group", |geometry| start_of(geometry, AgNumber(1))),
        trial("headers_and_roots_of_all_groups_but_the_first", |geometry| {
            geometry.groups().skip(1).flat_map(|group| start_of(geometry, group)).collect()
        }),
        burst("root_inode", |geometry| {
            let root = geometry.inode_location(ROOT).expect("mkfs.xfs puts the root there");
            vec![(root.cluster, geometry.inode_size.into())]
        }),
        burst("first_mebibyte", |_| vec![(DiskAddr(0), 1 << 20)]),
        burst("eight_mebibytes_of_the_second_group", |geometry| {
            vec![(geometry.header_disk_addr(AgNumber(1), 0), 8 << 20)]
        }),
        burst("chunk_of_the_root", |geometry| {
            let root = geometry.inode_location(ROOT).expect("mkfs.xfs puts the root there");
            vec![(root.cluster, u64::from(geometry.inode_size) * 64)]
        }),
    ];
    run(trials.into_iter().chain(quota::trials()).chain(matrix::trials()).collect())
}

/// The root inode: mkfs.xfs gives it this number on a volume with blocks of 4 KiB.
const ROOT: InodeNumber = InodeNumber(128);

/// Returns a trial whose damage destroys inodes. The repair may lose names, but each name whose
/// inode survives must still be there.
fn burst(name: &'static str, damage: fn(&Geometry) -> Damage) -> Trial {
    Trial::new(format!("burst::{name}"), move || check_burst(damage))
}

fn trial(name: &'static str, damage: fn(&Geometry) -> Damage) -> Trial {
    Trial::new(format!("zeroed::{name}"), move || check_repaired(damage))
}

fn headers(geometry: &Geometry, index: u32) -> Damage {
    geometry.groups().map(|group| (geometry.header_disk_addr(group, index), 512)).collect()
}

/// Returns the first seven blocks of a group: its headers and the roots of its btrees as mkfs.xfs
/// places them, and perhaps the start of an internal log.
fn start_of(geometry: &Geometry, group: AgNumber) -> Damage {
    let at = geometry.header_disk_addr(group, 0);
    vec![(at, u64::from(geometry.block_size) * 7)]
}

/// Damages a copy of the base volume, repairs it, and checks that it has the same names as before.
/// `check` and xfs_repair must find the volume clean.
fn check_repaired(damage: fn(&Geometry) -> Damage) -> Result<(), TrialError> {
    let result = repaired(damage, RehearsalOptions::default())?;
    if result.after != result.before {
        return Err(TrialError::Failed("names differ".to_owned()));
    }
    Ok(())
}

/// Damages a copy of the base volume, and repairs it with losses allowed. Checks that each name is
/// still there, unless the damage destroys its inode.
fn check_burst(damage: fn(&Geometry) -> Damage) -> Result<(), TrialError> {
    let options = RehearsalOptions { allow_loss: true, ..RehearsalOptions::default() };
    let result = repaired(damage, options)?;
    let ranges = damage(&result.geometry);
    let is_lost = |inode: InodeNumber| {
        let location = result.geometry.inode_location(inode).expect("an inode of the volume");
        let at = location.cluster.0 * 512 + u64::from(location.offset_bytes);
        ranges.iter().any(|(start, length)| (start.0 * 512..start.0 * 512 + length).contains(&at))
    };
    let kept = result.before.iter().filter(|(_, _, child)| !is_lost(*child));
    let missing: Vec<String> = kept
        .filter(|name| !result.after.contains(*name))
        .map(|(directory, name, child)| format!("{} in {directory}: {child}", name.escape_ascii()))
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(TrialError::Failed(format!("{missing:#?}"))) }
}

/// A set of names. In each tuple, the directory precedes the name, and the name's inode follows it.
type NameSet = BTreeSet<(InodeNumber, Vec<u8>, InodeNumber)>;

/// The names of a volume before the damage and after the repair.
struct Outcome {
    geometry: Geometry,
    before: NameSet,
    after: NameSet,
}

/// Damages a copy of the base volume and repairs it. `check` and xfs_repair must find the volume
/// clean.
fn repaired(
    damage: fn(&Geometry) -> Damage,
    options: RehearsalOptions,
) -> Result<Outcome, TrialError> {
    let base = base()?;
    let folder = TempDir::new().map_err(|error| error.to_string())?;
    let image = folder.path().join("image");
    copy(&base.image, &image)?;
    let device = open(&image)?;
    let geometry = superblock(&*device)?.geometry;
    let before = names(&*device, &superblock(&*device)?);
    for (at, length) in damage(&geometry) {
        let zeros = vec![0; usize::try_from(length).expect("a short range")];
        let written = device.write_at(&zeros, at.0 * 512, Durability::Cached);
        written.map_err(|error| error.to_string())?;
    }
    let overlay = Arc::new(OverlayDevice::new(Arc::clone(&device), OVERLAY_BYTES));
    let shared: SharedDevice = Arc::clone(&overlay) as SharedDevice;
    let found = superblock(&*shared)?;
    let rehearsed = rehearse(&shared, &found, &options).map_err(|error| error.to_string())?;
    overlay.write_back(&[]).map_err(|error| error.to_string())?;
    let findings: Vec<String> = rehearsed.report.findings.iter().map(ToString::to_string).collect();
    if !rehearsed.report.is_clean() {
        return Err(TrialError::Failed(format!("not clean: {findings:#?}")));
    }
    let superblock = superblock(&*device)?;
    let report = check(&*device, &superblock, &CheckOptions::default(), &());
    let report = report.map_err(|error| error.to_string())?;
    if !report.is_clean() {
        return Err(TrialError::Failed(format!("not clean on disk: {:#?}", report.findings)));
    }
    let after = names(&*device, &superblock);
    drop(device);
    ask_xfs_repair(&image)?;
    Ok(Outcome { geometry, before, after })
}

fn ask_xfs_repair(image: &Path) -> Result<(), TrialError> {
    let output = Xfsprogs::newer()?
        .command("xfs_repair")
        .args(["-n", "-f", "-o", "force_geometry"])
        .arg(image)
        .output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    if output.status.success() && !said.contains("would") {
        return Ok(());
    }
    Err(TrialError::Failed(format!("xfs_repair -n: {said}")))
}

/// The volume that all trials copy.
struct Base {
    _folder: TempDir,
    image: PathBuf,
}

fn base() -> Result<&'static Base, TrialError> {
    static BASE: OnceLock<Base> = OnceLock::new();
    if let Some(base) = BASE.get() {
        return Ok(base);
    }
    let base = make_base()?;
    Ok(BASE.get_or_init(|| base))
}

fn make_base() -> Result<Base, TrialError> {
    let programs = Xfsprogs::newer()?;
    let failed = |error: std::io::Error| error.to_string();
    let folder = TempDir::new().map_err(failed)?;
    let source = folder.path().join("source");
    for directory in 0..20 {
        let directory = source.join(format!("directory-{directory}"));
        fs::create_dir_all(&directory).map_err(failed)?;
        for file in 0..200 {
            let path = directory.join(format!("a-file-with-number-{file}"));
            fs::write(path, vec![b'x'; file * 50]).map_err(failed)?;
        }
    }
    let image = folder.path().join("image");
    let output = programs
        .command("mkfs.xfs")
        .args(["-q", "-n", "parent=1", "-l", "size=64m", "-d"])
        .arg(format!("file,name={},size=320m,agcount=4", image.display()))
        .arg("-p")
        .arg(&source)
        .output()
        .map_err(failed)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(TrialError::Failed(format!("mkfs.xfs: {said}")));
    }
    Ok(Base { _folder: folder, image })
}

/// Copies an image file. Ranges of zeros become holes in the copy.
fn copy(from: &Path, to: &Path) -> Result<(), TrialError> {
    let copied = std::process::Command::new("cp").arg("--sparse=always").arg(from).arg(to).status();
    let copied = copied.map_err(|error| error.to_string())?;
    if copied.success() { Ok(()) } else { Err(TrialError::Failed("cp failed".to_owned())) }
}

fn open(image: &Path) -> Result<SharedDevice, TrialError> {
    let opened =
        FileDevice::open(image, FileOptions::read_write()).map_err(|error| error.to_string())?;
    Ok(Arc::new(opened))
}

fn superblock(device: &dyn BlockDevice) -> Result<Superblock, TrialError> {
    let found = find_superblock(device).map_err(|error| error.to_string())?;
    Ok(found.ok_or_else(|| "no superblock".to_owned())?.superblock)
}

/// Returns each name of the volume, with its directory and inode, by a walk from the root.
fn names(device: &dyn BlockDevice, superblock: &Superblock) -> NameSet {
    let evidence = Evidence::new(device, superblock);
    let mut names = BTreeSet::new();
    let mut next = vec![superblock.root_inode];
    while let Some(directory) = next.pop() {
        let found = evidence.inode(directory);
        for name in evidence.entries(&found).names {
            let child = evidence.inode(name.child);
            let is_new = names.insert((directory, name.name.into_vec(), name.child));
            let file_type = child.core().and_then(|core| core.file_type());
            if is_new && file_type == Some(FileType::Directory) {
                next.push(name.child);
            }
        }
    }
    names
}
