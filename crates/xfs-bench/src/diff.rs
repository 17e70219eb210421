//! Measures how fast ferroxfs finds the differences of two volumes, compared with `rsync -n` and
//! `diff -rq` on the kernel's mounts.
//!
//! The second volume is a copy of the first that the kernel has changed. There are four kinds of
//! changes, equally many of each: appending to a file, changing its mode, renaming it, removing it.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use xfs_oracle::Mount;

use crate::contender::{Contender, Count, Figure};
use crate::error::BenchError;
use crate::volume::{self, Contents, VolumeArguments, drop_caches};

/// Arguments of the benchmark of differences.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    volumes: VolumeArguments,
    /// Number of changed files
    #[arg(long, default_value_t = 10_000)]
    changes: usize,
}

/// The files that the benchmark makes.
struct Files {
    before: PathBuf,
    after: PathBuf,
    scans: [PathBuf; 2],
    output: PathBuf,
}

impl Files {
    fn in_folder(folder: &Path) -> Self {
        let path = |name: &str| folder.join(format!("xfs-bench-diff-{name}"));
        Self {
            before: path("before.img"),
            after: path("after.img"),
            scans: [path("before.parquet"), path("after.parquet")],
            output: path("out"),
        }
    }

    fn remove(&self) {
        let [one, other] = &self.scans;
        for file in [&self.before, &self.after, one, other, &self.output] {
            // A file that was never made need not be removed.
            let _ = fs::remove_file(file);
        }
    }
}

/// Makes both volumes and measures every program on them.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let files = Files::in_folder(&arguments.volumes.folder);
    let outcome = make(&files, arguments).and_then(|()| measure(&files, arguments));
    files.remove();
    outcome
}

fn make(files: &Files, arguments: &Arguments) -> Result<(), BenchError> {
    let Files { before, after, .. } = files;
    volume::make(before, Contents::Small, arguments.volumes.inodes)?;
    let mut copy = Command::new("cp");
    succeed("cp", copy.args(["--sparse=always", "--reflink=auto"]).args([before, after]))?;
    let mount = Mount::new(after, None, &["nouuid"])?;
    change(mount.path(), arguments.changes)?;
    mount.unmount()?;
    Ok(())
}

fn succeed(name: &str, command: &mut Command) -> Result<(), BenchError> {
    let status = command.status().map_err(BenchError::file(Path::new(name)))?;
    if status.success() {
        return Ok(());
    }
    Err(BenchError::Failed { name: name.to_owned(), status })
}

/// Changes this many files below `root`, spread over all of them.
fn change(root: &Path, count: usize) -> Result<(), BenchError> {
    let mut total = 0_usize;
    walk(root, &mut |_| total += 1)?;
    let step = (total / count.max(1)).max(1);
    // Only the chosen paths are kept: a child process begins with the peak of memory of this one,
    // which is measured.
    let (mut chosen, mut number) = (Vec::new(), 0_usize);
    walk(root, &mut |path| {
        if number.is_multiple_of(step) && chosen.len() < count {
            chosen.push(path.to_owned());
        }
        number += 1;
    })?;
    for (index, path) in chosen.iter().enumerate() {
        change_file(path, index).map_err(BenchError::file(path))?;
    }
    Ok(())
}

/// Calls `visit` with each file below `root` that is no directory, always in the same order.
fn walk(root: &Path, visit: &mut dyn FnMut(&Path)) -> Result<(), BenchError> {
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).map_err(BenchError::file(&folder))?;
        let entries: Result<Vec<_>, _> = entries.collect();
        let mut entries = entries.map_err(BenchError::file(&folder))?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            match entry.file_type().map_err(BenchError::file(&path))?.is_dir() {
                true => folders.push(path),
                false => visit(&path),
            }
        }
    }
    Ok(())
}

fn change_file(path: &Path, index: usize) -> std::io::Result<()> {
    match index % 4 {
        0 => OpenOptions::new().append(true).open(path)?.write_all(b"changed\n"),
        1 => fs::set_permissions(path, Permissions::from_mode(0o600)),
        2 => fs::rename(path, path.with_extension("renamed")),
        _ => fs::remove_file(path),
    }
}

fn measure(files: &Files, arguments: &Arguments) -> Result<(), BenchError> {
    let volumes = &arguments.volumes;
    let Files { before, after, scans: [scan_before, scan_after], output } = files;
    let ferroxfs = volumes.ferroxfs.as_path();
    volumes.print_heading(&format!("{} changes", arguments.changes));
    println!("| contender | lines | seconds | processor s | peak MB |");
    println!("|---|---:|---:|---:|---:|");
    let scan = |image: &Path, rows: &Path| {
        let mut command = Command::new(ferroxfs);
        command.arg("scan").arg("-q").arg("-o").arg(rows).arg(image);
        Contender { name: "ferroxfs scan -o", command, count: Count::Lines }
    };
    let warm = || volumes.prepare_run();
    for (image, rows) in [(before, scan_before), (after, scan_after)] {
        report("ferroxfs scan to Parquet", scan(image, rows).measure(output, volumes.runs, warm));
    }
    let diff = |name, a: &Path, b: &Path, options: &[&str]| {
        let mut words = vec![ferroxfs.as_os_str(), OsStr::new("diff")];
        words.extend(options.iter().map(OsStr::new));
        words.extend([a.as_os_str(), b.as_os_str()]);
        differs(name, &words)
    };
    let ours = [
        diff("ferroxfs diff of two scans", scan_before, scan_after, &[]),
        diff("ferroxfs diff of scan and image", scan_before, after, &[]),
        diff("ferroxfs diff of two images", before, after, &[]),
        diff("ferroxfs diff --contents", before, after, &["--contents"]),
    ];
    for mut contender in ours {
        report(contender.name, contender.measure(output, volumes.runs, warm));
    }
    if volumes.alone {
        return Ok(());
    }
    let old = Mount::new(before, None, &["ro"])?;
    let new = Mount::new(after, None, &["ro", "nouuid"])?;
    let slash = |mount: &Mount| mount.path().join("");
    let (a, b) = (slash(&old), slash(&new));
    let rsync = [words(&["rsync", "-naiH", "--delete"]), vec![b.as_os_str(), a.as_os_str()]];
    let compare = [words(&["diff", "-rq", "--no-dereference"]), vec![a.as_os_str(), b.as_os_str()]];
    let peers = [
        differs("rsync -n on the kernel's mounts", &rsync.concat()),
        differs("diff -rq on the kernel's mounts", &compare.concat()),
    ];
    for mut contender in peers {
        report(contender.name, contender.measure(output, volumes.runs, drop_caches));
    }
    old.unmount()?;
    new.unmount()?;
    Ok(())
}

fn words<'a>(words: &[&'a str]) -> Vec<&'a OsStr> {
    words.iter().map(|word| OsStr::new(*word)).collect()
}

/// Returns the contender with this command line, whose exit code may be 1: it found differences.
fn differs(name: &'static str, words: &[&OsStr]) -> Contender {
    let mut command = Command::new("sh");
    command.args(["-c", "\"$@\"; test $? -le 1", "sh"]).args(words);
    Contender { name, command, count: Count::Lines }
}

fn report(name: &str, outcome: Result<Figure, BenchError>) {
    match outcome {
        Ok(Figure { wall, processor, peak_bytes, rows }) => println!(
            "| {name} | {rows} | {:.3} | {:.2} | {} |",
            wall.as_secs_f64(),
            processor.as_secs_f64(),
            peak_bytes / 1_000_000,
        ),
        Err(error) => println!("| {name} | {error} | | | |"),
    }
}
