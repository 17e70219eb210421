//! Salvages a volume, and keeps everything that the salvage delivers, so that tests can compare it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use xfs_device::BlockDevice;
use xfs_evidence::find_superblock;
use xfs_format::inode::FileType;
use xfs_salvage::{FileReport, NameId, Node, NodeEntries, Salvage, SalvageOptions, Totals};

/// The length of one read of the tests, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A copied file: its type and size, a hash of its data and the offsets of the data (for a link, of
/// its target), and the number of its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) mode: u16,
    pub(crate) size: u64,
    pub(crate) hash: u64,
    pub(crate) attributes: usize,
}

/// All files and reports that the salvage of one volume has delivered.
#[derive(Default)]
pub(crate) struct Delivered {
    pub(crate) files: BTreeMap<String, Copied>,
    pub(crate) reports: BTreeMap<String, FileReport>,
    pub(crate) totals: Totals,
    pub(crate) notes: Vec<String>,
}

/// Salvages the volume on `device`. The volume is found by its superblock or by a copy of the
/// superblock.
pub(crate) fn salvage(device: &dyn BlockDevice, options: SalvageOptions) -> Delivered {
    let superblock = find_superblock(device).unwrap().unwrap().superblock;
    let salvage = Salvage::survey(device, &superblock, options, &()).unwrap();
    let reports: Rc<RefCell<BTreeMap<String, FileReport>>> = Rc::default();
    let kept = Rc::clone(&reports);
    salvage.report_to(move |report| {
        let path = String::from_utf8_lossy(&report.path).into_owned();
        kept.borrow_mut().insert(path, report.clone());
    });
    let files = walk(&salvage);
    let (totals, notes) = (salvage.totals(), salvage.notes().to_vec());
    drop(salvage);
    let reports = reports.borrow().clone();
    Delivered { files, reports, totals, notes }
}

/// Reads the names of a volume into memory. Returns mode and size of the file at each path. Checks
/// that looking up each path finds the same name.
pub(crate) fn named(device: &dyn BlockDevice) -> BTreeMap<String, (u16, u64)> {
    let superblock = find_superblock(device).unwrap().unwrap().superblock;
    let options = SalvageOptions::default();
    let salvage = Salvage::survey(device, &superblock, options, &()).unwrap();
    let tree = salvage.name_tree(&()).unwrap();
    assert_eq!(tree.dropped(), 0);
    let reported = salvage.totals();
    let mut files = BTreeMap::new();
    for id in (1..tree.count()).filter_map(NameId::of_index) {
        let path = tree.path(id);
        // A hostile volume has names that no path can hold.
        let is_plain = |name: &[u8]| !name.contains(&b'/') && name != b"." && name != b"..";
        let ids = std::iter::successors(Some(id), |id| Some(tree.parent(*id)));
        if ids.take_while(|id| *id != NameId::TOP).all(|id| is_plain(tree.name(id))) {
            assert_eq!(tree.find(&path), Some(id));
        }
        assert_eq!(tree.child(tree.parent(id), tree.name(id)), Some(id));
        let facts = tree.node(&salvage, id).facts();
        let path = String::from_utf8_lossy(&path[1..]).into_owned();
        files.insert(path, (facts.mode, facts.size));
    }
    // A file that is read again is not reported again.
    assert_eq!(salvage.totals(), reported);
    files
}

/// Walks the tree depth first and copies every file.
fn walk(salvage: &Salvage<'_>) -> BTreeMap<String, Copied> {
    let mut files = BTreeMap::new();
    let top = salvage.top();
    let entries = top.entries();
    let mut open: Vec<(Node<'_>, NodeEntries<'_>)> = vec![(top, entries)];
    while let Some((directory, entries)) = open.last_mut() {
        let Some((_, node)) = entries.next() else {
            directory.set_copied();
            open.pop();
            continue;
        };
        files.insert(String::from_utf8_lossy(&node.path()).into_owned(), copy(&node));
        if FileType::from_mode(node.facts().mode) == Some(FileType::Directory) {
            let entries = node.entries();
            open.push((node, entries));
        } else {
            node.set_copied();
        }
    }
    files
}

fn copy(node: &Node<'_>) -> Copied {
    let facts = node.facts();
    let mut hasher = DefaultHasher::new();
    let mut offset = 0;
    let mut buffer = vec![0; READ_BYTES];
    while let Some(range) = node.data_after(offset) {
        offset = range.start;
        while offset < range.end {
            let left = usize::try_from(range.end - offset).unwrap().min(READ_BYTES);
            let count = node.read_at(&mut buffer[..left], offset);
            assert_eq!(count, left, "a range of data is read to its end");
            // Blocks of zeros count as holes, so that an unwritten extent equals a hole.
            for (index, block) in (0_u64..).zip(buffer[..left].chunks(1024)) {
                if block.iter().any(|byte| *byte != 0) {
                    (offset + index * 1024, block).hash(&mut hasher);
                }
            }
            offset += left as u64;
        }
    }
    if FileType::from_mode(facts.mode) == Some(FileType::Symlink) {
        node.target().hash(&mut hasher);
    }
    // A file with hundreds of names has as many parent pointers, which are read for each name.
    let attributes = if facts.links < 50 { node.attributes().len() } else { 0 };
    Copied { mode: facts.mode, size: facts.size, hash: hasher.finish(), attributes }
}
