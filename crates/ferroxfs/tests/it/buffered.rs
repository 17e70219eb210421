//! Tests of buffered writes, preallocation and late errors.

use std::io::{IoSlice, IoSliceMut, Write};
use std::sync::{Arc, OnceLock};

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::contents::ForkKind;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::device::SharedDevice;
use ferroxfs::raw::format::inode::InodeFlags2;
use ferroxfs::{Error, File, OpenOptions, PosixError, SetAttributes, Timestamp, Volume};
use xfs_testkit::{FailingDevice, Fault, Persistence, RecordingDevice, Request, RequestKind};
use xfs_trans::testing::{is_clean, make_sized, make_with};

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;

/// The number of bytes after which [`pattern`] starts again.
const PERIOD_BYTES: u64 = 7 * 256 * 251;

fn options() -> OpenOptions {
    OpenOptions::new().write(true).fixed_time(Timestamp::new(1_700_000_000, 0).unwrap())
}

fn open(device: &SharedDevice) -> Volume {
    options().open_device(Arc::clone(device)).unwrap()
}

/// Returns `length` bytes that depend on their offset in the file, from offset `from` on.
fn pattern(from: u64, length: usize) -> Vec<u8> {
    static PERIOD: OnceLock<Vec<u8>> = OnceLock::new();
    let period =
        PERIOD.get_or_init(|| (0..PERIOD_BYTES).map(|at| (at / 7 + at % 251) as u8).collect());
    let mut start = (from % PERIOD_BYTES) as usize;
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let end = period.len().min(start + length - bytes.len());
        bytes.extend_from_slice(&period[start..end]);
        start = 0;
    }
    bytes
}

/// Returns the extents of a file: byte offset, length in bytes, and whether the extent is
/// unwritten.
fn extents(file: &File) -> Vec<(u64, u64, bool)> {
    let extents = file.node().extents(ForkKind::Data);
    let extent = |extent: ferroxfs::Result<ferroxfs::contents::FileExtent>| {
        let extent = extent.unwrap();
        (extent.offset_bytes, extent.length_bytes, extent.unwritten)
    };
    extents.map(extent).collect()
}

fn check_pattern(file: &File, length: u64) {
    let mut found = vec![0; length as usize + 1];
    assert_eq!(file.read_at(&mut found, 0).unwrap() as u64, length);
    found.pop();
    assert!(found == pattern(0, found.len()), "read other bytes than written");
}

#[test]
fn small_writes_are_read_at_once_and_become_one_extent() {
    let device = make_with("");
    let volume = open(&device);
    let file = volume.create_file("log").unwrap();
    let other = volume.open_file("log").unwrap();
    let free = volume.space().unwrap().available_blocks;
    let mut size = 0;
    for length in (1..400).cycle().take(1000) {
        assert_eq!(file.write_at(&pattern(size, length), size).unwrap(), length);
        size += length as u64;
        assert_eq!(other.metadata().size, size);
    }
    let taken = free - volume.space().unwrap().available_blocks;
    assert!(taken >= size.div_ceil(BLOCK), "only {taken} blocks are reserved");
    assert_eq!(other.metadata().blocks, size.div_ceil(BLOCK) * 8);
    assert_eq!(other.node().inode().core().size, 0, "the size on disk before the flush");
    assert_eq!(other.seek_hole(0).unwrap(), Some(size));
    check_pattern(&other, size);
    drop(file);
    assert_eq!(extents(&other), [(0, size.div_ceil(BLOCK) * BLOCK, false)]);
    drop(other);
    assert_eq!(volume.space().unwrap().available_blocks, free - size.div_ceil(BLOCK));
    volume.close().unwrap();
}

#[test]
fn other_operations_see_buffered_bytes() {
    let device = make_with("");
    let volume = open(&device);
    let file = volume.create_file("file").unwrap();
    file.write_at(&pattern(0, 10_000), 0).unwrap();
    // Over buffered bytes, past their end, and far away.
    file.write_at(&pattern(5000, 7000), 5000).unwrap();
    assert_eq!(file.metadata().size, 12_000);
    file.set_len(11_000).unwrap();
    check_pattern(&file, 11_000);
    file.write_at(&pattern(11_000, 1000), 11_000).unwrap();
    file.write_at(b"far away", 100_000).unwrap();
    file.write_at(&pattern(12_000, 88_000), 12_000).unwrap();
    file.write_at(&pattern(100_000, 8), 100_000).unwrap();
    check_pattern(&file, 100_008);
    let past = Timestamp::new(1_000_000_000, 0);
    file.write_at(&pattern(100_008, 5), 100_008).unwrap();
    file.node()
        .set_attributes(&{
            let mut changes = SetAttributes::new();
            changes.modified = past;
            changes
        })
        .unwrap();
    file.sync_all().unwrap();
    assert_eq!(Some(file.metadata().modified), past, "a late write changed the time");
    check_pattern(&file, 100_013);
    drop(file);
    volume.close().unwrap();
}

#[test]
fn volume_sync_writes_buffered_bytes() {
    let device = make_with("");
    let volume = open(&device);
    let files: Vec<_> = (0..20)
        .map(|number| {
            let file = volume.create_file(format!("file {number}")).unwrap();
            file.write_at(&pattern(0, 100 * number), 0).unwrap();
            file
        })
        .collect();
    volume.sync().unwrap();
    let crashed = xfs_trans::testing::crashed(&device);
    let again = OpenOptions::new().open_device(crashed).unwrap();
    for number in 0..files.len() {
        check_pattern(&again.open_file(format!("file {number}")).unwrap(), 100 * number as u64);
    }
    drop(files);
    volume.close().unwrap();
}

#[test]
fn slices_are_written_and_read_as_one_range() {
    let device = make_with("");
    let volume = open(&device);
    let mut file = volume.create_file("file").unwrap();
    let bytes = pattern(0, 3 << 20);
    let (head, rest) = bytes.split_at(100);
    let (middle, tail) = rest.split_at(2 << 20);
    let slices = [head, middle, tail].map(IoSlice::new);
    assert_eq!(file.write_vectored(&slices).unwrap(), bytes.len());
    check_pattern(&file, 3 * MIB);
    let (mut one, mut two) = (vec![0; 77], vec![0; 4000]);
    let mut buffers = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
    assert_eq!(file.read_vectored_at(&mut buffers, 3 * MIB - 177).unwrap(), 177);
    assert_eq!(one, pattern(3 * MIB - 177, 77));
    assert_eq!(two[..100], pattern(3 * MIB - 100, 100));
    drop(file);
    volume.close().unwrap();
}

#[test]
fn direct_writes_need_alignment_and_are_not_buffered() {
    let device = make_with("");
    let volume = open(&device);
    let file = volume.create_file("file").unwrap();
    file.write_at(&pattern(0, 512), 0).unwrap();
    let direct = file.clone().direct(true);
    assert_eq!(direct.direct_alignment().offset_bytes, 512);
    for (offset, length) in [(1, 512), (512, 511)] {
        let refused = direct.write_at(&pattern(offset, length), offset).unwrap_err();
        assert!(matches!(refused, Error::Posix(PosixError::InvalidArgument)));
    }
    direct.write_at(&pattern(512, 1024), 512).unwrap();
    assert_eq!(direct.node().inode().core().size, 1536, "the direct write was buffered");
    check_pattern(&file, 1536);
    assert!(direct.read_at(&mut [0; 100], 0).is_err());
    drop((file, direct));
    volume.close().unwrap();
}

#[test]
fn buffered_bytes_of_many_files_stay_within_the_limit() {
    let device = make_sized(512 << 20, "");
    let volume = open(&device);
    let length = MIB as usize - 10;
    let write_all = |round: u64| {
        let open_one = |number| {
            let file = volume.create_file(format!("file {round} {number}")).unwrap();
            let (head, tail) = (pattern(0, 5000), pattern(5000, length - 5000));
            assert_eq!(file.write_at(&head, 0).unwrap(), head.len());
            assert_eq!(file.write_at(&tail, 5000).unwrap(), tail.len());
            file
        };
        let files: Vec<_> = (0..80).map(open_one).collect();
        let on_device = |file: &&File| file.node().inode().core().size > 0;
        assert_eq!(files.iter().filter(on_device).count(), 80 - 64, "round {round}");
        files.iter().for_each(|file| check_pattern(file, length as u64));
    };
    // Flushed bytes count no more.
    write_all(1);
    write_all(2);
    volume.close().unwrap();
}

/// On a full volume, all bytes that a write has accepted are written. The write itself refuses
/// bytes for which there is no space.
/// Checks I2 of `xfs_vfs::contents`: blocks are reserved for buffered bytes.
#[test]
fn full_volume_refuses_the_write_itself() {
    let device = make_sized(32 << 20, "-b size=4k -d agcount=2");
    let volume = open(&device);
    let files = ["one", "two", "three"].map(|name| volume.create_file(name).unwrap());
    let mut sizes = [0_u64; 3];
    let mut refused = 0;
    while refused < files.len() {
        refused = 0;
        for (file, size) in files.iter().zip(&mut sizes) {
            match file.write_at(&pattern(*size, 3000), *size) {
                Ok(written) => *size += written as u64,
                Err(Error::Posix(PosixError::NoSpace)) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    // The rest is reserved for the map of one more extent.
    assert!(volume.space().unwrap().available_blocks < 8);
    for (file, size) in files.into_iter().zip(sizes) {
        assert_eq!(file.metadata().size, size);
        check_pattern(&file, size);
        file.close().unwrap();
    }
    volume.close().unwrap();
    let again = OpenOptions::new().open_device(device).unwrap();
    for (name, size) in ["one", "two", "three"].iter().zip(sizes) {
        check_pattern(&again.open_file(name).unwrap(), size);
    }
}

#[test]
fn error_of_a_late_write_is_returned_once() {
    let failing = Arc::new(FailingDevice::new(make_with(""), 1));
    let shared: SharedDevice = Arc::clone(&failing) as _;
    let volume = open(&shared);
    let file = volume.create_file("file").unwrap();
    volume.sync().unwrap();
    let fault = |nth| Fault { kind: RequestKind::Write, nth, persistence: Persistence::Once };
    let is_told = |result: ferroxfs::Result<()>| matches!(result, Err(Error::Io(_)));

    file.write_at(&[1; 5000], 0).unwrap();
    failing.set_fault(Some(fault(1)));
    let other = volume.open_file("file").unwrap();
    assert!(other.read_at(&mut [0; 10], 0).is_err(), "the reader that flushes gets no error");
    assert!(is_told(file.sync_all()), "the caller of sync_all gets no error");
    file.sync_all().unwrap();
    assert_eq!(file.metadata().size, 0);

    file.write_at(&[1; 5000], 0).unwrap();
    failing.set_fault(Some(fault(1)));
    assert!(is_told(file.close()));

    let file = volume.open_file("file").unwrap();
    file.write_at(&[1; 5000], 0).unwrap();
    failing.set_fault(Some(fault(1)));
    drop(file);
    assert!(is_told(volume.sync()), "the error of a dropped handle is lost");
    volume.sync().unwrap();
    drop(other);
    volume.close().unwrap();
}

/// If one handle on a file flushes when it is dropped and the flush fails, bytes that another
/// handle has written may be lost. Checks that a sync of the other handle returns the error. Checks
/// I1 of `xfs_vfs::contents`: a handle flushes when it is dropped.
#[test]
fn dropped_handle_leaves_the_error_to_another() {
    let failing = Arc::new(FailingDevice::new(make_with(""), 1));
    let shared: SharedDevice = Arc::clone(&failing) as _;
    let volume = open(&shared);
    let writer = volume.create_file("file").unwrap();
    let other = volume.open_file("file").unwrap();
    volume.sync().unwrap();
    let is_told = |result: ferroxfs::Result<()>| matches!(result, Err(Error::Io(_)));

    let fault = Fault { kind: RequestKind::Write, nth: 1, persistence: Persistence::Once };
    writer.write_at(&[1; 5000], 0).unwrap();
    other.write_at(&[1; 10], 5000).unwrap();
    failing.set_fault(Some(fault));
    drop(other);
    assert!(is_told(volume.sync()), "the error of a dropped handle is lost");
    assert!(is_told(writer.sync_all()), "the writer gets no error");
    writer.sync_all().unwrap();
    drop(writer);
    volume.close().unwrap();
}

/// A failed write of contents loses bytes and leaves the metadata sound. Checks that the volume
/// therefore needs no recovery after its close.
#[test]
fn volume_closed_after_a_failed_write_is_clean() {
    let device = make_with("");
    let failing = Arc::new(FailingDevice::new(Arc::clone(&device), 1));
    let shared: SharedDevice = Arc::clone(&failing) as _;
    let volume = open(&shared);
    let file = volume.create_file("file").unwrap();
    volume.sync().unwrap();
    file.write_at(&[1; 5000], 0).unwrap();
    let fault = Fault { kind: RequestKind::Write, nth: 1, persistence: Persistence::Once };
    failing.set_fault(Some(fault));
    drop(file);
    assert!(matches!(volume.close(), Err(Error::Io(_))), "close returns no error");
    assert!(is_clean(&device));
    assert_eq!(open(&device).open_file("file").unwrap().metadata().size, 0);
}

#[test]
fn growing_file_is_preallocated_until_closed() {
    let device = make_sized(512 << 20, "");
    let volume = open(&device);
    let free = volume.space().unwrap().available_blocks;
    let mut file = volume.create_file("stream").unwrap();
    for start in (0..20 * MIB).step_by(100_000) {
        file.write_all(&pattern(start, 100_000)).unwrap();
    }
    let size = file.metadata().size;
    let extents_open = extents(&file);
    let (last, length, _) = extents_open.last().copied().unwrap();
    assert!(last + length > size + 4 * MIB, "{extents_open:?}");
    assert!(extents_open.len() < 8, "{extents_open:?}");
    check_pattern(&file, size);
    drop(file);
    let file = volume.open_file("stream").unwrap();
    let (last, length, unwritten) = extents(&file).last().copied().unwrap();
    assert_eq!((last + length, unwritten), (size.div_ceil(BLOCK) * BLOCK, false));
    assert_eq!(volume.space().unwrap().available_blocks, free - size.div_ceil(BLOCK));
    drop(file);
    volume.close().unwrap();
}

#[test]
fn first_closed_of_two_writers_keeps_the_preallocation() {
    let device = make_sized(512 << 20, "");
    let volume = open(&device);
    let mut file = volume.create_file("stream").unwrap();
    for start in (0..8 * MIB).step_by(100_000) {
        file.write_all(&pattern(start, 100_000)).unwrap();
    }
    let size = file.metadata().size;
    let end = |file: &File| {
        let (last, length, _) = extents(file).last().copied().unwrap();
        last + length
    };
    let ahead = end(&file);
    assert!(ahead > size + MIB);
    let other = volume.open_file("stream").unwrap();
    let again = file.clone();
    for leaving in [other, again] {
        leaving.write_at(&pattern(0, 10), 0).unwrap();
        leaving.close().unwrap();
        assert_eq!(end(&file), ahead);
    }
    // The last handle frees the preallocation, even if others have written.
    let last = volume.open_file("stream").unwrap();
    let reader = volume.lookup("stream").unwrap().open_read_only().unwrap();
    drop(file);
    assert_eq!(end(&last), ahead);
    drop(last);
    assert_eq!(end(&reader), size.div_ceil(BLOCK) * BLOCK);
    drop(reader);
    volume.close().unwrap();
}

#[test]
fn full_volume_takes_back_preallocation() {
    let device = make_sized(64 << 20, "");
    let volume = open(&device);
    let mut stream = volume.create_file("stream").unwrap();
    for start in (0..8 * MIB).step_by(1 << 20) {
        stream.write_all(&pattern(start, 1 << 20)).unwrap();
    }
    let other = volume.create_file("other").unwrap();
    let mut size = 0;
    while let Ok(written @ 1..) = other.write_at(&pattern(size, 1 << 20), size) {
        size += written as u64;
    }
    assert!(volume.space().unwrap().available_blocks < 8);
    let ends = [&stream, &other].map(|file| extents(file).last().map(|last| last.0 + last.1));
    assert_eq!(ends, [Some(8 * MIB), Some(size.next_multiple_of(BLOCK))], "preallocation was left");
    check_pattern(&other, size);
    drop((stream, other));
    volume.close().unwrap();
}

#[test]
fn unshared_file_loses_the_reflink_flag() {
    let device = make_with("-m reflink=1");
    let volume = open(&device);
    let [one, two] = ["one", "two"].map(|name| volume.create_file(name).unwrap());
    one.write_at(&pattern(0, 100_000), 0).unwrap();
    two.clone_range(0, &one, 0, 0).unwrap();
    let shares = |file: &File| file.node().inode().core().flags2.contains(InodeFlags2::REFLINK);
    assert!(shares(&one) && shares(&two));
    two.change_range(0..4096, RangeMode::Unshare(AllocateMode::KeepSize)).unwrap();
    assert!(shares(&two), "the rest is not shared");
    two.change_range(0..100_000, RangeMode::Unshare(AllocateMode::KeepSize)).unwrap();
    assert!(shares(&one) && !shares(&two));
    check_pattern(&two, 100_000);
    one.set_len(0).unwrap();
    assert!(!shares(&one));
    drop((one, two));
    volume.close().unwrap();
}

/// Checks that a clone of length 0 extends to the end of the source, as in the kernel. From an
/// offset at the end of the source, it clones no bytes.
#[test]
fn empty_range_is_cloned_at_any_offset() {
    let volume = open(&make_with("-d size=64m --unsupported"));
    volume.write("/one", "1").unwrap();
    volume.write("/two", "two").unwrap();
    let (one, two) = (volume.open_file("/one").unwrap(), volume.open_file("/two").unwrap());
    two.clone_range(3, &one, 1, 0).unwrap();
    assert!(two.deduplicate(3, &one, 1, 0).unwrap());
    let refused = two.clone_range(0, &one, 2, 0);
    assert!(matches!(refused, Err(Error::Posix(PosixError::InvalidArgument))), "{refused:?}");
    assert_eq!(volume.read("/two").unwrap(), b"two");
}

/// Checks that a volume without reflinks refuses a copy-on-write extent size hint. Such a volume
/// never copies on write, and xfs_repair reports an inode with the hint as damaged.
#[test]
fn cow_hint_without_reflinks_is_refused() {
    let device = make_with("-m reflink=0");
    let volume = open(&device);
    let file = volume.create_file("file").unwrap();
    let hint = |bytes| SetAttributes::new().cow_extent_size_hint_bytes(bytes);
    for node in [file.node(), &volume.lookup("/").unwrap()] {
        let refused = node.set_attributes(&hint(64 << 10)).unwrap_err();
        assert!(matches!(refused, Error::Posix(PosixError::InvalidArgument)), "{refused}");
        node.set_attributes(&hint(0)).unwrap();
    }
    drop(file);
    volume.close().unwrap();
    let volume = open(&device);
    assert_eq!(volume.lookup("/file").unwrap().metadata().cow_extent_size_hint_bytes, 0);
}

#[test]
fn dax_flag_of_other_kinds_is_refused() {
    let volume = open(&make_with(""));
    volume.symlink("target", "/link").unwrap();
    let changes = SetAttributes::new().xflags(ExtendedFlags::DAX);
    let refused = volume.lookup_no_follow("/link").unwrap().set_attributes(&changes).unwrap_err();
    assert!(matches!(refused, Error::Posix(PosixError::InvalidArgument)), "{refused}");
    volume.write("/file", b"").unwrap();
    volume.lookup("/file").unwrap().set_attributes(&changes).unwrap();
    volume.close().unwrap();
}

#[test]
fn large_cow_hint_copies_blocks_around_a_write() {
    let device = make_with("-m reflink=1");
    let volume = open(&device);
    let [one, two] = ["one", "two"].map(|name| volume.create_file(name).unwrap());
    one.write_at(&pattern(0, 256 << 10), 0).unwrap();
    two.clone_range(0, &one, 0, 0).unwrap();
    let hint = SetAttributes::new().cow_extent_size_hint_bytes(64 << 10);
    two.node().set_attributes(&hint).unwrap();
    two.write_at(b"ten bytes!", 100_000).unwrap();
    two.sync_all().unwrap();
    let own = |extent: &ferroxfs::contents::FileExtent| !extent.shared;
    let found = two.node().extents(ForkKind::Data).map(Result::unwrap).filter(own);
    let found: Vec<_> = found.map(|extent| (extent.offset_bytes, extent.length_bytes)).collect();
    assert_eq!(found, [(64 << 10, 64 << 10)]);
    let mut bytes = pattern(0, 256 << 10);
    bytes[100_000..100_010].copy_from_slice(b"ten bytes!");
    let mut read = vec![0; 256 << 10];
    two.read_at(&mut read, 0).unwrap();
    assert!(read == bytes);
    check_pattern(&one, 256 << 10);
    drop((one, two));
    volume.close().unwrap();
}

#[test]
fn extents_follow_the_size_hint() {
    let device = make_with("");
    let volume = open(&device);
    volume.create_dir("folder").unwrap();
    let hint =
        SetAttributes::new().xflags(ExtendedFlags::EXTSZINHERIT).extent_size_hint_bytes(64 << 10);
    volume.lookup("folder").unwrap().set_attributes(&hint).unwrap();
    let file = volume.create_file("folder/file").unwrap();
    assert_eq!(file.metadata().extent_size_hint_bytes, 64 << 10, "the hint was not inherited");
    file.write_at(b"some bytes", 300_000).unwrap();
    file.sync_all().unwrap();
    let unit = 64 << 10;
    let first = 300_000 / unit * unit;
    let (start, length) = extents(&file)
        .into_iter()
        .fold((u64::MAX, 0), |(start, sum), (at, length, _)| (start.min(at), sum + length));
    assert_eq!((start, length), (first, unit), "{:?}", extents(&file));
    file.write_at(b"more", 10).unwrap();
    file.sync_all().unwrap();
    let total: u64 = extents(&file).iter().map(|(_, length, _)| length).sum();
    assert_eq!(total, 2 * unit);
    let mut bytes = [9; 20];
    file.read_at(&mut bytes, 299_995).unwrap();
    assert_eq!(&bytes[..15], b"\0\0\0\0\0some bytes");
    drop(file);
    volume.close().unwrap();
}

#[test]
fn large_file_starts_at_a_stripe() {
    let device = make_sized(512 << 20, "-d su=64k,sw=4");
    let volume = open(&device);
    for (number, length) in [1000, 200_000, 5 << 20, 700, 300_000].into_iter().enumerate() {
        let file = volume.create_file(format!("file {number}")).unwrap();
        file.write_at(&pattern(0, length), 0).unwrap();
        file.sync_all().unwrap();
        let extents = file.node().extents(ForkKind::Data);
        let starts: Vec<_> = extents.map(|extent| extent.unwrap().device_offset_bytes).collect();
        assert_eq!(starts.len(), 1, "{length}: {starts:?}");
        if length >= 64 << 10 {
            assert!(starts[0].is_multiple_of(64 << 10), "{length} bytes lie at {starts:?}");
        }
    }
    volume.close().unwrap();
}

#[test]
fn slices_reach_the_device_in_one_request() {
    let device = Arc::new(RecordingDevice::new(make_with("")));
    let recorded: SharedDevice = device.clone();
    let volume = options().open_device(recorded).unwrap();
    let file = volume.create_file("file").unwrap();
    file.write_at(&pattern(0, 20_000), 0).unwrap();
    file.sync_all().unwrap();
    let before = device.position();
    // The first slice ends in the middle of a sector.
    let bytes = pattern(9, 6000);
    let (head, tail) = bytes.split_at(2500);
    file.write_vectored_at(&[IoSlice::new(head), IoSlice::new(tail)], 4096).unwrap();
    file.sync_data().unwrap();
    let recording = device.recording();
    let requests = recording.requests().get(before..).unwrap();
    let whole = |request: &Request| {
        matches!(request, Request::Write { bytes: written, .. }
            if written.windows(bytes.len()).any(|window| window == bytes))
    };
    assert!(requests.iter().any(whole), "no write has both slices: {requests:?}");
    drop(file);
    volume.close().unwrap();
}
