//! Tests of a mount for which the kernel caches writes (`writeback_cache`). Data of acknowledged
//! writes may be lost only in a crash, and synced data not even then.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{IFlags, OFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;
use xfs_oracle::Xfsprogs;
use xfs_oracle::harness::TrialError;

use crate::mounted::{Mounted, await_end, ferroxfs, mounted, run, umount};

const OPTIONS: &str = "writeback_cache";
/// The length of a file in bytes: more than the kernel sends in one request.
const LONG_BYTES: usize = 24 << 20;
/// A wait that is longer than one tick of the coarsest clock of the kernel.
const MOMENT: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(60);

/// Sets an inode flag as chattr(1) does. The program chattr itself would inherit open descriptors,
/// and closing them would write the buffered data of their files.
fn set_flag(path: &Path, flag: IFlags) {
    let file = File::open(path).unwrap();
    let flags = ioctl_getflags(&file).unwrap();
    ioctl_setflags(&file, flags | flag).unwrap();
}

/// Returns `length` bytes of a pattern. The bytes of different pages differ, and so do the patterns
/// of different values of `seed`.
fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 4096 * 31 + index % 251 + seed) as u8).collect()
}

pub(crate) fn signals_lose_nothing_acknowledged() -> Result<(), TrialError> {
    let mut volume = mounted(OPTIONS)?;
    for (seed, signal) in ["-TERM", "-INT", "-HUP", "umount"].into_iter().enumerate() {
        let (path, other) = (volume.at(signal), volume.at("closed"));
        let contents = pattern(LONG_BYTES + seed, seed);
        let file = File::create(&path).unwrap();
        file.write_all_at(&contents, 0).unwrap();
        fs::write(&other, &contents).unwrap();
        let pid = volume.server();
        if signal == "umount" {
            // A mount in use stays, and nothing of it is lost.
            let refused = ferroxfs(&["umount"]).arg(volume.path()).output().unwrap();
            assert!(!refused.status.success());
            drop(file);
            umount(&volume.path());
        } else {
            run(Command::new("kill").args([signal, &pid]));
            await_end(&pid);
        }
        // The log is clean: without recovery everything is there.
        volume.mount("norecovery");
        assert!(fs::read(&path).unwrap() == contents, "{signal}: an open file");
        assert!(fs::read(&other).unwrap() == contents, "{signal}: a closed file");
        volume.unmount();
        volume.mount(OPTIONS);
    }
    volume.check()
}

/// Checks that writes through an open file are kept, even if they are made while the mount ends
/// after a signal.
pub(crate) fn writes_after_a_signal_are_kept() -> Result<(), TrialError> {
    const PAGES: usize = 3000;
    let mut volume = mounted("writeback_cache,threads=1")?;
    let path = volume.at("file");
    let file = File::create(&path).unwrap();
    let pid = volume.server();
    run(Command::new("kill").args(["-TERM", &pid]));
    let shown = volume.path().to_str().unwrap().to_owned();
    let deadline = Instant::now() + PATIENCE;
    while fs::read_to_string("/proc/self/mounts").unwrap().contains(&shown) {
        assert!(Instant::now() < deadline, "it stays mounted");
    }
    // Each page is a separate request, so sending them takes a while.
    let offset = |page: usize| 2 * 4096 * page as u64;
    for page in 0..PAGES {
        file.write_all_at(&page.to_be_bytes(), offset(page)).unwrap();
    }
    await_end(&pid);
    drop(file);
    volume.mount("norecovery");
    let file = File::open(&path).unwrap();
    for page in 0..PAGES {
        let mut found = [0; size_of::<usize>()];
        file.read_exact_at(&mut found, offset(page)).unwrap();
        assert_eq!(usize::from_be_bytes(found), page);
    }
    drop(file);
    volume.unmount();
    volume.mount(OPTIONS);
    volume.check()
}

/// Checks that stores to a mapped file are kept when a signal ends the mount, with
/// `writeback_cache` and without. Such stores stay in the kernel until it is asked to write them.
pub(crate) fn mapped_data_is_kept_when_a_signal_arrives() -> Result<(), TrialError> {
    const BYTES: usize = 1 << 20;
    let mut volume = mounted("rw")?;
    for options in ["rw", OPTIONS] {
        volume.unmount();
        volume.mount(options);
        let path = volume.at("mapped");
        fs::write(&path, pattern(BYTES, 0)).unwrap();
        let mut program = Xfsprogs::newer()?.command("xfs_io");
        program.arg(&path).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut program = program.spawn().unwrap();
        let mut orders = program.stdin.take().unwrap();
        orders.write_all(b"mmap -rw 0 1m\nmwrite -S 0x61 0 1m\n").unwrap();
        orders.flush().unwrap();
        let deadline = Instant::now() + PATIENCE;
        // Closing a file writes its mapped pages. So this one stays open, and no program is
        // started, which would close it.
        let (file, mut found) = (File::open(&path).unwrap(), vec![0; BYTES]);
        while found != [b'a'; BYTES] {
            assert!(Instant::now() < deadline, "nothing is written into memory");
            file.read_exact_at(&mut found, 0).unwrap();
        }
        let pid = volume.server();
        let server = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(server, rustix::process::Signal::TERM).unwrap();
        await_end(&pid);
        drop((file, orders));
        program.wait().unwrap();
        volume.mount("ro");
        assert!(fs::read(&path).unwrap() == [b'a'; BYTES], "{options}: lost what was mapped");
    }
    volume.check()
}

pub(crate) fn synced_data_survives_a_kill() -> Result<(), TrialError> {
    let mut volume = mounted(OPTIONS)?;
    let path = volume.at("file");
    let contents = pattern(1_234_567, 2);
    let file = File::create(&path).unwrap();
    file.write_all_at(&contents, 0).unwrap();
    file.sync_all().unwrap();
    let times = modified(&path);
    // Not synced: it may be there or not.
    file.write_all_at(&contents, 4 << 20).unwrap();
    volume.kill();
    drop(file);
    volume.mount(OPTIONS);
    let found = fs::read(&path).unwrap();
    assert!(found.len() >= contents.len() && found[..contents.len()] == contents);
    if found.len() == contents.len() {
        assert_eq!(modified(&path), times);
    }
    volume.check()
}

fn modified(path: &Path) -> (i64, i64) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.mtime(), metadata.mtime_nsec())
}

fn changed(path: &Path) -> (i64, i64) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.ctime(), metadata.ctime_nsec())
}

/// Changes a file step by step. Returns for each step its name, whether mtime changed, and whether
/// any time changed.
fn movements(folder: &Path) -> Vec<(&'static str, bool, bool)> {
    let path = folder.join("times");
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    let name = |name: &str| folder.join(name);
    let steps: [(&str, &dyn Fn()); 12] = [
        ("write", &|| file.write_all_at(&[1; 10_000], 0).unwrap()),
        ("fsync", &|| file.sync_all().unwrap()),
        ("chmod", &|| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap()),
        ("truncate", &|| file.set_len(5000).unwrap()),
        ("link", &|| fs::hard_link(&path, name("link")).unwrap()),
        ("rename", &|| fs::rename(name("link"), name("moved")).unwrap()),
        ("unlink", &|| fs::remove_file(name("moved")).unwrap()),
        ("utimes", &|| drop(run(Command::new("touch").arg("--date=@7").arg(&path)))),
        ("touch", &|| drop(run(Command::new("touch").arg(&path)))),
        ("fallocate", &|| {
            drop(run(Command::new("fallocate").args(["-l", "99999"]).arg(&path)));
        }),
        ("read", &|| drop(fs::read(&path).unwrap())),
        ("write again", &|| file.write_all_at(b"again", 7).unwrap()),
    ];
    let mut moved = Vec::new();
    for (what, step) in steps {
        let before = (modified(&path), changed(&path));
        std::thread::sleep(MOMENT);
        step();
        moved.push((what, modified(&path) != before.0, changed(&path) != before.1));
    }
    moved
}

pub(crate) fn times_are_those_of_the_kernel() -> Result<(), TrialError> {
    let mut volume = mounted(OPTIONS)?;
    let ours = movements(&volume.path());
    let path = volume.at("times");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let shown = (modified(&path), changed(&path));
    volume.unmount();
    volume.mount(OPTIONS);
    assert_eq!((modified(&path), changed(&path)), shown, "another time after it was mounted again");
    volume.unmount();
    let kernel = volume.image.mount(&[])?;
    assert_eq!(ours, movements(kernel.path()));
    kernel.unmount()?;
    // The kernel does not notice `chattr`; it sees the flag again when it has forgotten the file.
    volume.mount(OPTIONS);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"contents", 0).unwrap();
    let before = (modified(&path), changed(&path));
    std::thread::sleep(MOMENT);
    set_flag(&path, IFlags::NODUMP);
    drop(file);
    volume.unmount();
    volume.mount(OPTIONS);
    assert!(changed(&path) > before.1);
    assert_eq!(modified(&path), before.0);
    volume.check()
}

pub(crate) fn append_only_file_keeps_all_data() -> Result<(), TrialError> {
    let mut volume = mounted(OPTIONS)?;
    let (path, frozen) = (volume.at("log"), volume.at("frozen"));
    // Data acknowledged before the flag is written after it.
    let early = OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
    early.write_all_at(b"First,", 0).unwrap();
    early.sync_all().unwrap();
    early.write_all_at(b"f", 0).unwrap();
    let held = OpenOptions::new().write(true).create_new(true).open(&frozen).unwrap();
    held.write_all_at(b"before", 0).unwrap();
    set_flag(&path, IFlags::APPEND);
    set_flag(&frozen, IFlags::IMMUTABLE);
    early.sync_all().unwrap();
    held.sync_all().unwrap();
    drop((early, held));
    assert!(OpenOptions::new().write(true).open(&path).is_err());
    for word in ["second,", "third,"] {
        let mut added = OpenOptions::new().append(true).open(&path).unwrap();
        added.write_all(word.as_bytes()).unwrap();
        added.sync_all().unwrap();
    }
    let before = modified(&path);
    let mut options = OpenOptions::new();
    let added = options.read(true).append(true).open(&path).unwrap();
    std::thread::sleep(MOMENT);
    (&added).write_all(b"fourth").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"first,second,third,fourth");
    // Only appending works, even if the flag of the descriptor is cleared.
    rustix::fs::fcntl_setfl(&added, OFlags::empty()).unwrap();
    let written = added.write_all_at(b"FIRST", 0).unwrap_err();
    assert_eq!(Errno::from_io_error(&written), Some(Errno::PERM));
    let mut map = Xfsprogs::newer()?.command("xfs_io");
    map.args(["-a", "-c", "mmap -w 0 4096", "-c", "mwrite 0 1"]).arg(&path);
    map.output().unwrap();
    drop(added);
    volume.unmount();
    volume.mount(OPTIONS);
    assert!(modified(&path) > before, "what was added has no time");
    run(Command::new("touch").arg(&path));
    assert!(!Command::new("touch").arg("--date=@1").arg(&path).output().unwrap().status.success());
    volume.unmount();
    volume.mount("ro");
    assert_eq!(fs::read(&path).unwrap(), b"first,second,third,fourth");
    assert_eq!(fs::read(&frozen).unwrap(), b"before");
    volume.unmount();
    volume.mount("rw");
    run(Command::new("chattr").arg("-a").arg(&path));
    run(Command::new("chattr").arg("-i").arg(&frozen));
    volume.check()
}

pub(crate) fn full_volume_is_reported_by_fsync() -> Result<(), TrialError> {
    // In the second case so little is missing that only the last write does not fit, and fits in
    // part.
    for missing_bytes in [LONG_BYTES / 2, 200 << 10] {
        let volume = mounted(OPTIONS)?;
        told_by_fsync(&volume, missing_bytes);
        volume.check()?;
    }
    Ok(())
}

/// Writes a file for which the volume has `missing_bytes` too few free bytes, and checks that fsync
/// reports the lack of space.
fn told_by_fsync(volume: &Mounted, missing_bytes: usize) {
    let path = volume.at("long");
    let space = rustix::fs::statvfs(volume.path()).unwrap();
    let room = space.f_bfree * space.f_frsize;
    let filler = File::create(volume.at("filler")).unwrap();
    rustix::fs::fallocate(
        &filler,
        rustix::fs::FallocateFlags::empty(),
        0,
        room - (LONG_BYTES - missing_bytes) as u64,
    )
    .unwrap();
    let file = File::create(&path).unwrap();
    // The writes may be acknowledged; then the sync fails.
    let written = file.write_all_at(&pattern(LONG_BYTES, 3), 0);
    let synced = file.sync_all();
    let told = written.and(synced).unwrap_err();
    assert_eq!(Errno::from_io_error(&told), Some(Errno::NOSPC), "{told}");
    drop((file, filler));
    fs::remove_file(&path).unwrap();
    fs::remove_file(volume.at("filler")).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let contents = pattern(LONG_BYTES, 4);
    while fs::write(&path, &contents).and_then(|()| File::open(&path)?.sync_all()).is_err() {
        assert!(Instant::now() < deadline, "what was removed is not free");
    }
    assert!(fs::read(&path).unwrap() == contents);
}

pub(crate) fn unwritten_data_is_read_back() -> Result<(), TrialError> {
    let mut volume = mounted("writeback_cache,allow_other")?;
    let path = volume.at("file");
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).open(&path).unwrap();
    file.write_all_at(b"far", 1 << 20).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!(metadata.len(), (1 << 20) + 3);
    assert_ne!(metadata.blocks(), 0, "programs would take it for a hole");
    let read = File::open(&path).unwrap();
    let data = rustix::fs::seek(&read, rustix::fs::SeekFrom::Data(0)).unwrap();
    assert!(data <= 1 << 20, "data at {data}");
    let contents = fs::read(&path).unwrap();
    assert!(contents.starts_with(&[0; 4096]) && contents.ends_with(b"\0far"));
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().blocks(), 8);
    // In the middle of a page that is on disk, through a descriptor that cannot read.
    drop((file, read));
    volume.unmount();
    volume.mount("writeback_cache,allow_other");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(b"A", (1 << 20) + 1).unwrap();
    assert!(fs::read(&path).unwrap().ends_with(b"\0fAr"));
    // Two appending descriptors take turns.
    let add = || OpenOptions::new().append(true).open(&path).unwrap();
    let (mut one, mut other) = (add(), add());
    for _ in 0..100 {
        one.write_all(b"1").unwrap();
        other.write_all(b"2").unwrap();
    }
    drop((file, one, other));
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::DIRECT.bits() as i32);
    let mut direct = options.open(&path).unwrap();
    assert_eq!(std::io::copy(&mut direct, &mut std::io::sink()).unwrap(), (1 << 20) + 203);
    drop(direct);
    assert!(fs::read(&path).unwrap().ends_with(&b"12".repeat(100)));
    volume.check()
}

pub(crate) fn programs_lose_their_rights_when_written_to() -> Result<(), TrialError> {
    let volume = mounted("writeback_cache,allow_other")?;
    run(Command::new("chmod").arg("755").arg(volume.path()));
    let program = volume.at("program");
    fs::write(&program, "contents").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6777)).unwrap();
    let mut write = Command::new("setpriv");
    let script = "echo x >> \"$1\"";
    write.args(["--reuid=1000", "--regid=1000", "--clear-groups", "sh", "-c", script, "sh"]);
    let has_written = write.arg(&program).output().unwrap().status.success();
    // This user may be unable to enter the folders above.
    let kept = if has_written { 0o777 } else { 0o6777 };
    assert_eq!(fs::metadata(&program).unwrap().mode() & 0o7777, kept);
    let capability = [1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let name = "security.capability";
    rustix::fs::setxattr(&program, name, &capability, rustix::fs::XattrFlags::CREATE).unwrap();
    fs::write(&program, "other").unwrap();
    File::open(&program).unwrap().sync_all().unwrap();
    assert_eq!(rustix::fs::getxattr(&program, name, &mut [0; 64]), Err(Errno::NODATA));
    volume.check()
}
