//! Tests of a handle that is closed while the flusher writes its file.

use std::hint::spin_loop;
use std::sync::Arc;
use std::thread;

use xfs_device::SharedDevice;
use xfs_testkit::{FailingDevice, Fault, Persistence, RequestKind};
use xfs_trans::testing::make_with;
use xfs_vfs::{OpenContents, TryOrWait};

use crate::{Error, OpenOptions, SetAttributes};

const ROUNDS: usize = 200;

/// Runs a pass of the flusher in another thread, and calls `act` as soon as no bytes of the file
/// are buffered. Returns the result of `act`.
fn flush_beside<T>(contents: &OpenContents<'_>, act: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        scope.spawn(|| contents.flush_pass(u64::MAX, TryOrWait::Try));
        while contents.is_buffered() {
            spin_loop();
        }
        act()
    })
}

/// A flush allocates blocks past the end of the file, and the last handle is dropped as soon as
/// nothing is buffered. Checks that this frees those blocks.
#[test]
fn file_closed_during_a_flush_keeps_no_preallocation() {
    let options = OpenOptions::new().write(true);
    let volume = options.open_device(make_with("")).unwrap();
    let file = volume.create_file("file").unwrap();
    let hint = SetAttributes::new().extent_size_hint_bytes(64 << 10);
    file.node().set_attributes(&hint).unwrap();
    drop(file);
    let node = volume.lookup("file").unwrap();
    let (mount, entry) = node.writable().unwrap();
    let contents = mount.contents(entry);
    for round in 0..ROUNDS {
        let file = volume.open_file("file").unwrap();
        file.set_len(0).unwrap();
        file.write_at(b"bytes", 0).unwrap();
        assert!(contents.is_buffered());
        flush_beside(&contents, || drop(file));
        let left = node.metadata().blocks;
        assert_eq!((contents.is_preallocated(), left), (false, 8), "round {round}");
    }
    drop(node);
    volume.close().unwrap();
}

/// A flush of a file fails, and a handle on the file is closed as soon as no byte is buffered any
/// more. Checks that closing the handle returns the error of the flush.
#[test]
fn close_returns_the_error_of_a_flush_just_before() {
    let failing = Arc::new(FailingDevice::new(make_with(""), 1));
    let shared: SharedDevice = Arc::clone(&failing) as _;
    let options = OpenOptions::new().write(true);
    let volume = options.open_device(shared).unwrap();
    drop(volume.create_file("file").unwrap());
    let node = volume.lookup("file").unwrap();
    let (mount, entry) = node.writable().unwrap();
    let contents = mount.contents(entry);
    for round in 0..ROUNDS / 4 {
        let file = volume.open_file("file").unwrap();
        volume.sync().unwrap();
        file.write_at(b"bytes", 0).unwrap();
        let fault = Fault { kind: RequestKind::Write, nth: 1, persistence: Persistence::Once };
        failing.set_fault(Some(fault));
        let told = flush_beside(&contents, || file.close());
        assert!(matches!(told, Err(Error::Io(_))), "round {round}: {told:?}");
    }
    drop(node);
    volume.close().unwrap();
}
