#[cfg(shuttle)]
mod model;

use std::sync::Arc;

use papaya::Equivalent;
use xfs_format::InodeNumber;

use super::{DentryCache, DentryKey, DentryKeyRef};

const DIRECTORY: InodeNumber = InodeNumber(128);

fn find(dentries: &DentryCache, name: &[u8]) -> Option<Option<InodeNumber>> {
    dentries.reader().find(DIRECTORY, name).map(super::Dentry::inode)
}

#[test]
fn name_looked_up_twice_is_cached() {
    let dentries = DentryCache::new();
    dentries.note_lookup(DIRECTORY, b"a", Some(InodeNumber(7)));
    assert_eq!(find(&dentries, b"a"), None, "cached after one lookup");
    dentries.note_lookup(DIRECTORY, b"a", Some(InodeNumber(7)));
    assert_eq!(find(&dentries, b"a"), Some(Some(InodeNumber(7))));
    dentries.note_lookup(DIRECTORY, b"none", None);
    dentries.note_lookup(DIRECTORY, b"none", None);
    assert_eq!(find(&dentries, b"none"), Some(None));
    assert!(
        dentries.reader().find(InodeNumber(129), b"a").is_none(),
        "a name of another directory"
    );
    let reader = dentries.reader();
    let dentry = reader.find(DIRECTORY, b"a").unwrap();
    assert!(!dentry.is_dead());
    dentries.invalidate(DIRECTORY, b"a");
    assert!(dentry.is_dead());
    assert_eq!(find(&dentries, b"a"), None);
    dentries.clear();
    assert_eq!(dentries.count(), 0);
}

/// Checks I4 of `xfs_icache::dentry_cache`: the cache stays within its bound, and evicts names that
/// are not used.
#[test]
fn cache_at_its_bound_keeps_used_names() {
    let dentries = DentryCache::with_most(64);
    let most = dentries.most_per_ring;
    let note =
        |name: &str| (0..2).for_each(|_| dentries.note_lookup(DIRECTORY, name.as_bytes(), None));
    note("used");
    for number in 0..1000 {
        note(&format!("name-{number}"));
        assert!(find(&dentries, b"used").is_some(), "{number}");
        assert!(dentries.count() <= most, "{}", dentries.count());
    }
    assert_eq!(dentries.count(), most);
}

#[test]
fn removed_name_is_dead() {
    let dead_after = |make_dead: &dyn Fn(&DentryCache)| {
        let dentries = DentryCache::with_most(8);
        let note = |name: &str| {
            (0..2).for_each(|_| {
                dentries.note_lookup(DIRECTORY, name.as_bytes(), Some(InodeNumber(7)))
            });
        };
        note("first");
        let reader = dentries.reader();
        let dentry = reader.find(DIRECTORY, b"first").unwrap();
        assert!(!dentry.is_dead());
        make_dead(&dentries);
        assert_eq!(find(&dentries, b"first"), None);
        dentry.is_dead()
    };
    assert!(dead_after(&|dentries| dentries.invalidate(DIRECTORY, b"first")));
    assert!(dead_after(&DentryCache::clear));
    assert!(dead_after(&|dentries| {
        for name in (0..200).flat_map(|number| [number; 2]) {
            dentries.note_lookup(
                DIRECTORY,
                format!("name-{name}").as_bytes(),
                Some(InodeNumber(8)),
            );
        }
    }));
}

/// Checks that a key equals only the key of the same name in the same directory, because the hashes
/// of two names may be equal.
#[test]
fn key_is_that_of_one_name_in_one_directory() {
    let key = Arc::new(DentryKey { directory: DIRECTORY, name: b"name".as_slice().into() });
    let is_it = |directory, name: &[u8]| DentryKeyRef { directory, name }.equivalent(&key);
    assert!(is_it(DIRECTORY, b"name"));
    assert!(!is_it(InodeNumber(129), b"name"));
    for other in [b"".as_slice(), b"nam", b"names", b"nama", b"Name"] {
        assert!(!is_it(DIRECTORY, other), "{other:?}");
    }
}
