use super::*;
use crate::Error;

fn posix<T>(result: Result<T>) -> PosixError {
    match result {
        Err(Error::Posix(case)) => case,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("no error"),
    }
}

fn names(directory: &ScratchNode) -> Vec<String> {
    let entries = directory.entries().unwrap();
    entries.into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
}

#[test]
fn names_are_created_removed_and_renamed() {
    let volume = ScratchVolume::new(1 << 20);
    let root = volume.root();
    let folder = root.create("folder", &NewKind::Directory).unwrap();
    let file = folder.create("file", &NewKind::Regular).unwrap();
    root.link(&file, "other").unwrap();
    assert_eq!(file.nlink(), 2);
    assert_eq!(posix(root.create("folder", &NewKind::Regular)), PosixError::Exists);
    assert_eq!(posix(root.create("a/b", &NewKind::Regular)), PosixError::InvalidArgument);
    assert_eq!(posix(root.link(&folder, "again")), PosixError::NotPermitted);
    assert_eq!(posix(root.remove("folder")), PosixError::NotEmpty);
    assert_eq!(posix(root.lookup("nothing")), PosixError::NotFound);
    assert_eq!(posix(file.lookup("below")), PosixError::NotDirectory);
    root.create("link", &NewKind::Symlink(b"folder/file")).unwrap();
    assert_eq!(root.lookup("link").unwrap().read_link().unwrap(), "folder/file");

    let inner = folder.create("inner", &NewKind::Directory).unwrap();
    assert_eq!(posix(root.rename("folder", &inner, "loop")), PosixError::InvalidArgument);
    assert_eq!(posix(root.rename("folder", &root, "other")), PosixError::NotDirectory);
    assert_eq!(posix(root.rename("other", &root, "folder")), PosixError::IsDirectory);
    // A rename onto another name of the same file keeps both.
    root.rename("other", &folder, "file").unwrap();
    assert_eq!(file.nlink(), 2);
    root.rename("link", &folder, "file").unwrap();
    assert_eq!((names(&root), file.nlink()), (vec!["folder".into(), "other".into()], 1));
    folder.rename("inner", &root, "outer").unwrap();
    root.remove("outer").unwrap();
    assert_eq!(posix(inner.create("late", &NewKind::Regular)), PosixError::NotFound);
    let elsewhere = ScratchVolume::new(1 << 20).root();
    assert_eq!(posix(elsewhere.link(&file, "file")), PosixError::CrossDevice);
}

#[test]
fn removed_contents_free_their_bytes() {
    let volume = ScratchVolume::new(64 << 10);
    let root = volume.root();
    let empty = volume.used_bytes();
    let file = root.create("file", &NewKind::Regular).unwrap();
    file.write_at(b"text", 4).unwrap();
    let mut bytes = [1; 16];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 8);
    assert_eq!(&bytes[..8], b"\0\0\0\0text");
    assert_eq!(file.read_at(&mut bytes, u64::MAX).unwrap(), 0);
    let used = volume.used_bytes();
    assert_eq!(posix(file.write_at(b"x", 64 << 10)), PosixError::NoSpace);
    assert_eq!(posix(file.write_at(b"x", u64::MAX)), PosixError::FileTooLarge);
    assert_eq!(posix(file.set_len(1 << 40)), PosixError::NoSpace);
    assert_eq!((file.length_bytes().unwrap(), volume.used_bytes()), (8, used));
    file.set_len(5).unwrap();
    file.set_len(8).unwrap();
    assert_eq!(file.read_at(&mut bytes, 4).unwrap(), 4);
    assert_eq!(&bytes[..4], b"t\0\0\0");
    root.remove("file").unwrap();
    assert!(volume.used_bytes() > empty, "bytes freed under a handle");
    drop(file);
    assert_eq!(volume.used_bytes(), empty);
    let made = (0..).take_while(|index| root.create(index.to_string(), &NewKind::Fifo).is_ok());
    assert!((50..150).contains(&made.count()));
    assert_eq!(posix(root.create("more", &NewKind::Fifo)), PosixError::NoSpace);
}

/// Checks I1 of `ferroxfs::scratch`: an inode is freed with its last name and handle.
#[test]
fn walk_meets_each_inode_until_its_last_reference() {
    let volume = ScratchVolume::new(1 << 20);
    let (mut folder, mut numbers) = (volume.root(), vec![1]);
    for _ in 0..300 {
        folder = folder.create("below", &NewKind::Directory).unwrap();
        numbers.push(folder.number().0);
    }
    let mut seen = Vec::new();
    let _ = volume.iter_inodes(WalkFilter::Referenced, |node| {
        seen.push(node.number().0);
        ControlFlow::Continue(())
    });
    assert_eq!(seen, numbers);
    assert_eq!(volume.cache_counts().live, 301);
    let stopped = volume.iter_inodes(WalkFilter::Cached, |_| ControlFlow::Break(()));
    assert!(stopped.is_break());
    // A walk may change what it walks over.
    let _ = volume.iter_inodes(WalkFilter::Cached, |node| {
        if node.entries().is_ok_and(|entries| entries.is_empty()) {
            node.create("file", &NewKind::Regular).unwrap();
        }
        ControlFlow::Continue(())
    });
    assert_eq!(volume.cache_counts().total(), 302);
    let room = Arc::clone(&volume.tree.inodes.room);
    drop((volume, folder));
    let names: u64 = 300 * (64 + 5) + 64 + 4;
    assert_eq!(room.used_bytes(), names, "only what names took, as nobody asks any more");
}

#[test]
fn deep_tree_is_dropped_without_recursion() {
    let small = std::thread::Builder::new().stack_size(128 << 10);
    let work = || {
        let volume = ScratchVolume::new(1 << 30);
        let mut folder = volume.root();
        for _ in 0..50_000 {
            folder = folder.create("below", &NewKind::Directory).unwrap();
        }
    };
    small.spawn(work).unwrap().join().unwrap();
}

/// Threads change the names of one tree at the same time. Checks I2 of `ferroxfs::scratch`: the
/// changes happen one after another.
#[test]
fn concurrent_changes_of_one_tree_are_consistent() {
    let volume = ScratchVolume::new(64 << 20);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let root = volume.root();
            scope.spawn(move || {
                for index in 0..500 {
                    let name = format!("{}", index % 7);
                    let _ = root.create(&name, &NewKind::Regular);
                    let _ = root.rename(&name, &root, format!("{thread}"));
                    let _ =
                        root.lookup(format!("{}", thread + 1)).map(|node| node.write_at(b"x", 0));
                    let _ = root.remove(&name);
                }
            });
        }
    });
    let root = volume.root();
    assert_eq!(volume.cache_counts().total(), root.entries().unwrap().len() as u64 + 1);
}
