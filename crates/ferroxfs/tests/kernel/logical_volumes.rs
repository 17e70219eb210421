//! Tests of logical volumes that LVM makes over two loop devices and does not activate. `lvs` shows
//! which extents of the devices belong to a logical volume. The test writes an XFS volume into
//! these extents itself.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ferroxfs::{OpenOptions, Volume};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Image, OracleError, ready};

use crate::failed;

const DISK_BYTES: u64 = 256 << 20;
const EXTENT_BYTES: u64 = 1 << 20;
const STRIPE_BYTES: u64 = 64 << 10;
/// Offset in bytes at which LVM puts the first extent of a physical volume.
const FIRST_EXTENT: u64 = 1 << 20;

/// A range of LVM extents: the number of a disk, the first LVM extent on that disk, and the number
/// of extents.
type ExtentRange = (usize, u64, u64);

/// The ranges of bytes that make up a logical volume, in its order. Each is given as length in
/// bytes, number of the disk, and byte offset on that disk.
type Pieces = Vec<(u64, usize, u64)>;

/// Two disks with a volume group, attached to loop devices.
struct Group {
    directory: tempfile::TempDir,
    loops: Vec<String>,
}

impl Drop for Group {
    fn drop(&mut self) {
        for device in &self.loops {
            let _ = Command::new("losetup").args(["-d", device]).status();
        }
    }
}

/// Runs a program. Returns its output. If the program is not installed, the trial is skipped.
fn run(program: &str, arguments: &[&str]) -> Result<String, TrialError> {
    let output =
        Command::new(program).args(arguments).env("LVM_SUPPRESS_FD_WARNINGS", "1").output();
    let output = output.map_err(|error| OracleError::Unavailable(format!("{program}: {error}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(failed(format!("{program} {arguments:?}: {text}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

impl Group {
    fn new() -> Result<Self, TrialError> {
        let directory = tempfile::tempdir().map_err(failed)?;
        let mut group = Self { directory, loops: Vec::new() };
        for name in ["a", "b"] {
            let path = group.disk(name);
            File::create(&path).and_then(|file| file.set_len(DISK_BYTES)).map_err(failed)?;
            let device = run("losetup", &["-f", "--show", &path.display().to_string()])?;
            group.loops.push(device.trim().to_owned());
        }
        let [a, b] = group.loops.as_slice() else { return Err(failed("two loop devices")) };
        group.lvm("vgcreate", &["-s", "1m", "vgtest", a, b])?;
        let create = ["-an", "-Zn", "-Wn"];
        for options in [
            &["-l", "180", "-n", "linear", "vgtest"][..],
            &["-l", "120", "-i", "2", "-I", "64k", "-n", "striped", "vgtest"],
            &["-l", "180", "-n", "spanning", "vgtest"],
        ] {
            group.lvm("lvcreate", &[&create, options].concat())?;
        }
        Ok(group)
    }

    fn disk(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs a tool of LVM and returns its output. The tool is set up so that it sees only the loop
    /// devices and does not use device mapper.
    fn lvm(&self, tool: &str, arguments: &[&str]) -> Result<String, TrialError> {
        let devices: Vec<_> =
            self.loops.iter().map(|device| format!("\"a|^{device}$|\"")).collect();
        let config = format!(
            "devices{{use_devicesfile=0 filter=[{},\"r|.*|\"]}} backup{{backup=0 archive=0}} \
             activation{{udev_sync=0 udev_rules=0}} global{{locking_dir=\"{}\"}}",
            devices.join(","),
            self.directory.path().display()
        );
        run(tool, &[&["--driverloaded", "n", "--config", &config], arguments].concat())
    }

    /// Returns the ranges of bytes that make up a logical volume, from the extents that `lvs`
    /// reports.
    fn pieces(&self, name: &str) -> Result<Pieces, TrialError> {
        let columns = "seg_start_pe,seg_pe_ranges";
        let path = format!("vgtest/{name}");
        let arguments =
            ["--segments", "--noheadings", "--separator", ";", "-o", columns, path.as_str()];
        let text = self.lvm("lvs", &arguments)?;
        let mut segments: Vec<(u64, Vec<ExtentRange>)> = Vec::new();
        for line in text.lines().filter(|line| line.contains(';')) {
            let (start, ranges) = line.trim().split_once(';').ok_or_else(|| failed("lvs"))?;
            let ranges = ranges.split(' ').map(|range| self.range(range));
            segments.push((start.parse().map_err(failed)?, ranges.collect::<Result<_, _>>()?));
        }
        segments.sort();
        let mut pieces = Vec::new();
        for (_, ranges) in segments {
            match ranges.as_slice() {
                [(disk, first, count)] => {
                    pieces.push((count * EXTENT_BYTES, *disk, FIRST_EXTENT + first * EXTENT_BYTES));
                }
                columns => {
                    let (_, _, count) = columns.first().ok_or_else(|| failed("lvs"))?;
                    for row in 0..count * EXTENT_BYTES / STRIPE_BYTES {
                        for (disk, first, _) in columns {
                            let start = FIRST_EXTENT + first * EXTENT_BYTES + row * STRIPE_BYTES;
                            pieces.push((STRIPE_BYTES, *disk, start));
                        }
                    }
                }
            }
        }
        Ok(pieces)
    }

    /// Parses a range as `lvs` prints it, such as `/dev/loop0:4-38`. Returns the disk, the first
    /// extent and the number of extents.
    fn range(&self, text: &str) -> Result<ExtentRange, TrialError> {
        let bad = || failed(format!("lvs says {text:?}"));
        let (device, extents) = text.rsplit_once(':').ok_or_else(bad)?;
        let (first, last) = extents.split_once('-').ok_or_else(bad)?;
        let disk = self.loops.iter().position(|other| other == device).ok_or_else(bad)?;
        let (first, last): (u64, u64) =
            (first.parse().map_err(failed)?, last.parse().map_err(failed)?);
        Ok((disk, first, last - first + 1))
    }

    fn open(&self) -> Result<[File; 2], TrialError> {
        let open = |name| File::options().read(true).write(true).open(self.disk(name));
        Ok([open("a").map_err(failed)?, open("b").map_err(failed)?])
    }
}

pub(crate) fn check() -> Result<(), TrialError> {
    ready()?;
    let mut group = Group::new()?;
    let names = ["linear", "striped", "spanning"];
    let pieces = names.map(|name| group.pieces(name));
    // The loop devices would count as other users of the files.
    for device in std::mem::take(&mut group.loops) {
        run("losetup", &["-d", &device])?;
    }
    for (name, pieces) in names.into_iter().zip(pieces) {
        check_volume(&group, name, &pieces?)?;
    }
    Ok(())
}

/// Makes a new volume in the given ranges of the disks, and writes files through ferroxfs. Then
/// checks the volume with xfs_repair and by comparing its files.
fn check_volume(group: &Group, name: &str, pieces: &Pieces) -> Result<(), TrialError> {
    let length: u64 = pieces.iter().map(|(length, _, _)| length).sum();
    let made = xfs_trans::testing::make_sized(length, "-l size=8m");
    let disks = group.open()?;
    let mut at = 0;
    for (length, disk, start) in pieces {
        let mut bytes = vec![0; *length as usize];
        made.read_at(&mut bytes, at).map_err(failed)?;
        let disk = disks.get(*disk).ok_or_else(|| failed("there are two disks"))?;
        disk.write_all_at(&bytes, *start).map_err(failed)?;
        at += length;
    }
    let full = format!("vgtest/{name}");
    let options = OpenOptions::new().logical_volume(&full).member(group.disk("b")).write(true);
    let volume = options.open(group.disk("a")).map_err(failed)?;
    let contents: Vec<u8> = (0..5_u32 << 20).map(|at| (at >> 8) as u8 ^ at as u8).collect();
    volume.create_dir("/folder").map_err(failed)?;
    volume.write("/folder/file", &contents).map_err(failed)?;
    volume.close().map_err(failed)?;
    let plain = group.disk("plain");
    collect(&disks, pieces, &plain)?;
    let image = Image { data: plain.clone(), log: None, realtime: None };
    if let Some(findings) = image.findings()? {
        return Err(failed(format!("{name}: {findings}")));
    }
    let read = Volume::open(&plain).map_err(failed)?.read("/folder/file").map_err(failed)?;
    if read != contents {
        return Err(failed(format!("{name}: the file has other contents")));
    }
    fs::remove_file(plain).map_err(failed)
}

/// Copies the given ranges of the disks, one after the other, into a new file.
fn collect(disks: &[File; 2], pieces: &Pieces, to: &Path) -> Result<(), TrialError> {
    let plain = File::create(to).map_err(failed)?;
    let mut at = 0;
    for (length, disk, start) in pieces {
        let mut bytes = vec![0; *length as usize];
        let disk = disks.get(*disk).ok_or_else(|| failed("there are two disks"))?;
        disk.read_exact_at(&mut bytes, *start).map_err(failed)?;
        plain.write_all_at(&bytes, at).map_err(failed)?;
        at += length;
    }
    Ok(())
}
