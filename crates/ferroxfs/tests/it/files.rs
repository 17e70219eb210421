//! Tests of contents, extents, attributes and metadata of files.

use std::ffi::OsStr;
use std::io::{IoSliceMut, Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ferroxfs::contents::FileExtent;
use ferroxfs::contents::ForkKind;
use ferroxfs::{FileType, OpenOptions, Volume};
use xfs_trans::testing::make;

use super::volume;

fn extents(volume: &Volume, path: &str) -> Vec<FileExtent> {
    let node = volume.lookup(path).unwrap();
    node.extents(ForkKind::Data).map(Result::unwrap).collect()
}

#[test]
fn contents_equal_the_written_bytes() {
    let volume = volume();
    assert_eq!(volume.read("/short/a").unwrap(), b"a\n");
    assert_eq!(volume.read("/files/original").unwrap(), [0x61; 40 << 10]);
    assert_eq!(volume.read("/files/shared").unwrap(), [0x61; 40 << 10]);
    assert_eq!(volume.read("/files/empty").unwrap(), b"");
    let sparse = volume.read("/files/sparse").unwrap();
    assert_eq!(sparse.len(), 1 << 20);
    assert!(sparse[..100 << 10].iter().all(|byte| *byte == 0));
    assert!(sparse[100 << 10..101 << 10].iter().all(|byte| *byte == 0xcd));
    assert!(sparse[101 << 10..].iter().all(|byte| *byte == 0));
}

#[test]
fn file_is_read_and_searched_at_any_offset() {
    let volume = volume();
    let mut file = volume.open_file("/files/sparse").unwrap();
    let mut four = [9; 4];
    assert_eq!(file.seek(SeekFrom::Start((100 << 10) - 2)).unwrap(), (100 << 10) - 2);
    file.read_exact(&mut four).unwrap();
    assert_eq!(four, [0, 0, 0xcd, 0xcd]);
    assert_eq!(file.seek(SeekFrom::End(-2)).unwrap(), (1 << 20) - 2);
    assert_eq!(file.read(&mut four).unwrap(), 2);
    assert!(file.seek(SeekFrom::Current(i64::MIN)).is_err());
    assert_eq!(file.seek_data(0).unwrap(), Some(100 << 10));
    assert_eq!(file.seek_hole(100 << 10).unwrap(), Some(101 << 10));
    assert_eq!(file.seek_data(101 << 10).unwrap(), None);
    assert_eq!(file.seek_hole(1 << 20).unwrap(), None);
    let long = volume.open_file("/files/long").unwrap();
    assert_eq!(long.seek_hole(6 << 60).unwrap(), Some(6 << 60));
    assert_eq!(long.read_at(&mut four, (7 << 60) - 3).unwrap(), 3);
}

#[test]
fn vectored_read_fills_its_slices_and_moves_the_position() {
    let volume = volume();
    let mut file = volume.open_file("/files/sparse").unwrap();
    file.seek(SeekFrom::Start((100 << 10) - 2)).unwrap();
    for expected in [[0, 0, 0xcd, 0xcd, 0xcd], [0xcd; 5]] {
        let (mut two, mut three) = ([9; 2], [9; 3]);
        let mut slices = [IoSliceMut::new(&mut two), IoSliceMut::new(&mut three)];
        assert_eq!(file.read_vectored(&mut slices).unwrap(), 5);
        assert_eq!([two.as_slice(), &three].concat(), expected);
    }
    assert_eq!(file.stream_position().unwrap(), (100 << 10) + 8);
    file.seek(SeekFrom::End(-2)).unwrap();
    let (mut one, mut many) = ([9; 1], [9; 8]);
    let mut slices = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut many)];
    assert_eq!(file.read_vectored(&mut slices).unwrap(), 2);
    assert_eq!((one, many), ([0], [0, 9, 9, 9, 9, 9, 9, 9]));
    assert_eq!(file.stream_position().unwrap(), 1 << 20);
}

#[test]
fn contiguous_bytes_are_lent_as_one_extent() {
    let volume = volume();
    let file = volume.open_file("/files/sparse").unwrap();
    let lent = |offset, length| file.lend_at(offset, length, |place| place.length()).unwrap();
    assert_eq!(lent(100 << 10, 1024), Some(1024));
    assert_eq!(lent(100 << 10, 1025), None);
    assert_eq!(lent(0, 1024), None);
    let original = volume.open_file("/files/original").unwrap();
    let lent = original.lend_at(1, 1 << 20, |place| place.length()).unwrap();
    assert_eq!(lent, Some((40 << 10) - 1), "the loan reaches the end of the file");
}

#[test]
fn lent_extent_is_not_freed() {
    let options = OpenOptions::new().write(true);
    let volume = options.open_device(make()).unwrap();
    volume.write("/file", [7; 100_000]).unwrap();
    let (reader, writer) = (volume.open_file("/file").unwrap(), volume.open_file("/file").unwrap());
    let is_given_back = AtomicBool::new(false);
    thread::scope(|scope| {
        let lent = reader.lend_at(0, 100_000, |place| {
            scope.spawn(|| {
                writer.set_len(0).unwrap();
                assert!(is_given_back.load(Ordering::Relaxed), "its blocks were freed meanwhile");
            });
            // Long enough for a thread that does not wait.
            (0..10_000).for_each(|_| thread::yield_now());
            is_given_back.store(true, Ordering::Relaxed);
            place.length()
        });
        assert_eq!(lent.unwrap(), Some(100_000));
    });
    assert_eq!(reader.lend_at(0, 100_000, |_| ()).unwrap(), None);
}

#[test]
fn extents_show_written_unwritten_and_shared() {
    let volume = volume();
    let unwritten = extents(&volume, "/files/unwritten");
    let states: Vec<_> = unwritten.iter().map(|e| (e.offset_bytes, e.unwritten)).collect();
    assert_eq!(states, [(0, true), (8 << 10, false), (12 << 10, true)]);
    assert_eq!(extents(&volume, "/files/tree").len(), 800);
    assert!(extents(&volume, "/files/sparse").iter().all(|extent| !extent.shared));
    let (original, copy) = (extents(&volume, "/files/original"), extents(&volume, "/files/shared"));
    assert!(original.iter().chain(&copy).all(|extent| extent.shared));
    assert_eq!(original[0].device_offset_bytes, copy[0].device_offset_bytes);
}

#[test]
fn extent_leads_to_the_bytes_on_the_device() {
    let volume = volume();
    let extent = extents(&volume, "/files/original")[0];
    let mut bytes = [0; 16];
    volume.device().read_at(&mut bytes, extent.device_offset_bytes).unwrap();
    assert_eq!(bytes, [0x61; 16]);
}

#[test]
fn attributes_have_their_linux_names_and_values() {
    let volume = volume();
    let value =
        |path: &str, name: &str| volume.lookup(path).unwrap().attribute(OsStr::new(name)).unwrap();
    assert_eq!(value("/attr-short", "user.one"), b"1");
    assert_eq!(value("/attr-leaf", "user.leaf-7"), b"value-7");
    assert_eq!(value("/attr-node", "user.node-attribute-99"), b"value-99");
    assert_eq!(value("/attr-remote", "user.remote"), [b'v'; 3000]);
    assert_eq!(value("/acl", "system.posix_acl_access")[..4], [2, 0, 0, 0]);
    let names = |path: &str| {
        let list = volume.lookup(path).unwrap().attributes();
        list.into_iter().map(|attribute| attribute.unwrap().name).collect::<Vec<_>>()
    };
    assert_eq!(names("/attr-short"), ["user.one"]);
    assert_eq!(names("/attr-node").len(), 120);
    assert!(names("/acl").iter().any(|name| name == "system.posix_acl_access"));
    let missing = volume.lookup("/acl").unwrap().attribute(OsStr::new("user.none"));
    assert_eq!(missing.unwrap_err().errno(), 61);
}

#[test]
fn metadata_agrees_with_stat() {
    let volume = volume();
    let stat = |path: &str| volume.symlink_metadata(path).unwrap();
    let file = stat("/files/original");
    assert_eq!((file.size, file.blocks, file.nlink), (40 << 10, 80, 1));
    assert_eq!(file.file_type, FileType::Regular);
    assert_eq!(stat("/short/a").nlink, 1 + 60 + 200);
    let disk = stat("/disk");
    let device = disk.device.unwrap();
    assert_eq!((device.major, device.minor), (8, 1));
    assert_eq!(stat("/null").file_type, FileType::CharDevice);
    assert_eq!(stat("/files/long").size, 7 << 60);
    assert!(stat("/deep").is_dir() && stat("/links-inline").is_symlink());
    assert!(file.created.seconds() <= file.changed.seconds());
}
