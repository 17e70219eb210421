use std::sync::Arc;

use ferroxfs::admin::Upkeep;
use ferroxfs::attr::ExtendedFlags;
use ferroxfs::attr::SetMode;
use ferroxfs::device::SharedDevice;
use ferroxfs::{CreateOptions, NewKind, OpenOptions, PosixError, SetAttributes};
use rustix::fs::OFlags;
use rustix::io::Errno;
use xfs_testkit::{FailingDevice, Fault, Persistence, RequestKind};
use xfs_trans::testing::make_with;
use zerocopy::{FromBytes, IntoBytes};

use super::contents::DSYNC;
use super::{AccessTimes, FREED_AT_ONCE, Server, Settings, SyncPolicy};
use crate::Checks;
use crate::transport::wire::{
    AccessIn, AttrOut, BatchForgetIn, CopyFileRangeIn, DirEntry, EntryOut, FSYNC_DATA_ONLY,
    FsyncIn, InHeader, InitFlags, OPEN_DIRECT_IO, Opcode, OpenIn, OpenOut, OutHeader, ROOT_NODE,
    ReadIn, Rename2In, RenameIn, SeekIn, SeekOut, SetAttrIn, WRITE_CACHE, WriteIn, WriteOut, set,
};
use crate::transport::{Handler, Reply, Request};

const PLAIN: CreateOptions = CreateOptions::new(0o644);

pub(super) fn server(device: SharedDevice) -> Server {
    server_with(device, Settings::default())
}

fn server_with(device: SharedDevice, settings: Settings) -> Server {
    let options = OpenOptions::new().write(true).with_devices(device, None);
    Server::new(options.open().unwrap(), settings).unwrap()
}

/// Creates a file with these contents in the root.
pub(super) fn put(server: &Server, name: &str, contents: &str) {
    let root = server.volume.root().unwrap();
    let file = root.create(name, &NewKind::Regular, &PLAIN).unwrap().open().unwrap();
    assert_eq!(file.write_at(contents.as_bytes(), 0).unwrap(), contents.len());
}

fn request(opcode: Opcode, node: u64, body: &[u8]) -> Vec<u8> {
    let mut codes = 0..64;
    let opcode = codes.find(|code| Opcode::of(*code) == Some(opcode)).unwrap();
    let length = (size_of::<InHeader>() + body.len()) as u32;
    let header = InHeader { length, opcode, node, ..InHeader::default() };
    [header.as_bytes(), body].concat()
}

/// Serves a request and returns the body of the answer.
pub(super) fn ask(
    server: &Server,
    opcode: Opcode,
    node: u64,
    body: &[u8],
) -> Result<Vec<u8>, Errno> {
    let bytes = request(opcode, node, body);
    let mut reply = Reply::default();
    reply.clear();
    server.handle(&Request::decode(&bytes).unwrap(), &mut reply)?;
    Ok(reply.finish(0, Ok(()))[size_of::<OutHeader>()..].to_vec())
}

#[test]
fn syncing_requests_wait_for_the_device() {
    let waits = |durability, opcode| {
        let settings = Settings { durability, ..Settings::default() };
        server_with(make_with("-l size=16m"), settings).waits(opcode)
    };
    assert!(waits(SyncPolicy::Asked, Opcode::Fsync));
    assert!(!waits(SyncPolicy::Asked, Opcode::Create));
    assert!(waits(SyncPolicy::Names, Opcode::Create));
}

#[test]
fn forgotten_small_file_is_freed_at_once() {
    let server = server(make_with("-l size=16m"));
    put(&server, "small", "small");
    let entry = ask(&server, Opcode::Lookup, ROOT_NODE, b"small\0").unwrap();
    let node = EntryOut::read_from_bytes(&entry).unwrap().node;
    let freed = || server.volume.statistics().unwrap().inodes.removed;
    let before = freed();
    ask(&server, Opcode::Unlink, ROOT_NODE, b"small\0").unwrap();
    assert_eq!(freed(), before);
    ask(&server, Opcode::GetAttr, node, &[0; 16]).unwrap();
    ask(&server, Opcode::Forget, node, 1_u64.as_bytes()).unwrap();
    assert_eq!(freed(), before + 1);
}

/// Creates and removes `count` files that the kernel still knows: it has looked them up and not
/// forgotten them. Returns their nodes.
fn remove_known(server: &Server, count: usize) -> Vec<u64> {
    let remove = |index| {
        let name = format!("known{index}");
        put(server, &name, "small");
        let name = [name.as_bytes(), b"\0"].concat();
        let entry = ask(server, Opcode::Lookup, ROOT_NODE, &name).unwrap();
        ask(server, Opcode::Unlink, ROOT_NODE, &name).unwrap();
        EntryOut::read_from_bytes(&entry).unwrap().node
    };
    (0..count).map(remove).collect()
}

#[test]
fn batch_forget_frees_only_some_files_in_its_worker() {
    let server = server(make_with("-l size=16m"));
    let freed = || server.volume.statistics().unwrap().inodes.removed;
    let before = freed();
    let nodes = remove_known(&server, 3 * FREED_AT_ONCE);
    let batch = BatchForgetIn { count: nodes.len() as u32, padding: 0 };
    let forgets: Vec<[u64; 2]> = nodes.iter().map(|node| [*node, 1]).collect();
    let body = [batch.as_bytes(), forgets.as_bytes()].concat();
    ask(&server, Opcode::BatchForget, 0, &body).unwrap();
    assert!(freed() >= before + FREED_AT_ONCE as u64);
    // The background thread frees the others.
    for number in nodes.into_iter().map(|node| server.number(node)) {
        let gone = server.volume.node(number).unwrap_err();
        assert!(matches!(gone, ferroxfs::Error::Posix(PosixError::NotFound)), "{gone}");
    }
    server.close().unwrap();
}

#[test]
fn forgotten_file_is_freed_at_once_only_with_room() {
    let server = server(make_with("-l size=16m"));
    let mut room = 2;
    let left = remove_known(&server, 4).into_iter().map(|node| {
        server.unlinked.forget(node, &mut room);
        room
    });
    assert_eq!(left.collect::<Vec<_>>(), [1, 0, 0, 0]);
    server.close().unwrap();
}

#[test]
fn open_file_survives_a_late_forget() {
    let server = server(make_with("-l size=16m"));
    put(&server, "mine", "mine");
    let entry = ask(&server, Opcode::Lookup, ROOT_NODE, b"mine\0").unwrap();
    let node = EntryOut::read_from_bytes(&entry).unwrap().node;
    let open = OpenIn { flags: 0, open_flags: 0 };
    let opened = ask(&server, Opcode::Open, node, open.as_bytes()).unwrap();
    let handle = OpenOut::read_from_bytes(&opened).unwrap().handle;
    ask(&server, Opcode::Unlink, ROOT_NODE, b"mine\0").unwrap();
    // A FORGET for the earlier incarnation of the kernel's inode.
    ask(&server, Opcode::Forget, node, 1_u64.as_bytes()).unwrap();
    for index in 0..64 {
        put(&server, &format!("other{index}"), "theirs");
    }
    let read = ReadIn { handle, size: 100, ..ReadIn::default() };
    assert_eq!(ask(&server, Opcode::Read, node, read.as_bytes()).unwrap(), b"mine");
    // The file is freed when it is closed.
    let number = server.number(node);
    assert!(server.volume.node(number).is_ok());
    ask(&server, Opcode::Release, node, handle.as_bytes()).unwrap();
    let gone = server.volume.node(number).unwrap_err();
    assert!(matches!(gone, ferroxfs::Error::Posix(PosixError::NotFound)), "{gone}");
    server.close().unwrap();
}

/// Checks that a writable mount does not request ASYNC_DIO. If a server requests it, Linux 6.18
/// keeps pages in its cache that were read during an asynchronous direct write.
#[test]
fn writable_mount_does_not_offer_async_dio() {
    let server = server(make_with("-l size=16m"));
    assert!(!server.wishes().contains(InitFlags::ASYNC_DIO));
    server.close().unwrap();
}

#[test]
fn whiteout_rename_replaces_only_if_allowed() {
    const NO_REPLACE: u32 = 1;
    const WHITEOUT: u32 = 4;
    let server = server(make_with("-l size=16m"));
    put(&server, "file", "contents");
    put(&server, "taken", "kept");
    let rename = |flags, names: &[u8]| {
        let wanted = Rename2In { directory: ROOT_NODE, flags, padding: 0 };
        ask(&server, Opcode::Rename2, ROOT_NODE, &[wanted.as_bytes(), names].concat()).map(drop)
    };
    assert_eq!(rename(NO_REPLACE | WHITEOUT, b"file\0taken\0"), Err(Errno::EXIST));
    assert_eq!(server.volume.read("/taken").unwrap(), b"kept");
    rename(NO_REPLACE | WHITEOUT, b"file\0free\0").unwrap();
    assert_eq!(server.volume.read("/free").unwrap(), b"contents");
    rename(WHITEOUT, b"free\0taken\0").unwrap();
    assert_eq!(server.volume.read("/taken").unwrap(), b"contents");
    server.close().unwrap();
}

#[test]
fn rename_fails_if_the_replaced_file_cannot_be_kept() {
    let device = Arc::new(FailingDevice::new(make_with("-l size=16m"), 1));
    let first = server(device.clone());
    let root = first.volume.root().unwrap();
    let folder = root.create("folder", &NewKind::Directory, &PLAIN).unwrap();
    folder.create("replaced", &NewKind::Regular, &PLAIN).unwrap();
    // Names that need a block of their own.
    for index in 0..64 {
        folder.create(format!("other{index}"), &NewKind::Fifo, &PLAIN).unwrap();
    }
    put(&first, "file", "contents");
    drop((root, folder));
    first.close().unwrap();
    let second = server(device.clone());
    ask(&second, Opcode::Lookup, ROOT_NODE, b"file\0").unwrap();
    let entry = ask(&second, Opcode::Lookup, ROOT_NODE, b"folder\0").unwrap();
    let directory = EntryOut::read_from_bytes(&entry).unwrap().node;
    let (kind, persistence) = (RequestKind::Read, Persistence::Once);
    device.set_fault(Some(Fault { kind, nth: 1, persistence }));
    let rename = [RenameIn { directory }.as_bytes(), b"file\0replaced\0"].concat();
    assert_eq!(ask(&second, Opcode::Rename, ROOT_NODE, &rename), Err(Errno::IO));
    assert_eq!(device.failures(), 1);
    // The failed rename changed nothing, and now it succeeds.
    ask(&second, Opcode::Rename, ROOT_NODE, &rename).unwrap();
    second.close().unwrap();
}

#[test]
fn listing_shows_the_attributes_of_a_lookup() {
    const FILES: usize = 500;
    let server = server(make_with("-l size=16m"));
    (0..FILES).for_each(|index| put(&server, &format!("file{index}"), &"x".repeat(index)));
    for is_cold in [false, true] {
        if is_cold {
            server.volume.sync().unwrap();
            server.volume.drop_caches().unwrap();
        }
        let (mut names, mut offset) = (0, 0);
        loop {
            let wanted = ReadIn { offset, size: 8192, ..ReadIn::default() };
            let listed = ask(&server, Opcode::ReadDirectoryPlus, ROOT_NODE, wanted.as_bytes());
            let listed = listed.unwrap();
            if listed.is_empty() {
                break;
            }
            let mut rest = listed.as_slice();
            while let Ok((entry, tail)) = EntryOut::read_from_prefix(rest) {
                let (head, tail) = DirEntry::read_from_prefix(tail).unwrap();
                let (name, tail) = tail.split_at(head.name_length as usize);
                if offset >= 2 {
                    let looked = ask(&server, Opcode::Lookup, ROOT_NODE, &[name, b"\0"].concat());
                    assert_eq!(looked.unwrap(), entry.as_bytes());
                    assert_eq!(head.inode, entry.node);
                    names += 1;
                }
                offset = head.next;
                let padding = name.len().next_multiple_of(8) - name.len();
                rest = tail.get(padding..).unwrap();
            }
        }
        assert_eq!(names, FILES);
    }
    server.close().unwrap();
}

/// Opens and reads a file. Returns the access time that stat shows afterwards: seconds and
/// nanoseconds.
fn read_and_stat(server: &Server, node: u64) -> (i64, u32) {
    let open = OpenIn { flags: 0, open_flags: 0 };
    let opened = ask(server, Opcode::Open, node, open.as_bytes()).unwrap();
    let handle = OpenOut::read_from_bytes(&opened).unwrap().handle;
    let read = ReadIn { handle, size: 100, ..ReadIn::default() };
    ask(server, Opcode::Read, node, read.as_bytes()).unwrap();
    ask(server, Opcode::Release, node, handle.as_bytes()).unwrap();
    let body = ask(server, Opcode::GetAttr, node, &[0; 16]).unwrap();
    let shown = AttrOut::read_from_bytes(&body).unwrap().attributes;
    (shown.atime, shown.atime_ns)
}

#[test]
fn lazy_times_are_written_when_due() {
    let settings = Settings { lazy_times: true, ..Settings::default() };
    let device = make_with("-l size=16m");
    let server = server_with(device.clone(), settings);
    let written = |server: &Server, name: &str| {
        let accessed = server.volume.metadata(name).unwrap().accessed;
        (accessed.seconds(), accessed.nanoseconds())
    };
    let nodes = ["synced", "forgotten", "set", "closed"].map(|name| {
        put(&server, name, "contents");
        let before = written(&server, name);
        let entry = ask(&server, Opcode::Lookup, ROOT_NODE, format!("{name}\0").as_bytes());
        let node = EntryOut::read_from_bytes(&entry.unwrap()).unwrap().node;
        let shown = read_and_stat(&server, node);
        assert!(shown > before, "{name}: {shown:?} {before:?}");
        assert_eq!(written(&server, name), before, "{name}");
        (name, node, shown)
    });
    for (name, node, shown) in nodes {
        let expected = match name {
            "synced" => {
                ask(&server, Opcode::Fsync, node, &[0; 16]).unwrap();
                shown
            }
            "forgotten" => {
                ask(&server, Opcode::Forget, node, 1_u64.as_bytes()).unwrap();
                shown
            }
            "set" => {
                let wanted = SetAttrIn { valid: set::ATIME, atime: 7, ..SetAttrIn::default() };
                ask(&server, Opcode::SetAttr, node, wanted.as_bytes()).unwrap();
                (7, 0)
            }
            _ => continue,
        };
        assert_eq!(written(&server, name), expected, "{name}");
    }
    server.close().unwrap();
    let again = self::server(device);
    assert_eq!(written(&again, "set"), (7, 0));
    let (name, _, shown) = nodes[3];
    assert_eq!(written(&again, name), shown);
    again.close().unwrap();
}

#[test]
fn chown_to_the_shown_owner_succeeds() {
    let settings = Settings { uid: Some(7), gid: Some(8), ..Settings::default() };
    let server = server_with(make_with("-l size=16m"), settings);
    put(&server, "file", "contents");
    let node = server.volume.lookup("file").unwrap().number().0;
    let give = |valid, uid, gid| {
        let mode = 0o600;
        let wanted = SetAttrIn { valid: valid | set::MODE, uid, gid, mode, ..SetAttrIn::default() };
        let body = ask(&server, Opcode::SetAttr, node, wanted.as_bytes())?;
        let shown = AttrOut::read_from_bytes(&body).unwrap().attributes;
        Ok((shown.uid, shown.gid, shown.mode & 0o777))
    };
    for (valid, uid, gid) in [(set::UID, 9, 8), (set::GID, 7, 9), (set::UID | set::GID, 7, 0)] {
        assert_eq!(give(valid, uid, gid), Err(Errno::PERM));
    }
    for valid in [set::UID, set::GID, set::UID | set::GID] {
        assert_eq!(give(valid, 7, 8), Ok((7, 8, 0o600)));
    }
    let metadata = server.volume.metadata("file").unwrap();
    assert_eq!((metadata.uid, metadata.gid), (0, 0));
    server.close().unwrap();
}

#[test]
fn nodiratime_keeps_directory_access_times() {
    for access_times in [AccessTimes::Relative, AccessTimes::Files, AccessTimes::Never] {
        let settings = Settings { access_times, ..Settings::default() };
        let server = server_with(make_with("-l size=16m"), settings);
        put(&server, "file", "contents");
        let is_set = |name: &str| {
            let node = server.volume.lookup(name).unwrap();
            let before = node.metadata().accessed;
            server.note_access(&node, OFlags::empty());
            server.volume.metadata(name).unwrap().accessed > before
        };
        assert_eq!(is_set("/"), access_times == AccessTimes::Relative, "{access_times:?}");
        assert_eq!(is_set("file"), access_times != AccessTimes::Never, "{access_times:?}");
        server.close().unwrap();
    }
}

#[test]
fn full_shard_writes_access_times_at_once() {
    const FILES: usize = 70_000;
    let settings = Settings { lazy_times: true, ..Settings::default() };
    let server = server_with(make_with("-l size=16m"), settings);
    let root = server.volume.root().unwrap();
    put(&server, "file", "contents");
    let mut metadata = root.lookup("file".as_ref()).unwrap().metadata();
    let times = super::LazyTimes::default();
    let written: usize = (0..FILES as u64)
        .map(|number| {
            metadata.number.0 = number;
            times.add(&metadata, metadata.accessed).len()
        })
        .sum();
    assert_eq!(times.take_all().count() + written, FILES);
    assert_eq!(written, FILES - 64_000);
    drop(root);
    server.close().unwrap();
}

/// Checks that user 0 has no privileges in a request with thread ID 0, whose caller is in another
/// process namespace.
#[test]
fn unknown_caller_has_ordinary_permissions() {
    const TO_WRITE: u32 = 1;
    const TO_EXECUTE: u32 = 0x20;
    let settings = Settings { checks: Checks::Server, ..Settings::default() };
    let server = server_with(make_with("-l size=16m"), settings);
    let root = server.volume.root().unwrap();
    for (name, uid) in [("mine", 0), ("theirs", 1000)] {
        let creation = CreateOptions::new(0o600).uid(uid);
        root.create(name, &NewKind::Regular, &creation).unwrap();
    }
    drop(root);
    let look = |name: &[u8]| {
        let found = ask(&server, Opcode::Lookup, ROOT_NODE, name).unwrap();
        let found = EntryOut::read_from_bytes(&found).unwrap();
        // The kernel does not check search permission for cached names.
        assert_eq!((found.entry_valid, found.entry_valid_ns), (0, 0));
        found.node
    };
    let (mine, theirs) = (look(b"mine\0"), look(b"theirs\0"));
    assert_eq!(look(b"none\0"), 0);
    let open = |opcode, node, flags| {
        let wanted = OpenIn { flags, open_flags: 0 };
        let opened = ask(&server, opcode, node, wanted.as_bytes())?;
        Ok(OpenOut::read_from_bytes(&opened).unwrap().handle)
    };
    for (node, flags) in [(theirs, 0), (theirs, TO_WRITE), (mine, TO_EXECUTE)] {
        assert_eq!(open(Opcode::Open, node, flags), Err(Errno::ACCESS), "{node} {flags}");
    }
    assert!(open(Opcode::Open, mine, TO_WRITE).unwrap() > 0);
    assert_eq!(open(Opcode::OpenDirectory, ROOT_NODE, 0), Ok(0));
    let access = |node, mask| {
        ask(&server, Opcode::Access, node, AccessIn { mask, padding: 0 }.as_bytes()).map(drop)
    };
    assert_eq!((access(mine, 6), access(mine, 7)), (Ok(()), Err(Errno::ACCESS)));
    assert_eq!((access(theirs, 0), access(theirs, 4)), (Ok(()), Err(Errno::ACCESS)));
    // A file that was not opened cannot be read.
    let read = ReadIn { size: 100, ..ReadIn::default() };
    assert_eq!(ask(&server, Opcode::Read, mine, read.as_bytes()), Err(Errno::BADF));
    server.close().unwrap();
}

#[test]
fn checking_server_declines_kernel_checks() {
    let wishes = |checks, read_only| {
        let settings = Settings { checks, read_only, ..Settings::default() };
        server_with(make_with("-l size=16m"), settings).wishes()
    };
    let of_kernel = InitFlags::POSIX_ACL
        | InitFlags::NO_OPENDIR_SUPPORT
        | InitFlags::NO_OPEN_SUPPORT
        | InitFlags::DO_READDIRPLUS
        | InitFlags::READDIRPLUS_AUTO;
    assert!(wishes(Checks::Kernel, true).contains(of_kernel));
    for read_only in [false, true] {
        assert!(!wishes(Checks::Server, read_only).intersects(of_kernel));
    }
}

/// Copies `length` bytes between two files. Returns the number of bytes copied, and the node whose
/// pages the kernel must drop, if any.
fn copy(server: &Server, length: u64) -> (u32, Option<u64>) {
    let [source, target] =
        ["source", "target"].map(|name| server.volume.lookup(format!("/{name}")).unwrap());
    let handles = [&source, &target].map(|node| server.handles.open(node.open().unwrap()));
    let wanted = CopyFileRangeIn {
        handle: handles[0],
        node_out: target.number().0,
        handle_out: handles[1],
        length,
        ..CopyFileRangeIn::default()
    };
    let bytes = request(Opcode::CopyFileRange, source.number().0, wanted.as_bytes());
    let mut reply = Reply::default();
    reply.clear();
    server.handle(&Request::decode(&bytes).unwrap(), &mut reply).unwrap();
    let stale_contents = reply.stale_contents();
    assert!(stale_contents.is_none_or(|node| node == target.number().0));
    let copied =
        WriteOut::read_from_bytes(&reply.finish(0, Ok(()))[size_of::<OutHeader>()..]).unwrap();
    handles.iter().for_each(|handle| drop(server.handles.close(*handle)));
    (copied.size, stale_contents)
}

#[test]
fn partly_shared_range_invalidates_the_kernels_pages() {
    let server = server(make_with("-m reflink=1,rmapbt=1 -l size=16m"));
    let contents = "contents".repeat(1024);
    ["source", "target"].iter().for_each(|name| put(&server, name, &contents));
    assert_eq!(copy(&server, 4096), (4096, None), "whole blocks are shared");
    assert_eq!(copy(&server, 1000), (1000, None), "others are copied");
    // With no free block, sharing fails, and the existing blocks are overwritten.
    let filler = server.volume.create_file("/filler").unwrap();
    let mut at = 0;
    while let Ok(written @ 1..) = filler.write_at(&vec![1; 1 << 20], at) {
        at += written as u64;
    }
    let (copied, stale_contents) = copy(&server, 8192);
    assert!(copied > 0 && stale_contents.is_some(), "{copied} {stale_contents:?}");
    drop(filler);
    server.close().unwrap();
}

/// Opens a file and returns its handle.
fn open(server: &Server, node: u64, flags: OFlags) -> OpenOut {
    let wanted = OpenIn { flags: flags.bits(), open_flags: 0 };
    let opened = ask(server, Opcode::Open, node, wanted.as_bytes()).unwrap();
    OpenOut::read_from_bytes(&opened).unwrap()
}

fn lookup(server: &Server, name: &str) -> EntryOut {
    let name = [name.as_bytes(), b"\0"].concat();
    EntryOut::read_from_bytes(&ask(server, Opcode::Lookup, ROOT_NODE, &name).unwrap()).unwrap()
}

/// Checks that a seek reports no hole while another handle is open for writing. A program may have
/// changed a mapped page, and the server does not know of that change yet.
#[test]
fn seek_reports_no_holes_while_another_handle_writes() {
    const SIZE: u64 = 1 << 20;
    let server = server(make_with("-l size=16m"));
    put(&server, "file", "contents");
    server.volume.open_file("file").unwrap().set_len(SIZE).unwrap();
    let node = lookup(&server, "file").node;
    let seek = |handle, offset, whence| {
        let wanted = SeekIn { handle, offset, whence, padding: 0 };
        let found = ask(&server, Opcode::Seek, node, wanted.as_bytes())?;
        Ok::<_, Errno>(SeekOut::read_from_bytes(&found).unwrap().offset)
    };
    let (data, hole) = (3, 4);
    let writer = open(&server, node, OFlags::RDWR).handle;
    assert_eq!((seek(writer, 8192, data), seek(writer, 0, hole)), (Err(Errno::NXIO), Ok(4096)));
    let reader = open(&server, node, OFlags::RDONLY).handle;
    assert_eq!((seek(reader, 8192, data), seek(reader, 0, hole)), (Ok(8192), Ok(SIZE)));
    assert_eq!(
        (seek(reader, SIZE, data), seek(reader, SIZE, hole)),
        (Err(Errno::NXIO), Err(Errno::NXIO))
    );
    drop(server.handles.close(writer));
    assert_eq!((seek(reader, 8192, data), seek(reader, 0, hole)), (Err(Errno::NXIO), Ok(4096)));
    drop(server.handles.close(reader));
    server.close().unwrap();
}

/// Checks that fdatasync, or an O_DSYNC write, of a file that was only overwritten writes nothing
/// to the log. The new times of the file wait in the committed item list, until fsync or an O_SYNC
/// write.
#[test]
fn fdatasync_of_an_overwrite_writes_no_log_record() {
    // The background threads make nothing durable during the test.
    let seldom = Upkeep::new(Upkeep::LONGEST, Upkeep::LONGEST);
    let options = OpenOptions::new().write(true).upkeep(seldom);
    let options = options.with_devices(make_with("-l size=16m"), None);
    let server = Server::new(options.open().unwrap(), Settings::default()).unwrap();
    put(&server, "file", "contents");
    server.volume.sync().unwrap();
    let node = lookup(&server, "file").node;
    let handle = open(&server, node, OFlags::RDWR).handle;
    let write = |flags: OFlags| {
        let wanted = WriteIn { handle, size: 3, flags: flags.bits(), ..WriteIn::default() };
        ask(&server, Opcode::Write, node, &[wanted.as_bytes(), b"new"].concat()).unwrap();
    };
    let sync = |fsync_flags| {
        let wanted = FsyncIn { handle, fsync_flags, padding: 0 };
        ask(&server, Opcode::Fsync, node, wanted.as_bytes()).unwrap();
    };
    let records = |change: &dyn Fn()| {
        let before = server.volume.statistics().unwrap().log.writes;
        change();
        server.volume.statistics().unwrap().log.writes - before
    };
    write(OFlags::empty());
    assert_eq!(records(&|| sync(FSYNC_DATA_ONLY)), 0);
    assert_ne!(records(&|| sync(0)), 0);
    // The kernel sends no FSYNC for append-only files.
    assert_eq!(records(&|| write(OFlags::APPEND | DSYNC)), 0);
    assert_ne!(records(&|| write(OFlags::APPEND | OFlags::SYNC)), 0);
    server.handles.close(handle);
    server.close().unwrap();
}

/// Checks that a page which a program changed before the file became immutable can still be written
/// back by the kernel. A new write of a program fails.
#[test]
fn page_write_after_the_file_became_immutable_succeeds() {
    let server = server(make_with("-l size=16m"));
    put(&server, "file", "contents");
    let node = lookup(&server, "file").node;
    let handle = open(&server, node, OFlags::RDWR).handle;
    let file = server.volume.lookup("file").unwrap();
    let capable = [&[0, 0, 0, 2], [0; 16].as_slice()].concat();
    file.set_attribute("security.capability", &capable, SetMode::Create).unwrap();
    let immutable = SetAttributes::new().xflags(ExtendedFlags::IMMUTABLE);
    file.set_attributes(&immutable).unwrap();
    let before = file.metadata().modified;
    let write = |write_flags| {
        let wanted = WriteIn { handle, size: 3, write_flags, ..WriteIn::default() };
        ask(&server, Opcode::Write, node, &[wanted.as_bytes(), b"new"].concat()).map(drop)
    };
    assert_eq!(write(0), Err(Errno::PERM));
    write(WRITE_CACHE).unwrap();
    assert_eq!(server.volume.read("file").unwrap(), b"newtents");
    assert!(file.metadata().modified > before);
    assert_eq!(file.attribute("security.capability".as_ref()).unwrap(), capable);
    drop((server.handles.close(handle), file));
    server.close().unwrap();
}

#[test]
fn append_only_file_cannot_be_mapped_shared() {
    let server = server(make_with("-l size=16m"));
    put(&server, "file", "contents");
    let append = SetAttributes::new().xflags(ExtendedFlags::APPEND);
    server.volume.lookup("file").unwrap().set_attributes(&append).unwrap();
    let node = lookup(&server, "file").node;
    let is_direct = |flags| open(&server, node, flags).flags & OPEN_DIRECT_IO != 0;
    assert!(is_direct(OFlags::WRONLY | OFlags::APPEND));
    assert!(!is_direct(OFlags::RDONLY));
}

/// Checks that a SETATTR to the same length changes the times only if it contains a time. The
/// SETATTR of ftruncate(2) contains one, and that of truncate(2) does not.
#[test]
fn truncate_to_the_same_length_changes_times_only_if_given() {
    let server = server(make_with("-l size=16m"));
    put(&server, "file", "contents");
    let node = lookup(&server, "file").node;
    let file = server.volume.lookup("file").unwrap();
    let is_changed = |size, valid| {
        let before = file.metadata().modified;
        let wanted = SetAttrIn { valid: valid | set::SIZE, size, ..SetAttrIn::default() };
        ask(&server, Opcode::SetAttr, node, wanted.as_bytes()).unwrap();
        assert_eq!(file.metadata().size, size);
        file.metadata().modified > before
    };
    assert!(!is_changed(8, 0));
    assert!(is_changed(8, set::MTIME | set::MTIME_NOW));
    assert!(is_changed(9, 0));
    drop(file);
    server.close().unwrap();
}

#[test]
fn o_noatime_read_leaves_the_access_time() {
    let server = server(make_with("-l size=16m"));
    put(&server, "file", "contents");
    let node = lookup(&server, "file").node;
    let accessed = || server.volume.metadata("file").unwrap().accessed;
    let read = |flags: OFlags| {
        let handle = open(&server, node, flags).handle;
        let wanted = ReadIn { handle, size: 8, flags: flags.bits(), ..ReadIn::default() };
        assert_eq!(ask(&server, Opcode::Read, node, wanted.as_bytes()).unwrap(), b"contents");
        drop(server.handles.close(handle));
        accessed()
    };
    let before = accessed();
    assert_eq!(read(OFlags::RDONLY | OFlags::NOATIME), before);
    assert!(read(OFlags::RDONLY) > before);
    server.close().unwrap();
}
