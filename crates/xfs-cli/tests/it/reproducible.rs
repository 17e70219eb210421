//! Tests that two volumes that are filled from the same source hold the same bytes, whatever else
//! the machine does. For both runs, the environment variable SOURCE_DATE_EPOCH has the same value.
//!
//! The archives are generated while they are read, so that many files need no space on the host.
//! `FERROXFS_LONG=1` fills 40 pairs of volumes.

use std::fs::{File, FileTimes};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;
use xfs_testkit::Prng;

const EPOCH: &str = "1700000000";
const FILES_PER_DIRECTORY: usize = 400;

/// The load on the machine while a volume is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    /// The machine has no other load.
    Quiet,
    /// The program has one processor, is stopped now and then, and gets its input in writes of
    /// irregular lengths.
    Stopped,
    /// Another thread keeps a processor busy.
    Loaded,
}

/// The source of the files of a volume: a path that the program opens, or a generated archive on
/// its standard input.
#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    Path(&'a Path),
    Archive { files: usize },
}

/// A writer that passes its data on in short writes of random lengths.
struct Pieces<W> {
    inner: W,
    random: Option<Prng>,
}

impl<W: Write> Write for Pieces<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = match &mut self.random {
            Some(random) => [1, 511, 4097, 70_001][random.within(0..4)],
            None => bytes.len(),
        };
        self.inner.write(&bytes[..most.min(bytes.len())])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Returns the contents of a file of the archive. Most files are small, but some need several
/// writes.
fn contents(number: usize, random: &mut Prng) -> Vec<u8> {
    let length = match number % 400 {
        0 => random.within(60_000..600_000),
        1..=20 => random.within(4000..20_000),
        _ => random.within(0..400),
    };
    (0..length).map(|at| (at ^ number) as u8).collect()
}

/// Writes an archive with this number of files, and with directories, links and names of many
/// lengths.
fn write_archive(files: usize, into: impl Write) -> io::Result<()> {
    let mut random = Prng::new(files as u64);
    let mut archive = tar::Builder::new(into);
    for number in 0..files {
        let directory = format!("tree/{:03}", number / FILES_PER_DIRECTORY);
        let mut header = tar::Header::new_gnu();
        header.set_mtime(1_600_000_000 + number as u64);
        header.set_mode(0o644);
        header.set_uid(number as u64 % 7);
        header.set_gid(3);
        header.set_size(0);
        if number % FILES_PER_DIRECTORY == 0 {
            header.set_entry_type(tar::EntryType::Directory);
            archive.append_data(&mut header, &directory, io::empty())?;
        }
        let name = format!("{directory}/file-{number}-{}", "n".repeat(number % 60));
        if number % 50 == 49 {
            header.set_entry_type(tar::EntryType::Symlink);
            archive.append_link(&mut header, &name, "../target of a link")?;
        } else {
            let bytes = contents(number, &mut random);
            header.set_entry_type(tar::EntryType::Regular);
            header.set_size(bytes.len() as u64);
            archive.append_data(&mut header, &name, bytes.as_slice())?;
        }
    }
    archive.finish()
}

/// Keeps a processor busy until `done` is set.
fn spin(done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// Stops and continues a process again and again until it has ended.
fn stop_now_and_then(child: &mut Child) {
    let pid = Pid::from_child(child);
    let mut random = Prng::new(u64::from(child.id()));
    let mut wait = |most| thread::sleep(Duration::from_millis(random.within(1..most) as u64));
    while child.try_wait().unwrap().is_none() {
        wait(120);
        // It may have ended meanwhile. It has not been waited for, so its number is not reused.
        _ = kill_process(pid, Signal::STOP);
        wait(40);
        _ = kill_process(pid, Signal::CONT);
    }
}

/// Restricts a process to one of the processors that this process may use.
fn pin_to_one_processor(child: &Child) {
    let all = sched_getaffinity(None).unwrap();
    let one = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap();
    let mut set = CpuSet::new();
    set.set(one);
    sched_setaffinity(Some(Pid::from_child(child)), &set).unwrap();
}

/// Runs the program under this load. An archive is piped to its standard input.
fn run(place: &TempDir, arguments: &[&str], source: Source<'_>, machine: Machine) {
    let (from, input) = match source {
        Source::Path(path) => (path.to_str().unwrap(), Stdio::null()),
        Source::Archive { .. } => ("-", Stdio::piped()),
    };
    let arguments = arguments.iter().map(|word| if *word == "SOURCE" { from } else { *word });
    let mut child = Command::new(env!("CARGO_BIN_EXE_ferroxfs"))
        .args(arguments)
        .current_dir(place.path())
        .env("SOURCE_DATE_EPOCH", EPOCH)
        .stdin(input)
        .spawn()
        .unwrap();
    if machine == Machine::Stopped {
        pin_to_one_processor(&child);
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        if let (Source::Archive { files }, Some(inner)) = (source, child.stdin.take()) {
            let random = (machine == Machine::Stopped).then(|| Prng::new(11));
            scope.spawn(move || {
                let pieces = io::BufWriter::with_capacity(100_000, Pieces { inner, random });
                write_archive(files, pieces).unwrap();
            });
        }
        if machine == Machine::Loaded {
            scope.spawn(|| spin(&done));
        }
        if machine == Machine::Stopped {
            stop_now_and_then(&mut child);
        }
        let ended = child.wait();
        done.store(true, Ordering::Relaxed);
        assert!(ended.unwrap().success());
    });
}

/// Makes a volume with mkfs and fills it from `source`. The log is only a little larger than the
/// minimum, so that it wraps while some 20,000 files are written.
fn fill(place: &TempDir, image: &str, source: Source<'_>, machine: Machine) {
    let arguments = [
        "mkfs",
        "-q",
        "--unsupported",
        "-d",
        "size=900m",
        "-l",
        "size=8m",
        "--from",
        "SOURCE",
        image,
    ];
    run(place, &arguments, source, machine);
}

/// Returns the number of bytes in which two images differ.
fn differences(place: &TempDir, one: &str, other: &str) -> u64 {
    let [one, other] = [one, other].map(|name| File::open(place.path().join(name)).unwrap());
    let length = one.metadata().unwrap().len();
    assert_eq!(length, other.metadata().unwrap().len());
    let mut differing = 0;
    let [mut left, mut right] = [vec![0; 1 << 20], vec![0; 1 << 20]];
    for offset in (0..length).step_by(1 << 20) {
        let (left, right) = (&mut left, &mut right);
        one.read_exact_at(left, offset).unwrap();
        other.read_exact_at(right, offset).unwrap();
        if left != right {
            differing += left.iter().zip(right.iter()).filter(|(a, b)| a != b).count() as u64;
        }
    }
    differing
}

/// Returns how often the log of an image has begun at its start, from the last LSN in the
/// superblock.
fn log_cycle(place: &TempDir, image: &str) -> u32 {
    const LSN_OFFSET: u64 = 240;
    let mut cycle = [0; 4];
    let file = File::open(place.path().join(image)).unwrap();
    file.read_exact_at(&mut cycle, LSN_OFFSET).unwrap();
    u32::from_be_bytes(cycle)
}

#[track_caller]
fn check_same(place: &TempDir, one: &str, other: &str) {
    assert_eq!(differences(place, one, other), 0, "bytes of {one} and {other} differ");
}

#[test]
fn archive_of_24000_files_gives_the_same_bytes_on_any_machine() {
    let place = TempDir::new().unwrap();
    let source = Source::Archive { files: 24_240 };
    thread::scope(|scope| {
        scope.spawn(|| fill(&place, "stopped", source, Machine::Stopped));
        fill(&place, "loaded", source, Machine::Loaded);
    });
    check_same(&place, "stopped", "loaded");
    assert!(log_cycle(&place, "loaded") >= 2, "the log has not wrapped");
}

/// The page with the published digest.
const PAGE: &str = include_str!("../../../../docs/internals/reproducible.md");

/// Makes the volume whose digest docs/internals/reproducible.md publishes. If the bytes have to
/// change, a new epoch gets them.
#[test]
fn published_digest_of_epoch_1_holds() {
    let place = TempDir::new().unwrap();
    let source = place.path().join("archive.tar");
    write_archive(2000, io::BufWriter::new(File::create(source).unwrap())).unwrap();
    let command = "mkfs -q --epoch 1 --time 1700000000 -d size=300m --from archive.tar image";
    let mut mkfs = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
    mkfs.args(command.split(' ')).current_dir(place.path());
    assert!(mkfs.status().unwrap().success());
    let sum = Command::new("sha256sum").arg("image").current_dir(place.path()).output().unwrap();
    let sum = String::from_utf8(sum.stdout).unwrap();
    let digest = sum.split(' ').next().unwrap();
    assert_eq!(digest.len(), 64, "{sum}");
    assert!(PAGE.contains(&format!("`{digest}`")), "{digest} is not the published digest");
}

#[test]
fn epochs_need_a_fixed_time_and_are_known() {
    let refused = |arguments: &[&str], words: &str| {
        let mut mkfs = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
        mkfs.args(["mkfs", "-N", "-d", "size=300m"]).args(arguments).arg("image");
        let output = mkfs.env_remove("SOURCE_DATE_EPOCH").output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(words), "{said}");
    };
    refused(&["--epoch", "1"], "--epoch needs a fixed time");
    refused(&["--epoch", "2", "--time", "0"], "2 is not in 1..=1");
}

/// Checks that two volumes hold the same bytes after two imports into each. Files of the second
/// import replace files of the first, so inodes and blocks are freed and used again.
#[test]
fn import_over_an_earlier_one_gives_the_same_bytes() {
    let place = TempDir::new().unwrap();
    let (first, second) = (Source::Archive { files: 1200 }, Source::Archive { files: 2000 });
    for (image, machine) in [("one", Machine::Quiet), ("two", Machine::Stopped)] {
        fill(&place, image, first, machine);
        run(&place, &["import", "SOURCE", image], second, machine);
    }
    check_same(&place, "one", "two");
}

/// Makes a tree with this number of files, and with files whose properties depend on the host:
/// access times, holes and blocks of zeros. These properties differ between trees with different
/// `turn`.
fn make_tree(top: &Path, files: usize, turn: u64) {
    let mut random = Prng::new(5);
    let then = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let read =
        FileTimes::new().set_accessed(then(1_650_000_000 + turn)).set_modified(then(1_500_000_000));
    let numbers: Vec<_> =
        (0..files).map(|number| (number, contents(number, &mut random))).collect();
    let make = |(number, bytes): &(usize, Vec<u8>)| {
        let directory = top.join(format!("{:03}", number / FILES_PER_DIRECTORY));
        std::fs::create_dir_all(&directory).unwrap();
        let file = File::create(directory.join(format!("file {number}"))).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file.set_times(read).unwrap();
    };
    // The order of a directory listing follows from the order of creation.
    match turn % 2 {
        0 => numbers.iter().for_each(make),
        _ => numbers.iter().rev().for_each(make),
    }
    let sparse = File::create(top.join("sparse")).unwrap();
    sparse.set_len(9 << 20).unwrap();
    sparse.write_all_at(b"in the middle", 5 << 20).unwrap();
    if turn % 2 == 1 {
        // Zeros that the host may store as blocks or as a hole.
        sparse.write_all_at(&vec![0; 3 << 20], 1 << 20).unwrap();
    }
    sparse.set_times(read).unwrap();
    symlink("target", top.join("link")).unwrap();
    std::fs::set_permissions(top.join("sparse"), PermissionsExt::from_mode(0o600)).unwrap();
    // Symbolic links have a time of their own.
    let link = rustix::fs::Timespec { tv_sec: 1_600_000_000, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: link, last_modification: link };
    let no_follow = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::utimensat(rustix::fs::CWD, top.join("link"), &times, no_follow).unwrap();
    let mut directories: Vec<_> =
        std::fs::read_dir(top).unwrap().map(|entry| entry.unwrap().path()).collect();
    directories.push(top.to_owned());
    for directory in directories.iter().filter(|path| path.is_dir()) {
        File::open(directory).unwrap().set_times(read).unwrap();
    }
}

/// Imports two trees that differ only in access times and holes.
/// Checks I5 of `xfs_cli::import::writer`: the volume depends only on names, metadata and contents.
/// Checks I2 of `xfs_cli::import::writer::contents`: the chunks depend only on the contents.
#[test]
fn tree_gives_the_same_bytes_after_it_was_read_and_with_other_holes() {
    let place = TempDir::new().unwrap();
    for turn in [0, 1] {
        let tree = place.path().join(format!("tree {turn}"));
        std::fs::create_dir(&tree).unwrap();
        make_tree(&tree, 900, turn);
        fill(&place, &format!("image {turn}"), Source::Path(&tree), Machine::Quiet);
        // Reading a file may change its access time.
        let mut bytes = Vec::new();
        File::open(tree.join("sparse")).unwrap().read_to_end(&mut bytes).unwrap();
    }
    check_same(&place, "image 0", "image 1");
}

/// Checks that blocks of zeros in a file of the host become holes of the imported file, which has
/// the same length.
#[test]
fn zeros_of_a_file_of_the_host_become_holes() {
    let place = TempDir::new().unwrap();
    let tree = place.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("zeros"), vec![0; 1_500_000]).unwrap();
    let mut mixed = vec![0; 3 << 20];
    (mixed[4095], mixed[8192], mixed[(1 << 20) + 5000]) = (1, 2, 3);
    std::fs::write(tree.join("mixed"), &mixed).unwrap();
    fill(&place, "image", Source::Path(&tree), Machine::Quiet);
    let ask = |arguments: &[&str]| {
        let mut ferroxfs = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
        ferroxfs.args(arguments).current_dir(place.path()).output().unwrap().stdout
    };
    assert_eq!(ask(&["cat", "image:/zeros"]), vec![0; 1_500_000]);
    assert!(ask(&["cat", "image:/mixed"]) == mixed);
    let blocks = |path| ask(&["find", path, "-printf", "%b"]);
    // In units of 512 bytes; three blocks of the second file are not zeros.
    assert_eq!((blocks("image:/zeros"), blocks("image:/mixed")), (b"0".to_vec(), b"24".to_vec()));
}

/// Checks that the volumes of a pair hold the same bytes, for 40 pairs of different sizes, kinds of
/// sources and loads. The first volume of each pair is made on a machine without other load.
#[test]
fn forty_pairs_of_volumes_hold_the_same_bytes() {
    if std::env::var_os("FERROXFS_LONG").is_none() {
        return;
    }
    let place = TempDir::new().unwrap();
    let mut pairs = 0;
    for files in [10, 100, 1000, 6000, 20_000, 60_000] {
        let tree = place.path().join(format!("tree {files}"));
        std::fs::create_dir(&tree).unwrap();
        make_tree(&tree, files, 0);
        let archive = place.path().join(format!("archive {files}"));
        write_archive(files, io::BufWriter::new(File::create(&archive).unwrap())).unwrap();
        let sources = [Source::Path(&tree), Source::Path(&archive), Source::Archive { files }];
        for source in sources {
            fill(&place, "quiet", source, Machine::Quiet);
            for machine in [Machine::Stopped, Machine::Loaded] {
                fill(&place, "other", source, machine);
                check_same(&place, "quiet", "other");
                pairs += 1;
                std::fs::remove_file(place.path().join("other")).unwrap();
            }
            std::fs::remove_file(place.path().join("quiet")).unwrap();
        }
    }
    for files in [100, 600, 3000, 9000] {
        let source = Source::Archive { files };
        for (image, machine) in [("quiet", Machine::Quiet), ("other", Machine::Stopped)] {
            fill(&place, image, Source::Archive { files: files / 2 }, machine);
            run(&place, &["import", "SOURCE", image], source, machine);
        }
        check_same(&place, "quiet", "other");
        pairs += 1;
        for image in ["quiet", "other"] {
            std::fs::remove_file(place.path().join(image)).unwrap();
        }
    }
    assert_eq!(pairs, 40);
}
