use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_dir::{NewAttribute, SetMode};
use xfs_format::attr::Namespace;
use xfs_format::inode::InodeCore;
use xfs_format::reservation::TransactionKind;
use xfs_icache::{InodeIndex, JournalStore};
use xfs_inode::KeepSize;
use xfs_trans::testing::make_with;

use super::{
    Acting, CachedInode, Creation, InodeCache, NewKind, Parts, Place, Removal, RenameMode, Terms,
};
use crate::OpenOptions;
use crate::permission::Who;

const PLAIN: Creation = Creation { mode: 0o700, uid: 0, gid: 0, umask: 0 };

/// Works on the root of a new volume, with nobody beside who frees inodes.
fn check(act: impl Fn(&Acting<'_>, &Arc<CachedInode>)) {
    let options = OpenOptions::new().writable(true);
    let volume = options.with_devices(make_with(""), None).writable_volume().unwrap();
    let root = volume.root().unwrap();
    let (theirs, _) = root.writable().unwrap();
    let journal = Arc::clone(&theirs.journal);
    let table = InodeCache::new(JournalStore::new(Arc::clone(&journal)), 64, InodeIndex::default());
    let terms = Terms {
        clock: theirs.clock,
        parents: theirs.parents,
        joins_writes: true,
        lease_grace: theirs.lease_grace,
        lock_check: theirs.lock_check,
        upkeep: None,
    };
    let parts = Parts::new(journal, table, terms);
    let entry = parts.take(root.number()).unwrap();
    act(&Acting::within(&parts, Who::new(None)), &entry);
    assert!(!parts.journal.is_shut_down());
}

fn make(
    parts: &Acting<'_>,
    directory: &CachedInode,
    name: &str,
    kind: &NewKind<'_>,
) -> Arc<CachedInode> {
    parts.create(directory, name.as_bytes(), kind, &PLAIN).unwrap()
}

fn change(parts: &Acting<'_>, entry: &CachedInode, change: impl FnOnce(&mut InodeCore)) {
    let body = |tx: &mut xfs_trans::Transaction<'_>| {
        entry.live().change(tx, change);
        Ok(())
    };
    parts.transact(TransactionKind::ChangeInode, 0, body).unwrap();
}

fn set_links(parts: &Acting<'_>, entry: &CachedInode, nlink: u32) {
    change(parts, entry, |core| core.nlink = nlink);
}

fn posix<T>(result: Result<T>) -> PosixError {
    match result.map(drop).unwrap_err() {
        Error::Posix(error) => error,
        other => panic!("{other}"),
    }
}

fn place<'a>(directory: &'a CachedInode, name: &'a str) -> Place<'a> {
    Place { directory, name: name.as_bytes() }
}

#[test]
fn a_directory_has_no_more_links_than_there_can_be() {
    check(|parts, root| {
        let full = make(parts, root, "full", &NewKind::Directory);
        let moved = make(parts, root, "moved", &NewKind::Directory);
        for nlink in [i32::MAX as u32, u32::MAX] {
            set_links(parts, &full, nlink);
            let refused = parts.create(&full, b"one", &NewKind::Directory, &PLAIN);
            assert_eq!(posix(refused), PosixError::TooManyLinks);
            let refused =
                parts.rename(place(root, "moved"), place(&full, "one"), RenameMode::Replace);
            assert_eq!(posix(refused), PosixError::TooManyLinks);
            parts.create(&full, nlink.to_string().as_bytes(), &NewKind::Regular, &PLAIN).unwrap();
        }
        let to = [place(root, "moved"), place(&full, "4294967295")];
        let refused = parts.rename(to[0], to[1], RenameMode::Exchange);
        assert_eq!(posix(refused), PosixError::TooManyLinks);
        assert_eq!(moved.core().nlink, 2);
    });
}

#[test]
fn links_that_a_volume_does_not_have_are_damage() {
    check(|parts, root| {
        let above = make(parts, root, "above", &NewKind::Directory);
        let below = make(parts, &above, "below", &NewKind::Directory);
        let file = make(parts, root, "file", &NewKind::Regular);
        let is_damage = |result: Result<()>| assert!(matches!(result, Err(Error::Corrupt(_))));
        let remove = |directory: &CachedInode, name: &str, removal| {
            parts.remove(directory, name.as_bytes(), removal)
        };
        for nlink in [1, 2] {
            set_links(parts, &above, nlink);
            is_damage(remove(&above, "below", Removal::Directory));
            let (from, to) = (place(&above, "below"), place(root, "elsewhere"));
            is_damage(parts.rename(from, to, RenameMode::Replace));
        }
        set_links(parts, &above, 3);
        set_links(parts, &below, 1);
        is_damage(remove(&above, "below", Removal::Directory));
        set_links(parts, &below, 3);
        let refused = remove(&above, "below", Removal::Directory);
        assert_eq!(posix(refused), PosixError::NotEmpty);
        set_links(parts, &file, 0);
        is_damage(remove(root, "file", Removal::File));
        set_links(parts, &file, 1);
        set_links(parts, &below, 2);
        remove(&above, "below", Removal::Directory).unwrap();
        remove(root, "file", Removal::File).unwrap();
    });
}

#[test]
fn an_operation_does_not_answer_for_another_file() {
    check(|parts, root| {
        let doom = |name: &str| {
            let entry = make(parts, root, name, &NewKind::Regular);
            parts.remove(root, name.as_bytes(), Removal::File).unwrap();
            parts.release(Arc::clone(&entry));
            // What has links cannot be freed.
            set_links(parts, &entry, 1);
        };
        let used = make(parts, root, "used", &NewKind::Regular);
        doom("first");
        parts.remove(root, b"used", Removal::File).unwrap();
        parts.inode_cache.drain();
        assert!(parts.inode_cache.take_failure().is_some());
        let again = make(parts, root, "again", &NewKind::Regular);
        doom("second");
        parts.rename(place(root, "again"), place(root, "new"), RenameMode::Replace).unwrap();
        parts.inode_cache.drain();
        assert!(parts.inode_cache.take_failure().is_some());
        assert_eq!((used.core().nlink, again.core().nlink), (0, 1));
    });
}

#[test]
fn what_waits_to_be_freed_makes_room() {
    check(|parts, root| {
        let file = make(parts, root, "file", &NewKind::Regular);
        let full = make(parts, root, "full", &NewKind::Regular);
        let mut length_bytes = parts.free_blocks() * u64::from(parts.geometry().block_size);
        let mut at = 0;
        let (journal, now) = (&parts.journal, parts.clock.now());
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
        let refused = parts.set_attribute(&file, &attribute, SetMode::Either);
        assert_eq!(posix(refused), PosixError::NoSpace);
        parts.remove(root, b"full", Removal::File).unwrap();
        parts.release(full);
        parts.set_attribute(&file, &attribute, SetMode::Either).unwrap();
    });
}

/// Transactions of a removal, and how many inodes fewer are in use after it.
fn removal(parts: &Acting<'_>, root: &CachedInode, name: &str, removal: Removal) -> (u64, u64) {
    let used = || {
        let counts = parts.journal.counts();
        counts.inodes - counts.free_inodes
    };
    let commits = || parts.journal.log().counts().commits;
    let before = (commits(), used());
    parts.remove(root, name.as_bytes(), removal).unwrap();
    (commits() - before.0, before.1 - used())
}

#[test]
fn what_has_only_its_inode_goes_in_one_transaction() {
    check(|parts, root| {
        // One more inode in the chunk, so that it is not given back.
        let other = make(parts, root, "other", &NewKind::Regular);
        for kind in [NewKind::Regular, NewKind::Fifo, NewKind::Symlink(b"to")] {
            parts.release(make(parts, root, "one", &kind));
            assert_eq!(removal(parts, root, "one", Removal::File), (1, 1));
        }
        parts.release(make(parts, root, "one", &NewKind::Directory));
        // Where its group had no other inode, a step follows which frees its chunk.
        let (commits, inodes) = removal(parts, root, "one", Removal::Directory);
        assert!((1..=2).contains(&commits), "{commits} transactions");
        assert_eq!(inodes, 1);
        // Another name, or another user: only the name goes.
        let one = make(parts, root, "one", &NewKind::Regular);
        parts.link(&one, root, b"two").unwrap();
        assert_eq!(removal(parts, root, "two", Removal::File), (1, 0));
        assert_eq!(removal(parts, root, "one", Removal::File), (1, 0));
        parts.finish_with(one);
        parts.release(other);
    });
}

#[test]
fn who_looks_up_what_goes_meets_nothing() {
    check(|acting, root| {
        for _ in 0..64 {
            let one = make(acting, root, "one", &NewKind::Regular);
            let number = one.number();
            acting.release(one);
            std::thread::scope(|scope| {
                let parts: &Parts = acting;
                let looks = scope.spawn(|| {
                    loop {
                        match parts.look_up(root, b"one") {
                            Ok(found) => {
                                // What somebody holds is not freed, whatever became of its name.
                                assert!(!found.live().record().core().unwrap().is_free());
                                parts.finish_with(found);
                            }
                            Err(error) => break error,
                        }
                    }
                });
                acting.remove(root, b"one", Removal::File).unwrap();
                let error = looks.join().unwrap();
                assert!(matches!(error, Error::Posix(PosixError::NotFound)), "{error}");
            });
            acting.inode_cache.drain();
            assert!(matches!(acting.take(number), Err(Error::Posix(PosixError::NotFound))));
        }
    });
}

#[test]
fn a_number_used_again_is_not_what_the_name_meant() {
    check(|parts, root| {
        let other = make(parts, root, "other", &NewKind::Regular);
        parts.release(make(parts, root, "file", &NewKind::Regular));
        let seen = (root.find(&parts.journal, b"file").unwrap().0, root.change_count());
        parts.remove(root, b"file", Removal::File).unwrap();
        let pipe = make(parts, root, "pipe", &NewKind::Fifo);
        assert_eq!(pipe.number(), seen.0, "the number was not used again");
        let taken = parts.take_named(root, b"file", seen);
        assert_eq!(posix(taken), PosixError::NotFound);
        parts.release(make(parts, root, "file", &NewKind::Regular));
        assert!(parts.take_named(root, b"file", seen).unwrap().is_none());
        parts.release(pipe);
        parts.release(other);
    });
}

/// A volume can hold names that are longer than Linux has them.
#[test]
fn no_attribute_gets_a_longer_name_than_linux_has() {
    let options = OpenOptions::new().writable(true);
    let volume = options.with_devices(make_with(""), None).writable_volume().unwrap();
    let root = volume.root().unwrap();
    let before = root.attributes().len();
    let longest = format!("user.{}", "n".repeat(250));
    root.set_attribute(&longest, b"value", SetMode::Create).unwrap();
    let longer = format!("{longest}n");
    let refused = posix(root.set_attribute(&longer, b"value", SetMode::Create));
    assert_eq!(refused, PosixError::OutOfRange);
    let (parts, entry) = root.acting().unwrap();
    let (namespace, name) = (Namespace::User, &longer.as_bytes()["user.".len()..]);
    let attribute = NewAttribute { namespace, name, value: b"theirs" };
    parts.set_attribute(entry, &attribute, SetMode::Create).unwrap();
    assert_eq!(root.attribute(longer.as_ref()).unwrap(), b"theirs");
    assert_eq!(root.attributes().len(), before + 2);
    root.remove_attribute(&longer).unwrap();
    assert_eq!(root.attributes().len(), before + 1);
}
