//! Compares a model with a volume.

use std::collections::BTreeMap;

use super::{Body, Model, Node, NodeId, Stamp};
use crate::compare::Differences;
use crate::ioctl::FileFlags;
use crate::view::{self, Time, Tree};

/// A flag that the kernel shows for every inode that has an attribute fork.
const HAS_ATTRIBUTES: FileFlags = FileFlags::from_bits_retain(0x8000_0000);

/// The part of a volume that is compared.
#[derive(Clone, Copy)]
enum ComparedPart {
    Everything {
        /// The earliest time that an operation may have taken from the clock.
        since: Time,
    },
    /// Only names and attributes are compared. Contents and times are not, because after a crash
    /// they may be older than the names.
    Names,
}

impl Model {
    /// Returns the differences between a volume and this model. `folder` is the path in the tree
    /// that corresponds to the model's root. `since` is the earliest time that an operation may
    /// have taken from the clock.
    pub fn differences(&self, tree: &Tree, folder: &str, since: Time) -> Differences {
        self.compare(tree, folder, ComparedPart::Everything { since })
    }

    /// Returns the differences between a volume and this model in names and attributes. Contents
    /// and times are not compared.
    pub fn differences_of_names(&self, tree: &Tree) -> Differences {
        self.compare(tree, "", ComparedPart::Names)
    }

    fn compare(&self, tree: &Tree, folder: &str, part: ComparedPart) -> Differences {
        let mut differences = Differences::of(["model", "volume"]);
        let mut shown = BTreeMap::new();
        for (number, node) in &tree.nodes {
            for path in &node.paths {
                if let Some(path) = below(path, folder.as_bytes()) {
                    shown.insert(path, *number);
                }
            }
        }
        let mut numbers: BTreeMap<NodeId, u64> = BTreeMap::new();
        let paths = self.paths();
        for (path, id) in &paths {
            let place = format!("/{path}");
            let Some(number) = shown.remove(path.as_bytes()) else {
                differences.add(format!("{place}: only the model has it"));
                continue;
            };
            if let Some(before) = numbers.insert(*id, number) {
                differences.field(&place, "inode", &before, &number);
                continue;
            }
            let (Ok(node), Some(found)) = (self.node(*id), tree.nodes.get(&number)) else {
                continue;
            };
            compare_names(node, found, &place, &mut differences);
            if let ComparedPart::Everything { since } = part {
                compare_contents(
                    node,
                    found,
                    NodeOrigin { place: &place, since },
                    &mut differences,
                );
            }
        }
        for path in shown.keys() {
            differences.add(format!("/{}: the model does not have it", path.escape_ascii()));
        }
        differences
    }
}

/// Returns a path relative to a folder, or `None` if the path is outside the folder.
fn below<'a>(path: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(folder)?;
    match rest.first() {
        _ if folder.is_empty() => Some(rest),
        None => Some(rest),
        Some(b'/') => rest.get(1..),
        Some(_) => None,
    }
}

fn compare_names(node: &Node, found: &view::InodeView, place: &str, differences: &mut Differences) {
    if place != "/" {
        differences.field(place, "mode", &node.mode, &found.mode);
        differences.field(place, "links", &node.links, &found.links);
    }
    differences.field(place, "owner", &(node.uid, node.gid), &(found.uid, found.gid));
    differences.field(place, "device", &node.device, &found.device);
    if let Some(opened) = &found.opened {
        let settings = node.settings;
        let flags = opened.flags - HAS_ATTRIBUTES - FileFlags::PREALLOCATED;
        let expected = settings.flags - FileFlags::PREALLOCATED;
        differences.field(place, "flags", &expected, &flags);
        differences.field(place, "project", &settings.project_id, &opened.project_id);
        differences.field(place, "extent size", &settings.extent_size, &opened.extent_size);
        let cow_extent_size = opened.cow_extent_size;
        differences.field(place, "cow extent size", &settings.cow_extent_size, &cow_extent_size);
    }
    let attributes = node.attributes.iter().map(|(name, value)| (name.as_bytes(), &***value));
    let shown = found.attributes.iter().map(|(name, value)| (&**name, &**value));
    // mkfs.xfs stores properties of the volume at its root.
    let is_property = |name: &[u8]| place == "/" && name.starts_with(b"trusted.xfs:");
    let shown = shown.filter(|(name, _)| !is_property(name));
    if !attributes.clone().eq(shown.clone()) {
        let sizes = |(name, value): (&[u8], &[u8])| {
            format!("{} ({} bytes)", name.escape_ascii(), value.len())
        };
        let ours: Vec<_> = attributes.map(sizes).collect();
        let theirs: Vec<_> = shown.map(sizes).collect();
        differences.add(format!("{place}: attributes: model {ours:?}, volume {theirs:?}"));
    }
    if let Body::Symlink(target) = &node.body {
        differences.field(place, "target", &Some(target.clone()), &found.target);
    }
}

/// The path of the compared node, and the earliest time that an operation on it may have taken from
/// the clock.
#[derive(Clone, Copy)]
struct NodeOrigin<'a> {
    place: &'a str,
    since: Time,
}

fn compare_contents(
    node: &Node,
    found: &view::InodeView,
    origin: NodeOrigin<'_>,
    differences: &mut Differences,
) {
    let NodeOrigin { place, since } = origin;
    compare_time("access", node.accessed, found.accessed, origin, differences);
    compare_time("modification", node.modified, found.modified, origin, differences);
    if found.changed < since {
        differences.add(format!("{place}: changed at {:?}, before its creation", found.changed));
    }
    if let Some(opened) = &found.opened {
        let flag = FileFlags::PREALLOCATED;
        let (expected, found) = (node.settings.flags & flag, opened.flags & flag);
        differences.field(place, "preallocated", &expected, &found);
    }
    if let Body::File(bytes) = &node.body {
        differences.field(place, "size", &bytes.size(), &found.size);
        let sparse = found.contents.as_ref().map(|contents| contents.sparse);
        let sparse = sparse.unwrap_or_default();
        differences.field(place, "contents", &bytes.digest(), &sparse);
    }
}

fn compare_time(
    name: &str,
    stamp: Stamp,
    found: Time,
    NodeOrigin { place, since }: NodeOrigin<'_>,
    differences: &mut Differences,
) {
    match stamp {
        Stamp::Set(time) => differences.field(place, name, &time, &found),
        Stamp::Clock if found < since => {
            differences.add(format!("{place}: {name}: {found:?} is before {since:?}"));
        }
        Stamp::Clock | Stamp::Unknown => {}
    }
}
