//! Access control lists, permission bits and power cuts: the two change together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ferroxfs::format::acl::{AclEntry, AclTag};
use ferroxfs::{Acl, AclKind, Changes, Node, OpenOptions, SharedDevice, Volume};
use xfs_testkit::{Atomicity, PowerCuts, RecordingDevice};
use xfs_trans::testing::{make_with, superblock};

const FILES: usize = 12;

/// How many users the lists name: in a leaf, and in blocks of its own.
const LENGTHS: [u32; 2] = [25, 300];

fn open(device: &SharedDevice) -> Volume {
    let options = OpenOptions::new().writable(true);
    options.with_devices(Arc::clone(device), None).writable_volume().unwrap()
}

/// A list that names so many users and has these bits as its mask.
fn list(users: u32, mask: u16) -> Acl {
    let entry = |tag, permissions| AclEntry { tag, permissions };
    let users = (0..users).map(|user| entry(AclTag::User(1000 + user), 4));
    let owner = entry(AclTag::Owner, 6);
    let rest = [(AclTag::OwningGroup, 4), (AclTag::Mask, mask), (AclTag::Other, 0)];
    let rest = rest.map(|(tag, permissions)| entry(tag, permissions));
    Acl::new(std::iter::once(owner).chain(users).chain(rest).collect()).unwrap()
}

/// The permission bits and the list of a file.
fn rights(node: &Node) -> (u16, Option<Acl>) {
    (node.metadata().mode & 0o777, node.acl(AclKind::Access).unwrap())
}

/// Runs `change` on each file while another thread forces the log, and cuts the power: each file is as it
/// was before or as it is after.
fn check(prepare: impl Fn(&Node), change: impl Fn(&Node)) {
    let device = make_with("-b size=1k -l size=16m");
    let volume = open(&device);
    let path = |file: usize| format!("/{file}");
    for file in 0..FILES {
        volume.write(path(file), b"").unwrap();
        prepare(&volume.lookup(path(file)).unwrap());
    }
    let before = rights(&volume.lookup(path(0)).unwrap());
    volume.close().unwrap();
    let recording = Arc::new(RecordingDevice::new(Arc::clone(&device)));
    let volume = open(&(Arc::clone(&recording) as SharedDevice));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                volume.sync().unwrap();
            }
        });
        (0..FILES).for_each(|file| change(&volume.lookup(path(file)).unwrap()));
        done.store(true, Ordering::SeqCst);
    });
    let after = rights(&volume.lookup(path(0)).unwrap());
    assert_ne!((before.0, &before.1), (after.0, &after.1), "it changes something");
    volume.close().unwrap();
    let recording = recording.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::of(&superblock(&device)));
    let mut seen = [0, 0];
    let points = recording.requests().len();
    let step = if std::env::var_os("FERROXFS_LONG").is_some() { 1 } else { points / 50 + 1 };
    for point in (0..=points).step_by(step) {
        for cut in cuts.at(point, 1).take(4) {
            let cut_off: SharedDevice = Arc::new(cuts.after(cut));
            let volume = open(&cut_off);
            for file in 0..FILES {
                let has = rights(&volume.lookup(path(file)).unwrap());
                assert!(
                    has == before || has == after,
                    "cut {cut}: file {file} is half changed: {:o}",
                    has.0
                );
                seen[usize::from(has == after)] += 1;
            }
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn a_list_and_the_bits_change_together() {
    for users in LENGTHS {
        check(|_| {}, |node| node.set_acl(AclKind::Access, Some(&list(users, 7))).unwrap());
    }
}

#[test]
fn chmod_changes_the_list_and_the_bits_together() {
    for users in LENGTHS {
        check(
            |node| node.set_acl(AclKind::Access, Some(&list(users, 7))).unwrap(),
            |node| node.change(&Changes { mode: Some(0o640), ..Changes::default() }).unwrap(),
        );
    }
}

#[test]
fn a_list_goes_together_with_what_it_gave() {
    let minimal = Acl::of_mode(0o600);
    for users in LENGTHS {
        check(
            |node| node.set_acl(AclKind::Access, Some(&list(users, 7))).unwrap(),
            |node| node.set_acl(AclKind::Access, Some(&minimal)).unwrap(),
        );
    }
}
