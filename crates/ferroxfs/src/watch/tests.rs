use std::time::Duration;

use xfs_icache::WalkFilter;
use xfs_trans::testing::make_with;
use xfs_vfs::{
    CreateOptions, MAX_WAITING_EVENTS, NewKind, RenameMode, Scope, SetAttributes, Watch,
    WatchEvents,
};

use crate::{OpenOptions, Volume};

const PLAIN: CreateOptions = CreateOptions::new(0o700);

fn volume(options: &str) -> Volume {
    let open = OpenOptions::new().write(true);
    open.open_device(make_with(options)).unwrap()
}

/// Takes all queued events of a watch. Returns the kind and the name of each event.
fn told(watch: &Watch) -> Vec<(WatchEvents, String)> {
    let next = || watch.try_next();
    let name = |name: Option<std::ffi::OsString>| name.unwrap_or_default().into_string().unwrap();
    std::iter::from_fn(next).map(|event| (event.event, name(event.name))).collect()
}

fn named(event: WatchEvents, name: &str) -> (WatchEvents, String) {
    (event, name.to_owned())
}

#[test]
fn watches_of_directory_and_file_report_all_changes() {
    let volume = volume("");
    let root = volume.root().unwrap();
    let of_root = root.watch(WatchEvents::all(), Scope::Inode).unwrap();
    let file = root.create("file", &NewKind::Regular, &PLAIN).unwrap();
    let of_file = file.watch(WatchEvents::all(), Scope::Inode).unwrap();
    file.open().unwrap().write_at(b"contents", 0).unwrap();
    file.set_attributes(&SetAttributes::new().mode(0o600)).unwrap();
    root.link(&file, "other").unwrap();
    root.rename("other", &root, "moved", RenameMode::Replace).unwrap();
    root.remove_file("moved").unwrap();
    assert_eq!(
        told(&of_root),
        [
            named(WatchEvents::CREATE, "file"),
            named(WatchEvents::CREATE, "other"),
            named(WatchEvents::MOVED_FROM, "other"),
            named(WatchEvents::MOVED_TO, "moved"),
            named(WatchEvents::DELETE, "moved"),
        ]
    );
    let [modify, attrib] = [WatchEvents::MODIFY, WatchEvents::ATTRIB];
    let events: Vec<_> = told(&of_file).into_iter().map(|(event, _)| event).collect();
    assert_eq!(events, [modify, attrib, attrib, WatchEvents::MOVED_SELF, attrib]);
}

#[test]
fn watch_reports_requested_events_until_dropped() {
    let volume = volume("");
    let root = volume.root().unwrap();
    let watch = root.watch(WatchEvents::DELETE, Scope::Inode).unwrap();
    root.create("one", &NewKind::Regular, &PLAIN).unwrap();
    root.remove_file("one").unwrap();
    assert_eq!(told(&watch), [named(WatchEvents::DELETE, "one")]);
    drop(watch);
    let (mount, entry) = root.writable().unwrap();
    assert!(mount.watches.is_empty() && entry.marks().all().is_empty());
}

#[test]
fn subtree_watch_follows_the_current_tree() {
    let volume = volume("");
    let root = volume.root().unwrap();
    volume.create_dir_all("/tree/deep/er").unwrap();
    let tree = volume.lookup("/tree").unwrap();
    let watch = tree.watch(WatchEvents::all(), Scope::Subtree).unwrap();
    volume.write("/tree/deep/er/file", b"x").unwrap();
    volume.write("/beside", b"x").unwrap();
    let er = volume.lookup("/tree/deep/er").unwrap().number();
    let events: Vec<_> = std::iter::from_fn(|| watch.try_next()).collect();
    assert_eq!(events[0].inode, er);
    assert_eq!(
        events.iter().map(|event| event.event).collect::<Vec<_>>(),
        [WatchEvents::CREATE, WatchEvents::MODIFY]
    );
    // A file with one name inside the tree and one outside is in it. A directory that leaves it is
    // not.
    volume.hard_link("/tree/deep/er/file", "/outside").unwrap();
    volume.rename("/tree/deep/er", "/er").unwrap();
    told(&watch);
    volume.write("/er/new", b"x").unwrap();
    assert_eq!(told(&watch), []);
    drop(root);
}

#[test]
fn subtree_watch_without_parent_pointers_is_refused() {
    let volume = volume("-n parent=0");
    let root = volume.root().unwrap();
    let refused = root.watch(WatchEvents::all(), Scope::Subtree).err().unwrap();
    assert_eq!(refused.errno(), 95);
    root.watch(WatchEvents::all(), Scope::Inode).unwrap();
}

#[test]
fn watched_inode_stays_cached_until_the_volume_is_closed() {
    let volume = volume("");
    volume.write("/file", b"x").unwrap();
    let watch = volume.lookup("/file").unwrap().watch(WatchEvents::all(), Scope::Inode).unwrap();
    volume.drop_caches().unwrap();
    assert_eq!(volume.cache_counts().unwrap().total(), 1);
    let mut seen = 0;
    let _ = volume.iter_inodes(WalkFilter::Referenced, |_| {
        seen += 1;
        std::ops::ControlFlow::Continue(())
    });
    assert_eq!(seen, 1);
    volume.lookup("/file").unwrap().keep_in_memory().unwrap();
    assert!(!watch.is_closed());
    volume.close().unwrap();
    assert!(watch.is_closed());
    assert_eq!(watch.next_within(Duration::from_secs(60)), None);
}

#[test]
fn volume_closes_while_a_watch_ends() {
    let volume = volume("");
    let root = volume.root().unwrap();
    let watch = root.watch(WatchEvents::all(), Scope::Inode).unwrap();
    // A watch that has just begun to end holds the mount like this.
    let mount = root.volume_ref().weak_mount().upgrade().unwrap();
    let ending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(watch);
        drop(mount);
    });
    drop(root);
    volume.close().unwrap();
    ending.join().unwrap();
}

/// Makes more events than a watch can queue, several times. Checks that the watch reports one
/// overflow event for all lost events until that event is read.
#[test]
fn overflowing_watch_reports_it_once() {
    let volume = volume("");
    let root = volume.root().unwrap();
    let watch = root.watch(WatchEvents::ATTRIB, Scope::Inode).unwrap();
    let mount = root.writable().unwrap().0;
    let entry = root.writable().unwrap().1;
    let happen = |count| (0..count).for_each(|_| mount.notify(entry, WatchEvents::ATTRIB));
    let overflows = |events: &[(WatchEvents, String)]| {
        events.iter().filter(|(event, _)| *event == WatchEvents::OVERFLOW).count()
    };
    happen(MAX_WAITING_EVENTS + 2);
    for _ in 0..3 {
        assert!(watch.try_next().is_some());
        happen(4);
    }
    let heard = told(&watch);
    assert_eq!(overflows(&heard), 1);
    assert!(heard.len() <= MAX_WAITING_EVENTS + 1, "{}", heard.len());
    happen(MAX_WAITING_EVENTS + 2);
    assert_eq!(overflows(&told(&watch)), 1, "the second loss");
}

/// Frees all inodes that wait to be freed, and returns the number of free blocks.
fn free_blocks(volume: &Volume) -> u64 {
    volume.root().unwrap().writable().unwrap().0.inode_cache.drain();
    volume.space().unwrap().available_blocks
}

#[test]
fn watched_file_is_freed_with_its_last_name_and_handle() {
    let volume = volume("");
    volume.write("/first", b"so that the directory has its blocks").unwrap();
    let free = free_blocks(&volume);
    let gone = named(WatchEvents::DELETED_SELF, "");
    for (ends, is_held) in [("name", false), ("handle", true)] {
        let path = format!("/{ends}");
        volume.write(&path, vec![1; 1 << 20]).unwrap();
        let file = volume.open_file(&path).unwrap();
        let [watch, other] =
            [(); 2].map(|()| file.node().watch(WatchEvents::all(), Scope::Inode).unwrap());
        let deaf = file.node().watch(WatchEvents::MODIFY, Scope::Inode).unwrap();
        let mut held = is_held.then_some(file);
        volume.remove_file(&path).unwrap();
        if held.is_some() {
            assert!(
                free_blocks(&volume) < free && !watch.is_closed(),
                "{ends}: freed under a handle"
            );
        }
        held.take().into_iter().for_each(drop);
        assert_eq!(free_blocks(&volume), free, "{ends}");
        for watch in [&watch, &other] {
            assert_eq!(told(watch), [named(WatchEvents::ATTRIB, ""), gone.clone()], "{ends}");
            assert!(watch.is_closed());
        }
        assert!(deaf.is_closed() && told(&deaf).is_empty());
        drop((watch, other, deaf));
        assert!(volume.root().unwrap().writable().unwrap().0.watches.is_empty());
    }
    volume.close().unwrap();
}

#[test]
fn unnamed_file_is_watched_while_open() {
    let volume = volume("");
    let free = free_blocks(&volume);
    let file = volume.root().unwrap().create_unnamed(&PLAIN).unwrap();
    let watch = file.watch(WatchEvents::all(), Scope::Inode).unwrap();
    file.open().unwrap().write_at(&[1; 10_000], 0).unwrap();
    assert!(!watch.is_closed() && free_blocks(&volume) < free);
    drop(file);
    assert_eq!(free_blocks(&volume), free);
    let last = std::iter::from_fn(|| watch.try_next()).last().unwrap();
    assert_eq!(last.event, WatchEvents::DELETED_SELF);
    assert_eq!(watch.next_within(Duration::from_secs(60)), None, "the wait of a closed watch");
    volume.close().unwrap();
}

/// Pins a file in memory (`keep_in_memory`), watches it, and removes its last name. Checks that the
/// file keeps its blocks, and that the watch stays open until the volume is closed.
#[test]
fn pinned_watched_file_keeps_its_blocks() {
    let volume = volume("");
    volume.write("/file", vec![1; 1 << 20]).unwrap();
    let node = volume.lookup("/file").unwrap();
    node.keep_in_memory().unwrap();
    let watch = node.watch(WatchEvents::all(), Scope::Inode).unwrap();
    drop(node);
    let free = free_blocks(&volume);
    volume.remove_file("/file").unwrap();
    assert!(!watch.is_closed());
    assert!(free_blocks(&volume) <= free);
    volume.close().unwrap();
    assert!(watch.is_closed());
}
