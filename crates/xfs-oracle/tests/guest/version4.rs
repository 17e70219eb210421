//! The golden volume of version 4, filled and crashed by Linux 6.1, against what that kernel
//! recovered from a copy.
//!
//! The crashed image is read with its log replayed in memory, and again after `recover`. The
//! kernel's listing is stored, so that the test needs no guest. The module `volumes` fills further
//! volumes of version 4.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ferroxfs::{Error, FileType, Node, OpenOptions, Volume};
use xfs_format::DiskAddr;
use xfs_oracle::harness::{Trial, TrialError};
use xfs_oracle::{CheckerVerdict, check_volume};
use xfs_testkit::golden_version_4;

/// The kernel's listing of the recovered golden volume.
const GOLDEN_LISTING: &[u8] = include_bytes!("../../../../testdata/version4.listing");
/// The files whose attributes are part of the kernel's listing.
const WITH_ATTRIBUTES: [&str; 6] =
    ["block/file1", "block/file2", "block/file3", "short/s1", "link", "logged/f5"];

pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::new("version_4_golden_volume_reads_as_its_kernel_listed_it", check_golden)]
}

fn check_golden() -> Result<(), TrialError> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let image = folder.path().join("image");
    let golden = golden_version_4();
    let bytes = golden.bytes(DiskAddr(0), golden.length_bytes());
    let bytes = bytes.expect("the image has its length");
    fs::write(&image, bytes).map_err(|error| error.to_string())?;
    check_crashed(&image, &String::from_utf8_lossy(GOLDEN_LISTING))?;
    Ok(())
}

/// Compares two listings by ferroxfs of a crashed volume with `expected`, the kernel's listing of a
/// recovered copy. For the first one, ferroxfs replays the log in memory; for the second one, it
/// has recovered the volume. Checks that the recovered volume is clean, and that ferroxfs refuses
/// to open it for writing.
fn check_crashed(image: &Path, expected: &str) -> Result<(), String> {
    let open = || OpenOptions::new().open(image).map_err(|error| error.to_string());
    let crashed = listing(&open()?).map_err(|error| error.to_string())?;
    compare("in memory", &crashed, expected)?;
    let devices = OpenOptions::new().write(true).open_devices(image);
    let devices = devices.map_err(|error| error.to_string())?;
    let summary = devices.recover().map_err(|error| error.to_string())?;
    if summary.is_none_or(|summary| summary.items == 0) {
        return Err("the log holds nothing".to_owned());
    }
    drop(devices);
    let volume = open()?;
    compare("recovered", &listing(&volume).map_err(|error| error.to_string())?, expected)?;
    if volume.log_state().is_none_or(|state| !state.clean) {
        return Err("the recovered log is not clean".to_owned());
    }
    drop(volume);
    check_structures(image)?;
    match OpenOptions::new().write(true).open(image) {
        Ok(_) => Err("the volume was opened for writing".to_owned()),
        Err(error) if error.to_string().contains("version 4") => Ok(()),
        Err(error) => Err(format!("refused for another reason: {error}")),
    }
}

/// Returns an error if the checker of ferroxfs finds anything in the recovered volume.
fn check_structures(image: &Path) -> Result<(), String> {
    let open = xfs_device::open_device(image, xfs_device::FileOptions::read_only());
    let device = open.map_err(|error| error.to_string())?.device;
    match check_volume(&device, &device) {
        CheckerVerdict::Findings(findings) if findings.is_empty() => Ok(()),
        verdict => Err(format!("{verdict:?}")),
    }
}

fn compare(when: &str, ours: &BTreeSet<String>, expected: &str) -> Result<(), String> {
    let kernel: BTreeSet<String> = expected.lines().map(str::to_owned).collect();
    if kernel.len() < 500 {
        return Err(format!("the kernel's listing has only {} lines", kernel.len()));
    }
    let missing: Vec<_> = kernel.difference(ours).take(5).collect();
    let added: Vec<_> = ours.difference(&kernel).take(5).collect();
    if missing.is_empty() && added.is_empty() {
        return Ok(());
    }
    Err(format!("{when}: the kernel also has {missing:#?}, ferroxfs also has {added:#?}"))
}

/// Returns a volume's listing in the form of the kernel's.
fn listing(volume: &Volume) -> Result<BTreeSet<String>, Error> {
    let mut lines = BTreeSet::new();
    let mut folders = vec![(volume.root()?, OsString::from("."))];
    describe(&volume.root()?, OsStr::new("."), &mut lines)?;
    while let Some((folder, path)) = folders.pop() {
        for entry in folder.entries()? {
            let entry = entry?;
            let mut path = path.clone();
            path.push("/");
            path.push(entry.name());
            let node = entry.node()?;
            describe(&node, &path, &mut lines)?;
            if node.file_type() == FileType::Directory {
                folders.push((node, path));
            }
        }
    }
    for path in WITH_ATTRIBUTES {
        add_attributes(volume, path, &mut lines)?;
    }
    Ok(lines)
}

fn describe(node: &Node, path: &OsStr, lines: &mut BTreeSet<String>) -> Result<(), Error> {
    let stat = node.metadata();
    let path = String::from_utf8_lossy(path.as_bytes());
    let (major, minor) = stat.device.map_or((0, 0), |device| (device.major, device.minor));
    let seconds = [stat.accessed, stat.modified, stat.changed].map(|time| time.seconds());
    let [accessed, modified, changed] = seconds;
    lines.insert(format!(
        "stat {path} {} {:x} {} {} {} {} {accessed} {modified} {changed} {major:x}:{minor:x}",
        stat.number.0, stat.mode, stat.nlink, stat.uid, stat.gid, stat.size
    ));
    match stat.file_type {
        FileType::Regular => {
            lines.insert(format!("sum {:08x} {path}", crc32(&contents(node)?)));
        }
        FileType::Symlink => {
            let target = node.read_link()?;
            lines.insert(format!("link {path} {}", target.to_string_lossy()));
        }
        _ => {}
    }
    Ok(())
}

fn contents(node: &Node) -> Result<Vec<u8>, Error> {
    let (file, size) = (node.open()?, node.metadata().size);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX).min(64 << 20)];
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, done as u64)? {
            0 => break,
            read => done += read,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// Adds the attributes of one file in the namespace `user`: each name, and the length and the start
/// of its value.
fn add_attributes(volume: &Volume, path: &str, lines: &mut BTreeSet<String>) -> Result<(), Error> {
    let node = volume.lookup_no_follow(PathBuf::from("/").join(path))?;
    for attribute in node.attributes() {
        let name = attribute?.name;
        let shown = name.to_string_lossy();
        if shown.starts_with("user.") {
            let value = String::from_utf8_lossy(&node.attribute(&name)?).into_owned();
            let start: String = value.chars().take(9).collect();
            lines.insert(format!("attribute ./{path} {shown} {} {start}", value.len()));
        }
    }
    Ok(())
}

/// Computes a checksum as the program crc32 of busybox does.
fn crc32(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| match sum & 1 {
            1 => (sum >> 1) ^ POLYNOMIAL,
            _ => sum >> 1,
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}
