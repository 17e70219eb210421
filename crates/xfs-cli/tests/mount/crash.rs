//! Tests of mounts whose server is killed or ended by a signal.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use xfs_oracle::harness::TrialError;

use crate::mounted::{await_end, mounted, run};

/// The number of threads that work on the mount when its server is killed.
const THREADS: usize = 4;
/// How long the threads work before the server of the mount is killed.
const WORK: Duration = Duration::from_secs(1);

pub(crate) fn killed_mount_is_recovered() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    let stop = AtomicBool::new(false);
    let synced = thread::scope(|scope| {
        let storm = |thread| {
            let (volume, stop) = (&volume, &stop);
            scope.spawn(move || storm(&volume.at(&format!("thread{thread}")), stop))
        };
        let storms: Vec<_> = (0..THREADS).map(storm).collect();
        let end = Instant::now() + WORK;
        while Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        let pid = volume.server();
        run(Command::new("kill").args(["-KILL", &pid]));
        stop.store(true, Ordering::Relaxed);
        await_end(&pid);
        storms.into_iter().map(|storm| storm.join().unwrap()).collect::<Vec<_>>()
    });
    run(Command::new("umount").arg("--lazy").arg(volume.path()));
    volume.mount("rw");
    for (thread, names) in synced.iter().enumerate() {
        assert!(!names.is_empty(), "nothing was synced");
        for name in names {
            let path = volume.at(&format!("thread{thread}/{name}"));
            assert_eq!(fs::read_to_string(&path).unwrap(), *name, "{}", path.display());
        }
    }
    volume.check()
}

/// Checks that data written with O_SYNC or O_DSYNC survives a kill. Also checks an append-only
/// file: writes to it bypass the page cache of the kernel, and the kernel sends no fsync after
/// them.
pub(crate) fn written_through_data_survives_a_kill() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    let kinds = [("plain", false), ("added", true)];
    let ways = [("dsync", libc::O_DSYNC), ("sync", libc::O_SYNC)];
    let files = kinds.iter().flat_map(|kind| ways.map(|way| (*kind, way)));
    let files: Vec<_> = files
        .map(|((kind, is_added), (way, flag))| (format!("{kind}-{way}"), is_added, flag))
        .collect();
    for (name, is_added, _) in &files {
        fs::write(volume.at(name), "").unwrap();
        if *is_added {
            run(Command::new("chattr").arg("+a").arg(volume.at(name)));
        }
    }
    let write = |(name, _, flag): &(String, bool, i32)| {
        let mut options = OpenOptions::new();
        let mut file = options.append(true).custom_flags(*flag).open(volume.at(name)).unwrap();
        file.write_all(name.as_bytes()).unwrap();
        // It stays open: closing it would write it.
        file
    };
    let open: Vec<_> = files.iter().map(write).collect();
    volume.kill();
    drop(open);
    volume.mount("rw");
    for (name, ..) in &files {
        assert_eq!(fs::read_to_string(volume.at(name)).unwrap(), *name);
    }
    volume.check()
}

/// Creates, syncs and renames files until an operation fails because the mount is gone, or until
/// `stop` is set. Returns the names of the files that were synced.
fn storm(folder: &std::path::Path, stop: &AtomicBool) -> Vec<String> {
    let mut synced = Vec::new();
    let mut work = |index: usize| -> std::io::Result<()> {
        let name = format!("file{index}");
        let path = folder.join(&name);
        let mut file = File::create_new(&path)?;
        file.write_all(name.as_bytes())?;
        if index.is_multiple_of(5) {
            file.sync_all()?;
            synced.push(name);
            return Ok(());
        }
        fs::rename(&path, folder.join(format!("moved{}", index % 7)))
    };
    if fs::create_dir(folder).is_ok() {
        let _ = (0..).take_while(|_| !stop.load(Ordering::Relaxed)).try_for_each(&mut work);
    }
    synced
}

pub(crate) fn volume_is_labelled_and_shut_down() -> Result<(), TrialError> {
    let mut volume = mounted("allow_other")?;
    let io = |how: &str| {
        let mut io = Command::new("xfs_io");
        io.args(["-x", "-c", how]).arg(volume.path()).output().unwrap()
    };
    let labelled = String::from_utf8(io("label -s proof").stdout).unwrap();
    assert!(labelled.contains("\"proof\""), "{labelled}");
    let read = String::from_utf8(io("label").stdout).unwrap();
    assert!(read.contains("\"proof\""), "{read}");
    let refused = String::from_utf8(io("label -s longer-than-12").stderr).unwrap();
    assert!(refused.contains("Invalid argument"), "{refused}");
    // From within: an ordinary user may be unable to enter the folders above.
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid=1000", "--regid=1000", "--clear-groups", "xfs_io", "-x", "-c"]);
    let output = nobody.args(["shutdown", "."]).current_dir(volume.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("not permitted"), "{output:?}");
    fs::write(volume.at("file"), "contents").unwrap();
    let output = io("shutdown -f");
    assert!(output.stderr.is_empty(), "{output:?}");
    let error = fs::write(volume.at("other"), "x").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    volume.unmount();
    let before = volume.image.findings()?.unwrap_or_default();
    assert!(before.contains("log"), "its log was to be dirty: {before}");
    volume.mount("rw");
    // The kernel reports the close after close(2) returns: the contents may have come too late.
    assert!(volume.at("file").exists());
    assert!(!volume.at("other").exists());
    volume.unmount();
    let label = run(crate::mounted::ferroxfs(&["label"]).arg(&volume.image.data));
    assert!(label.contains("proof"), "{label}");
    volume.check()
}

pub(crate) fn signals_unmount_cleanly() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    for (signal, is_busy) in [("-TERM", false), ("-INT", true)] {
        let path = volume.at(signal);
        let mut file = File::create(&path).unwrap();
        file.write_all(b"contents").unwrap();
        let busy = is_busy.then_some(file);
        let pid = volume.server();
        run(Command::new("kill").args([signal, &pid]));
        await_end(&pid);
        drop(busy);
        // The log is clean: without recovery everything is there.
        volume.mount("norecovery");
        assert_eq!(fs::read(&path).unwrap(), b"contents");
        volume.unmount();
        volume.mount("rw");
    }
    // A mount of another user over it must not be unmounted.
    let pid = volume.server();
    let path = volume.path();
    run(Command::new("mount").args(["-t", "tmpfs", "theirs"]).arg(&path));
    run(Command::new("kill").args(["-TERM", &pid]));
    await_end(&pid);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let is_theirs =
        |line: &&str| line.contains(path.to_str().unwrap()) && line.contains(" theirs ");
    let left = mounts.lines().filter(is_theirs).count();
    for _ in 0..=left {
        run(Command::new("umount").arg("--lazy").arg(&path));
    }
    assert_eq!(left, 1);
    volume.mount("rw");
    volume.check()
}
