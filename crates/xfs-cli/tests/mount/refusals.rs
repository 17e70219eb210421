//! Tests of mounts and requests that are refused, and of mounts whose server was killed.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, OFlags, StatxFlags};
use xfs_fuse::is_mount_point;
use xfs_oracle::harness::TrialError;

use crate::mounted::{await_end, ferroxfs, mounted, run, said, volume};

pub(crate) fn failed_mount_says_why() -> Result<(), TrialError> {
    let volume = volume("default")?;
    let check = |options: &str, code, words: &str| {
        let output = volume.mount_command(options).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(words), "{text}");
    };
    check("nonsense", 2, "nonsense: unknown mount option\nhint: ferroxfs mount --help");
    check("mand", 3, "mand: this mount option is not supported");
    check("norecovery,rw", 2, "norecovery and rw exclude each other");
    check("offset=512", 3, "is not an XFS volume");
    fs::remove_dir(volume.path()).unwrap();
    check("rw", 1, "No such file or directory");
    fs::write(volume.path(), "a file").unwrap();
    check("rw", 1, "Not a directory");
    fs::remove_file(volume.path()).unwrap();
    fs::create_dir(volume.path()).unwrap();
    fs::write(&volume.image.data, "no volume").unwrap();
    check("ro", 3, "");
    Ok(())
}

/// Checks that a volume with a damaged root is not mounted. Such a mount could neither be used nor
/// be ended without help.
pub(crate) fn volume_with_a_damaged_root_is_not_mounted() -> Result<(), TrialError> {
    /// The offset in bytes at which mkfs puts the root inode: its number is 128, and an inode has
    /// 512 bytes.
    const ROOT_BYTES: u64 = 128 * 512;
    let volume = volume("default")?;
    let image = fs::File::options().write(true).open(&volume.image.data).unwrap();
    image.write_all_at(b"no root", ROOT_BYTES).unwrap();
    drop(image);
    let before = fs::read(&volume.image.data).unwrap();
    for options in ["rw", "ro"] {
        let output = volume.mount_command(options).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(5), "{text}");
        assert!(text.contains(": /: inode 128: magic number"), "{text}");
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(volume.path().to_str().unwrap()), "it is mounted");
    }
    assert!(fs::read(&volume.image.data).unwrap() == before, "the image has changed");
    Ok(())
}

/// Checks that a volume without its superblock, and with a destroyed file, is mounted with the
/// option `damaged`. The mount names the file that is not whole, shows the rest, and refuses
/// writes.
pub(crate) fn damaged_volume_is_mounted_as_far_as_it_can_be_read() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    fs::create_dir(volume.at("dir")).unwrap();
    let long: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    fs::write(volume.at("dir/kept"), &long).unwrap();
    fs::write(volume.at("dir/lost"), "lost").unwrap();
    symlink("dir/kept", volume.at("link")).unwrap();
    let lost = fs::metadata(volume.at("dir/lost")).unwrap().ino();
    volume.unmount();
    let image = fs::File::options().write(true).open(&volume.image.data).unwrap();
    image.write_all_at(&[0; 512], 0).unwrap();
    // The inodes of the first group start at their number times their length of 512 bytes.
    image.write_all_at(&[0; 512], lost * 512).unwrap();
    drop(image);
    let before = fs::read(&volume.image.data).unwrap();
    let output = volume.mount_command("damaged,rw").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("damaged and rw exclude each other"), "{}", said(&output));
    let output = volume.mount_command("damaged").output().unwrap();
    volume.is_mounted = true;
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    assert!(said(&output).contains("/dir/lost: "), "{}", said(&output));
    assert!(fs::read(volume.at("dir/kept")).unwrap() == long, "other contents");
    assert!(fs::read(volume.at("link")).unwrap() == long, "other contents");
    let mut listed: Vec<_> =
        fs::read_dir(volume.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    listed.sort();
    assert_eq!(listed, ["dir", "link"]);
    assert_eq!(fs::metadata(volume.at("dir/kept")).unwrap().len(), long.len() as u64);
    let refused = fs::write(volume.at("dir/new"), "new").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    volume.unmount();
    assert!(fs::read(&volume.image.data).unwrap() == before, "the image has changed");
    Ok(())
}

/// Checks that a mount whose server was killed is named in a hint, and can be unmounted.
pub(crate) fn dead_mount_is_cleared_away() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    let pid = volume.server();
    run(Command::new("kill").args(["-KILL", &pid]));
    await_end(&pid);
    let output = volume.mount_command("rw").output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("hint: the server of that mount was killed"), "{text}");
    let place = volume.path();
    let shown = place.display();
    assert_eq!(text.matches(&format!("{shown}: ")).count(), 1, "named once: {text}");
    volume.unmount();
    volume.mount("rw");
    volume.check()
}

/// Checks that umount removes a mount whose server is being killed, at whatever moment umount runs.
pub(crate) fn dying_mount_is_cleared_away() -> Result<(), TrialError> {
    const ROUNDS: usize = 10;
    let mut volume = mounted("rw")?;
    for round in 0..ROUNDS {
        fs::write(volume.at(&format!("file{round}")), "contents").unwrap();
        let pid = volume.server();
        run(Command::new("kill").args(["-KILL", &pid]));
        let text = loop {
            let output = ferroxfs(&["umount"]).arg(volume.path()).output().unwrap();
            let text = said(&output);
            // If it dies after the question, the question fails.
            if output.status.success() || text.contains("its server failed") {
                break text;
            }
            // A child that another trial has just forked may hold the file open.
            assert!(text.contains("busy"), "round {round}: {text}");
            thread::sleep(Duration::from_millis(20));
        };
        assert!(!is_mount_point(&volume.path()), "round {round}: {text}");
        await_end(&pid);
        volume.mount("rw");
    }
    volume.check()
}

pub(crate) fn write_protected_device_is_only_read() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let mut attach = Command::new("losetup");
    let device = run(attach.args(["--read-only", "--find", "--show"]).arg(&volume.image.data));
    let device = device.trim();
    let mount = |options: &str| {
        let mut mount = ferroxfs(&["mount", "-o", options, device]);
        mount.arg(volume.path()).output().unwrap()
    };
    let (written, read) = (mount("rw"), mount("ro"));
    let is_mounted = read.status.success();
    if is_mounted {
        run(ferroxfs(&["umount"]).arg(volume.path()));
    }
    run(Command::new("losetup").args(["--detach", device]));
    let text = said(&written);
    assert_eq!(written.status.code(), Some(1), "{text}");
    assert!(text.contains("is write-protected") && text.contains("-o ro"), "{text}");
    assert!(is_mounted, "{}", said(&read));
    volume.check()
}

pub(crate) fn image_in_use_is_reported() -> Result<(), TrialError> {
    let volume = mounted("rw")?;
    let open = fs::File::create(volume.at("file")).unwrap();
    let output = ferroxfs(&["umount"]).arg(volume.path()).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let hint = format!("hint: fuser -vm {} shows the processes", volume.path().display());
    assert!(text.contains(&hint), "{text}");
    drop(open);
    let other = volume.outside("other.xfs");
    fs::File::create(&other).unwrap().set_len(512 << 20).unwrap();
    run(ferroxfs(&["mkfs", "-q"]).arg(&other));
    let mut over = ferroxfs(&["mount"]);
    let output = over.arg(&other).arg(volume.path()).output().unwrap();
    let text = said(&output);
    assert!(output.status.success() && text.contains("mnt: hides the mount there"), "{text}");
    assert!(!volume.at("file").exists());
    run(ferroxfs(&["umount"]).arg(volume.path()));
    assert!(volume.at("file").exists());
    volume.check()
}

pub(crate) fn read_only_mount_writes_nothing() -> Result<(), TrialError> {
    let mut volume = mounted("rw")?;
    fs::write(volume.at("file"), "contents").unwrap();
    volume.kill();
    let before = fs::read(&volume.image.data).unwrap();
    volume.mount("ro");
    await_sandbox(&volume.server());
    assert!(fs::read_dir(volume.path()).unwrap().count() <= 1);
    assert!(fs::write(volume.at("other"), "x").is_err());
    volume.unmount();
    if xfs_testkit::has_landlock() && xfs_testkit::has_namespaces() {
        run(volume.mount_command("ro").arg("--sandbox=always"));
        run(ferroxfs(&["umount"]).arg(volume.path()));
    }
    assert!(fs::read(&volume.image.data).unwrap() == before, "the image has changed");
    volume.mount("rw");
    // A second mount of an image in use is refused.
    let again = volume.mount_command("rw").output().unwrap();
    assert_ne!(again.status.code(), Some(0), "{}", said(&again));
    volume.check()
}

/// Waits until every worker of the server has its filter of system calls. Then checks the
/// namespaces of the workers, and that the workers have no capabilities.
pub(crate) fn await_sandbox(server: &str) {
    for _ in 0..1000 {
        let tasks = fs::read_dir(format!("/proc/{server}/task")).unwrap();
        let is_worker = |task: &PathBuf| {
            // A thread that has just ended has no name.
            fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("fuse-"))
        };
        let workers: Vec<_> = tasks.map(|task| task.unwrap().path()).filter(is_worker).collect();
        let is_filtered = |task: &PathBuf| {
            fs::read_to_string(task.join("status")).is_ok_and(|text| text.contains("Seccomp:\t2"))
        };
        if !workers.is_empty() && workers.iter().all(is_filtered) {
            // A user who may not make namespaces serves without them.
            if xfs_testkit::has_namespaces() {
                workers.iter().for_each(|worker| check_namespaces(worker));
            }
            for worker in &workers {
                let status = fs::read_to_string(worker.join("status")).unwrap();
                for set in ["CapPrm", "CapEff", "CapBnd", "CapAmb"] {
                    assert!(status.contains(&format!("{set}:\t0000000000000000")), "{status}");
                }
            }
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("a worker does not enter the sandbox");
}

/// Checks that a worker has namespaces of its own, in which no file name of the host exists. The
/// thread that unmounts at the end stays in the namespaces of the host.
fn check_namespaces(worker: &Path) {
    let server = worker.parent().and_then(Path::parent).unwrap();
    for kind in ["mnt", "ipc", "uts", "cgroup"] {
        let namespace = |process: &Path| fs::read_link(process.join("ns").join(kind)).unwrap();
        assert_eq!(namespace(server), namespace(Path::new("/proc/self")), "{kind}");
        assert_ne!(namespace(server), namespace(worker), "{kind}");
    }
    assert_eq!(fs::read_dir(worker.join("root")).unwrap().count(), 0);
    assert_ne!(fs::read_dir(server.join("root")).unwrap().count(), 0);
}

/// Checks that the server writes no access times on a read-only mount, however it became read-only.
pub(crate) fn mount_made_read_only_keeps_its_times() -> Result<(), TrialError> {
    let volume = mounted("rw")?;
    for helped in [true, false] {
        let remount = |how: &str| {
            let how = format!("remount,{how}");
            let mut mount = if helped { ferroxfs(&["mount"]) } else { Command::new("mount") };
            // Without its helper mount(8) makes only the system call.
            mount.args((!helped).then_some("-i")).args(["-o", &how]);
            // ferroxfs needs only the folder.
            mount.args((!helped).then_some(&volume.image.data));
            run(mount.arg(volume.path()));
        };
        let folder = volume.at(if helped { "helped" } else { "alone" });
        fs::create_dir(&folder).unwrap();
        for name in ["first", "second", "third"] {
            fs::write(folder.join(name), "contents").unwrap();
            symlink("target", folder.join(format!("{name}-link"))).unwrap();
        }
        // A first read is due to set the access time of each file.
        let changes = |name: &str| {
            let link = folder.join(format!("{name}-link"));
            let file = folder.join(name);
            let times = || [&folder, &file, &link].map(|path| accessed(path));
            let before = times();
            assert!(fs::read_dir(&folder).unwrap().count() >= 6);
            read_directly(&file);
            fs::read_link(&link).unwrap();
            let after = times();
            std::array::from_fn::<bool, 3, _>(|index| before[index] != after[index])
        };
        remount("ro");
        assert_eq!(changes("first"), [false; 3], "helped: {helped}");
        remount("rw");
        assert_eq!(changes("second"), [true; 3], "helped: {helped}");
        fs::write(folder.join("other"), "").unwrap();
        remount("ro");
        assert_eq!(changes("third"), [false; 3], "helped: {helped}");
        remount("rw");
    }
    volume.check()
}

/// Returns the access time of a file as the server has it, and not as the kernel has cached it.
fn accessed(path: &Path) -> (i64, u32) {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
    let found = rustix::fs::statx(rustix::fs::CWD, path, flags, StatxFlags::ATIME).unwrap();
    (found.stx_atime.tv_sec, found.stx_atime.tv_nsec)
}

/// Reads a file with O_DIRECT, so that the kernel asks the server instead of its page cache.
fn read_directly(path: &Path) {
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap();
    let file = fs::File::options().read(true).custom_flags(direct).open(path).unwrap();
    let mut buffer = [0; 4096];
    assert!((&file).read(&mut buffer).unwrap() > 0);
}
