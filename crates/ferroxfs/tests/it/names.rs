//! Tests of the dentry cache: every change of a name is visible at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroxfs::{OpenOptions, PosixError, RenameMode, Volume};
use xfs_trans::testing::make_with;

fn with_volume(act: impl FnOnce(&Volume)) {
    let options = OpenOptions::new().write(true);
    let device = make_with("-d size=64m --unsupported");
    let volume = options.open_device(Arc::clone(&device)).unwrap();
    act(&volume);
    volume.close().unwrap();
}

/// Looks up a path several times, so that its names are cached, and checks that the results agree.
/// Returns the inode number. `None`: the path does not exist.
fn find(volume: &Volume, path: &str) -> Option<u64> {
    let once = || match volume.lookup(path) {
        Ok(node) => Some(node.number().0),
        Err(ferroxfs::Error::Posix(PosixError::NotFound)) => None,
        Err(error) => panic!("{path}: {error}"),
    };
    let first = once();
    (0..3).for_each(|_| assert_eq!(once(), first, "{path}"));
    first
}

#[test]
fn change_of_a_cached_name_is_visible() {
    with_volume(|volume| {
        assert_eq!(find(volume, "/a"), None);
        volume.write("/a", "").unwrap();
        let a = find(volume, "/a").unwrap();
        assert_eq!(find(volume, "/b"), None);
        volume.hard_link("/a", "/b").unwrap();
        assert_eq!(find(volume, "/b"), Some(a));
        volume.remove_file("/a").unwrap();
        assert_eq!(find(volume, "/a"), None);
        assert_eq!(find(volume, "/dir/c"), None);
        volume.create_dir("/dir").unwrap();
        assert_eq!(find(volume, "/dir/c"), None);
        volume.rename("/b", "/dir/c").unwrap();
        assert_eq!((find(volume, "/b"), find(volume, "/dir/c")), (None, Some(a)));
        volume.rename("/dir", "/moved").unwrap();
        assert_eq!((find(volume, "/dir/c"), find(volume, "/moved/c")), (None, Some(a)));
        volume.write("/x", "").unwrap();
        let x = find(volume, "/x").unwrap();
        let (root, moved) = (volume.root().unwrap(), volume.lookup("/moved").unwrap());
        root.rename("x", &moved, "c", RenameMode::Exchange).unwrap();
        assert_eq!((find(volume, "/x"), find(volume, "/moved/c")), (Some(a), Some(x)));
        root.rename("x", &moved, "c", RenameMode::Whiteout).unwrap();
        assert_eq!(find(volume, "/moved/c"), Some(a));
        assert!(find(volume, "/x").is_some_and(|whiteout| whiteout != a && whiteout != x));
        volume.symlink("moved", "/link").unwrap();
        assert_eq!(find(volume, "/link/c"), Some(a));
        volume.remove_file("/moved/c").unwrap();
        assert_eq!(find(volume, "/link/c"), None);
        volume.remove_dir("/moved").unwrap();
        assert_eq!(find(volume, "/moved/c"), None);
        assert_eq!(find(volume, "/moved"), None);
    });
}

#[test]
fn lookup_below_a_file_is_not_a_directory() {
    with_volume(|volume| {
        volume.write("/file", "").unwrap();
        assert!(find(volume, "/file").is_some());
        for path in ["/file/x", "/file/", "/file/."] {
            for _ in 0..3 {
                let error = volume.lookup(path).unwrap_err();
                assert_eq!(error.errno(), 20, "ENOTDIR: {path}");
            }
        }
    });
}

/// Threads look up names while another thread renames a file back and forth, and creates and
/// removes a file of another name. Checks that no lookup leads to a wrong file.
#[test]
fn lookups_during_changes_find_no_wrong_file() {
    with_volume(|volume| {
        volume.create_dir("/one").unwrap();
        volume.create_dir("/two").unwrap();
        volume.write("/one/stays", "stays").unwrap();
        volume.write("/one/moves", "moves").unwrap();
        let moves = volume.lookup("/one/moves").unwrap().number();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        assert_eq!(volume.read("/one/stays").unwrap(), b"stays");
                        for path in ["/one/moves", "/two/moves"] {
                            match volume.lookup(path) {
                                Ok(node) => assert_eq!(node.number(), moves),
                                Err(ferroxfs::Error::Posix(PosixError::NotFound)) => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                        // Creates, writes and removes a file of one name again and again.
                        if let Ok(node) = volume.lookup("/two/comes") {
                            assert_ne!(node.number(), moves);
                        }
                    }
                });
            }
            for _ in 0..300 {
                volume.rename("/one/moves", "/two/moves").unwrap();
                assert!(volume.lookup("/one/moves").is_err());
                assert!(volume.lookup("/two/moves").is_ok());
                volume.write("/two/comes", "").unwrap();
                assert!(volume.lookup("/two/comes").is_ok());
                volume.rename("/two/moves", "/one/moves").unwrap();
                assert!(volume.lookup("/two/moves").is_err());
                volume.remove_file("/two/comes").unwrap();
                assert!(volume.lookup("/two/comes").is_err());
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}
