//! Comparison of a directory tree of the host with one of an image.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use ferroxfs::{FileType, Node};

/// Times from this number of seconds since 1970 up to twice this number are not compared, because
/// the test run itself may have set such times. Later times come from an archive and are compared.
const NOW_SECONDS: i64 = 1_690_000_000;

/// A file with the properties that are compared, from the host or from an image.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, u32),
    contents: Vec<u8>,
    target: Vec<u8>,
    device: (u32, u32),
    inode: u64,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The files of a tree by their paths, without the top directory.
pub(super) type Tree = BTreeMap<Vec<u8>, Entry>;

/// A difference between an image and the host: the path, the property, and both values.
pub(super) type Difference = (Vec<u8>, &'static str, String);

/// Returns whether the attribute `name` is compared. It is compared if files of the host and of an
/// image can both have it.
fn is_compared(name: &[u8]) -> bool {
    let spaces = [b"user.".as_slice(), b"trusted.", b"security.", b"system.posix_acl_"];
    spaces.iter().any(|space| name.starts_with(space)) && !name.starts_with(b"trusted.SGI_ACL")
}

pub(super) fn of_host(top: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut open = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let directory = top.join(OsStr::from_bytes(&path));
        for entry in fs::read_dir(&directory).unwrap() {
            let name = entry.unwrap().file_name().into_vec();
            let below = if path.is_empty() { name } else { [&path[..], &name].join(&b'/') };
            let file = host_entry(&top.join(OsStr::from_bytes(&below)));
            if file.kind == "directory" {
                open.push(below.clone());
            }
            tree.insert(below, file);
        }
    }
    tree
}

fn host_entry(path: &Path) -> Entry {
    let metadata = fs::symlink_metadata(path).unwrap();
    let kind = metadata.file_type();
    let kind = match () {
        () if kind.is_dir() => "directory",
        () if kind.is_symlink() => "link",
        () if kind.is_fifo() => "fifo",
        () if kind.is_char_device() => "character",
        () if kind.is_block_device() => "block",
        () => "file",
    };
    let device = metadata.rdev();
    Entry {
        kind,
        mode: metadata.mode() & 0o7777,
        owner: (metadata.uid(), metadata.gid()),
        modified: (metadata.mtime(), metadata.mtime_nsec() as u32),
        contents: if kind == "file" { fs::read(path).unwrap() } else { Vec::new() },
        target: match kind {
            "link" => fs::read_link(path).unwrap().into_os_string().into_vec(),
            _ => Vec::new(),
        },
        device: (rustix::fs::major(device), rustix::fs::minor(device)),
        inode: metadata.ino(),
        attributes: host_attributes(path),
    }
}

fn host_attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0_u8; 16 << 10];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0).filter(|name| is_compared(name));
    let value = |name: &[u8]| {
        let mut value = vec![0_u8; 64 << 10];
        let read =
            rustix::fs::lgetxattr(path, CString::new(name).unwrap(), &mut value[..]).unwrap();
        value.truncate(read);
        (name.to_vec(), value)
    };
    names.map(value).collect()
}

pub(super) fn of_image(top: &Node) -> Tree {
    let mut tree = Tree::new();
    let mut open = vec![(Vec::new(), top.clone())];
    while let Some((path, directory)) = open.pop() {
        for entry in directory.entries().unwrap() {
            let entry = entry.unwrap();
            let name = entry.name().as_bytes().to_vec();
            if name == b"." || name == b".." {
                continue;
            }
            let below = if path.is_empty() { name } else { [&path[..], &name].join(&b'/') };
            let node = entry.node().unwrap();
            tree.insert(below.clone(), image_entry(&node));
            if node.file_type() == FileType::Directory {
                open.push((below, node));
            }
        }
    }
    tree
}

fn image_entry(node: &Node) -> Entry {
    let metadata = node.metadata();
    let kind = match node.file_type() {
        FileType::Directory => "directory",
        FileType::Symlink => "link",
        FileType::Fifo => "fifo",
        FileType::CharDevice => "character",
        FileType::BlockDevice => "block",
        _ => "file",
    };
    let mut contents = vec![0; metadata.size as usize];
    if kind == "file" {
        let file = node.open_read_only().unwrap();
        let mut read = 0;
        while read < contents.len() {
            read += file.read_at(&mut contents[read..], read as u64).unwrap();
        }
    } else {
        contents.clear();
    }
    let attributes = node.attributes().into_iter().map(Result::unwrap);
    let attributes = attributes.filter(|attribute| is_compared(attribute.name.as_bytes()));
    let with_value = |attribute: ferroxfs::attr::Attribute| {
        let value = node.attribute(&attribute.name).unwrap();
        (attribute.name.into_vec(), value)
    };
    Entry {
        kind,
        mode: u32::from(metadata.mode) & 0o7777,
        owner: (metadata.uid, metadata.gid),
        modified: (metadata.modified.seconds(), metadata.modified.nanoseconds()),
        contents,
        target: match kind {
            "link" => node.read_link().unwrap().into_vec(),
            _ => Vec::new(),
        },
        device: metadata.device.map_or((0, 0), |device| (device.major, device.minor)),
        inode: metadata.number.0,
        attributes: attributes.map(with_value).collect(),
    }
}

/// Returns for each path the first path of the same inode. So two paths are hard links to one file
/// if they have the same first path.
fn groups(tree: &Tree) -> HashMap<u64, &[u8]> {
    let mut groups = HashMap::new();
    for (path, entry) in tree {
        groups.entry(entry.inode).or_insert(path.as_slice());
    }
    groups
}

/// Returns the differences between a tree of an image and the same tree on the host.
pub(super) fn differences(image: &Tree, host: &Tree) -> Vec<Difference> {
    let mut found = Vec::new();
    let (image_groups, host_groups) = (groups(image), groups(host));
    let paths: BTreeSet<_> = image.keys().chain(host.keys()).collect();
    for path in paths {
        let (ours, theirs) = match (image.get(path), host.get(path)) {
            (Some(ours), Some(theirs)) => (ours, theirs),
            (Some(_), None) => {
                found.push((path.clone(), "extra", String::new()));
                continue;
            }
            _ => {
                found.push((path.clone(), "missing", String::new()));
                continue;
            }
        };
        if ours.kind != theirs.kind {
            found.push((path.clone(), "kind", format!("{} for {}", ours.kind, theirs.kind)));
            continue;
        }
        let time = |(seconds, nanoseconds)| match (NOW_SECONDS..2 * NOW_SECONDS).contains(&seconds)
        {
            true => None,
            false => Some((seconds, nanoseconds)),
        };
        let (our_time, their_time) = (time(ours.modified), time(theirs.modified));
        let names = (image_groups.get(&ours.inode), host_groups.get(&theirs.inode));
        let mut compare = |aspect, is_same: bool, text: String| {
            if !is_same {
                found.push((path.clone(), aspect, text));
            }
        };
        let modes = format!("{:o} for {:o}", ours.mode, theirs.mode);
        compare("mode", ours.mode == theirs.mode, modes);
        compare(
            "owner",
            ours.owner == theirs.owner,
            format!("{:?} for {:?}", ours.owner, theirs.owner),
        );
        compare("time", our_time == their_time, format!("{our_time:?} for {their_time:?}"));
        let lengths = format!("{} bytes for {}", ours.contents.len(), theirs.contents.len());
        compare("contents", ours.contents == theirs.contents, lengths);
        compare("target", ours.target == theirs.target, String::new());
        let is_device = matches!(ours.kind, "character" | "block");
        let devices = format!("{:?} for {:?}", ours.device, theirs.device);
        compare("device", !is_device || ours.device == theirs.device, devices);
        compare("names", names.0 == names.1, format!("{names:?}"));
        let attributes = format!("{:?} for {:?}", ours.attributes, theirs.attributes);
        compare("attributes", ours.attributes == theirs.attributes, attributes);
    }
    found
}
