//! Tests of paths with unusual ends: slashes, dots, and other last components that are not names.

use std::sync::Arc;

use ferroxfs::{CreateOptions, NewKind, OpenOptions, PosixError, Result, Volume};
use xfs_trans::testing::make_with;

const PLAIN: CreateOptions = CreateOptions::new(0o640);

/// Makes a volume and calls `act` with it. The root directory holds a directory `d` with a
/// subdirectory, an empty directory `e`, a file `f`, a symbolic link to `d`, another to `f`, and
/// two dangling links.
fn with_volume(act: impl FnOnce(&Volume)) {
    let options = OpenOptions::new().write(true);
    let device = make_with("-d size=64m --unsupported");
    let volume = options.open_device(Arc::clone(&device)).unwrap();
    volume.create_dir_all("/d/below").unwrap();
    volume.create_dir("/e").unwrap();
    volume.write("/f", "contents").unwrap();
    for (target, path) in [("d", "/to_d"), ("f", "/to_f"), ("none", "/to_none"), ("none/", "/to_a")]
    {
        volume.symlink(target, path).unwrap();
    }
    act(&volume);
    volume.close().unwrap();
}

fn names(volume: &Volume) -> Vec<String> {
    let names = volume.read_dir("/").unwrap();
    let names = names.map(|entry| entry.unwrap().name().to_str().unwrap().to_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Checks that an operation fails with this error and changes no name in the root directory.
fn check_refused<T>(
    volume: &Volume,
    what: &str,
    expected: PosixError,
    act: impl FnOnce() -> Result<T>,
) {
    let before = names(volume);
    match act() {
        Err(ferroxfs::Error::Posix(error)) => assert_eq!(error, expected, "{what}"),
        Err(error) => panic!("{what}: {error}"),
        Ok(_) => panic!("{what} is done"),
    }
    assert_eq!(names(volume), before, "{what}");
}

/// Checks that a slash after a name requires a directory. The expected errors are those of Linux.
#[test]
fn trailing_slash_requires_a_directory() {
    use PosixError::{Exists, IsDirectory, NotDirectory, NotFound};
    with_volume(|volume| {
        for (path, expected) in [
            ("/new/", IsDirectory),
            ("/f/", IsDirectory),
            ("/d/", IsDirectory),
            ("/to_f/", IsDirectory),
            ("/to_a", IsDirectory),
            ("/none/new/", NotFound),
            ("/f/.", NotDirectory),
        ] {
            check_refused(volume, path, expected, || volume.create_file(path));
        }
        for (path, expected) in
            [("/new/", NotFound), ("/f/", Exists), ("/d/", Exists), ("/to_none/", Exists)]
        {
            check_refused(volume, path, expected, || volume.symlink("t", path));
            check_refused(volume, path, expected, || volume.hard_link("/f", path));
            let make = || volume.create_node(path, &NewKind::Fifo, &PLAIN);
            check_refused(volume, path, expected, make);
        }
        for (path, expected) in [
            ("/f/", NotDirectory),
            ("/d/", IsDirectory),
            ("/none/", NotFound),
            ("/to_d/", NotDirectory),
        ] {
            check_refused(volume, path, expected, || volume.remove_file(path));
        }
        check_refused(volume, "/to_d/", NotDirectory, || volume.remove_dir("/to_d/"));
        check_refused(volume, "/to_d/", NotDirectory, || volume.remove_dir_all("/to_d/"));
        check_refused(volume, "/f to /e/", NotDirectory, || volume.rename("/f", "/e/"));
        check_refused(volume, "/f/ to /new", NotDirectory, || volume.rename("/f/", "/new"));
        check_refused(volume, "/f to /new/", NotDirectory, || volume.rename("/f", "/new/"));
        check_refused(volume, "/to_d/", NotDirectory, || volume.rename("/to_d/", "/new"));
        volume.create_dir("/new//").unwrap();
        volume.rename("/new/", "/newer/").unwrap();
        volume.remove_dir("/newer/").unwrap();
        volume.remove_dir_all("/d/").unwrap();
        assert_eq!(names(volume), ["e", "f", "to_a", "to_d", "to_f", "to_none"]);
    });
}

#[test]
fn path_that_ends_in_no_name_is_neither_created_nor_removed() {
    use PosixError::{Busy, Exists, InvalidArgument, IsDirectory, NotEmpty, NotFound};
    with_volume(|volume| {
        for path in ["/", "/d/.", "/d/..", "/d/below/../"] {
            check_refused(volume, path, Exists, || volume.create_dir(path));
            check_refused(volume, path, IsDirectory, || volume.create_file(path));
            check_refused(volume, path, IsDirectory, || volume.remove_file(path));
            check_refused(volume, path, Busy, || volume.rename(path, "/new"));
            check_refused(volume, path, Busy, || volume.rename("/e", path));
        }
        for (path, expected) in [("/", Busy), ("/e/.", InvalidArgument), ("/e/..", NotEmpty)] {
            check_refused(volume, path, expected, || volume.remove_dir(path));
            check_refused(volume, path, expected, || volume.remove_dir_all(path));
        }
        check_refused(volume, "/new/.", NotFound, || volume.create_dir("/new/."));
    });
}
