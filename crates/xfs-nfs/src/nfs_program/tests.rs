//! Tests of the procedures, by encoded arguments and results on a volume in memory.

use std::sync::Arc;

use ferroxfs::{OpenOptions, Timestamp, Volume};

use super::{Export, NfsCall, PROGRAM, VERSION};
use crate::call::Call;
use crate::handle::FileHandle;
use crate::users::{ActAs, RpcCaller, Views};
use crate::xdr::{Decoder, Encoder};

const ID: [u8; 8] = *b"a volume";
const RUN: [u8; 8] = *b"this run";

/// An export of a new volume.
fn export() -> Export {
    let volume = OpenOptions::new().write(true).open_device(xfs_trans::testing::make()).unwrap();
    Export { volume, id: ID, run: RUN, read_only: false, waits: false }
}

/// Makes a call as this user, and returns the bytes of the results.
fn call(export: &Export, uid: u32, procedure: u32, arguments: &Encoder) -> Vec<u8> {
    let mut credentials = Encoder::default();
    credentials.u32(0).bytes(b"").u32(uid).u32(uid).u32(0);
    let mut record = Encoder::default();
    record.u32(1).u32(0).u32(2).u32(PROGRAM).u32(VERSION).u32(procedure);
    record.u32(1).bytes(credentials.as_slice()).u32(0).bytes(&[]).append(arguments);
    let call = Call::decode(record.as_slice()).unwrap();
    let volume = Views::new(export.volume.clone()).of(&call.caller);
    let session = NfsCall::new(export, volume, call.caller.uid);
    let mut reply = Encoder::default();
    session.answer(&call, &mut reply).unwrap();
    reply.as_slice().to_vec()
}

/// Makes a call as root, and returns the status.
fn status(export: &Export, procedure: u32, arguments: &Encoder) -> u32 {
    Decoder::new(&call(export, 0, procedure, arguments)).u32().unwrap()
}

fn handle(volume: &Volume, path: &str) -> Encoder {
    let mut arguments = Encoder::default();
    let node = volume.lookup_no_follow(path).unwrap();
    FileHandle::of(&node.metadata(), ID).encode(&mut arguments);
    arguments
}

/// Returns the arguments for a name in a directory.
fn place(volume: &Volume, directory: &str, name: &str) -> Encoder {
    let mut arguments = handle(volume, directory);
    arguments.bytes(name.as_bytes());
    arguments
}

/// Adds attributes of which only the mode is set.
fn with_mode(mut arguments: Encoder, mode: u32) -> Encoder {
    arguments.flag(true).u32(mode).flag(false).flag(false).flag(false).u32(0).u32(0);
    arguments
}

/// Arguments of an unchecked CREATE.
fn unchecked(volume: &Volume, name: &str, mode: u32) -> Encoder {
    let mut arguments = place(volume, "/", name);
    arguments.u32(0);
    with_mode(arguments, mode)
}

/// Arguments of a write of these bytes.
fn write_to(volume: &Volume, path: &str, offset: u64, bytes: &[u8], stable: u32) -> Encoder {
    let mut arguments = handle(volume, path);
    arguments.u64(offset).u32(bytes.len() as u32).u32(stable).bytes(bytes);
    arguments
}

#[test]
fn file_is_made_written_and_read() {
    let export = export();
    let volume = &export.volume;
    assert_eq!(status(&export, 8, &unchecked(volume, "file", 0o640)), 0);
    assert_eq!(volume.metadata("/file").unwrap().mode & 0o7777, 0o640);
    let reply = call(&export, 0, 7, &write_to(volume, "/file", 3, b"contents", 2));
    let mut results = Decoder::new(&reply);
    assert_eq!((results.u32(), results.flag(), results.flag()), (Ok(0), Ok(false), Ok(true)));
    assert_eq!(reply.get(reply.len() - 8..), Some(&RUN[..]));
    assert_eq!(volume.read("/file").unwrap(), b"\0\0\0contents");

    let mut arguments = handle(volume, "/file");
    arguments.u64(5).u32(100);
    let reply = call(&export, 0, 6, &arguments);
    assert!(reply.ends_with(b"\0\0\0\x06\0\0\0\x01\0\0\0\x06ntents\0\0"), "{reply:?}");
}

#[test]
fn names_are_made_linked_renamed_and_removed() {
    let export = export();
    let volume = &export.volume;
    assert_eq!(status(&export, 9, &with_mode(place(volume, "/", "directory"), 0o711)), 0);
    assert_eq!(volume.metadata("/directory").unwrap().mode & 0o7777, 0o711);
    assert_eq!(status(&export, 8, &unchecked(volume, "file", 0o600)), 0);

    let mut link = handle(volume, "/file");
    link.append(&place(volume, "/directory", "second"));
    assert_eq!(status(&export, 15, &link), 0);
    assert_eq!(volume.metadata("/file").unwrap().nlink, 2);

    let mut rename = place(volume, "/", "file");
    rename.append(&place(volume, "/directory", "third"));
    assert_eq!(status(&export, 14, &rename), 0);
    assert!(volume.lookup("/file").is_err());

    let mut symlink = with_mode(place(volume, "/", "symlink"), 0o777);
    symlink.bytes(b"directory/third");
    assert_eq!(status(&export, 10, &symlink), 0);
    let reply = call(&export, 0, 5, &handle(volume, "/symlink"));
    assert!(reply.ends_with(b"\0\0\0\x0fdirectory/third\0"), "{reply:?}");

    let mut fifo = place(volume, "/directory", "fifo");
    fifo.u32(7);
    assert_eq!(status(&export, 11, &with_mode(fifo, 0o644)), 0);
    let mut device = place(volume, "/directory", "device");
    device.u32(4);
    let mut device = with_mode(device, 0o644);
    device.u32(1).u32(3);
    assert_eq!(status(&export, 11, &device), 0);
    let made = volume.metadata("/directory/device").unwrap().device.unwrap();
    assert_eq!((made.major, made.minor), (1, 3));

    assert_eq!(status(&export, 13, &place(volume, "/", "directory")), 66, "not empty");
    assert_eq!(status(&export, 12, &place(volume, "/", "directory")), 21, "a directory");
    for name in ["second", "third", "fifo", "device"] {
        assert_eq!(status(&export, 12, &place(volume, "/directory", name)), 0, "{name}");
    }
    assert_eq!(status(&export, 13, &place(volume, "/", "directory")), 0);
    assert_eq!(status(&export, 3, &place(volume, "/", "directory")), 2);
}

#[test]
fn exclusive_create_succeeds_again_only_with_its_verifier() {
    let export = export();
    let exclusive = |verifier: [u8; 8]| {
        let mut arguments = place(&export.volume, "/", "file");
        arguments.u32(2).fixed(verifier);
        status(&export, 8, &arguments)
    };
    assert_eq!(exclusive(*b"verifier"), 0);
    assert_eq!(exclusive(*b"verifier"), 0);
    assert_eq!(exclusive(*b"another."), 17);
}

#[test]
fn guarded_create_refuses_a_file_that_exists() {
    let export = export();
    export.volume.write("/file", b"contents").unwrap();
    let mut guarded = place(&export.volume, "/", "file");
    guarded.u32(1);
    assert_eq!(status(&export, 8, &with_mode(guarded, 0o600)), 17);
    assert_eq!(status(&export, 8, &unchecked(&export.volume, "file", 0o600)), 0);
    assert_eq!(export.volume.read("/file").unwrap(), b"contents");
}

/// Checks I3 of the crate.
#[test]
fn handle_of_a_removed_file_is_stale() {
    let export = export();
    let volume = &export.volume;
    volume.write("/file", b"").unwrap();
    let removed = handle(volume, "/file");
    assert_eq!(status(&export, 1, &removed), 0);
    volume.remove_file("/file").unwrap();
    assert_eq!(status(&export, 1, &removed), 70);
    for number in 0..70 {
        volume.write(format!("/{number}"), b"").unwrap();
    }
    assert_eq!(status(&export, 1, &removed), 70, "its inode is used again");

    let mut other_volume = Encoder::default();
    let node = volume.root().unwrap();
    FileHandle::of(&node.metadata(), *b"another.").encode(&mut other_volume);
    assert_eq!(status(&export, 1, &other_volume), 70);
    let mut no_handle = Encoder::default();
    no_handle.bytes(b"short");
    assert_eq!(status(&export, 1, &no_handle), 10001);
    let mut beyond = Encoder::default();
    FileHandle { volume: ID, inode: u64::MAX, generation: 0 }.encode(&mut beyond);
    assert_eq!(status(&export, 1, &beyond), 70);
}

#[test]
fn users_have_their_own_rights() {
    let export = export();
    let volume = &export.volume;
    volume.write("/file", b"secret").unwrap();
    let read = |uid: u32| {
        let mut arguments = handle(volume, "/file");
        arguments.u64(0).u32(10);
        Decoder::new(&call(&export, uid, 6, &arguments)).u32().unwrap()
    };
    let change = |uid: u32, mode: u32| {
        let mut arguments = with_mode(handle(volume, "/file"), mode);
        arguments.flag(false);
        Decoder::new(&call(&export, uid, 2, &arguments)).u32().unwrap()
    };
    assert_eq!(change(0, 0o600), 0);
    assert_eq!((read(0), read(1000)), (0, 13));
    assert_eq!(change(1000, 0o666), 1);
    assert_eq!(change(0, 0o711), 0);
    assert_eq!(read(1000), 0, "who may execute a file may read it");
    let mut access = handle(volume, "/file");
    access.u32(0x3f);
    let granted = |uid| call(&export, uid, 4, &access).last().copied();
    assert_eq!(granted(1000), Some(32));
    assert_eq!(granted(0), Some(1 | 4 | 8 | 32));
}

#[test]
fn owner_may_write_to_a_file_that_is_read_only() {
    let export = export();
    let volume = &export.volume;
    let root = with_mode(handle(volume, "/"), 0o777);
    let mut root = root;
    root.flag(false);
    assert_eq!(status(&export, 2, &root), 0);
    let create = unchecked(volume, "file", 0o400);
    assert_eq!(Decoder::new(&call(&export, 1000, 8, &create)).u32(), Ok(0));
    let write = write_to(volume, "/file", 0, b"by the owner", 0);
    assert_eq!(Decoder::new(&call(&export, 1001, 7, &write)).u32(), Ok(13));
    assert_eq!(Decoder::new(&call(&export, 1000, 7, &write)).u32(), Ok(0));
    assert_eq!(volume.metadata("/file").unwrap().uid, 1000);
}

#[test]
fn read_only_export_refuses_every_change() {
    let mut export = export();
    export.volume.write("/file", b"contents").unwrap();
    export.read_only = true;
    let volume = &export.volume;
    let changes = [
        (7, write_to(volume, "/file", 0, b"new", 2)),
        (8, unchecked(volume, "new", 0o600)),
        (9, with_mode(place(volume, "/", "new"), 0o700)),
        (12, place(volume, "/", "file")),
    ];
    for (procedure, arguments) in changes {
        assert_eq!(status(&export, procedure, &arguments), 30, "procedure {procedure}");
    }
    let mut access = handle(volume, "/file");
    access.u32(0x3f);
    assert_eq!(call(&export, 0, 4, &access).last().copied(), Some(1));
}

#[test]
fn change_with_an_old_guard_is_refused() {
    let export = export();
    let volume = &export.volume;
    volume.write("/file", b"").unwrap();
    let changed = volume.metadata("/file").unwrap().changed;
    let guarded = |time: Timestamp| {
        let mut arguments = with_mode(handle(volume, "/file"), 0o600);
        arguments.flag(true).u32(time.seconds() as u32).u32(time.nanoseconds());
        status(&export, 2, &arguments)
    };
    assert_eq!(guarded(Timestamp::new(changed.seconds() - 1, 0).unwrap()), 10002);
    assert_eq!(guarded(changed), 0);
}

/// Checks I2 of the crate: a copy of the device at the moment of the reply has the change.
#[test]
fn changes_are_durable_when_they_are_answered() {
    let device = xfs_trans::testing::make();
    let volume = OpenOptions::new().write(true).open_device(Arc::clone(&device)).unwrap();
    let export = Export { volume, id: ID, run: RUN, read_only: false, waits: false };
    assert_eq!(status(&export, 9, &with_mode(place(&export.volume, "/", "directory"), 0o711)), 0);
    assert_eq!(status(&export, 8, &unchecked(&export.volume, "file", 0o600)), 0);
    assert_eq!(status(&export, 7, &write_to(&export.volume, "/file", 0, b"durable", 2)), 0);
    // The volume stays open, as if the server had been killed.
    let after = OpenOptions::new().open_device(device).unwrap();
    assert_eq!(after.metadata("/directory").unwrap().mode & 0o7777, 0o711);
    assert_eq!(after.read("/file").unwrap(), b"durable");
}

/// Lists a directory in replies of this length. Returns the names, and the number of replies.
fn list(export: &Export, procedure: u32, bytes: u32) -> (Vec<String>, usize) {
    let (mut names, mut cookie, mut replies) = (Vec::new(), 0, 0);
    loop {
        let mut arguments = handle(&export.volume, "/");
        arguments.u64(cookie).fixed([0; 8]).u32(bytes);
        if procedure == 17 {
            arguments.u32(bytes);
        }
        let reply = call(export, 0, procedure, &arguments);
        assert!(reply.len() <= bytes as usize, "{} bytes", reply.len());
        let mut results = Decoder::new(&reply);
        assert_eq!(results.u32(), Ok(0));
        assert_eq!(results.flag(), Ok(true));
        results.fixed::<84>().unwrap();
        results.fixed::<8>().unwrap();
        replies += 1;
        while results.flag().unwrap() {
            let inode = results.u64().unwrap();
            let name = String::from_utf8(results.bytes().unwrap().to_vec()).unwrap();
            cookie = results.u64().unwrap();
            if procedure == 17 {
                assert_eq!(results.flag(), Ok(true));
                let attributes = results.fixed::<84>().unwrap();
                assert_eq!(attributes.get(52..60), Some(&inode.to_be_bytes()[..]), "{name}");
                assert_eq!(results.flag(), Ok(true));
                assert_eq!(results.bytes().unwrap().len(), 20);
            }
            names.push(name);
        }
        if results.flag().unwrap() {
            return (names, replies);
        }
    }
}

#[test]
fn listing_continues_until_all_names_are_there() {
    let export = export();
    let mut expected = vec![".".to_owned(), "..".to_owned()];
    for number in 0..300 {
        export.volume.write(format!("/file-{number}"), b"").unwrap();
        expected.push(format!("file-{number}"));
    }
    expected.sort();
    for procedure in [16, 17] {
        let (mut names, replies) = list(&export, procedure, 2000);
        names.sort();
        assert_eq!(names, expected);
        assert!(replies > 5, "{replies} replies");
    }
    let mut arguments = handle(&export.volume, "/");
    arguments.u64(0).fixed([0; 8]).u32(100);
    assert_eq!(status(&export, 16, &arguments), 10005, "no room for one entry");
}

#[test]
fn space_and_limits_are_those_of_the_volume() {
    let export = export();
    let root = handle(&export.volume, "/");
    let space = export.volume.space().unwrap();
    let reply = call(&export, 0, 18, &root);
    let mut results = Decoder::new(reply.get(4 + 4 + 84..).unwrap());
    let block = u64::from(space.block_size);
    assert_eq!(results.u64(), Ok(space.total_blocks * block));
    assert_eq!(results.u64(), Ok(space.free_blocks * block));
    for procedure in [19, 20] {
        assert_eq!(status(&export, procedure, &root), 0);
    }
}

#[test]
fn any_bytes_of_arguments_end_without_panic() {
    let export = export();
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u32
    };
    let root = handle(&export.volume, "/");
    for round in 0..3000 {
        let mut arguments = if round % 2 == 0 { root.clone() } else { Encoder::default() };
        for _ in 0..next() % 12 {
            let word = next();
            arguments.u32(if word % 3 == 0 { word } else { word % 6 });
        }
        let mut record = Encoder::default();
        record.u32(1).u32(0).u32(2).u32(PROGRAM).u32(VERSION).u32(next() % 24);
        record.u32(0).bytes(&[]).u32(0).bytes(&[]).append(&arguments);
        let call = Call::decode(record.as_slice()).unwrap();
        let caller = RpcCaller::nobody().acting_as(ActAs::User { uid: 0, gid: 0 });
        let volume = Views::new(export.volume.clone()).of(&caller);
        let session = NfsCall::new(&export, volume, 0);
        // Whatever it answers, it ends.
        let _ = session.answer(&call, &mut Encoder::default());
    }
}
