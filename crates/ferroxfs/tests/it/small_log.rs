//! Tests of threads that change everything on a volume with the smallest log that mkfs allows. No
//! thread waits for ever, and in the end the volume has exactly the files of these threads.

use std::sync::Arc;
use std::thread;

use ferroxfs::attr::SetMode;
use ferroxfs::device::SharedDevice;
use ferroxfs::{CreateOptions, NewKind, OpenOptions, RenameMode, Volume};
use xfs_format::reservation::minimum_log_blocks;
use xfs_log::find_head_and_tail;
use xfs_testkit::Prng;
use xfs_trans::testing::{log_device, make_sized, superblock};

const VOLUME_BYTES: u64 = 320 << 20;
const THREADS: u64 = 4;
/// Number of random operations that a thread performs before the thread checks again how often the
/// log has wrapped.
const STEPS: u32 = 50;
const PLAIN: CreateOptions = CreateOptions::new(0o644);

/// Returns the cycle number of the log. It grows by one each time the log wraps.
fn cycle(device: &SharedDevice) -> u32 {
    find_head_and_tail(&log_device(device)).unwrap().cycle()
}

fn open(device: &SharedDevice) -> Volume {
    let options = OpenOptions::new().write(true).with_devices(Arc::clone(device), None);
    options.open().unwrap()
}

/// Performs one random operation of a thread, in its own directory, in the directory that all
/// threads share, or from one to the other.
fn step(volume: &Volume, thread: u64, number: u64, prng: &mut Prng) {
    let own = volume.lookup(format!("/own{thread}")).unwrap();
    let shared = volume.lookup("/shared").unwrap();
    let name = format!("{}", number % 40);
    let mine = format!("{thread}-{name}");
    if number.is_multiple_of(2) {
        // Without the sync, repeated changes would reach the log only once.
        own.sync().unwrap();
    }
    match prng.within(0..7) {
        0 => drop(own.create(&name, &NewKind::Regular, &PLAIN)),
        1 => drop(own.rename(&name, &shared, &mine, RenameMode::Replace)),
        2 => drop(shared.rename(&mine, &own, &name, RenameMode::Replace)),
        3 => drop(shared.remove_file(&mine)),
        4 => {
            if let Ok(file) = own.lookup(name.as_ref()) {
                let value = vec![7; prng.within(0..3000)];
                file.set_attribute("user.value", &value, SetMode::Either).unwrap();
            }
        }
        5 => {
            let path = format!("/own{thread}/{name}");
            volume.write(path, vec![thread as u8; prng.within(0..300_000)]).unwrap();
        }
        _ => {
            if let Ok(file) = volume.open_file(format!("/own{thread}/{name}")) {
                for piece in 0..20 {
                    file.write_at(&[1; 100], piece * 16_384).unwrap();
                }
                file.set_len(prng.within(0..100_000) as u64).unwrap();
            }
        }
    }
}

fn check_wraps(features: &str, wraps: u32) {
    let plain = superblock(&make_sized(VOLUME_BYTES, features));
    let blocks = minimum_log_blocks(&plain.geometry, plain.log_stripe_unit_bytes);
    let device = make_sized(VOLUME_BYTES, &format!("{features} -l size={blocks}b"));
    let start = cycle(&device);
    let volume = open(&device);
    volume.create_dir("/shared").unwrap();
    for thread in 0..THREADS {
        volume.create_dir(format!("/own{thread}")).unwrap();
    }
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (volume, device) = (&volume, &device);
            scope.spawn(move || {
                let mut prng = Prng::new(thread);
                let mut number = 0;
                while cycle(device) < start + wraps {
                    for _ in 0..STEPS {
                        number += 1;
                        step(volume, thread, number, &mut prng);
                    }
                }
            });
        }
    });
    volume.close().unwrap();
    let again = OpenOptions::new().open_device(Arc::clone(&device)).unwrap();
    for entry in again.root().unwrap().entries().unwrap() {
        let directory = again.root().unwrap().lookup(entry.unwrap().name()).unwrap();
        for entry in directory.entries().unwrap() {
            directory.lookup(entry.unwrap().name()).unwrap();
        }
    }
}

/// Returns how often the log has to wrap before the threads end: 20 times in a long run, and
/// otherwise twice.
fn wraps() -> u32 {
    if std::env::var_os("FERROXFS_LONG").is_some() { 20 } else { 2 }
}

#[test]
fn small_log_without_parent_pointers_wraps() {
    check_wraps("-m rmapbt=0,reflink=0,finobt=0 -i nrext64=0", wraps());
}

#[test]
fn small_log_with_parent_pointers_wraps() {
    check_wraps("-n parent=1", wraps());
}
