//! Tests of opening, locking and I/O on temporary files. Block devices need privilege; tests with
//! the kernel cover them.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::Arc;

use super::{DeviceAccess, FileDevice, FileOptions};
use crate::device::{BlockDevice, Durability};
use crate::error::DeviceFailure;
use crate::memory::MemoryDevice;
use crate::window::WindowDevice;

fn image(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn failure(path: &std::path::Path, options: FileOptions) -> DeviceFailure {
    match FileDevice::open(path, options) {
        Ok(_) => panic!("opened {}", path.display()),
        Err(error) => {
            assert_eq!(error.path(), path);
            assert!(error.to_string().starts_with(&path.display().to_string()));
            error.into_failure()
        }
    }
}

#[test]
fn file_is_read_and_written_at_offsets() {
    let file = image(&[7; 4096]);
    let device = FileDevice::open(file.path(), FileOptions::read_write()).unwrap();
    assert_eq!(device.length_bytes(), 4096);
    assert_eq!(device.sector_size(), 512);
    device.write_at(&[1; 512], 512, Durability::Cached).unwrap();
    device.write_at(&[2; 512], 1024, Durability::Durable).unwrap();
    device.flush().unwrap();
    let mut bytes = [0; 1536];
    device.read_at(&mut bytes, 512).unwrap();
    assert_eq!(bytes[..512], [1; 512]);
    assert_eq!(bytes[512..1024], [2; 512]);
    assert_eq!(bytes[1024..], [7; 512]);
}

/// Checks that bytes are appended after those that the memory holds, and that no more are appended
/// than requested if the memory has room for more.
#[test]
fn append_reads_as_many_bytes_as_requested() {
    let contents: Vec<u8> = (0..8192).map(|index| (index % 251) as u8).collect();
    let file = image(&contents);
    let device = FileDevice::open(file.path(), FileOptions::read_only()).unwrap();
    for (room, offset, length) in [(0, 0, 8192), (10_000, 512, 1024), (3, 8191, 1), (9, 0, 0)] {
        let mut bytes = Vec::with_capacity(room);
        bytes.extend([0xaa; 2]);
        device.append_at(&mut bytes, length, offset as u64).unwrap();
        assert_eq!(bytes[..2], [0xaa; 2]);
        assert_eq!(bytes[2..], contents[offset..offset + length], "{room} {offset} {length}");
    }
}

#[test]
fn discard_frees_whole_sectors_only() {
    let file = image(&[7; 4096]);
    let device = FileDevice::open(file.path(), FileOptions::read_write()).unwrap();
    device.discard(100, 1500).unwrap();
    let mut bytes = [0; 4096];
    device.read_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes[..512], [7; 512]);
    assert_eq!(bytes[1536..], [7; 2560]);
    assert_eq!(device.length_bytes(), 4096);
}

#[test]
fn write_zeros_clears_the_range() {
    let file = image(&[7; 8192]);
    let device = FileDevice::open(file.path(), FileOptions::read_write()).unwrap();
    device.write_zeros(100, 5000).unwrap();
    let mut bytes = [0; 8192];
    device.read_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes[..100], [7; 100]);
    assert_eq!(bytes[100..5100], [0; 5000]);
    assert_eq!(bytes[5100..], [7; 3092]);
    for (offset, length) in [(0, 8193), (8192, 1), (u64::MAX, 2)] {
        let refused = device.write_zeros(offset, length).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::UnexpectedEof);
    }
    device.write_zeros(8192, 0).unwrap();
}

#[test]
fn io_past_the_end_is_refused() {
    let file = image(&[0; 1000]);
    let device = FileDevice::open(file.path(), FileOptions::read_write()).unwrap();
    for (offset, length) in [(0, 1001), (1000, 1), (u64::MAX, 1), (u64::MAX - 1, 2)] {
        let read = device.read_at(&mut vec![0; length], offset).unwrap_err();
        assert_eq!(read.kind(), ErrorKind::UnexpectedEof);
        let write = device.write_at(&vec![0; length], offset, Durability::Cached).unwrap_err();
        assert_eq!(write.kind(), ErrorKind::UnexpectedEof);
    }
    device.read_at(&mut [], 1000).unwrap();
}

#[test]
fn read_of_a_shrunk_file_is_an_error() {
    let file = image(&[0; 8192]);
    let device = FileDevice::open(file.path(), FileOptions::read_only()).unwrap();
    file.as_file().set_len(4096).unwrap();
    let mut bytes = vec![1];
    let error = device.append_at(&mut bytes, 8192, 0).unwrap_err();
    assert_eq!((error.kind(), bytes), (ErrorKind::UnexpectedEof, vec![1]), "{error}");
    let error = device.read_at(&mut [0; 8192], 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "an error and not SIGBUS (I3)");
}

#[test]
fn flush_and_durable_write_of_a_shrunk_file_fail() {
    let file = image(&[0; 8192]);
    let device = FileDevice::open(file.path(), FileOptions::read_write()).unwrap();
    file.as_file().set_len(4096).unwrap();
    let check = |result: std::io::Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        assert!(error.to_string().contains("became shorter"), "{error} (I4)");
        assert!(error.to_string().contains(" of 8192 bytes are left"), "{error}");
    };
    check(device.flush());
    check(device.write_at(&[1; 512], 0, Durability::Durable));
    check(device.read_at(&mut [0; 512], 7680));
    // This write would restore the old length of the file.
    check(device.write_at(&[1; 512], 7680, Durability::Cached));
    assert_eq!(file.as_file().metadata().unwrap().len(), 4096);
    device.write_at(&[1; 512], 4096, Durability::Cached).unwrap();
    check(device.flush());
    file.as_file().set_len(9000).unwrap();
    device.flush().unwrap();
}

#[test]
fn unlinked_file_can_still_be_written() {
    let file = image(&[0; 4096]);
    let device = FileDevice::open(file.path(), FileOptions::read_write()).unwrap();
    std::fs::remove_file(file.path()).unwrap();
    std::fs::write(file.path(), "another").unwrap();
    device.write_at(&[1; 512], 0, Durability::Durable).unwrap();
    device.flush().unwrap();
    FileDevice::open(file.path(), FileOptions::read_write()).unwrap();
}

#[test]
fn second_writer_through_a_descriptor_or_link_is_refused() {
    let file = image(&[0; 4096]);
    let folder = tempfile::tempdir_in(file.path().parent().unwrap()).unwrap();
    let (hard, soft) = (folder.path().join("hard"), folder.path().join("soft"));
    std::fs::hard_link(file.path(), &hard).unwrap();
    std::os::unix::fs::symlink(file.path(), &soft).unwrap();
    let descriptor = PathBuf::from(format!("/proc/self/fd/{}", file.as_file().as_raw_fd()));
    let device = FileDevice::open(file.path(), FileOptions::read_write()).unwrap();
    for path in [&hard, &soft, &descriptor] {
        for options in [FileOptions::read_write(), FileOptions::read_only()] {
            assert!(matches!(failure(path, options), DeviceFailure::Locked(_)), "{path:?} (I2)");
        }
        FileDevice::open(path, FileOptions::read_only().live()).unwrap();
    }
    drop(device);
    FileDevice::open(&hard, FileOptions::read_write()).unwrap();
}

#[test]
fn read_only_device_refuses_every_change() {
    let file = image(&[7; 4096]);
    let device = FileDevice::open(file.path(), FileOptions::read_only()).unwrap();
    assert!(device.is_read_only());
    let flags = rustix::fs::fcntl_getfl(&device.file).unwrap();
    let access = flags & rustix::fs::OFlags::RWMODE;
    assert_eq!(access, rustix::fs::OFlags::RDONLY, "the descriptor cannot write (I1)");
    for durability in [Durability::Cached, Durability::Durable] {
        let error = device.write_at(&[0; 512], 0, durability).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    }
    assert_eq!(device.discard(0, 4096).unwrap_err().kind(), ErrorKind::PermissionDenied);
    device.flush().unwrap();
    assert_eq!(std::fs::read(file.path()).unwrap(), [7; 4096]);
}

#[test]
fn readers_share_a_file_and_a_writer_excludes_all() {
    let file = image(&[0; 4096]);
    let reader = FileDevice::open(file.path(), FileOptions::read_only()).unwrap();
    let second = FileDevice::open(file.path(), FileOptions::read_only()).unwrap();
    assert!(matches!(
        failure(file.path(), FileOptions::read_write()),
        DeviceFailure::Locked(DeviceAccess::ReadWrite)
    ));
    drop((reader, second));
    let writer = FileDevice::open(file.path(), FileOptions::read_write()).unwrap();
    for options in [FileOptions::read_write(), FileOptions::read_write().live()] {
        assert!(matches!(failure(file.path(), options), DeviceFailure::Locked(_)));
    }
    assert!(matches!(
        failure(file.path(), FileOptions::read_only()),
        DeviceFailure::Locked(DeviceAccess::ReadOnly)
    ));
    FileDevice::open(file.path(), FileOptions::read_only().live()).unwrap();
    drop(writer);
    FileDevice::open(file.path(), FileOptions::read_only()).unwrap();
}

#[test]
fn descriptor_of_a_child_does_not_keep_the_lock() {
    let file = image(&[7; 4096]);
    let device = FileDevice::open(file.path(), FileOptions::read_write()).unwrap();
    let of_a_child = device.file.try_clone().unwrap();
    drop(device);
    drop(FileDevice::open(file.path(), FileOptions::read_write()).unwrap());
    drop(of_a_child);
}

#[test]
fn open_of_a_non_device_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for access in [FileOptions::read_only(), FileOptions::read_write()] {
        assert!(matches!(failure(directory.path(), access), DeviceFailure::NotADevice(_)));
        let null = PathBuf::from("/dev/null");
        assert!(matches!(failure(&null, access), DeviceFailure::NotADevice("a character device")));
        let missing = directory.path().join("missing");
        assert!(matches!(failure(&missing, access), DeviceFailure::Open(_)));
    }
}

/// Reads the `length` bytes that a pipe must contain, and returns them.
fn emptied(reader: std::os::fd::OwnedFd, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    std::fs::File::from(reader).read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn splice_fills_a_pipe_as_far_as_it_has_room() {
    let contents: Vec<u8> = (0..300_000_u32).map(|at| (at / 512) as u8).collect();
    let file = image(&contents);
    let device = FileDevice::open(file.path(), FileOptions::read_only()).unwrap();
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    assert_eq!(device.splice_at(1000, 20_000, writer.as_fd()).unwrap(), 20_000);
    assert_eq!(emptied(reader, 20_000), contents[1000..21_000]);

    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let put = device.splice_at(0, 300_000, writer.as_fd()).unwrap();
    assert!((1..300_000).contains(&put), "a pipe holds 64 KiB, and {put} bytes were spliced");
    assert_eq!(device.splice_at(0, 1, writer.as_fd()).unwrap(), 0);
    assert_eq!(emptied(reader, put), contents[..put]);

    let past_end = device.splice_at(299_999, 2, writer.as_fd()).unwrap_err();
    assert_eq!(past_end.kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn splice_of_a_window_uses_its_own_bytes() {
    let mut contents = [7; 4096];
    contents[1000..2000].fill(8);
    let file = image(&contents);
    let device = FileDevice::open(file.path(), FileOptions::read_only()).unwrap();
    let window = WindowDevice::new(Arc::new(device), 1000, 1000);
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    assert!(window.splice_at(1, 1000, writer.as_fd()).is_err());
    assert_eq!(window.splice_at(0, 1000, writer.as_fd()).unwrap(), 1000);
    assert_eq!(emptied(reader, 1000), [8; 1000]);
    let memory = MemoryDevice::new(4096);
    assert_eq!(memory.splice_at(0, 4096, writer.as_fd()).unwrap(), 0);
}
