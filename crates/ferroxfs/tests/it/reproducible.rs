//! Tests that with a fixed time the same operations write the same bytes, on any device and with
//! any scheduling of threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ferroxfs::attr::SetMode;
use ferroxfs::{CreateOptions, File, OpenOptions, PosixError, Timestamp, Volume};
use xfs_device::SharedDevice;
use xfs_testkit::{Prng, RequestKind, ScheduledDevice, Scheduler};
use xfs_trans::testing::{is_clean, make_sized};

const VOLUME_BYTES: u64 = 160 << 20;
/// Number of operations, enough to wrap the log several times.
const OPERATIONS: usize = 2000;
const FILES: usize = 300;
/// Number of handles that are open at the same time. Their files may be removed while they are
/// open.
const OPEN: usize = 8;

const CREATION: CreateOptions = CreateOptions::new(0o644).uid(1).gid(2);

/// Changes a volume by a random sequence of operations, which a fixed seed determines. The
/// operations also drop handles, among them the last handles of unlinked files. Nothing is synced.
fn work(volume: &Volume) {
    let mut random = Prng::new(0xfeed);
    let mut open: Vec<File> = Vec::new();
    for directory in 0..6 {
        volume.create_dir(format!("/{directory}")).unwrap();
    }
    for number in 0..OPERATIONS {
        let path = |file: usize| format!("/{}/a file with the number {file}", file % 6);
        let file = path(random.within(0..FILES));
        match random.within(0..10) {
            0..=3 => {
                let length = [100, 5000, 40_000, 200_000][random.within(0..4)];
                let handle =
                    volume.open_file(&file).or_else(|_| volume.create_file(&file)).unwrap();
                let end = handle.metadata().size;
                for (part, bytes) in vec![number as u8; length].chunks(9000).enumerate() {
                    let at = end + 9000 * part as u64;
                    ignore_refusal(handle.write_at(bytes, at).map(drop));
                }
                open.push(handle);
                if open.len() > OPEN {
                    drop(open.remove(random.within(0..OPEN)));
                }
            }
            4 | 5 => ignore_refusal(volume.remove_file(&file)),
            6 => ignore_refusal(volume.rename(&file, path(random.within(0..FILES)))),
            7 => ignore_refusal(volume.lookup(&file).and_then(|node| {
                let value = vec![7; random.within(1..3000)];
                node.set_attribute("user.name", &value, SetMode::Either)
            })),
            8 => ignore_refusal(volume.open_file(&file).and_then(|file| file.set_len(3000))),
            _ => {
                let root = volume.root().unwrap();
                drop(root.create_unnamed(&CREATION).unwrap());
            }
        }
    }
}

fn ignore_refusal(done: ferroxfs::Result<()>) {
    let is_known = matches!(
        done,
        Ok(()) | Err(ferroxfs::Error::Posix(PosixError::NotFound | PosixError::NoSpace))
    );
    assert!(is_known, "{done:?}");
}

/// Opens a new volume with these options, changes it by `work`, closes it, and returns all its
/// bytes. With a seed, writes and flushes complete in a random order that the seed determines.
fn bytes_after(options: &OpenOptions, seed: Option<u64>) -> Vec<u8> {
    let device = make_sized(VOLUME_BYTES, "-l size=9m");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (used, scheduler) = match seed {
            None => (Arc::clone(&device), None),
            Some(seed) => {
                let held = [RequestKind::Write, RequestKind::Flush];
                let (slow, scheduler) = ScheduledDevice::new(Arc::clone(&device), &held, seed);
                (Arc::new(slow) as SharedDevice, Some(scheduler))
            }
        };
        let letting_go = scheduler.map(|scheduler| scope.spawn(|| let_go(scheduler, &done)));
        let volume = options.open_device(used).unwrap();
        work(&volume);
        volume.close().unwrap();
        done.store(true, Ordering::SeqCst);
        letting_go.into_iter().for_each(|thread| thread.join().unwrap());
    });
    assert!(is_clean(&device));
    let mut bytes = vec![0; device.length_bytes() as usize];
    device.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn let_go(mut scheduler: Scheduler, done: &AtomicBool) {
    let mut random = Prng::new(3);
    while !done.load(Ordering::SeqCst) {
        (0..random.within(0..30)).for_each(|_| thread::yield_now());
        scheduler.release_any();
    }
}

fn options() -> OpenOptions {
    OpenOptions::new().write(true).fixed_time(Timestamp::new(1_700_000_000, 0).unwrap())
}

#[track_caller]
fn check_same(one: &[u8], other: &[u8]) {
    let differing = one.iter().zip(other).filter(|(one, other)| one != other).count();
    assert_eq!(differing, 0, "bytes differ");
}

/// Checks I1 in docs/internals/reproducible.md: the time that the device takes for its requests has
/// no influence on the bytes that are written.
#[test]
fn same_operations_give_the_same_bytes_on_a_slow_device() {
    check_same(&bytes_after(&options(), None), &bytes_after(&options(), Some(1)));
}

/// With little memory, buffers and inodes are evicted and read again. A hash with a random key
/// decides which of them are evicted. Checks that the bytes of the volume do not depend on the key:
/// I2 in docs/internals/reproducible.md and I3 in docs/internals/reproducible.md.
#[test]
fn same_operations_give_the_same_bytes_with_little_memory() {
    let little = options().cache_bytes(64 << 10).cached_inodes(8);
    check_same(&bytes_after(&options(), None), &bytes_after(&little, None));
}

/// Makes 400 changes, each in a thread of its own if `spawns` is true. Returns all bytes of the
/// volume.
fn bytes_after_changes(spawns: bool) -> Vec<u8> {
    let device = make_sized(VOLUME_BYTES, "-l size=9m");
    let volume = options().open_device(Arc::clone(&device)).unwrap();
    for number in 0..400 {
        let is_removal = number % 7 == 6;
        // The file of the change before exists.
        let path = format!("/file {}", (number - usize::from(is_removal)) % 70);
        let change = || match is_removal {
            true => volume.remove_file(&path).unwrap(),
            false => volume.write(&path, vec![number as u8; 500 * number]).unwrap(),
        };
        match spawns {
            true => thread::scope(|scope| scope.spawn(change).join().unwrap()),
            false => change(),
        }
    }
    volume.close().unwrap();
    let mut bytes = vec![0; device.length_bytes() as usize];
    device.read_at(&mut bytes, 0).unwrap();
    bytes
}

/// Checks I5 in docs/internals/reproducible.md: the result shows the order of the changes, and not
/// which thread made them.
#[test]
fn same_order_of_changes_gives_the_same_bytes_in_one_thread_and_in_many() {
    check_same(&bytes_after_changes(false), &bytes_after_changes(true));
}
