use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::{io, thread};

use xfs_alloc::chunks_freed;
use xfs_buffer::PosixError;
use xfs_device::BlockDevice;
use xfs_dir::Cookie;
use xfs_format::{AgNumber, InodeNumber};
use xfs_trans::testing::{make_sized, make_with};
use xfs_vfs::{BulkPath, CreateOptions, NewKind, SetAttributes};

use crate::admin::Shutdown;
use crate::device::{Durability, SharedDevice};
use crate::{Error, Metadata, OpenOptions, Volume};

const PLAIN: CreateOptions = CreateOptions::new(0o600);
const FILES: usize = 300;

fn volume() -> Volume {
    volume_with("")
}

fn volume_with(format: &str) -> Volume {
    let options = OpenOptions::new().write(true);
    let volume = options.open_device(make_with(format)).unwrap();
    fill(&volume);
    volume
}

fn fill(volume: &Volume) {
    let root = volume.root().unwrap();
    for number in 0..FILES {
        root.create(format!("file{number}"), &NewKind::Regular, &PLAIN).unwrap();
    }
}

fn all(volume: &Volume, path: BulkPath) -> BTreeMap<InodeNumber, Metadata> {
    let (mut seen, mut last) = (BTreeMap::new(), InodeNumber(0));
    let done = volume.bulkstat(InodeNumber(0), path, |number, metadata| {
        assert!(number > last, "{number:?} after {last:?}");
        last = number;
        seen.insert(number, metadata.unwrap());
        ControlFlow::Continue(())
    });
    assert!(done.unwrap().is_continue());
    seen
}

/// Returns the metadata that stat shows for every file with a name, by inode number.
fn by_stat(volume: &Volume) -> BTreeMap<InodeNumber, Metadata> {
    let walk = volume.walk("/").unwrap();
    walk.map(|entry| entry.unwrap().node.metadata()).map(|one| (one.number, one)).collect()
}

#[test]
fn bulkstat_agrees_with_stat() {
    let volume = volume();
    let changes = SetAttributes::new().mode(0o640);
    let buffered = volume.open_file("/file9").unwrap();
    for round in 0..3 {
        buffered.write_at(&[7; 1000], round * 1000).unwrap();
        volume.lookup(format!("/file{round}")).unwrap().set_attributes(&changes).unwrap();
        if round == 1 {
            volume.sync().unwrap();
            volume.drop_caches().unwrap();
        }
        let written = (round + 1) * 1000;
        for path in [BulkPath::PastCache, BulkPath::ThroughCache] {
            let mut shown = all(&volume, path);
            // Bulkstat also shows the internal inodes of the volume, which have no names.
            let named = by_stat(&volume);
            shown.retain(|number, _| named.contains_key(number));
            assert_eq!(shown, named, "{path:?}");
            assert_eq!(shown[&buffered.node().number()].size, written, "{path:?}");
            volume.drop_caches().unwrap();
        }
    }
}

/// Removes all files that `fill` has made except the first one, and writes one file until the
/// volume is full. Its data then also lies in the blocks of the freed inode chunks.
fn replace_chunks_by_data(volume: &Volume) {
    let root = volume.root().unwrap();
    (1..FILES).for_each(|number| root.remove_file(format!("file{number}")).unwrap());
    volume.volume_ref().mount().unwrap().inode_cache.drain();
    volume.sync().unwrap();
    let data = volume.create_file("/data").unwrap();
    let bytes = vec![7; 1 << 20];
    let mut end = 0;
    let full = loop {
        match data.write_at(&bytes, end).and_then(|written| volume.sync().map(|()| written)) {
            Ok(_) => end += bytes.len() as u64,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::Posix(PosixError::NoSpace)), "{full}");
}

#[test]
fn bulkstat_of_chunks_that_are_freed_meanwhile_shows_no_data_as_inode() {
    for path in [BulkPath::PastCache, BulkPath::ThroughCache] {
        let device = make_sized(32 << 20, "-d agcount=1");
        let volume = OpenOptions::new().write(true).open_device(device).unwrap();
        fill(&volume);
        volume.sync().unwrap();
        volume.drop_caches().unwrap();
        let mut is_first = true;
        let done = volume.bulkstat(InodeNumber(0), path, |number, metadata| {
            assert!(metadata.is_ok(), "{path:?} {number:?}: {metadata:?}");
            if std::mem::take(&mut is_first) {
                replace_chunks_by_data(&volume);
            }
            ControlFlow::Continue(())
        });
        assert!(done.unwrap().is_continue());
    }
}

/// Checks that a listing of the root directory shows the same metadata as stat.
fn check_listed(volume: &Volume) {
    let root = volume.root().unwrap();
    for entry in root.entries_with_metadata_from(Cookie::START).unwrap() {
        let (entry, metadata) = entry.unwrap();
        assert_eq!(metadata.as_ref(), Some(&entry.node().unwrap().metadata()), "{entry:?}");
    }
}

#[test]
fn listing_with_metadata_agrees_with_stat() {
    // Without sparse inodes, a chunk of 64 may begin at any multiple of 32.
    for format in ["", "-i sparse=0"] {
        let volume = volume_with(format);
        let root = volume.root().unwrap();
        let changes = SetAttributes::new().mode(0o640);
        let buffered = volume.open_file("/file9").unwrap();
        root.link(&volume.lookup("/file7").unwrap(), "again").unwrap();
        for round in 0..4 {
            buffered.write_at(&[7; 1000], round * 1000).unwrap();
            volume
                .lookup(format!("/file{}", round + 250))
                .unwrap()
                .set_attributes(&changes)
                .unwrap();
            if round == 1 {
                volume.sync().unwrap();
                volume.drop_caches().unwrap();
            }
            if round == 2 {
                (20..240).for_each(|it| root.remove_file(format!("file{it}")).unwrap());
                let mount = volume.volume_ref().mount().unwrap();
                mount.inode_cache.drain();
                assert!(chunks_freed(&mount.journal, AgNumber(0)) > 0);
            }
            check_listed(&volume);
            volume.drop_caches().unwrap();
            check_listed(&volume);
        }
        let listed = root.entries_with_metadata_from(Cookie::START).unwrap();
        assert_eq!(listed.count(), FILES - 220 + 1);
    }
}

#[test]
fn listing_of_a_read_only_volume_agrees_with_stat() {
    let device: SharedDevice = make_with("");
    let open =
        |writable| OpenOptions::new().write(writable).with_devices(Arc::clone(&device), None);
    let volume = open(true).open().unwrap();
    fill(&volume);
    let root = volume.root().unwrap();
    (20..240).step_by(3).for_each(|it| root.remove_file(format!("file{it}")).unwrap());
    root.link(&volume.lookup("/file7").unwrap(), "again").unwrap();
    drop(root);
    volume.close().unwrap();
    let volume = open(false).open().unwrap();
    check_listed(&volume);
    let root = volume.root().unwrap();
    let listed = root.entries_with_metadata_from(Cookie::START).unwrap();
    assert_eq!(listed.count(), FILES - 74 + 1);
}

#[test]
fn listing_with_metadata_caches_no_inode() {
    let volume = volume();
    volume.drop_caches().unwrap();
    let root = volume.root().unwrap();
    let before = volume.statistics().unwrap().inode_lookups;
    assert_eq!(root.entries_with_metadata_from(Cookie::START).unwrap().count(), FILES);
    assert_eq!(volume.statistics().unwrap().inode_lookups, before);
}

/// A device that records the offset and length of each read.
struct Reads {
    inner: SharedDevice,
    seen: Mutex<Vec<(u64, usize)>>,
}

impl BlockDevice for Reads {
    xfs_testkit::delegate_device!(inner: length_bytes, sector_size, write_at, flush, discard);

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.seen.lock().unwrap().push((offset, buffer.len()));
        self.inner.read_at(buffer, offset)
    }
}

/// Checks that a listing reads each cluster once, also if the first inode of the cluster is not
/// listed first.
#[test]
fn listing_with_metadata_reads_each_cluster_once() {
    let device = make_with("");
    let open = |device: SharedDevice| OpenOptions::new().write(true).open_device(device).unwrap();
    let volume = open(Arc::clone(&device));
    fill(&volume);
    volume.close().unwrap();
    let reads = Arc::new(Reads { inner: device, seen: Mutex::default() });
    let volume = open(Arc::<Reads>::clone(&reads));
    let root = volume.root().unwrap();
    let cluster = volume.geometry().inode_location(root.number()).unwrap();
    reads.seen.lock().unwrap().clear();
    assert_eq!(root.entries_with_metadata_from(Cookie::START).unwrap().count(), FILES);
    let mut seen = reads.seen.lock().unwrap().clone();
    seen.retain(|(_, length)| *length == cluster.cluster_bytes as usize);
    let all = seen.len();
    assert!(all >= FILES / 64, "{seen:?}");
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), all, "a cluster was read twice");
}

#[test]
fn listing_during_changes_shows_all_kept_files() {
    let volume = volume();
    let root = volume.root().unwrap();
    thread::scope(|scope| {
        let churn = scope.spawn(|| {
            let changes = SetAttributes::new().mode(0o640);
            for round in 0..4 {
                let name = |number: usize| format!("more{round}-{number}");
                for number in 0..FILES {
                    let made = root.create(name(number), &NewKind::Regular, &PLAIN).unwrap();
                    made.set_attributes(&changes).unwrap();
                }
                (0..FILES).for_each(|number| root.remove_file(name(number)).unwrap());
            }
        });
        while !churn.is_finished() {
            let mut kept = 0;
            for entry in root.entries_with_metadata_from(Cookie::START).unwrap() {
                let (entry, metadata) = entry.unwrap();
                // The number may belong to a new file by now.
                assert!(metadata.as_ref().is_none_or(|it| it.number == entry.number()));
                if entry.name().to_string_lossy().starts_with("file") {
                    assert_eq!(metadata.unwrap().mode & 0o777, 0o600);
                    kept += 1;
                }
            }
            assert_eq!(kept, FILES);
        }
        churn.join().unwrap();
    });
}

#[test]
fn bulkstat_caches_no_inode() {
    let volume = volume();
    volume.drop_caches().unwrap();
    let before = volume.statistics().unwrap().inode_lookups;
    let count = all(&volume, BulkPath::PastCache).len() as u64;
    assert_eq!(volume.statistics().unwrap().inode_lookups, before);
    assert_eq!(all(&volume, BulkPath::ThroughCache).len() as u64, count);
    let after = volume.statistics().unwrap().inode_lookups;
    assert_eq!((after.missed - before.missed, after.reclaims - before.reclaims), (count, count));
    assert_eq!(volume.cache_counts().unwrap().total(), 0);
}

/// Checks that a bulkstat through the cache counts each inode that was not cached once as read and
/// once as evicted. Repeats the check with a chunk on disk that lies in two chunks of the cache,
/// with some inodes cached, and after many files were removed.
#[test]
fn bulkstat_counts_each_inode_it_visits() {
    for format in ["", "-i sparse=0"] {
        let volume = volume_with(format);
        let changes = SetAttributes::new().mode(0o640);
        for removed in [0, 220] {
            let root = volume.root().unwrap();
            (0..removed).for_each(|it| root.remove_file(format!("file{it}")).unwrap());
            drop(root);
            let mount = volume.volume_ref().mount().unwrap();
            mount.inode_cache.drain();
            volume.drop_caches().unwrap();
            let held: Vec<_> = (220..300)
                .step_by(7)
                .map(|it| volume.lookup(format!("/file{it}")).unwrap())
                .inspect(|node| node.set_attributes(&changes).unwrap())
                .collect();
            let left = volume.cache_counts().unwrap().total();
            let before = volume.statistics().unwrap().inode_lookups;
            let shown = all(&volume, BulkPath::ThroughCache);
            let after = volume.statistics().unwrap().inode_lookups;
            let came = shown.len() as u64 - left;
            assert_eq!(
                (after.missed - before.missed, after.reclaims - before.reclaims),
                (came, came)
            );
            assert_eq!(volume.cache_counts().unwrap().total(), left);
            assert!(held.iter().all(|node| shown[&node.number()].mode & 0o777 == 0o640));
            drop(held);
            assert_eq!(shown, all(&volume, BulkPath::PastCache));
            volume.drop_caches().unwrap();
            assert_eq!(shown, all(&volume, BulkPath::ThroughCache));
        }
    }
}

#[test]
fn bulkstat_past_the_cache_reads_no_buffer() {
    let device = make_with("");
    let open = || {
        let options = OpenOptions::new().write(true);
        options.open_device(Arc::clone(&device)).unwrap()
    };
    let volume = open();
    let root = volume.root().unwrap();
    for number in 0..FILES {
        root.create(format!("file{number}"), &NewKind::Regular, &PLAIN).unwrap();
    }
    drop(root);
    volume.close().unwrap();
    let volume = open();
    let shown = all(&volume, BulkPath::PastCache);
    let buffers = || volume.statistics().unwrap().buffers.missed;
    let before = buffers();
    assert_eq!(all(&volume, BulkPath::PastCache), shown);
    assert_eq!(buffers(), before);
    // Through the cache all clusters are read into buffers.
    assert_eq!(all(&volume, BulkPath::ThroughCache), shown);
    assert!(buffers() > before);
    assert_eq!(all(&volume, BulkPath::PastCache), shown);
}

#[test]
fn bulkstat_resumes_at_any_number() {
    let volume = volume();
    let whole: Vec<_> = all(&volume, BulkPath::PastCache).into_keys().collect();
    for path in [BulkPath::PastCache, BulkPath::ThroughCache] {
        for (index, from) in whole.iter().enumerate().step_by(37) {
            let mut seen = Vec::new();
            let stopped = volume.bulkstat(*from, path, |number, _| {
                seen.push(number);
                if seen.len() == 20 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            assert_eq!(stopped.unwrap().is_break(), seen.len() == 20);
            assert_eq!(seen, whole[index..][..seen.len()], "{path:?}");
        }
    }
    let none = volume.bulkstat(InodeNumber(u64::MAX), BulkPath::PastCache, |_, _| unreachable!());
    assert!(none.unwrap().is_continue());
}

#[test]
fn inumbers_agree_with_bulkstat() {
    let volume = volume();
    let mut numbers = Vec::new();
    let done = volume.inumbers(InodeNumber(0), |chunk| {
        assert_eq!(chunk.allocated & !chunk.present, 0);
        let used = (0..64).filter(|bit| chunk.allocated >> bit & 1 == 1);
        numbers.extend(used.map(|bit| InodeNumber(chunk.start.0 + bit)));
        ControlFlow::Continue(())
    });
    assert!(done.unwrap().is_continue());
    assert!(all(&volume, BulkPath::PastCache).into_keys().eq(numbers));
}

#[test]
fn bulkstat_during_changes_shows_all_kept_files() {
    let volume = volume();
    let kept: Vec<_> = by_stat(&volume).into_keys().collect();
    thread::scope(|scope| {
        let churn = scope.spawn(|| {
            let root = volume.root().unwrap();
            for round in 0..4 {
                let name = |number: usize| format!("more{round}-{number}");
                for number in 0..FILES {
                    root.create(name(number), &NewKind::Regular, &PLAIN).unwrap();
                }
                (0..FILES).for_each(|number| root.remove_file(name(number)).unwrap());
            }
        });
        while !churn.is_finished() {
            for path in [BulkPath::PastCache, BulkPath::ThroughCache] {
                let seen = all(&volume, path);
                assert!(kept.iter().all(|number| seen.contains_key(number)), "{path:?}");
            }
        }
        churn.join().unwrap();
    });
}

#[test]
fn damaged_inode_is_the_only_error_of_bulkstat() {
    let device = make_with("");
    let open = || {
        let options = OpenOptions::new().write(true);
        options.open_device(Arc::clone(&device)).unwrap()
    };
    let (number, at) = {
        let volume = open();
        let root = volume.root().unwrap();
        let number = root.create("file", &NewKind::Regular, &PLAIN).unwrap().number();
        let place = volume.geometry().inode_location(number).unwrap();
        let at = place.cluster.byte_offset().unwrap() + u64::from(place.offset_bytes);
        drop(root);
        volume.close().unwrap();
        (number, at)
    };
    // The owner changes, which only the checksum detects.
    let mut byte = [0];
    device.read_at(&mut byte, at + 11).unwrap();
    device.write_at(&[byte[0] ^ 4], at + 11, Durability::Durable).unwrap();
    let volume = open();
    assert!(matches!(volume.lookup("/file"), Err(Error::Corrupt(_))));
    for path in [BulkPath::PastCache, BulkPath::ThroughCache] {
        let mut damaged = Vec::new();
        let done = volume.bulkstat(InodeNumber(0), path, |number, metadata| {
            damaged.extend(metadata.is_err().then_some(number));
            ControlFlow::Continue(())
        });
        assert!(done.unwrap().is_continue());
        assert_eq!(damaged, [number], "{path:?}");
    }
    volume.root().unwrap().create("sound", &NewKind::Regular, &PLAIN).unwrap();
    let listed = volume.root().unwrap().entries_with_metadata_from(Cookie::START).unwrap();
    let listed = listed.map(|entry| entry.unwrap().1.map(|metadata| metadata.number == number));
    assert_eq!(listed.collect::<Vec<_>>(), [None, Some(false)]);
}

#[test]
fn volume_that_is_shut_down_refuses_changes() {
    let volume = volume();
    volume.shut_down(Shutdown::Flush).unwrap();
    let root = volume.root().unwrap();
    assert!(root.create("late", &NewKind::Regular, &PLAIN).is_err());
    assert!(volume.lookup("/file0").is_ok());
}
