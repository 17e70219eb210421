//! Tests of limits of quota: which operations are refused, with which error, and how much of an
//! operation is done.

use std::sync::Arc;

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::quota::{Limit, Limits, Quota, QuotaMode, QuotaOptions, QuotaType};
use ferroxfs::{
    CreateOptions, Credentials, File, NewKind, Node, OpenOptions, SetAttributes, Volume,
};
use xfs_trans::testing::make_sized;

const USER: u32 = 1001;
const ENOSPC: i32 = 28;
const EXDEV: i32 = 18;
const EDQUOT: i32 = 122;

/// Makes a volume that enforces the limits of users, groups and projects, with a directory in which
/// everyone may create files.
fn volume() -> Volume {
    let device = make_sized(64 << 20, "-l size=8m");
    let options = OpenOptions::new().write(true).quota(QuotaOptions::all(QuotaMode::Enforce));
    let volume = options.open_device(device).unwrap();
    volume.create_dir("/home").unwrap();
    let home = volume.lookup("/home").unwrap();
    home.set_attributes(&SetAttributes::new().mode(0o777)).unwrap();
    volume
}

fn set_hard(volume: &Volume, kind: QuotaType, id: u32, blocks: Option<u64>, inodes: Option<u64>) {
    let hard = |limit: Option<u64>| limit.map_or(Limit::new(), |limit| Limit::new().hard(limit));
    let limits = Limits::new().blocks(hard(blocks)).inodes(hard(inodes));
    volume.quota().set(kind, id, &limits).unwrap();
}

fn quota(volume: &Volume, kind: QuotaType, id: u32) -> Quota {
    volume.quota().get(kind, id).unwrap().expect("the owner has usage or limits")
}

/// Creates a file of the user and group [`USER`] in `/home`, with root as the caller.
fn create(volume: &Volume, name: &str) -> ferroxfs::Result<Node> {
    let options = CreateOptions::new(0o644).uid(USER).gid(USER);
    volume.lookup("/home")?.create(name, &NewKind::Regular, &options)
}

fn errno<T>(result: ferroxfs::Result<T>) -> i32 {
    result.err().expect("the operation is refused").errno()
}

#[test]
fn file_past_the_hard_inode_limit_is_edquot_for_root_too() {
    let volume = volume();
    set_hard(&volume, QuotaType::User, USER, None, Some(2));
    create(&volume, "a").unwrap();
    create(&volume, "b").unwrap();
    assert_eq!(errno(create(&volume, "c")), EDQUOT);
    let own = volume.as_user(Credentials::new(USER, USER));
    assert_eq!(errno(own.create_file("/home/c")), EDQUOT);
    assert_eq!(quota(&volume, QuotaType::User, USER).inodes.used, 2);
    // Other users, and user 0, have no limit.
    volume.write("/home/root", b"text").unwrap();
    volume.remove_file("/home/a").unwrap();
    create(&volume, "c").unwrap();
}

#[test]
fn project_past_its_limit_is_enospc() {
    let volume = volume();
    volume.create_dir("/home/tree").unwrap();
    let tree = volume.lookup("/home/tree").unwrap();
    let inherit = SetAttributes::new().project_id(7).xflags(ExtendedFlags::PROJINHERIT);
    tree.set_attributes(&inherit).unwrap();
    set_hard(&volume, QuotaType::Project, 7, None, Some(2));
    volume.create_dir("/home/tree/one").unwrap();
    assert_eq!(errno(volume.create_dir("/home/tree/two")), ENOSPC);
    let space = tree.space().unwrap();
    assert_eq!((space.files, space.free_files()), (2, 0));
    assert_eq!(space.total_blocks, volume.space().unwrap().total_blocks);
    // A link from outside is refused for its project, also where the project has no space left.
    volume.write("/home/outside", b"text").unwrap();
    assert_eq!(errno(volume.hard_link("/home/outside", "/home/tree/link")), EXDEV);
    set_hard(&volume, QuotaType::Project, 7, Some(1), None);
    assert_eq!(errno(volume.hard_link("/home/outside", "/home/tree/link")), EXDEV);
    let space = tree.space().unwrap();
    assert_eq!((space.total_blocks, space.available_blocks), (1, 1));
    assert_eq!(volume.root().unwrap().space().unwrap(), volume.space().unwrap());
}

#[test]
fn blocks_past_the_hard_limit_are_refused_and_freed_blocks_can_be_used_again() {
    let volume = volume();
    set_hard(&volume, QuotaType::User, USER, Some(200), None);
    let file = create(&volume, "file").unwrap().open().unwrap();
    let all = RangeMode::Allocate(AllocateMode::KeepSize);
    assert_eq!(errno(file.change_range(0..201 * 4096, all)), EDQUOT);
    assert_eq!(quota(&volume, QuotaType::User, USER).blocks.used, 0);
    file.change_range(0..150 * 4096, all).unwrap();
    let more = file.write_at(&vec![1; 100 * 4096], 150 * 4096);
    assert_eq!(errno(more), EDQUOT);
    file.sync_all().unwrap();
    let used = quota(&volume, QuotaType::User, USER).blocks.used;
    assert!((150..=200).contains(&used), "{used}");
    // As in the kernel, an allocation needs room for blocks of the map too, and an empty file
    // reserves blocks.
    assert_eq!(errno(file.change_range(150 * 4096..200 * 4096, all)), EDQUOT);
    file.change_range(150 * 4096..190 * 4096, all).unwrap();
    assert_eq!(errno(create(&volume, "empty")), EDQUOT);
    file.set_len(0).unwrap();
    drop(file);
    volume.remove_file("/home/file").unwrap();
    volume.sync().unwrap();
    create(&volume, "empty").unwrap();
}

#[test]
fn buffered_bytes_are_refused_by_the_write_and_not_by_the_sync() {
    let volume = volume();
    set_hard(&volume, QuotaType::Group, USER, Some(120), None);
    let file = create(&volume, "file").unwrap().open().unwrap();
    let mut accepted = 0;
    let refused = loop {
        match file.write_at(&[7; 3000], accepted) {
            Ok(count) => accepted += count as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.errno(), EDQUOT);
    file.sync_all().unwrap();
    assert_eq!(file.metadata().size, accepted);
    let used = quota(&volume, QuotaType::Group, USER).blocks.used;
    assert!(used <= 120, "{used}");
    assert!(accepted >= 100 * 4096, "{accepted} of 491520 bytes were accepted");
}

#[test]
fn soft_limit_is_refused_once_its_timer_has_ended() {
    let volume = volume();
    let soft = Limit::new().soft(1);
    let limits = Limits::new().inodes(soft);
    volume.quota().set(QuotaType::User, USER, &limits).unwrap();
    create(&volume, "a").unwrap();
    assert_eq!(quota(&volume, QuotaType::User, USER).inodes.timer, 0);
    create(&volume, "b").unwrap();
    assert_ne!(quota(&volume, QuotaType::User, USER).inodes.timer, 0);
    create(&volume, "c").unwrap();
    let ended = Limits::new().inodes(soft.timer(4));
    volume.quota().set(QuotaType::User, USER, &ended).unwrap();
    assert_eq!(errno(create(&volume, "d")), EDQUOT);
    volume.remove_file("/home/b").unwrap();
    volume.remove_file("/home/c").unwrap();
    assert_eq!(quota(&volume, QuotaType::User, USER).inodes.timer, 0);
    create(&volume, "d").unwrap();
}

#[test]
fn default_limit_holds_and_is_copied_by_the_first_charge() {
    let volume = volume();
    set_hard(&volume, QuotaType::User, 0, None, Some(2));
    create(&volume, "a").unwrap();
    assert_eq!(quota(&volume, QuotaType::User, USER).inodes.hard, 2);
    create(&volume, "b").unwrap();
    assert_eq!(errno(create(&volume, "c")), EDQUOT);
}

#[test]
fn group_given_by_its_owner_counts_the_limit_and_by_root_does_not() {
    let volume = volume();
    let node = create(&volume, "file").unwrap();
    set_hard(&volume, QuotaType::Group, 500, None, Some(1));
    let other = CreateOptions::new(0o644).gid(500);
    volume.lookup("/home").unwrap().create("other", &NewKind::Regular, &other).unwrap();
    let own = volume.as_user(Credentials::new(USER, USER).groups([500]));
    let change = SetAttributes::new().gid(500);
    assert_eq!(errno(own.lookup("/home/file").unwrap().set_attributes(&change)), EDQUOT);
    assert_eq!(quota(&volume, QuotaType::Group, 500).inodes.used, 1);
    node.set_attributes(&change).unwrap();
    assert_eq!(quota(&volume, QuotaType::Group, 500).inodes.used, 2);
    let group = volume.quota().get(QuotaType::Group, USER).unwrap();
    assert_eq!(group.map_or(0, |group| group.inodes.used), 0);
}

#[test]
fn limits_are_not_enforced_without_the_option() {
    let device = make_sized(64 << 20, "-l size=8m");
    let options = OpenOptions::new().write(true).quota(QuotaOptions::all(QuotaMode::NoEnforce));
    let volume = options.open_device(Arc::clone(&device)).unwrap();
    volume.create_dir("/home").unwrap();
    set_hard(&volume, QuotaType::User, USER, None, Some(1));
    create(&volume, "a").unwrap();
    create(&volume, "b").unwrap();
    assert_eq!(quota(&volume, QuotaType::User, USER).inodes.used, 2);
}

/// Number of bytes to write to a growing file so that it gets preallocated blocks past its end.
const GROWN_BYTES: u64 = 13 << 18;

/// Writes [`GROWN_BYTES`] bytes to a file from byte `start` on, in pieces that continue each other,
/// so that the file gets preallocated blocks. Then sets the hard limit of blocks to the usage.
fn grow_to_limit(volume: &Volume, file: &File, start: u64) {
    let piece = vec![1; 64 << 10];
    for at in (0..GROWN_BYTES).step_by(piece.len()) {
        file.write_at(&piece, start + at).unwrap();
    }
    file.sync_data().unwrap();
    let used = quota(volume, QuotaType::User, USER).blocks.used;
    assert!(used > GROWN_BYTES / 4096 + 16, "{used} blocks are in use, so few are preallocated");
    set_hard(volume, QuotaType::User, USER, Some(used), None);
}

#[test]
fn preallocation_of_another_file_is_freed_before_a_write_is_refused() {
    let volume = volume();
    let [first, second] = ["a", "b"].map(|name| create(&volume, name).unwrap().open().unwrap());
    grow_to_limit(&volume, &first, 0);
    second.write_at(&[2; 8 * 4096], 0).unwrap();
    second.sync_all().unwrap();
    assert_eq!(quota(&volume, QuotaType::User, USER).blocks.used, GROWN_BYTES / 4096 + 8);
}

#[test]
fn preallocation_of_the_file_itself_is_freed_before_a_write_is_refused() {
    let volume = volume();
    let file = create(&volume, "file").unwrap().open().unwrap();
    // The hole before the contents gets blocks at the limit.
    grow_to_limit(&volume, &file, 64 * 4096);
    file.write_at(&[2; 8 * 4096], 0).unwrap();
    file.sync_all().unwrap();
    assert_eq!(quota(&volume, QuotaType::User, USER).blocks.used, GROWN_BYTES / 4096 + 8);
}
