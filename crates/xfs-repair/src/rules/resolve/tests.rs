//! Tests with directory entries and parent pointers that contradict each other: which tree of names
//! the rule chooses.

use std::collections::BTreeSet;

use xfs_format::directory::EntryType;
use xfs_format::{InodeNumber, Lsn};

use super::super::facts::{Facts, Member, Name, Pointer, Slot};
use super::lost_found::LOST_AND_FOUND;
use super::{Tree, resolve};

const ROOT: u64 = 128;
/// The generation that every directory in these tests has.
const GENERATION: u32 = 7;

/// A volume with the root directory, the directory 131 "sub", and the files 140 "a" in the root and
/// 141 "b" in 131. Each test changes some entries, parent pointers or inodes.
struct Case(Facts);

impl Case {
    fn new() -> Self {
        let mut facts = Facts {
            root: InodeNumber(ROOT),
            has_parents: true,
            has_all_inodes: true,
            allows_loss: true,
            spare: Some((InodeNumber(190), 3)),
            ..Facts::default()
        };
        let directory = |dotdot: u64| Member {
            entry_type: EntryType::Directory,
            generation: GENERATION,
            links: 2,
            has_all_names: true,
            has_all_entries: true,
            has_all_pointers: true,
            dotdot: Some(InodeNumber(dotdot)),
            has_other_contents: false,
            is_metadata: false,
            metadata_path: None,
            lsn: None,
            names_lsn: None,
        };
        let file = Member {
            entry_type: EntryType::Regular,
            generation: 1,
            links: 1,
            has_all_names: true,
            has_all_entries: true,
            has_all_pointers: true,
            dotdot: None,
            has_other_contents: false,
            is_metadata: false,
            metadata_path: None,
            lsn: None,
            names_lsn: None,
        };
        facts.members.insert(InodeNumber(ROOT), directory(ROOT));
        facts.members.insert(InodeNumber(131), directory(ROOT));
        facts.members.insert(InodeNumber(140), file.clone());
        facts.members.insert(InodeNumber(141), file);
        let mut case = Self(facts);
        for (directory, name, child) in [(ROOT, "sub", 131), (ROOT, "a", 140), (131, "b", 141)] {
            case.name(directory, name, child);
            case.pointer(directory, name, child);
        }
        case
    }

    fn name(&mut self, directory: u64, name: &str, child: u64) -> &mut Name {
        let of_directory = self.0.names.iter().filter(|name| name.directory.0 == directory);
        let position = of_directory.count();
        let is_directory = [ROOT, 131].contains(&child);
        self.0.names.push(Name {
            directory: InodeNumber(directory),
            name: name.as_bytes().into(),
            child: InodeNumber(child),
            entry_type: if is_directory { EntryType::Directory } else { EntryType::Regular },
            position,
            is_sound: true,
            lsn: None,
        });
        self.0.names.last_mut().unwrap()
    }

    fn pointer(&mut self, directory: u64, name: &str, child: u64) -> &mut Pointer {
        self.0.pointers.push(Pointer {
            child: InodeNumber(child),
            directory: InodeNumber(directory),
            generation: GENERATION,
            name: name.as_bytes().into(),
            is_sound: true,
        });
        self.0.pointers.last_mut().unwrap()
    }

    fn member(&mut self, inode: u64) -> &mut Member {
        self.0.members.get_mut(&InodeNumber(inode)).unwrap()
    }

    fn drop_name(&mut self, name: &str) {
        self.0.names.retain(|old| &*old.name != name.as_bytes());
    }

    fn drop_pointer(&mut self, name: &str) {
        self.0.pointers.retain(|old| &*old.name != name.as_bytes());
    }

    /// Removes an inode, its directory entries and its parent pointers from the case. From then on,
    /// `slot` is the state of this inode number.
    fn drop_inode(&mut self, inode: u64, slot: Slot) {
        let inode = InodeNumber(inode);
        self.0.members.remove(&inode);
        self.0.names.retain(|name| name.directory != inode);
        self.0.pointers.retain(|pointer| pointer.child != inode);
        self.0.slots.insert(inode, slot);
    }

    /// Resolves the case and compares all links of the tree with `expected`, as a set. Resolves it
    /// again with all entries and parent pointers in reverse order, which must give the same links
    /// (I1 of `resolve`).
    fn check(&self, expected: &[(u64, &str, u64)]) -> Tree {
        let tree = resolve(&self.0);
        let found: BTreeSet<(u64, String, u64)> = tree
            .links
            .iter()
            .map(|link| {
                let name = String::from_utf8_lossy(&link.name).into_owned();
                (link.directory.0, name, link.child.0)
            })
            .collect();
        let expected: BTreeSet<(u64, String, u64)> = expected
            .iter()
            .map(|(directory, name, child)| (*directory, (*name).to_owned(), *child))
            .collect();
        assert_eq!(found, expected);
        let mut reversed = self.0.clone();
        reversed.names.reverse();
        reversed.pointers.reverse();
        assert_eq!(resolve(&reversed).links, tree.links);
        tree
    }
}

const WHOLE: [(u64, &str, u64); 3] = [(ROOT, "sub", 131), (ROOT, "a", 140), (131, "b", 141)];

#[test]
fn sound_volume_keeps_its_tree() {
    let tree = Case::new().check(&WHOLE);
    assert!(tree.dropped.is_empty() && tree.made.is_empty() && tree.rescued.is_empty());
}

#[test]
fn lost_entries_come_back_from_pointers() {
    let mut case = Case::new();
    case.drop_name("a");
    case.drop_name("sub");
    case.member(ROOT).has_all_names = false;
    case.check(&WHOLE);
}

#[test]
fn lost_pointer_keeps_the_name() {
    let mut case = Case::new();
    case.drop_pointer("b");
    case.check(&WHOLE);
}

#[test]
fn pointer_with_another_name_loses_against_a_sound_entry() {
    let mut case = Case::new();
    case.drop_pointer("a");
    case.pointer(ROOT, "x", 140);
    case.check(&WHOLE);
}

#[test]
fn entry_with_another_name_in_a_damaged_block_loses_against_the_pointer() {
    let mut case = Case::new();
    case.drop_name("a");
    case.name(ROOT, "x", 140).is_sound = false;
    case.member(ROOT).has_all_names = false;
    case.check(&WHOLE);
}

#[test]
fn entry_with_another_inode_loses_against_the_pointer() {
    let mut case = Case::new();
    case.drop_name("a");
    case.name(ROOT, "a", 141);
    case.check(&WHOLE);
}

#[test]
fn second_name_comes_back_if_the_link_count_asks_for_it() {
    let mut case = Case::new();
    case.pointer(ROOT, "hard", 141);
    case.check(&WHOLE);
    case.member(141).links = 2;
    case.check(&[WHOLE.as_slice(), &[(ROOT, "hard", 141)]].concat());
}

#[test]
fn gone_directory_is_made_again_with_the_names_of_its_children() {
    let mut case = Case::new();
    case.drop_inode(131, Slot::Gone);
    let tree = case.check(&WHOLE);
    assert_eq!(tree.made.get(&InodeNumber(131)), Some(&GENERATION));
}

#[test]
fn gone_root_is_made_again_with_the_names_of_its_children() {
    let mut case = Case::new();
    case.drop_inode(ROOT, Slot::Gone);
    let tree = case.check(&WHOLE);
    assert_eq!(tree.made.get(&InodeNumber(ROOT)), Some(&GENERATION));
    assert!(tree.rescued.is_empty());
}

/// Checks I2 of `resolve`: the name of an inode that cannot be read stays, because a later round
/// can create the inode again. The name of a free inode is dropped.
#[test]
fn name_of_a_gone_inode_stays_and_that_of_a_free_one_goes() {
    let mut case = Case::new();
    case.drop_inode(140, Slot::Gone);
    assert!(case.check(&WHOLE).dropped.is_empty());
    case.drop_inode(140, Slot::Free);
    let tree = case.check(&[(ROOT, "sub", 131), (131, "b", 141)]);
    assert!(tree.dropped.iter().any(|dropped| dropped.is_loss));
    case.0.allows_loss = false;
    case.check(&WHOLE);
}

#[test]
fn inode_without_a_name_goes_to_lost_and_found() {
    let mut case = Case::new();
    case.drop_name("a");
    case.drop_pointer("a");
    let lost = String::from_utf8_lossy(LOST_AND_FOUND);
    let tree =
        case.check(&[(ROOT, "sub", 131), (131, "b", 141), (ROOT, &lost, 190), (190, "140", 140)]);
    assert_eq!(tree.rescued, BTreeSet::from([InodeNumber(140)]));
    case.member(140).links = 0;
    case.check(&[(ROOT, "sub", 131), (131, "b", 141)]);
}

#[test]
fn ring_of_directories_is_cut() {
    let mut case = Case::new();
    let directory = case.member(131).clone();
    case.0.members.insert(InodeNumber(150), directory);
    case.drop_name("sub");
    case.drop_pointer("sub");
    case.name(131, "down", 150).entry_type = EntryType::Directory;
    case.pointer(131, "down", 150);
    case.name(150, "up", 131);
    case.member(131).dotdot = Some(InodeNumber(150));
    case.member(150).dotdot = Some(InodeNumber(131));
    let tree = case.check(&[
        (ROOT, "a", 140),
        (131, "b", 141),
        (131, "down", 150),
        (ROOT, "lost+found", 190),
        (190, "up", 131),
    ]);
    assert_eq!(tree.rescued, BTreeSet::from([InodeNumber(131)]));
}

#[test]
fn directory_with_two_names_keeps_the_witnessed_one() {
    let mut case = Case::new();
    case.name(ROOT, "again", 131);
    let tree = case.check(&WHOLE);
    assert_eq!(tree.dropped.len(), 1);
}

#[test]
fn generation_on_which_the_children_agree_is_right() {
    let mut case = Case::new();
    case.member(ROOT).generation = 99;
    let tree = case.check(&WHOLE);
    assert_eq!(tree.generations.get(&InodeNumber(ROOT)), Some(&GENERATION));
    case.member(ROOT).generation = GENERATION;
    case.member(131).generation = 99;
    // A single child decides nothing: its pointer is written again.
    assert!(case.check(&WHOLE).generations.is_empty());
}

#[test]
fn type_that_the_contents_contradict_is_that_of_the_entries() {
    let mut case = Case::new();
    case.member(140).entry_type = EntryType::Symlink;
    assert!(resolve(&case.0).types.is_empty());
    case.member(140).has_other_contents = true;
    assert_eq!(resolve(&case.0).types.get(&InodeNumber(140)), Some(&EntryType::Regular));
    let mut case = Case::new();
    case.member(131).entry_type = EntryType::Regular;
    assert_eq!(resolve(&case.0).types.get(&InodeNumber(131)), Some(&EntryType::Directory));
}

#[test]
fn entry_of_an_older_state_to_a_file_with_its_own_name_goes() {
    let mut case = Case::new();
    case.name(ROOT, "older", 141).lsn = Some(Lsn(5));
    case.member(141).lsn = Some(Lsn(6));
    case.check(&WHOLE);
    case.member(141).links = 2;
    case.check(&[WHOLE.as_slice(), &[(ROOT, "older", 141)]].concat());
}

#[test]
fn entries_that_an_inode_of_an_older_state_does_not_know_stay() {
    let mut case = Case::new();
    for name in ["second", "third"] {
        case.name(ROOT, name, 141).lsn = Some(Lsn(6));
    }
    let all = [WHOLE.as_slice(), &[(ROOT, "second", 141), (ROOT, "third", 141)]].concat();
    for lsn in [None, Some(Lsn(5)), Some(Lsn(6))] {
        case.member(141).lsn = lsn;
        case.check(&all);
    }
}

#[test]
fn pointer_of_an_older_state_to_a_removed_entry_goes() {
    let mut case = Case::new();
    case.pointer(ROOT, "removed", 141);
    case.member(141).links = 2;
    case.member(141).lsn = Some(Lsn(5));
    case.member(ROOT).names_lsn = Some(Lsn(6));
    case.check(&WHOLE);
    case.member(ROOT).names_lsn = Some(Lsn(5));
    case.check(&[WHOLE.as_slice(), &[(ROOT, "removed", 141)]].concat());
}

/// Resolves a volume without parent pointers, with an inode whose name may have been in a lost
/// directory block. Checks that the inode goes to `lost+found` only if losses are allowed.
#[test]
fn lost_entries_without_parent_pointers_hold_the_names_until_losses_are_allowed() {
    let mut case = Case::new();
    case.0.has_parents = false;
    case.0.pointers.clear();
    case.drop_name("b");
    case.member(131).has_all_names = false;
    case.member(131).has_all_entries = false;
    case.0.allows_loss = false;
    let held = resolve(&case.0);
    assert!(held.is_held && held.rescued.is_empty(), "{held:?}");
    case.0.allows_loss = true;
    let tree = resolve(&case.0);
    assert!(!tree.is_held && tree.rescued.contains(&InodeNumber(141)), "{tree:?}");
}

#[test]
fn inode_without_a_name_waits_while_another_inode_cannot_be_read() {
    let mut case = Case::new();
    case.drop_name("b");
    case.0.pointers.retain(|pointer| pointer.child.0 != 141);
    case.0.allows_loss = false;
    case.0.has_all_inodes = false;
    assert!(resolve(&case.0).is_held);
    case.0.has_all_inodes = true;
    let tree = resolve(&case.0);
    assert!(!tree.is_held && tree.rescued.contains(&InodeNumber(141)), "{tree:?}");
}

/// Adds the root of a metadata directory with its directory of realtime groups and one file.
fn with_metadata_directory() -> Case {
    let mut case = Case::new();
    case.0.metadata_root = Some(InodeNumber(129));
    for (number, is_directory) in [(129, true), (150, true), (151, false)] {
        let mut member = case.0.members[&InodeNumber(if is_directory { 131 } else { 140 })].clone();
        member.is_metadata = true;
        member.dotdot = is_directory.then_some(InodeNumber(129));
        member.metadata_path = (!is_directory).then(|| ("rtgroups", "0.rmap".to_owned()));
        case.0.members.insert(InodeNumber(number), member);
    }
    case.name(129, "rtgroups", 150);
    case
}

#[test]
fn metadata_inode_without_a_name_gets_that_of_its_fields() {
    let tree = resolve(&with_metadata_directory().0);
    assert!(tree.rescued.is_empty(), "{:?}", tree.rescued);
    let link = tree.links.iter().find(|link| link.child == InodeNumber(151)).unwrap();
    assert_eq!((link.directory, &*link.name), (InodeNumber(150), &b"0.rmap"[..]));
}

#[test]
fn name_of_a_metadata_inode_in_the_tree_of_users_is_given_up() {
    let mut case = with_metadata_directory();
    case.name(ROOT, "stray", 151);
    let tree = resolve(&case.0);
    assert!(tree.links.iter().all(|link| &*link.name != b"stray"));
    assert!(tree.links.iter().any(|link| link.child == InodeNumber(151)));
}
