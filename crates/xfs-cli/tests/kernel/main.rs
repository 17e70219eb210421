//! Tests of the program and the kernel on one volume at the same time. ferroxfs must refuse a
//! mounted volume, read it with `--live` while the kernel writes it, and never write it. Other
//! tests compare the kernel's view of volumes that ferroxfs has filled, or use a server of other
//! authors.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod booting;
mod bucket;
mod disks;
mod freeze;
mod layers;
mod load;
mod minimize;
mod prototype;
mod quota;
mod sources;
mod zap;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::sync::{Mutex, PoisonError};

use ferroxfs::SetAttributes;
use ferroxfs::attr::ExtendedFlags;
use serde_json::Value;
use tempfile::TempDir;
use xfs_oracle::harness::{Trial, TrialError, run};
use xfs_oracle::{Geometry, Image, LoopDevice, ready};

use crate::freeze::Freeze;
use crate::load::Load;

/// The time limit for one run of the program, in seconds: longer than any trial takes on any
/// machine.
const PATIENCE_SECONDS: &str = "300";

/// Each command that lists files runs several times under load. At least one output of each command
/// must have more lines than this number.
const SOME: usize = 20;

fn main() -> ExitCode {
    run(vec![
        Trial::new("mounted_volume_is_refused", mounted_volume_is_refused),
        Trial::new("frozen_volume_is_shown_as_it_is", frozen_volume_is_shown_as_it_is),
        Trial::new("volume_under_load_is_read", volume_under_load_is_read),
        Trial::new("dirty_log_stays_dirty", dirty_log_stays_dirty),
        #[cfg(feature = "bench")]
        Trial::new("benchmark_leaves_nothing", benchmark_leaves_nothing),
        #[cfg(feature = "bench")]
        Trial::new("benchmark_bounds_the_kernel", benchmark_bounds_the_kernel),
        Trial::new("flagged_files_keep_their_names", flagged_files_keep_their_names),
        Trial::new(
            "smallest_volume_is_written_and_grown_by_the_kernel",
            minimize::smallest_volume_is_written_and_grown,
        ),
        Trial::new("prototype_makes_the_same_tree_as_mkfs_xfs", prototype::matches_mkfs_xfs),
        Trial::new("quota_of_a_new_volume_is_that_of_a_guest", quota::is_that_of_a_guest),
        Trial::new(
            "sources_are_shown_as_their_extractors_make_them",
            sources::are_shown_as_their_extractors_make_them,
        ),
        Trial::new(
            "sources_have_no_effect_of_their_filesystem",
            sources::have_no_effect_of_their_filesystem,
        ),
        Trial::new("new_gpt_disk_passes_other_programs", disks::new_gpt_disk_passes),
        Trial::new("new_mbr_disk_passes_other_programs", disks::new_mbr_disk_passes),
        Trial::new("disk_of_a_recipe_boots_by_firmware", booting::disk_boots),
        Trial::new(
            "smallest_volume_grows_at_first_boot",
            booting::smallest_volume_grows_at_first_boot,
        ),
        Trial::new(
            "repart_takes_a_volume_and_makes_a_partition",
            disks::repart_takes_a_volume_and_makes_a_partition,
        ),
        Trial::new("disk_is_made_on_a_block_device", disks::disk_is_made_on_a_block_device),
        Trial::new(
            "free_space_of_a_device_reads_as_zeros",
            zap::free_space_of_a_device_reads_as_zeros,
        ),
        Trial::new(
            "layers_of_a_container_image_match_the_specification",
            layers::match_the_specification,
        ),
        Trial::new(
            "image_on_another_s3_server_is_listed_with_few_of_its_bytes",
            bucket::image_is_listed_with_few_of_its_bytes,
        ),
    ])
}

/// Makes an empty volume with default options, in a folder of its own.
fn volume() -> Result<(TempDir, Image), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))
        .map_err(|error| TrialError::Failed(error.to_string()))?;
    let geometry = Geometry::ALL.first().expect("there are geometries");
    let image = geometry.make(folder.path())?;
    Ok((folder, image))
}

/// Runs the program with the image as its last argument. A run that hangs ends with exit code 124.
fn ferroxfs(arguments: &[&str], image: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.args([PATIENCE_SECONDS, env!("CARGO_BIN_EXE_ferroxfs")]).args(arguments);
    command.arg(image).output().expect("the program runs")
}

/// Checks that a run ended with one of these exit codes, and that each line on standard error is a
/// message or a hint of ferroxfs (and not of a panic).
fn check(arguments: &[&str], output: &Output, codes: &[i32]) -> Result<(), TrialError> {
    let told = String::from_utf8_lossy(&output.stderr);
    let is_ours = |line: &str| line.starts_with("ferroxfs: ") || line.starts_with("hint: ");
    let ended_well = output.status.code().is_some_and(|code| codes.contains(&code));
    if ended_well && told.lines().all(is_ours) {
        return Ok(());
    }
    Err(TrialError::Failed(format!("{arguments:?}: {}, {told}", output.status)))
}

/// Runs a benchmark while no other one runs, because a benchmark drops the caches of the whole
/// machine.
fn benchmark(arguments: &[&str], directory: &Path) -> Result<Output, TrialError> {
    static CACHES: Mutex<()> = Mutex::new(());
    let _alone = CACHES.lock().unwrap_or_else(PoisonError::into_inner);
    let output = ferroxfs(arguments, directory);
    check(arguments, &output, &[0])?;
    Ok(output)
}

/// Checks that a benchmark on a mount of the kernel leaves no files. The program itself compares
/// the results of the kernel and of ferroxfs, and fails if they differ.
fn benchmark_leaves_nothing() -> Result<(), TrialError> {
    let (_folder, image) = volume()?;
    let shape = shape(&image.data);
    let mount = image.mount(&[])?;
    let workloads = "create,walk,chmod,bulkstat,unlink,open,fsmark,pressure,stream,fsync";
    let small = ["--threads=1,3", "--files=20", "--inodes=100", "--runs=1", "--log-size=64m"];
    let arguments = [&["bench", workloads, "--no-before"], &small[..], &["--kernel"]].concat();
    let output = benchmark(&arguments, mount.path())?;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("fsync: median / worst"), "{text}");
    let told = format!("the kernel's XFS: in {}, {shape}\n", mount.path().display());
    assert!(text.contains(&told), "{told}: {text}");
    for section in ["files", "open", "fsmark", "pressure", "stream"] {
        assert!(
            text.contains(&format!("{section}: ferroxfs / kernel, operations per second")),
            "{text}"
        );
    }
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
    Ok(mount.unmount()?)
}

/// Returns the line of a benchmark's report that describes a volume, computed from the image.
fn shape(image: &Path) -> String {
    let output = ferroxfs(&["info"], image);
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let groups = line("groups ").split_whitespace().next().unwrap();
    let log = line("log ").split_whitespace().nth(1).unwrap().split('.').next().unwrap();
    let parents = match line("features ").split_whitespace().any(|feature| feature == "parent") {
        true => "with",
        false => "without",
    };
    format!("{groups} groups, log of {log} MiB, {parents} parent pointers")
}

/// Checks that a benchmark limits the memory of the kernel. All inodes are looked up twice. With
/// memory for all inodes, only few may be read from disk twice; with memory for a tenth of them,
/// most must be. Afterwards the memory cgroup must be gone. If this machine allows no memory
/// cgroup, the report says why.
///
/// Another process of this machine may drop the caches at any time, and then all inodes are read
/// twice. Therefore one of several benchmarks must show the difference.
fn benchmark_bounds_the_kernel() -> Result<(), TrialError> {
    const BENCHMARKS: usize = 10;
    let mut last = String::new();
    for _ in 0..BENCHMARKS {
        match bounded_benchmark()? {
            Bounded::Yes | Bounded::NoMemoryCgroup => return Ok(()),
            Bounded::No(counts) => last = counts,
        }
    }
    Err(TrialError::Failed(format!("no benchmark of {BENCHMARKS} read as expected: {last}")))
}

/// How a limit of memory changed the inodes that the kernel read.
enum Bounded {
    Yes,
    /// The counts of inodes read with memory for all inodes and for a tenth of them.
    No(String),
    NoMemoryCgroup,
}

fn bounded_benchmark() -> Result<Bounded, TrialError> {
    const FILES: u64 = 3000;
    let left = left_groups();
    let (folder, image) = volume()?;
    let mount = image.mount(&[])?;
    let json = folder.path().join("figures");
    let (files, json_option) = (format!("--files={FILES}"), format!("--json={}", json.display()));
    let arguments =
        ["bench", "pressure", "--threads=2", &files, "--runs=1", "--no-before", &json_option];
    let arguments = [&arguments[..], &["--kernel"]].concat();
    let output = benchmark(&arguments, mount.path())?;
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
    mount.unmount()?;
    assert_eq!(left_groups(), left);
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    let measurements = report["measurements"].as_array().unwrap();
    let find = |step: &str| {
        measurements.iter().find(|one| one["variant"] == "kernel" && one["step"] == step)
    };
    let with_all = find("visit, room for all").unwrap();
    let Some(with_tenth) = find("visit, room for a tenth") else {
        assert!(text.contains("visit, room for a tenth by the kernel: "), "{text}");
        return Ok(Bounded::NoMemoryCgroup);
    };
    let bytes = |one: &Value| one["inodes_bytes"].as_u64().unwrap();
    assert_eq!(bytes(with_tenth), bytes(with_all) / 10);
    let read = |one: &Value| one["counted"]["inodes_in"].as_u64().unwrap();
    let (with_all, with_tenth, all) = (read(with_all), read(with_tenth), 2 * FILES);
    assert!(with_all >= all, "{with_all} of {all}");
    Ok(if with_all < all * 5 / 4 && with_tenth > all * 3 / 2 {
        Bounded::Yes
    } else {
        Bounded::No(format!("{with_all} and {with_tenth} for {all} inodes"))
    })
}

/// Returns the memory cgroups that benchmarks have left behind. The cgroups of benchmarks that
/// still run are not among them.
fn left_groups() -> BTreeSet<PathBuf> {
    const NAME: &str = "ferroxfs-bench-";
    let found =
        Command::new("find").args(["/sys/fs/cgroup", "-name", &format!("{NAME}*")]).output();
    let found = String::from_utf8(found.unwrap().stdout).unwrap();
    let is_left = |group: &PathBuf| {
        let name = group.file_name().and_then(|name| name.to_str()).unwrap();
        !Path::new("/proc").join(name.strip_prefix(NAME).unwrap()).exists()
    };
    found.lines().map(PathBuf::from).filter(is_left).collect()
}

/// Checks that a copy of many immutable files keeps both names of each. An immutable file can get
/// no further name, so the flag must be set after the second name. Second names are made after all
/// first names.
fn flagged_files_keep_their_names() -> Result<(), TrialError> {
    /// The number of files: more than are kept open until they get their flags.
    const FILES: usize = 300;
    let (_folder, image) = volume()?;
    let (_other, from) = volume()?;
    let volume = ferroxfs::OpenOptions::new().write(true).open(&from.data).unwrap();
    let immutable = SetAttributes::new().xflags(ExtendedFlags::IMMUTABLE);
    volume.create_dir("d").unwrap();
    volume.create_dir("d/again").unwrap();
    for number in 0..FILES {
        let path = format!("d/{number}");
        volume.write(&path, "contents").unwrap();
        volume.hard_link(&path, format!("d/again/{number}")).unwrap();
        volume.lookup(&path).unwrap().set_attributes(&immutable).unwrap();
    }
    volume.close().unwrap();
    let mount = image.mount(&[])?;
    let arguments = ["cp", "-a", &format!("{}:/d", from.data.display())];
    let output = ferroxfs(&arguments, mount.path());
    check(&arguments, &output, &[0])?;
    let links = |number| fs::metadata(mount.path().join(format!("d/{number}"))).unwrap().nlink();
    let links: Vec<u64> = (0..FILES).map(links).collect();
    let flags = Command::new("lsattr").arg(mount.path().join("d")).output().unwrap();
    mount.unmount()?;
    assert_eq!(links, [2; FILES]);
    let flags = String::from_utf8(flags.stdout).unwrap();
    let is_immutable = |line: &&str| line.split(' ').next().is_some_and(|word| word.contains('i'));
    assert_eq!(flags.lines().filter(is_immutable).count(), FILES, "{flags}");
    Ok(())
}

fn mounted_volume_is_refused() -> Result<(), TrialError> {
    let (_folder, image) = volume()?;
    let mount = image.mount(&[])?;
    for path in [image.data.clone(), device_of(mount.path())] {
        for arguments in [&["ls"][..], &["info"], &["scan", "--summary"], &["log"]] {
            let output = ferroxfs(arguments, &path);
            check(arguments, &output, &[1])?;
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(told.contains("is mounted at") && told.contains("--live"), "{told}");
            assert!(output.stdout.is_empty());
            check(arguments, &ferroxfs(&[&["--live"], arguments].concat(), &path), &[0])?;
        }
    }
    mount.unmount()?;
    check(&["ls"], &ferroxfs(&["ls"], &image.data), &[0])
}

/// Returns the block device of a mount.
fn device_of(mount: &Path) -> PathBuf {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mount.to_str().unwrap();
    let line = mounts.lines().find(|line| line.split(' ').nth(1) == Some(mount)).unwrap();
    PathBuf::from(line.split(' ').next().unwrap())
}

fn frozen_volume_is_shown_as_it_is() -> Result<(), TrialError> {
    let (_folder, image) = volume()?;
    let mount = image.mount(&[])?;
    // More than once: the data of the first read is in the host's cache, and out of date.
    for _ in 0..3 {
        Load::start(mount.path(), 2).stop_after(1500);
        let mut expected = BTreeSet::from(["/".to_owned()]);
        list(mount.path(), "", &mut expected);
        let _freeze = Freeze::new(mount.path());
        for path in [image.data.clone(), device_of(mount.path())] {
            let output = ferroxfs(&["--live", "find"], &path);
            check(&["find"], &output, &[0])?;
            let found: BTreeSet<String> =
                String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
            if found != expected {
                let difference: Vec<_> = found.symmetric_difference(&expected).take(10).collect();
                return Err(TrialError::Failed(format!("{}: {difference:?}", path.display())));
            }
        }
    }
    Ok(mount.unmount()?)
}

/// Adds the paths of everything below a directory of the kernel's mount to `paths`, with `prefix`
/// for the path of that directory.
fn list(directory: &Path, prefix: &str, paths: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = format!("{prefix}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            list(&entry.path(), &path, paths);
        }
        paths.insert(path);
    }
}

fn volume_under_load_is_read() -> Result<(), TrialError> {
    let (folder, image) = volume()?;
    let mount = image.mount(&[])?;
    Load::start(mount.path(), 3).stop_after(3000);
    let mut load = Load::start(mount.path(), 3);
    load.keep_settling(mount.path());
    let device = device_of(mount.path());
    let rows = folder.path().join("rows");
    let rows = rows.to_str().unwrap();
    // Errors of the volume go there, and not among the messages of the program.
    let facts = folder.path().join("facts");
    let facts = facts.to_str().unwrap();
    let mut most = BTreeMap::new();
    for round in 0..6 {
        for arguments in [
            &["info"][..],
            &["ls", "-laR"],
            &["find"],
            &["du", "-a"],
            &["tar", "-o", rows],
            &["scan", "--format", "ndjson"],
            &["scan", "--format", "csv", "-o", rows, "--facts", facts, "--by", "owner"],
            &["log"],
        ] {
            load.wait_for_more();
            let path = if round % 2 == 0 { &image.data } else { &device };
            let output = ferroxfs(&[&["--live"], arguments].concat(), path);
            // A file that changes during the read may look corrupt, or be gone.
            check(arguments, &output, &[0, 1, 5])?;
            // A list may end early at a directory that is being written, but not each time.
            if matches!(arguments, ["find"] | ["du", "-a"] | ["ls", "-laR"]) {
                let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
                let longest = most.entry(arguments.join(" ")).or_insert(0);
                *longest = lines.max(*longest);
            }
        }
    }
    assert!(most.values().all(|lines| *lines > SOME), "lines of the longest lists: {most:?}");
    load.stop_after(0);
    mount.unmount()?;
    // The runs have left no trace.
    let output = ferroxfs(&["find"], &image.data);
    check(&["find"], &output, &[0])?;
    let mount = image.mount(&["ro"])?;
    let mut expected = BTreeSet::from(["/".to_owned()]);
    list(mount.path(), "", &mut expected);
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), expected.len());
    Ok(mount.unmount()?)
}

/// Returns the state of an image file that a write would change: contents, modification time, and
/// allocated blocks.
fn state(image: &Path) -> (Vec<u8>, i64, i64, u64) {
    let metadata = fs::metadata(image).unwrap();
    let bytes = fs::read(image).unwrap();
    (bytes, metadata.mtime(), metadata.mtime_nsec(), metadata.blocks())
}

fn dirty_log_stays_dirty() -> Result<(), TrialError> {
    let (_folder, image) = volume()?;
    let mount = image.mount(&[])?;
    Load::start(mount.path(), 2).stop_after(1000);
    let mut shutdown = Command::new("xfs_io");
    let shutdown = shutdown.args(["-x", "-c", "shutdown -f"]).arg(mount.path());
    assert!(shutdown.status().unwrap().success());
    mount.unmount()?;
    let before = state(&image.data);
    // An attached loop device does not prevent reading, and can be read like the file.
    let device = LoopDevice::attach(&image.data)?;
    for path in [&*image.data, device.path()] {
        for arguments in [&["ls", "-R"][..], &["find"], &["du"], &["scan"], &["tar"]] {
            // Refused, or replayed in memory.
            check(arguments, &ferroxfs(arguments, path), &[0, 4])?;
            let as_it_stands = [&["--no-recovery"], arguments].concat();
            check(&as_it_stands, &ferroxfs(&as_it_stands, path), &[0, 1, 5])?;
        }
        let output = ferroxfs(&["log"], path);
        check(&["log"], &output, &[0])?;
        assert!(String::from_utf8_lossy(&output.stdout).contains("dirty"));
    }
    drop(device);
    assert!(state(&image.data) == before, "the image has changed");
    Ok(())
}
