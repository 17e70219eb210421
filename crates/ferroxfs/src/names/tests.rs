#[cfg(shuttle)]
mod model;

use xfs_format::InodeNumber;

use super::Names;

const DIRECTORY: InodeNumber = InodeNumber(128);

fn find(names: &Names, name: &[u8]) -> Option<Option<InodeNumber>> {
    names.reader().find(DIRECTORY, name).map(super::Meaning::inode)
}

#[test]
fn a_name_is_remembered_when_it_comes_again() {
    let names = Names::new();
    names.note(DIRECTORY, b"a", Some(InodeNumber(7)));
    assert_eq!(find(&names, b"a"), None, "once is not enough");
    names.note(DIRECTORY, b"a", Some(InodeNumber(7)));
    assert_eq!(find(&names, b"a"), Some(Some(InodeNumber(7))));
    names.note(DIRECTORY, b"none", None);
    names.note(DIRECTORY, b"none", None);
    assert_eq!(find(&names, b"none"), Some(None));
    assert!(names.reader().find(InodeNumber(129), b"a").is_none(), "of another directory");
    let reader = names.reader();
    let meaning = reader.find(DIRECTORY, b"a").unwrap();
    assert!(!meaning.is_dead());
    names.forget(DIRECTORY, b"a");
    assert!(meaning.is_dead());
    assert_eq!(find(&names, b"a"), None);
    names.forget_all();
    assert_eq!(names.count(), 0);
}

#[test]
fn there_are_never_more_than_the_bound_and_what_is_used_stays() {
    let names = Names::with_most(64);
    let most = names.most_per_ring;
    let note = |name: &str| (0..2).for_each(|_| names.note(DIRECTORY, name.as_bytes(), None));
    note("used");
    for number in 0..1000 {
        note(&format!("name-{number}"));
        assert!(find(&names, b"used").is_some(), "{number}");
        assert!(names.count() <= most, "{}", names.count());
    }
    assert_eq!(names.count(), most);
}

#[test]
fn a_name_is_dead_whatever_takes_it_out() {
    let dead_after = |take_out: &dyn Fn(&Names)| {
        let names = Names::with_most(8);
        let note = |name: &str| {
            (0..2).for_each(|_| names.note(DIRECTORY, name.as_bytes(), Some(InodeNumber(7))));
        };
        note("first");
        let reader = names.reader();
        let meaning = reader.find(DIRECTORY, b"first").unwrap();
        assert!(!meaning.is_dead());
        take_out(&names);
        assert_eq!(find(&names, b"first"), None);
        meaning.is_dead()
    };
    assert!(dead_after(&|names| names.forget(DIRECTORY, b"first")));
    assert!(dead_after(&Names::forget_all));
    assert!(dead_after(&|names| {
        for name in (0..200).flat_map(|number| [number; 2]) {
            names.note(DIRECTORY, format!("name-{name}").as_bytes(), Some(InodeNumber(8)));
        }
    }));
}
