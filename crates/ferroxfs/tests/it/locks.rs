//! Tests of locks, leases and counted opens of files.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use ferroxfs::attr::{Acl, AclKind, SetMode};
use ferroxfs::device::SharedDevice;
use ferroxfs::lock::{
    LeaseKind, LeaseMode, LockMode, LockOwner, LockRange, OpenMode, Owner, Wait, Waiter,
};
use ferroxfs::{
    CreateOptions, Error, File, Node, OpenOptions, PosixError, RenameMode, SetAttributes, Volume,
};
use xfs_trans::testing::make_with;

const SIZE: &str = "-d size=64m --unsupported";
/// The longest time that a test waits for an event before it fails.
const LIMIT: Duration = Duration::from_secs(60);

fn open(device: &SharedDevice) -> Volume {
    let options = OpenOptions::new().lease_grace(Duration::from_millis(200)).write(true);
    options.open_device(Arc::clone(device)).unwrap()
}

fn with_file(act: impl FnOnce(&Volume)) {
    let device = make_with(SIZE);
    let volume = open(&device);
    volume.write("/file", "contents").unwrap();
    act(&volume);
    volume.close().unwrap();
}

fn reading(volume: &Volume) -> File {
    volume.lookup("/file").unwrap().open_read_only().unwrap()
}

fn code<T: std::fmt::Debug>(result: ferroxfs::Result<T>) -> i32 {
    result.unwrap_err().errno()
}

type Told = mpsc::Receiver<Option<LeaseMode>>;

fn lease(file: &File, kind: LeaseKind, mode: LeaseMode) -> ferroxfs::Result<Told> {
    let (tell, told) = mpsc::channel();
    file.set_lease(kind, mode, Arc::new(move |left| tell.send(left).unwrap_or_default()))?;
    Ok(told)
}

#[test]
fn record_locks_of_processes_and_files_conflict() {
    with_file(|volume| {
        let (first, second) =
            (volume.open_file("/file").unwrap(), volume.open_file("/file").unwrap());
        let range = LockRange::new(2, 4).unwrap();
        first.lock(range, LockMode::Exclusive, LockOwner::Process(1), Wait::No).unwrap();
        second.lock(range, LockMode::Exclusive, LockOwner::Process(1), Wait::No).unwrap();
        let refused = second.lock(range, LockMode::Shared, LockOwner::File, Wait::No);
        assert_eq!(code(refused), 11, "EAGAIN");
        let held = first.conflicting_lock(LockRange::WHOLE, LockMode::Shared, LockOwner::File);
        assert_eq!(held.unwrap().unwrap().owner, Owner::Process(1));
        second.release_process(1).unwrap();
        second.lock(range, LockMode::Shared, LockOwner::File, Wait::No).unwrap();
        let clone = second.clone();
        drop(second);
        let refused = first.lock(range, LockMode::Exclusive, LockOwner::File, Wait::No);
        assert_eq!(code(refused), 11, "a clone counts as the same open");
        drop(clone);
        first.lock(range, LockMode::Exclusive, LockOwner::File, Wait::No).unwrap();
        let waiter = Waiter::with_timeout(Duration::from_millis(1));
        let ended = first.lock(range, LockMode::Shared, LockOwner::Process(2), Wait::For(&waiter));
        assert_eq!(code(ended), 110, "ETIMEDOUT");
        let waiter = Waiter::new();
        waiter.cancel();
        let ended = first.lock(range, LockMode::Shared, LockOwner::Process(2), Wait::For(&waiter));
        assert_eq!(code(ended), 4, "EINTR");
        let shared = reading(volume);
        let refused = shared.lock(range, LockMode::Exclusive, LockOwner::Process(1), Wait::No);
        assert_eq!(code(refused), 9, "EBADF");
        let writes = volume.lookup("/file").unwrap().open_write_only().unwrap();
        let refused = writes.lock(range, LockMode::Shared, LockOwner::Process(1), Wait::No);
        assert_eq!(code(refused), 9, "EBADF");
        drop(first);
        writes.lock(range, LockMode::Exclusive, LockOwner::Process(1), Wait::No).unwrap();
    });
}

#[test]
fn deadlock_between_files_is_detected() {
    with_file(|volume| {
        volume.write("/other", "").unwrap();
        let (file, other) =
            (volume.open_file("/file").unwrap(), volume.open_file("/other").unwrap());
        let lock = |file: &File, process, wait: Wait<'_>| {
            file.lock(LockRange::WHOLE, LockMode::Exclusive, LockOwner::Process(process), wait)
        };
        lock(&file, 1, Wait::No).unwrap();
        lock(&other, 2, Wait::No).unwrap();
        let waiters = [Waiter::new(), Waiter::new()];
        std::thread::scope(|scope| {
            let ends = [(&other, 1), (&file, 2)].map(|(wanted, process)| {
                let waiter = &waiters[process as usize - 1];
                let (mine, lock) = (if process == 1 { &file } else { &other }, &lock);
                scope.spawn(move || {
                    let end = lock(wanted, process, Wait::For(waiter)).map_err(|e| e.errno());
                    mine.release_process(process).unwrap();
                    end
                })
            });
            let mut ends = ends.map(|end| end.join().unwrap());
            ends.sort();
            assert_eq!(ends, [Ok(()), Err(35)], "EDEADLK for one of the two");
        });
    });
}

#[test]
fn flock_ends_with_the_last_clone() {
    with_file(|volume| {
        let (first, second) = (reading(volume), reading(volume));
        first.flock(LockMode::Exclusive, Wait::No).unwrap();
        assert_eq!(code(second.flock(LockMode::Shared, Wait::No)), 11);
        let clone = first.clone();
        drop(first);
        assert_eq!(code(second.flock(LockMode::Shared, Wait::No)), 11);
        let waiter = Waiter::new();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| second.flock(LockMode::Exclusive, Wait::For(&waiter)));
            drop(clone);
            waiting.join().unwrap().unwrap();
        });
        second.unflock().unwrap();
    });
}

#[test]
fn file_open_for_reading_is_not_written() {
    with_file(|volume| {
        let file = reading(volume);
        let opens = file.opens().unwrap();
        assert_eq!((opens.reads, opens.writes), (1, 0));
        assert_eq!(code(file.write_at(b"x", 0)), 9, "EBADF");
        assert_eq!(code(file.set_len(0)), 9);
        assert_eq!(volume.read("/file").unwrap(), b"contents");
    });
}

#[test]
fn open_breaks_a_lease() {
    with_file(|volume| {
        let file = reading(volume);
        let told = lease(&file, LeaseKind::Lease, LeaseMode::Write).unwrap();
        let node = volume.lookup("/file").unwrap();
        let refused = node.open_as(OpenMode::Read, Wait::No);
        assert_eq!(code(refused), 11);
        assert_eq!(told.recv(), Ok(Some(LeaseMode::Read)));
        lease(&file, LeaseKind::Lease, LeaseMode::Read).unwrap();
        let other = node.open_as(OpenMode::Read, Wait::No).unwrap();
        drop(node.open().unwrap());
        assert_eq!(file.lease(LeaseKind::Lease).unwrap(), None, "the lease after its grace period");
        let refused = lease(&other, LeaseKind::Lease, LeaseMode::Write);
        assert_eq!(code(refused), 11, "a lease beside another open");
        drop(file);
        lease(&other, LeaseKind::Lease, LeaseMode::Write).unwrap();
    });
}

/// Checks that each change of names or attributes waits until the holder of a delegation has
/// returned it, and that no such change waits for the holder of a lease.
#[test]
fn changes_break_delegations() {
    type Change = fn(&Volume) -> ferroxfs::Result<()>;
    let changes: [(&str, Change); 8] = [
        ("chmod", |volume| {
            volume.lookup("/file")?.set_attributes(&SetAttributes::new().mode(0o600))
        }),
        ("link", |volume| volume.hard_link("/file", "/link")),
        ("rename", |volume| volume.rename("/file", "/moved")),
        ("replace", |volume| {
            volume.write("/new", "").unwrap();
            let root = volume.root()?;
            root.rename("new", &root, "file", RenameMode::Replace)
        }),
        ("unlink", |volume| volume.remove_file("/file")),
        ("setxattr", |volume| {
            volume.lookup("/file")?.set_attribute("user.a", b"value", SetMode::Either)
        }),
        ("setfacl", |volume| {
            volume.lookup("/file")?.set_acl(AclKind::Access, Some(&Acl::from_mode(0o640)))
        }),
        ("setfacl -b", |volume| volume.lookup("/file")?.set_acl(AclKind::Access, None)),
    ];
    for (name, change) in changes {
        for kind in [LeaseKind::Delegation, LeaseKind::Lease] {
            with_file(|volume| {
                let file = reading(volume);
                let told = lease(&file, kind, LeaseMode::Read).unwrap();
                let given_back = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    let (file, given_back) = (&file, &given_back);
                    let holder = scope.spawn(move || {
                        let was_told = told.recv().is_ok();
                        given_back.store(true, Ordering::SeqCst);
                        file.release_lease(kind).unwrap();
                        was_told
                    });
                    change(volume).unwrap();
                    let waited = given_back.load(Ordering::SeqCst);
                    assert_eq!(waited, kind == LeaseKind::Delegation, "{name}");
                    if !waited {
                        file.node().open().map(drop).unwrap();
                    }
                    assert!(holder.join().unwrap(), "{name} {kind:?}");
                });
            });
        }
    }
}

#[test]
fn layout_is_recalled_before_a_write() {
    with_file(|volume| {
        let (file, holder) = (volume.open_file("/file").unwrap(), reading(volume));
        let told = lease(&holder, LeaseKind::Layout, LeaseMode::Read).unwrap();
        file.write_at(b"C", 0).unwrap();
        assert_eq!(told.recv(), Ok(None));
        assert_eq!(holder.lease(LeaseKind::Layout).unwrap(), None);
    });
}

#[test]
fn layouts_of_both_files_are_recalled_before_a_clone() {
    type Act = fn(&File, &File) -> ferroxfs::Result<()>;
    let acts: [(&str, Act); 2] = [
        ("clone", |to, from| to.clone_range(0, from, 0, 0)),
        ("dedupe", |to, from| to.deduplicate(0, from, 0, 4096).map(drop)),
    ];
    let device = make_with(SIZE);
    let volume = open(&device);
    for (name, act) in acts {
        for path in ["/from", "/to"] {
            volume.write(path, [7; 4096]).unwrap();
        }
        let [from, to] = ["/from", "/to"].map(|path| volume.open_file(path).unwrap());
        let holders =
            ["/from", "/to"].map(|path| volume.lookup(path).unwrap().open_read_only().unwrap());
        let told = holders
            .each_ref()
            .map(|holder| lease(holder, LeaseKind::Layout, LeaseMode::Read).unwrap());
        act(&to, &from).unwrap();
        for told in told {
            assert_eq!(told.try_recv(), Ok(None), "{name}");
        }
    }
    volume.close().unwrap();
}

/// A writer checks for layout leases, and then waits because the volume is frozen. Checks that a
/// layout lease is recalled if it is granted after the writer's check and before the thaw.
#[test]
fn layout_granted_during_a_write_is_recalled() {
    with_file(|volume| {
        let file = volume.open_file("/file").unwrap();
        volume.freeze().unwrap();
        let writer = std::thread::scope(|scope| {
            let writer = scope.spawn(|| file.write_at(b"C", 0));
            std::thread::sleep(Duration::from_millis(100));
            let holder = reading(volume);
            let told = lease(&holder, LeaseKind::Layout, LeaseMode::Read).unwrap();
            assert!(told.try_recv().is_err(), "recalled on a frozen volume");
            volume.thaw().unwrap();
            let written = writer.join().unwrap();
            (written, told.try_recv())
        });
        assert_eq!((writer.0.unwrap(), writer.1), (1, Ok(None)));
    });
}

#[test]
fn lease_beside_a_lent_extent_is_refused() {
    with_file(|volume| {
        volume.sync().unwrap();
        let file = reading(volume);
        for kind in [LeaseKind::Layout, LeaseKind::Lease] {
            let inside = file.lend_at(0, 8, |_| lease(&file, kind, LeaseMode::Read).map(drop));
            assert_eq!(code(inside.unwrap().unwrap()), 35, "EDEADLK");
        }
        lease(&file, LeaseKind::Layout, LeaseMode::Read).unwrap();
    });
}

/// Threads open and close one file until it is removed, so that its references are counted for each
/// processor slot. Checks that the file is freed when its last reference is released, and that the
/// volume can be closed.
#[test]
fn file_opened_by_all_threads_is_freed_when_removed() {
    for round in 0..20 {
        with_file(|volume| {
            let free = || volume.space().unwrap().free_inodes;
            let before = free();
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    scope.spawn(move || {
                        for turn in 0.. {
                            match volume.lookup("/file").and_then(|node| node.open_read_only()) {
                                Ok(file) => drop(file.clone()),
                                Err(Error::Posix(PosixError::NotFound)) => return,
                                Err(error) => panic!("{error}"),
                            }
                            if thread == 0 && turn == 200 + round {
                                volume.remove_file("/file").unwrap();
                            }
                        }
                    });
                }
            });
            volume.sync().unwrap();
            for _ in 0..1000 {
                if free() == before + 1 {
                    return;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            panic!("the inode is not free: {} of {}", free(), before + 1);
        });
    }
}

/// Threads open a file and take write leases in parallel. Checks that no write lease is granted
/// while the file has another open.
#[test]
fn write_lease_beside_an_open_is_refused() {
    with_file(|volume| {
        let (node, alone) = (volume.lookup("/file").unwrap(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (node, alone) = (&node, &alone);
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let Ok(file) = node.open_as(OpenMode::Read, Wait::No) else { continue };
                        if thread > 0 {
                            assert!(!alone.load(Ordering::SeqCst), "a lease beside an open");
                        } else if lease(&file, LeaseKind::Lease, LeaseMode::Write).is_ok() {
                            alone.store(true, Ordering::SeqCst);
                            std::thread::yield_now();
                            alone.store(false, Ordering::SeqCst);
                            file.release_lease(LeaseKind::Lease).unwrap();
                        }
                    }
                });
            }
        });
    });
}

/// Checks that an unlinked inode is freed when its last reference is released. Before that, several
/// threads read the inode so often that its references are counted for each processor slot.
fn check_freed_after_threads_read_it(make: impl FnOnce(&Volume) -> Node) {
    const TURNS: usize = 40;
    let volume = open(&make_with(SIZE));
    let node = make(&volume);
    let number = node.number();
    let turn = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for mine in 0..2 {
            let (volume, turn) = (&volume, &turn);
            scope.spawn(move || {
                for now in (mine..TURNS).step_by(2) {
                    while turn.load(Ordering::Acquire) != now {
                        std::thread::yield_now();
                    }
                    let file = volume.node_trusted(number).unwrap().open().unwrap();
                    file.read_at(&mut [0; 100], 0).unwrap();
                    drop(file);
                    turn.store(now + 1, Ordering::Release);
                }
            });
        }
    });
    assert_eq!(volume.node_trusted(number).unwrap().metadata().nlink, 0);
    drop(node);
    let end = Instant::now() + Duration::from_secs(10);
    while volume.node_trusted(number).is_ok() {
        assert!(Instant::now() < end, "an inode without name and reference is not freed");
        std::thread::sleep(Duration::from_millis(1));
    }
    volume.close().unwrap();
}

/// Checks I2 of `xfs_icache::per_cpu_refs`: the reference that each processor slot has to a removed
/// file is released, so that the file is freed.
#[test]
fn removed_file_is_freed_after_sharded_reads() {
    check_freed_after_threads_read_it(|volume| {
        volume.write("/file", [1; 1 << 16]).unwrap();
        let node = volume.lookup("/file").unwrap();
        volume.remove_file("/file").unwrap();
        node
    });
}

#[test]
fn unnamed_file_is_freed_after_sharded_reads() {
    check_freed_after_threads_read_it(|volume| {
        let creation = CreateOptions::new(0o600);
        let node = volume.root().unwrap().create_unnamed(&creation).unwrap();
        node.open().unwrap().write_at(&[1; 1 << 16], 0).unwrap();
        node
    });
}

#[test]
fn delegation_is_recalled_without_a_latch() {
    with_file(|volume| {
        type Act = fn(&Volume);
        let acts: [Act; 4] = [
            |volume| {
                let changes = SetAttributes::new().mode(0o600);
                volume.lookup("/file").unwrap().set_attributes(&changes).unwrap();
            },
            |volume| {
                let root = volume.root().unwrap();
                root.link(&volume.lookup("/file").unwrap(), "other").unwrap();
            },
            |volume| {
                let root = volume.root().unwrap();
                root.rename("other", &root, "third", RenameMode::Replace).unwrap();
            },
            |volume| volume.remove_file("/file").unwrap(),
        ];
        for act in acts {
            let file = Arc::new(reading(volume));
            let (mine, (tell, told)) = (Arc::clone(&file), mpsc::channel());
            let call_back = move |_| {
                assert!(mine.metadata().size > 0);
                let notify = Arc::new(|_| {});
                let refused = mine.set_lease(LeaseKind::Delegation, LeaseMode::Write, notify);
                assert_eq!(code(refused), 11, "EAGAIN");
                mine.release_lease(LeaseKind::Delegation).unwrap();
                tell.send(()).unwrap();
            };
            file.set_lease(LeaseKind::Delegation, LeaseMode::Read, Arc::new(call_back)).unwrap();
            let other = volume.clone();
            let acting = std::thread::spawn(move || act(&other));
            told.recv_timeout(Duration::from_secs(10)).expect("the recall waits for a latch");
            acting.join().unwrap();
        }
    });
}

fn locks_held(volume: &Volume) -> u64 {
    volume.statistics().unwrap().locks.held
}

/// Uses the volume as a front end does: opens the file again for each call, and passes process IDs
/// as owners of locks. Checks that the locks of a process last until they are released.
#[test]
fn process_locks_last_until_released() {
    with_file(|volume| {
        let lock = |process, range| {
            let file = volume.open_file("/file").unwrap();
            file.lock(range, LockMode::Exclusive, LockOwner::Process(process), Wait::No)
        };
        let [head, tail] =
            [(0, 4), (4, 4)].map(|(start, length)| LockRange::new(start, length).unwrap());
        lock(1, head).unwrap();
        lock(2, tail).unwrap();
        for _ in 0..2 {
            volume.drop_caches().unwrap();
            assert_eq!((code(lock(2, head)), locks_held(volume)), (11, 2), "EAGAIN");
        }
        volume.open_file("/file").unwrap().release_process(1).unwrap();
        volume.drop_caches().unwrap();
        assert_eq!((code(lock(1, tail)), locks_held(volume)), (11, 1));
        volume.open_file("/file").unwrap().release_process(2).unwrap();
        assert_eq!(locks_held(volume), 0);
        // No lock keeps the inode cached now.
        volume.drop_caches().unwrap();
        assert_eq!(volume.cache_counts().unwrap().total(), 0);
        // Locks that are never released end with the volume.
        lock(3, head).unwrap();
    });
}

#[test]
fn process_locks_end_with_a_removed_file() {
    with_file(|volume| {
        let removed = || volume.statistics().unwrap().inodes.removed;
        let before = removed();
        let file = volume.open_file("/file").unwrap();
        file.lock(LockRange::WHOLE, LockMode::Exclusive, LockOwner::Process(1), Wait::No).unwrap();
        volume.remove_file("/file").unwrap();
        assert_eq!((locks_held(volume), removed()), (1, before), "removed while it is open");
        drop(file);
        let end = Instant::now() + LIMIT;
        while removed() == before {
            assert!(Instant::now() < end, "a lock keeps the removed file");
            std::thread::yield_now();
        }
        assert_eq!(locks_held(volume), 0);
        // The same without an open handle at the removal.
        volume.write("/file", "contents").unwrap();
        let file = volume.open_file("/file").unwrap();
        file.lock(LockRange::WHOLE, LockMode::Exclusive, LockOwner::Process(1), Wait::No).unwrap();
        drop(file);
        volume.remove_file("/file").unwrap();
        assert_eq!((locks_held(volume), removed()), (0, before + 2));
    });
}

#[test]
fn concurrent_locks_through_one_handle_balance_references() {
    with_file(|volume| {
        let file = volume.open_file("/file").unwrap();
        std::thread::scope(|scope| {
            for process in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    let owner = LockOwner::Process(process);
                    let range = LockRange::new(process, 1).unwrap();
                    for _ in 0..2000 {
                        file.lock(range, LockMode::Exclusive, owner, Wait::No).unwrap();
                        file.unlock(range, owner).unwrap();
                    }
                });
            }
        });
        drop(file);
        volume.drop_caches().unwrap();
        assert_eq!((locks_held(volume), volume.cache_counts().unwrap().total()), (0, 0));
    });
}
