use std::sync::{Arc, mpsc};
use std::time::Duration;

use xfs_alloc::open_journal;
use xfs_buffer::{Error, PosixError, Result};
use xfs_dir::{NewAttribute, ParentPath, SetMode};
use xfs_format::attr::Namespace;
use xfs_format::inode::InodeCore;
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_icache::{Count, InodeIndex, JournalStore, count_inodes};
use xfs_inode::KeepSize;
use xfs_log::Shutdown;
use xfs_trans::testing::{self, JournalParts, make_with};

use super::create::NewInode;
use crate::clock::Clock;
use crate::inode_ref::InodeRef;
use crate::kind::{CachedInode, InodeCache};
use crate::mount::Mount;
use crate::name::EntryName;
use crate::op_context::OpContext;
use crate::options::{LockCheck, MountOptions};
use crate::permission::Caller;
use crate::requests::{CreateOptions, NewKind, Removal, RenameMode};

const PLAIN: CreateOptions = CreateOptions { mode: 0o700, uid: 0, gid: 0, umask: 0 };

/// Calls `act` on a new volume, as [`on_volume`] does, and then checks that the volume was not shut
/// down.
fn check(act: impl Fn(&OpContext<'_>, &Arc<CachedInode>)) {
    on_volume(|context, root| {
        act(context, root);
        assert!(!context.mount.journal.is_shut_down());
    });
}

/// Creates a volume, and calls `act` with an operation context and the root directory. No
/// background thread frees inodes meanwhile.
fn on_volume(act: impl Fn(&OpContext<'_>, &Arc<CachedInode>)) {
    let device = make_with("");
    let JournalParts { cache, log, superblock } = testing::parts(&device, 1);
    let journal = open_journal(cache, log, &superblock).unwrap();
    let store = JournalStore::new(Arc::clone(&journal));
    let options = MountOptions {
        clock: Clock::Host,
        parents: ParentPath::Direct,
        joins_writes: true,
        lease_grace: Duration::from_secs(45),
        lock_check: LockCheck::default(),
        upkeep: None,
    };
    let cache = InodeCache::new(store, 64, InodeIndex::default());
    let mount = Mount::new(journal, cache, options);
    let root = mount.take(superblock.root_inode).unwrap();
    act(&OpContext::within_operation(&mount, Caller::new(None)), &root);
}

/// Checks that no reference to a new inode is left if the commit of its transaction fails, because
/// the volume was shut down after the inode was inserted into the cache.
#[test]
fn inode_of_a_failed_commit_keeps_no_reference() {
    on_volume(|context, root| {
        let cache = &context.mount.inode_cache;
        let before = (count_inodes(cache).live, cache.counts().sum(Count::Made));
        let made = context.make_unnamed(root, |_| {
            context.mount.journal.shut_down(Shutdown::Now)?;
            Ok(NewInode::plain(&NewKind::Regular, PLAIN, 0))
        });
        assert!(matches!(made, Err(Error::Shutdown)), "{:?}", made.map(|made| made.number()));
        let after = (count_inodes(cache).live, cache.counts().sum(Count::Made));
        assert_eq!(after, (before.0, before.1 + 1), "live inodes, made inodes");
    });
}

fn make<'a>(
    context: &OpContext<'a>,
    directory: &CachedInode,
    name: &str,
    kind: &NewKind<'_>,
) -> InodeRef<&'a Mount> {
    context.create(directory, name.as_bytes(), kind, &PLAIN).unwrap()
}

fn change(context: &OpContext<'_>, entry: &CachedInode, change: impl FnOnce(&mut InodeCore)) {
    let body = |tx: &mut xfs_trans::Transaction<'_>| {
        entry.live().change(tx, change);
        Ok(())
    };
    context.mount.transact(TransactionKind::ChangeInode, 0, body).unwrap();
}

fn set_links(context: &OpContext<'_>, entry: &CachedInode, nlink: u32) {
    change(context, entry, |core| core.nlink = nlink);
}

fn posix<T>(result: Result<T>) -> PosixError {
    match result.map(drop).unwrap_err() {
        Error::Posix(error) => error,
        other => panic!("{other}"),
    }
}

fn place<'a>(directory: &'a CachedInode, name: &'a str) -> EntryName<'a> {
    EntryName { directory, name: name.as_bytes() }
}

#[test]
fn directory_with_the_most_links_takes_no_subdirectory() {
    check(|context, root| {
        let full = make(context, root, "full", &NewKind::Directory);
        let moved = make(context, root, "moved", &NewKind::Directory);
        for nlink in [i32::MAX as u32, u32::MAX] {
            set_links(context, &full, nlink);
            let refused = context.create(&full, b"one", &NewKind::Directory, &PLAIN);
            assert_eq!(posix(refused), PosixError::TooManyLinks);
            let refused =
                context.rename(place(root, "moved"), place(&full, "one"), RenameMode::Replace);
            assert_eq!(posix(refused), PosixError::TooManyLinks);
            context.create(&full, nlink.to_string().as_bytes(), &NewKind::Regular, &PLAIN).unwrap();
        }
        let to = [place(root, "moved"), place(&full, "4294967295")];
        let refused = context.rename(to[0], to[1], RenameMode::Exchange);
        assert_eq!(posix(refused), PosixError::TooManyLinks);
        assert_eq!(moved.core().nlink, 2);
    });
}

#[test]
fn wrong_link_count_is_damage() {
    check(|context, root| {
        let above = make(context, root, "above", &NewKind::Directory);
        let below = make(context, &above, "below", &NewKind::Directory);
        let file = make(context, root, "file", &NewKind::Regular);
        let is_damage = |result: Result<()>| assert!(matches!(result, Err(Error::Corrupt(_))));
        let remove = |directory: &CachedInode, name: &str, removal| {
            context.remove(directory, name.as_bytes(), removal)
        };
        for nlink in [1, 2] {
            set_links(context, &above, nlink);
            is_damage(remove(&above, "below", Removal::Directory));
            let (from, to) = (place(&above, "below"), place(root, "elsewhere"));
            is_damage(context.rename(from, to, RenameMode::Replace));
        }
        set_links(context, &above, 3);
        set_links(context, &below, 1);
        is_damage(remove(&above, "below", Removal::Directory));
        set_links(context, &below, 3);
        let refused = remove(&above, "below", Removal::Directory);
        assert_eq!(posix(refused), PosixError::NotEmpty);
        set_links(context, &file, 0);
        is_damage(remove(root, "file", Removal::File));
        set_links(context, &file, 1);
        set_links(context, &below, 2);
        remove(&above, "below", Removal::Directory).unwrap();
        remove(root, "file", Removal::File).unwrap();
    });
}

#[test]
fn operation_does_not_return_the_failure_of_another_file() {
    check(|context, root| {
        let doom = |name: &str| {
            let entry = make(context, root, name, &NewKind::Regular);
            context.remove(root, name.as_bytes(), Removal::File).unwrap();
            let inode = Arc::clone(&entry);
            drop(entry);
            // An inode that has links cannot be freed.
            set_links(context, &inode, 1);
        };
        let used = make(context, root, "used", &NewKind::Regular);
        doom("first");
        context.remove(root, b"used", Removal::File).unwrap();
        context.mount.inode_cache.drain();
        assert!(context.mount.inode_cache.take_failure().is_some());
        let again = make(context, root, "again", &NewKind::Regular);
        doom("second");
        context.rename(place(root, "again"), place(root, "new"), RenameMode::Replace).unwrap();
        context.mount.inode_cache.drain();
        assert!(context.mount.inode_cache.take_failure().is_some());
        assert_eq!((used.core().nlink, again.core().nlink), (0, 1));
    });
}

#[test]
fn full_volume_frees_waiting_inodes_first() {
    check(|context, root| {
        let file = make(context, root, "file", &NewKind::Regular);
        let full = make(context, root, "full", &NewKind::Regular);
        let mut length_bytes =
            context.mount.free_blocks() * u64::from(context.mount.geometry().block_size);
        let mut at = 0;
        let (journal, now) = (&context.mount.journal, context.mount.clock.now());
        while length_bytes >= 4096 {
            let range = at..at + length_bytes;
            match full.live().allocate(journal, range, KeepSize::No, now) {
                Ok(()) => at += length_bytes,
                Err(error) => {
                    assert_eq!(posix::<()>(Err(error)), PosixError::NoSpace);
                    length_bytes /= 2;
                }
            }
        }
        let value = [7; 60_000];
        let attribute = NewAttribute { namespace: Namespace::User, name: b"long", value: &value };
        let refused = context.set_attribute(&file, &attribute, SetMode::Either);
        assert_eq!(posix(refused), PosixError::NoSpace);
        context.remove(root, b"full", Removal::File).unwrap();
        drop(full);
        context.set_attribute(&file, &attribute, SetMode::Either).unwrap();
    });
}

/// Removes a name. Returns the number of transactions that the removal took, and the number of
/// inodes that it freed.
fn removal(
    context: &OpContext<'_>,
    root: &CachedInode,
    name: &str,
    removal: Removal,
) -> (u64, u64) {
    let used = || {
        let counts = context.mount.journal.counts();
        counts.inodes - counts.free_inodes
    };
    let commits = || context.mount.journal.log().counts().commits;
    let before = (commits(), used());
    context.remove(root, name.as_bytes(), removal).unwrap();
    (commits() - before.0, before.1 - used())
}

#[test]
fn removal_of_a_file_without_blocks_takes_one_transaction() {
    check(|context, root| {
        // Another inode keeps the chunk from being freed.
        let other = make(context, root, "other", &NewKind::Regular);
        for kind in [NewKind::Regular, NewKind::Fifo, NewKind::Symlink(b"to")] {
            drop(make(context, root, "one", &kind));
            assert_eq!(removal(context, root, "one", Removal::File), (1, 1));
        }
        drop(make(context, root, "one", &NewKind::Directory));
        // If its group has no other inode, a second transaction frees the chunk.
        let (commits, inodes) = removal(context, root, "one", Removal::Directory);
        assert!((1..=2).contains(&commits), "{commits} transactions");
        assert_eq!(inodes, 1);
        // With another name, or another reference, only the name is removed.
        let one = make(context, root, "one", &NewKind::Regular);
        context.link(&one, root, b"two").unwrap();
        assert_eq!(removal(context, root, "two", Removal::File), (1, 0));
        assert_eq!(removal(context, root, "one", Removal::File), (1, 0));
        one.finish();
        drop(other);
    });
}

#[test]
fn lookup_during_removal_finds_no_freed_inode() {
    check(|context, root| {
        for _ in 0..64 {
            let one = make(context, root, "one", &NewKind::Regular);
            let number = one.number();
            drop(one);
            std::thread::scope(|scope| {
                let mount = context.mount;
                let looks = scope.spawn(|| {
                    loop {
                        match mount.look_up(root, b"one") {
                            Ok(found) => {
                                // A referenced inode is not freed, even if its name is gone.
                                assert!(!found.live().log_item().core().unwrap().is_free());
                                found.finish();
                            }
                            Err(error) => break error,
                        }
                    }
                });
                context.remove(root, b"one", Removal::File).unwrap();
                let error = looks.join().unwrap();
                assert!(matches!(error, Error::Posix(PosixError::NotFound)), "{error}");
            });
            context.mount.inode_cache.drain();
            assert!(matches!(context.mount.take(number), Err(Error::Posix(PosixError::NotFound))));
        }
    });
}

#[test]
fn lookup_of_a_reused_number_is_not_found() {
    check(|context, root| {
        let other = make(context, root, "other", &NewKind::Regular);
        drop(make(context, root, "file", &NewKind::Regular));
        let (number, _) = root.find(&context.mount.journal, b"file").unwrap();
        let changes = root.change_count();
        context.remove(root, b"file", Removal::File).unwrap();
        let pipe = make(context, root, "pipe", &NewKind::Fifo);
        assert_eq!(pipe.number(), number, "the number was not used again");
        let taken = context.mount.take_named(root, b"file", number, changes);
        assert_eq!(posix(taken), PosixError::NotFound);
        drop(make(context, root, "file", &NewKind::Regular));
        assert!(context.mount.take_named(root, b"file", number, changes).unwrap().is_none());
        drop(pipe);
        drop(other);
    });
}

/// Names that no operation may create, each with the error that `create` and `link` return for it.
const REFUSED_NAMES: [(&[u8], PosixError); 8] = [
    (b"", PosixError::NotFound),
    (b".", PosixError::Exists),
    (b"..", PosixError::Exists),
    (&[b'n'; 256], PosixError::NameTooLong),
    (b"a/b", PosixError::InvalidArgument),
    (b"/", PosixError::InvalidArgument),
    (b"nul\0", PosixError::InvalidArgument),
    (b"a long name/", PosixError::InvalidArgument),
];

#[test]
fn name_that_no_directory_can_hold_is_refused_by_create_link_and_rename() {
    check(|context, root| {
        let file = make(context, root, "file", &NewKind::Regular);
        let before = root.change_count();
        for (name, expected) in REFUSED_NAMES {
            for kind in [NewKind::Regular, NewKind::Directory, NewKind::Symlink(b"target")] {
                assert_eq!(posix(context.create(root, name, &kind, &PLAIN)), expected, "{name:?}");
            }
            assert_eq!(posix(context.link(&file, root, name)), expected, "{name:?}");
            let expected = if expected == PosixError::Exists { PosixError::Busy } else { expected };
            let (good, bad) = (place(root, "file"), EntryName { directory: root, name });
            let modes = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];
            for mode in modes.into_iter().chain([RenameMode::Whiteout]) {
                assert_eq!(posix(context.rename(good, bad, mode)), expected, "{name:?} {mode:?}");
                assert_eq!(posix(context.rename(bad, good, mode)), expected, "{name:?} {mode:?}");
            }
        }
        assert_eq!(root.change_count(), before, "a refused name changes nothing");
        assert_eq!(file.core().nlink, 1);
    });
}

#[test]
fn longest_name_is_made_linked_and_renamed() {
    check(|context, root| {
        let longest = [b'n'; 255];
        let file = context.create(root, &longest, &NewKind::Regular, &PLAIN).unwrap();
        context.link(&file, root, &[b'm'; 255]).unwrap();
        let (from, to) = (&[b'm'; 255], &[b'o'; 255]);
        let place = |name| EntryName { directory: root, name };
        context.rename(place(from), place(to), RenameMode::Replace).unwrap();
        assert_eq!(context.mount.look_up(root, to).unwrap().number(), file.number());
    });
}

/// Checks that references to a file are counted per processor slot until the file loses its last
/// name. With one count for all, threads that open the same file often would slow each other down.
#[test]
fn references_stay_sharded_until_the_last_name_is_gone() {
    check(|context, root| {
        let file = make(context, root, "file", &NewKind::Regular);
        context.link(&file, root, b"other").unwrap();
        (0..1000).for_each(|turn| file.locks().note_opener(turn % 2));
        assert!(file.locks().is_sharded());
        context.mount.look_up(root, b"file").unwrap().finish();
        context.remove(root, b"file", Removal::File).unwrap();
        assert!(file.locks().is_sharded(), "a name is left");
        context.remove(root, b"other", Removal::File).unwrap();
        assert!(!file.locks().is_sharded(), "the last reference must be noticed");
    });
}

/// Checks that an exchange of names waits for the rename lock only if it moves a directory to
/// another parent. Without the lock, two concurrent moves could make a directory its own ancestor.
#[test]
fn exchange_that_moves_a_directory_waits_for_other_moves() {
    check(|context, root| {
        let (left, right) = ("left", "right");
        let [left, right] = [left, right].map(|it| make(context, root, it, &NewKind::Directory));
        drop(make(context, &left, "file", &NewKind::Regular));
        drop(make(context, &right, "other", &NewKind::Regular));
        drop(make(context, &right, "directory", &NewKind::Directory));
        let moving = context.mount.moving.lock();
        // No directory moves.
        let (from, to) = (place(&left, "file"), place(&right, "other"));
        context.rename(from, to, RenameMode::Exchange).unwrap();
        std::thread::scope(|scope| {
            let (done, is_done) = mpsc::channel();
            let (mount, left, right) = (context.mount, &left, &right);
            scope.spawn(move || {
                let context = OpContext::within_operation(mount, Caller::new(None));
                let (from, to) = (place(left, "file"), place(right, "directory"));
                done.send(context.rename(from, to, RenameMode::Exchange)).unwrap();
            });
            let early = is_done.recv_timeout(Duration::from_millis(100));
            drop(moving);
            assert!(early.is_err(), "it did not wait: {early:?}");
            is_done.recv().unwrap().unwrap();
        });
    });
}

/// Checks that an exchange of names changes the modification time only of directories that get
/// another parent, because their `..` entry changes.
#[test]
fn exchange_modifies_only_directories_that_get_another_parent() {
    check(|context, root| {
        let left = make(context, root, "left", &NewKind::Directory);
        let file = make(context, &left, "file", &NewKind::Regular);
        let inner = make(context, &left, "inner", &NewKind::Directory);
        let other = make(context, root, "other", &NewKind::Regular);
        let outer = make(context, root, "outer", &NewKind::Directory);
        let modified = |from: EntryName<'_>, to: EntryName<'_>| {
            let all = [&file, &inner, &other, &outer];
            let old = Timestamp::default();
            all.into_iter().for_each(|it| change(context, it, |core| core.modify_time = old));
            context.rename(from, to, RenameMode::Exchange).unwrap();
            all.map(|it| it.core().modify_time != old)
        };
        let exchanged = modified(place(&left, "file"), place(root, "other"));
        assert_eq!(exchanged, [false; 4], "two files");
        let exchanged = modified(place(&left, "inner"), place(root, "outer"));
        assert_eq!(exchanged, [false, true, false, true], "two directories");
        // `outer` has the name of `inner` now, and `file` that of `other`.
        let exchanged = modified(place(&left, "inner"), place(root, "other"));
        assert_eq!(exchanged, [false, false, false, true], "a directory and a file");
        let exchanged = modified(place(root, "outer"), place(root, "other"));
        assert_eq!(exchanged, [false; 4], "two directories of one parent");
    });
}
