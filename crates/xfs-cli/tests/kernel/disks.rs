//! Disks of `mkfs --disk` under sfdisk, sgdisk, fsck.fat and the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use xfs_oracle::harness::TrialError;
use xfs_oracle::{LoopDevice, OracleError, ready};

use crate::{check, ferroxfs};

const MIB: u64 = 1 << 20;
const SECTOR_BYTES: u64 = 512;
const ROOT_TYPE: &str = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709";
const ESP_TYPE: &str = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B";

/// A loop device of one partition. It is detached on drop. The range comes from sfdisk, because a
/// kernel may be built without the kind of the table.
struct PartitionLoop(PathBuf);

impl PartitionLoop {
    fn attach(disk: &Path, partition: &Value) -> Self {
        let bytes = |name: &str| partition[name].as_u64().unwrap() * SECTOR_BYTES;
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--offset", &bytes("start").to_string()]);
        losetup.args(["--sizelimit", &bytes("size").to_string()]);
        Self(text(losetup.arg(disk)).trim_end().into())
    }
}

impl Drop for PartitionLoop {
    fn drop(&mut self) {
        _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// A mount that is unmounted on drop.
struct Mounted(TempDir);

impl Mounted {
    fn new(kind: &str, device: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        text(mount.args(["-t", kind, "-o", "ro"]).arg(device).arg(folder.path()));
        Self(folder)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Runs a command that must succeed, and returns its output.
fn text(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {shown}{errors}");
    shown
}

/// Skips the trial on a machine without these programs.
pub(crate) fn need(programs: &[&str]) -> Result<(), TrialError> {
    for program in programs {
        let mut found = Command::new(program);
        found.arg("--help").stdout(Stdio::null()).stderr(Stdio::null());
        if found.status().is_err() {
            return Err(OracleError::Unavailable(format!("{program} is not installed")).into());
        }
    }
    Ok(())
}

fn has_vfat() -> bool {
    _ = Command::new("modprobe").arg("vfat").stderr(Stdio::null()).status();
    fs::read_to_string("/proc/filesystems").is_ok_and(|kinds| kinds.contains("\tvfat"))
}

/// Makes the trees `tree` and `boot` in a new directory.
fn trees() -> TempDir {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let boot = place.path().join("boot");
    fs::create_dir_all(boot.join("EFI/BOOT")).unwrap();
    fs::write(boot.join("EFI/BOOT/BOOTX64.EFI"), vec![7; 3_000_000]).unwrap();
    for number in 0..300 {
        fs::write(boot.join(format!("a long name of a file {number}")), vec![1; number * 10])
            .unwrap();
    }
    fs::create_dir(place.path().join("tree")).unwrap();
    fs::write(place.path().join("tree/file"), vec![3; 1_000_000]).unwrap();
    place
}

fn make(place: &Path, options: &[&str]) -> Result<PathBuf, TrialError> {
    let (boot, tree) = (place.join("boot"), place.join("tree"));
    let fixed = ["mkfs", "-q", "-d", "size=300m"];
    let sources = ["--esp", boot.to_str().unwrap(), "--from", tree.to_str().unwrap()];
    let arguments = [&fixed[..], &sources, options].concat();
    let disk = place.join("disk");
    check(&arguments, &ferroxfs(&arguments, &disk), &[0])?;
    Ok(disk)
}

/// Returns the partition table in the words of sfdisk.
fn sfdisk(disk: &Path) -> Value {
    let document = text(Command::new("sfdisk").arg("--json").arg(disk));
    serde_json::from_str::<Value>(&document).unwrap()["partitiontable"].clone()
}

/// Checks that sfdisk sees these partitions: the first sector, the number of sectors and the type.
fn check_table(table: &Value, label: &str, expected: [(u64, u64, &str); 2]) {
    assert_eq!(table["label"], label);
    let partitions = table["partitions"].as_array().unwrap();
    assert_eq!(partitions.len(), 2);
    for (found, (start, size, kind)) in partitions.iter().zip(expected) {
        assert_eq!((&found["start"], &found["size"]), (&start.into(), &size.into()), "{found}");
        assert_eq!(found["type"], kind);
    }
}

/// Checks both filesystems of the disk: fsck.fat finds nothing, mtools reads the files of the EFI
/// system partition, and the kernel shows the trees.
fn check_filesystems(place: &Path, disk: &Path) {
    let table = sfdisk(disk);
    let esp = PartitionLoop::attach(disk, &table["partitions"][0]);
    text(Command::new("fsck.fat").arg("-n").arg(&esp.0));
    let diff = |one: &str, other: &Path| {
        text(Command::new("diff").arg("-r").arg(place.join(one)).arg(other))
    };
    let copy = place.join("copy");
    fs::create_dir(&copy).unwrap();
    text(Command::new("mcopy").args(["-s", "-n", "-i"]).arg(&esp.0).arg("::*").arg(&copy));
    assert_eq!(diff("boot", &copy), "");
    if has_vfat() {
        let mounted = Mounted::new("vfat", &esp.0);
        assert_eq!(diff("boot", mounted.0.path()), "");
    }
    let volume = PartitionLoop::attach(disk, &table["partitions"][1]);
    let mounted = Mounted::new("xfs", &volume.0);
    assert_eq!(diff("tree", mounted.0.path()), "");
}

/// Checks that sfdisk, sgdisk, fsck.fat and the kernel accept a disk with a GPT.
pub(crate) fn new_gpt_disk_passes() -> Result<(), TrialError> {
    ready()?;
    need(&["sfdisk", "sgdisk", "fsck.fat", "mcopy"])?;
    let place = trees();
    let named = ["--partition-name", "root é", "--partition-type", "linux-root-x86-64"];
    let disk = make(place.path(), &[&["--disk", "gpt"], &named[..]].concat())?;
    let table = sfdisk(&disk);
    let sectors = MIB / SECTOR_BYTES;
    let expected = [(sectors, 64 * sectors, ESP_TYPE), (65 * sectors, 300 * sectors, ROOT_TYPE)];
    check_table(&table, "gpt", expected);
    assert_eq!(table["partitions"][0]["name"], "ESP");
    assert_eq!(table["partitions"][1]["name"], "root é");
    assert_eq!(table["firstlba"], 34);
    assert_eq!(table["lastlba"], 366 * sectors - 34);
    let verified = text(Command::new("sgdisk").arg("--verify").arg(&disk));
    assert!(verified.contains("No problems found"), "{verified}");
    check_filesystems(place.path(), &disk);
    Ok(())
}

/// Checks that sfdisk, fsck.fat and the kernel accept a disk with an MBR.
pub(crate) fn new_mbr_disk_passes() -> Result<(), TrialError> {
    ready()?;
    need(&["sfdisk", "fsck.fat", "mcopy"])?;
    let place = trees();
    let disk = make(place.path(), &["--disk", "mbr", "--esp-size", "300m"])?;
    let sectors = MIB / SECTOR_BYTES;
    let expected = [(sectors, 300 * sectors, "ef"), (301 * sectors, 300 * sectors, "83")];
    check_table(&sfdisk(&disk), "dos", expected);
    check_filesystems(place.path(), &disk);
    Ok(())
}

/// Checks that a disk is made on a block device that had other contents: the volume fills it.
pub(crate) fn disk_is_made_on_a_block_device() -> Result<(), TrialError> {
    ready()?;
    need(&["sfdisk", "sgdisk", "fsck.fat", "mcopy"])?;
    let place = trees();
    let disk = place.path().join("disk");
    fs::write(&disk, vec![0xa7; 400 << 20]).unwrap();
    let (boot, tree) = (place.path().join("boot"), place.path().join("tree"));
    let device = LoopDevice::attach(&disk)?;
    let arguments = [
        "mkfs",
        "-f",
        "-q",
        "--disk",
        "gpt",
        "--esp",
        boot.to_str().unwrap(),
        "--from",
        tree.to_str().unwrap(),
    ];
    check(&arguments, &ferroxfs(&arguments, device.path()), &[0])?;
    drop(device);
    let sectors = MIB / SECTOR_BYTES;
    let linux = "0FC63DAF-8483-4772-8E79-3D69D8477DE4";
    let expected = [(sectors, 64 * sectors, ESP_TYPE), (65 * sectors, 334 * sectors, linux)];
    check_table(&sfdisk(&disk), "gpt", expected);
    let verified = text(Command::new("sgdisk").arg("--verify").arg(&disk));
    assert!(verified.contains("No problems found"), "{verified}");
    check_filesystems(place.path(), &disk);
    Ok(())
}

/// Checks both ways of working with systemd-repart: it copies a finished volume into a partition,
/// and a volume is made in a partition that it has made.
pub(crate) fn repart_takes_a_volume_and_makes_a_partition() -> Result<(), TrialError> {
    ready()?;
    need(&["systemd-repart"])?;
    let place = trees();
    let path = |name: &str| place.path().join(name);
    let tree = path("tree");
    let tree = tree.to_str().expect("a path");
    let volume = path("volume");
    let minimize = ["mkfs", "-q", "--minimize", "--from", tree];
    check(&minimize, &ferroxfs(&minimize, &volume), &[0])?;
    let repart = |name: &str, partition: &str| {
        let definitions = path(&format!("{name}.d"));
        fs::create_dir(&definitions).unwrap();
        let definition = format!("[Partition]\nType=root\nLabel=the root\n{partition}\n");
        fs::write(definitions.join("10-root.conf"), definition).unwrap();
        let disk = path(name);
        let mut repart = Command::new("systemd-repart");
        repart.args(["--empty=create", "--size=400M", "--dry-run=no", "--no-pager"]);
        text(repart.arg(format!("--definitions={}", definitions.display())).arg(&disk));
        disk
    };
    let copied = repart("copied", &format!("CopyBlocks={}\nGrowFileSystem=yes", volume.display()));
    let made = repart("made", "SizeMinBytes=320M");
    let fill = ["mkfs", "-q", "-f", "--partition", "the root", "--from", tree];
    check(&fill, &ferroxfs(&fill, &made), &[0])?;
    for disk in [copied, made] {
        let checked = ["check", "-q", "--partition", "the root"];
        check(&checked, &ferroxfs(&checked, &disk), &[0])?;
        let file = format!("{}:/file", disk.display());
        let cat = ferroxfs(&["cat", "--partition", "the root"], Path::new(&file));
        check(&["cat"], &cat, &[0])?;
        assert!(cat.stdout == vec![3; 1_000_000], "{file}");
    }
    Ok(())
}
