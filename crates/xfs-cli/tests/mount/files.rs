//! Tests of operations on single files of a mount.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, CWD, FallocateFlags, OFlags, RenameFlags, StatxFlags, XattrFlags, fallocate, linkat,
    renameat_with, statx,
};
use rustix::io::Errno;
use xfs_oracle::harness::TrialError;

use crate::mounted::{mounted, run};

pub(crate) fn files_without_names_are_kept() -> Result<(), TrialError> {
    let volume = mounted("rw")?;
    let path = volume.at("file");
    fs::write(&path, "before").unwrap();
    let mut open = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let held = OpenOptions::new().read(true).custom_flags(libc_path()).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(open.metadata().unwrap().nlink(), 0);
    assert_eq!(held.metadata().unwrap().nlink(), 0);
    // Other files get its name, but not its number.
    for index in 0..200 {
        fs::write(volume.at(&format!("other{index}")), "other").unwrap();
    }
    open.write_all(b"after!").unwrap();
    open.seek(SeekFrom::Start(0)).unwrap();
    let mut contents = String::new();
    open.read_to_string(&mut contents).unwrap();
    assert_eq!(contents, "after!");
    // A file that is replaced stays readable as well.
    fs::write(&path, "second").unwrap();
    let replaced = File::open(&path).unwrap();
    fs::rename(volume.at("other0"), &path).unwrap();
    assert_eq!(replaced.metadata().unwrap().nlink(), 0);
    assert_eq!(std::io::read_to_string(&replaced).unwrap(), "second");
    // A file that never had a name gets one.
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(OFlags::TMPFILE.bits() as i32);
    let mut unnamed = options.open(volume.path()).unwrap();
    unnamed.write_all(b"unnamed").unwrap();
    linkat(&unnamed, c"", CWD, volume.at("named"), AtFlags::EMPTY_PATH).unwrap();
    assert_eq!(fs::read(volume.at("named")).unwrap(), b"unnamed");
    drop(options.open(volume.path()).unwrap());
    // A removed directory is empty, and accepts nothing.
    let folder = volume.at("folder");
    fs::create_dir(&folder).unwrap();
    let inside = File::open(&folder).unwrap();
    fs::remove_dir(&folder).unwrap();
    let made = rustix::fs::openat(&inside, "x", OFlags::CREATE | OFlags::WRONLY, 0o600.into());
    assert_eq!(made.err(), Some(Errno::NOENT));
    drop((open, held, replaced, unnamed, inside));
    volume.check()
}

/// Returns the flag O_PATH, which opens a descriptor of a file without opening the file.
fn libc_path() -> i32 {
    OFlags::PATH.bits() as i32
}

pub(crate) fn ranges_and_copies() -> Result<(), TrialError> {
    let volume = mounted("rw")?;
    let path = volume.at("file");
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    file.write_all_at(&[7; 64 << 10], 0).unwrap();
    // Root may change a program and keep its set-ID bits.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).unwrap();
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 4096, 8192).unwrap();
    fallocate(&file, FallocateFlags::ZERO_RANGE, 32 << 10, 4096).unwrap();
    fallocate(&file, FallocateFlags::KEEP_SIZE, 64 << 10, 1 << 20).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o7777), (64 << 10, 0o4755));
    assert!(metadata.blocks() * 512 >= (1 << 20), "{} blocks", metadata.blocks());
    file.sync_all().unwrap();
    let hole = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(0)).unwrap();
    let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(4096)).unwrap();
    assert_eq!((hole, data), (4096, 12288));
    let copy = File::create(volume.at("copy")).unwrap();
    let (mut from, mut to) = (0, 0);
    while rustix::fs::copy_file_range(&file, Some(&mut from), &copy, Some(&mut to), 1 << 20)
        .unwrap()
        > 0
    {}
    assert_eq!(fs::read(&path).unwrap(), fs::read(volume.at("copy")).unwrap());
    let contents = fs::read(&path).unwrap();
    assert!(contents[4096..12288].iter().chain(&contents[32768..36864]).all(|byte| *byte == 0));
    assert_eq!(contents.iter().filter(|byte| **byte == 7).count(), (64 << 10) - 12288);
    // Names are exchanged, and not replaced if that is unwanted.
    let flags = RenameFlags::EXCHANGE;
    fs::write(volume.at("other"), "other").unwrap();
    renameat_with(CWD, &path, CWD, volume.at("other"), flags).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"other");
    let refused = renameat_with(CWD, &path, CWD, volume.at("other"), RenameFlags::NOREPLACE);
    assert_eq!(refused.err(), Some(Errno::EXIST));
    renameat_with(CWD, &path, CWD, volume.at("moved"), RenameFlags::WHITEOUT).unwrap();
    assert_eq!(fs::symlink_metadata(&path).unwrap().rdev(), 0);
    drop((file, copy));
    volume.check()
}

pub(crate) fn flags_and_attributes() -> Result<(), TrialError> {
    let volume = mounted("rw")?;
    let path = volume.at("file");
    fs::write(&path, "contents").unwrap();
    let born = statx(CWD, &path, AtFlags::empty(), StatxFlags::BTIME).unwrap();
    assert!(StatxFlags::from_bits_retain(born.stx_mask).contains(StatxFlags::BTIME));
    assert!(born.stx_btime.tv_sec > 1_700_000_000, "{:?}", born.stx_btime);
    let value = vec![b'v'; 40_000];
    rustix::fs::setxattr(&path, "user.long", &value, XattrFlags::CREATE).unwrap();
    let again = rustix::fs::setxattr(&path, "user.long", &value, XattrFlags::CREATE);
    assert_eq!(again, Err(Errno::EXIST));
    let mut room = vec![0; 64 << 10];
    assert_eq!(rustix::fs::getxattr(&path, "user.long", room.as_mut_slice()), Ok(value.len()));
    let length = rustix::fs::listxattr(&path, room.as_mut_slice()).unwrap();
    assert_eq!(CStr::from_bytes_with_nul(&room[..length]).unwrap(), c"user.long");
    rustix::fs::removexattr(&path, "user.long").unwrap();
    assert_eq!(rustix::fs::getxattr(&path, "user.long", room.as_mut_slice()), Err(Errno::NODATA));
    let changed = |file: &fs::Metadata| (file.ctime(), file.ctime_nsec());
    let before = changed(&fs::metadata(&path).unwrap());
    run(Command::new("chattr").arg("+i").arg(&path));
    assert!(changed(&fs::metadata(&path).unwrap()) > before);
    for refused in [fs::write(&path, "x"), fs::remove_file(&path), symlink("x", path.join("y"))] {
        let kind = refused.unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::PermissionDenied | ErrorKind::NotADirectory), "{kind}");
    }
    assert!(run(Command::new("lsattr").arg(&path)).starts_with("----i"));
    run(Command::new("chattr").arg("-i").arg(&path));
    // An append-only file can be appended to, and loses its capabilities then.
    let capability = [1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let name = "security.capability";
    rustix::fs::setxattr(&path, name, &capability, XattrFlags::CREATE).unwrap();
    run(Command::new("chattr").arg("+a").arg(&path));
    let mut added = OpenOptions::new().append(true).open(&path).unwrap();
    added.write_all(b" and more").unwrap();
    drop(added);
    assert_eq!(fs::read(&path).unwrap(), b"contents and more");
    // Setting given times fails, and touching it succeeds.
    run(Command::new("touch").arg(&path));
    let given = Command::new("touch").arg("--date=@1").arg(&path).output().unwrap();
    assert!(!given.status.success());
    assert_eq!(rustix::fs::getxattr(&path, name, room.as_mut_slice()), Err(Errno::NODATA));
    assert_eq!(rustix::fs::removexattr(&path, name), Err(Errno::NODATA));
    rustix::fs::setxattr(&path, "user.x", b"x", XattrFlags::CREATE).unwrap_err();
    run(Command::new("chattr").arg("-a").arg(&path));
    volume.check()
}

pub(crate) fn lists_of_access_are_kept() -> Result<(), TrialError> {
    let volume = mounted("allow_other")?;
    let path = volume.at("file");
    fs::write(&path, "contents").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    run(Command::new("chmod").arg("755").arg(volume.path()));
    let read = || {
        let mut read = Command::new("setpriv");
        read.args(["--reuid=1000", "--regid=1000", "--clear-groups", "cat"]).arg(&path);
        read.output().unwrap().status.success()
    };
    // If this user cannot enter the folders above, there is nothing to test.
    let reachable = volume
        .path()
        .ancestors()
        .all(|folder| fs::metadata(folder).is_ok_and(|metadata| metadata.mode() & 0o001 != 0));
    assert!(!read());
    // Version 2; u::rw-, u:1000:r--, g::---, m::r--, o::---.
    let list = b"\x02\0\0\0\
        \x01\0\x06\0\xff\xff\xff\xff\
        \x02\0\x04\0\xe8\x03\0\0\
        \x04\0\0\0\xff\xff\xff\xff\
        \x10\0\x04\0\xff\xff\xff\xff\
        \x20\0\0\0\xff\xff\xff\xff";
    // A write by another user clears the set-ID bits of a program.
    let program = volume.at("program");
    fs::write(&program, "contents").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6777)).unwrap();
    let mut write = Command::new("setpriv");
    let script = "echo x >> \"$1\"";
    write.args(["--reuid=1000", "--regid=1000", "--clear-groups", "sh", "-c", script, "sh"]);
    assert_eq!(write.arg(&program).output().unwrap().status.success(), reachable);
    let kept = if reachable { 0o777 } else { 0o6777 };
    assert_eq!(fs::metadata(&program).unwrap().mode() & 0o7777, kept);
    // Also past the page cache.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6777)).unwrap();
    let mut write = Command::new("setpriv");
    write.args(["--reuid=1000", "--regid=1000", "--clear-groups", "dd", "if=/dev/zero"]);
    write.args(["bs=4096", "count=1", "oflag=direct", "conv=notrunc"]);
    write.arg(format!("of={}", program.display()));
    assert_eq!(write.output().unwrap().status.success(), reachable);
    assert_eq!(fs::metadata(&program).unwrap().mode() & 0o7777, kept);
    // So does allocating a range.
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6777)).unwrap();
    let mut allocate = Command::new("setpriv");
    allocate.args(["--reuid=1000", "--regid=1000", "--clear-groups", "fallocate", "-l", "8192"]);
    assert_eq!(allocate.arg(&program).output().unwrap().status.success(), reachable);
    assert_eq!(fs::metadata(&program).unwrap().mode() & 0o7777, kept);
    let name = "system.posix_acl_access";
    rustix::fs::setxattr(&path, name, list, XattrFlags::empty()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    assert!(!reachable || read());
    let mut room = [0; 256];
    let length = rustix::fs::getxattr(&path, name, &mut room).unwrap();
    assert_eq!(room[..length], *list);
    volume.check()
}

/// Checks that stat(2) no longer counts preallocated blocks of a file once the file was closed and
/// these blocks were freed. The kernel caches the number of blocks, so the server must tell the
/// kernel that it has freed some.
pub(crate) fn freed_space_is_shown() -> Result<(), TrialError> {
    const PIECE: usize = 64 << 10;
    const PIECES: u64 = 200;
    let volume = mounted("rw")?;
    let path = volume.at("file");
    let mut file = File::create(&path).unwrap();
    for _ in 0..PIECES {
        file.write_all(&[b'a'; PIECE]).unwrap();
    }
    let needed = PIECES * PIECE as u64 / 512;
    let blocks = file.metadata().unwrap().blocks();
    assert!(blocks > needed, "{blocks} blocks: no space ahead");
    drop(file);
    let end = Instant::now() + Duration::from_secs(20);
    while fs::metadata(&path).unwrap().blocks() != needed {
        assert!(Instant::now() < end, "what was shown before the file was closed is shown still");
        std::thread::sleep(Duration::from_millis(10));
    }
    volume.check()
}

/// Checks that reads show the effects of a call that fails. Zeroing a range frees its blocks before
/// it allocates others: if no others are available, the call fails, and the range reads as zeros.
pub(crate) fn effects_of_a_failed_call_are_shown() -> Result<(), TrialError> {
    const BYTES: u64 = 1 << 20;
    let volume = mounted("rw")?;
    let path = volume.at("file");
    fs::write(&path, vec![b'a'; BYTES as usize]).unwrap();
    let file = File::options().read(true).write(true).open(&path).unwrap();
    let mut cached = vec![0; BYTES as usize];
    file.read_exact_at(&mut cached, 0).unwrap();
    let zeroed = fallocate(&file, FallocateFlags::ZERO_RANGE, 0, 1 << 40);
    assert_eq!(zeroed, Err(Errno::NOSPC));
    let mut direct = File::options();
    direct.read(true).custom_flags(OFlags::DIRECT.bits() as i32);
    let direct = direct.open(&path).unwrap();
    let mut room = vec![b'?'; BYTES as usize + 4096];
    let start = room.as_ptr().align_offset(4096);
    let there = &mut room[start..start + BYTES as usize];
    direct.read_exact_at(there, 0).unwrap();
    assert!(there == vec![0; there.len()], "nothing was zeroed");
    let end = Instant::now() + Duration::from_secs(20);
    while cached != *there {
        assert!(Instant::now() < end, "what was read before is shown still");
        std::thread::sleep(Duration::from_millis(10));
        file.read_exact_at(&mut cached, 0).unwrap();
    }
    drop((file, direct));
    volume.check()
}
