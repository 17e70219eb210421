//! ferroxfs's view of a volume, in the form of the kernel's view.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use ferroxfs::{Error, FileType, Metadata, Node, Result, Timestamp, Volume};
use xfs_format::inode::ForkKind;
use xfs_oracle::{
    Contents, DirectoryEntry, ExtentFlags, FileExtent, FileFlags, OpenAttributes, Time, Tree,
};

/// Walks a volume from its root, and returns all of its inodes.
pub(crate) fn walk(volume: &Volume) -> Result<Tree> {
    let root = volume.root()?;
    let number = root.number().0;
    let mut tree = Tree { root: number, ..Tree::default() };
    tree.nodes.insert(number, node(&root, Vec::new())?);
    let mut folders = vec![(root, Vec::new())];
    while let Some((folder, path)) = folders.pop() {
        let mut entries = BTreeMap::new();
        for entry in folder.entries()? {
            let entry = entry?;
            let name = entry.name().as_bytes().to_vec();
            let kind = entry.file_type().map_or(rustix::fs::FileType::Unknown, file_type);
            entries.insert(name.clone(), DirectoryEntry { inode: entry.number().0, kind });
            let path = if path.is_empty() { name } else { [&path, name.as_slice()].join(&b'/') };
            let child = visit(&mut tree, &entry.node()?, &path)?;
            if let Some(folder) = child {
                folders.push((folder, path));
            }
        }
        if let Some(node) = tree.nodes.get_mut(&folder.number().0) {
            node.entries = entries;
        }
    }
    for node in tree.nodes.values_mut() {
        node.paths.sort();
    }
    Ok(tree)
}

/// Adds the inode of `child` to `tree` with the path `path`, or adds the path if the tree has the
/// inode already. Returns `child` if it is a directory, and `None` otherwise.
fn visit(tree: &mut Tree, child: &Node, path: &[u8]) -> Result<Option<Node>> {
    match tree.nodes.get_mut(&child.number().0) {
        Some(known) => known.paths.push(path.to_vec()),
        None => drop(tree.nodes.insert(child.number().0, node(child, path.to_vec())?)),
    }
    Ok((child.file_type() == FileType::Directory).then(|| child.clone()))
}

fn node(node: &Node, path: Vec<u8>) -> Result<xfs_oracle::InodeView> {
    let metadata = node.metadata();
    let is_open = metadata.is_file() || metadata.is_dir();
    Ok(xfs_oracle::InodeView {
        paths: vec![path],
        mode: metadata.mode.into(),
        links: metadata.nlink,
        uid: metadata.uid,
        gid: metadata.gid,
        size: metadata.size,
        blocks: metadata.blocks,
        accessed: time(metadata.accessed),
        modified: time(metadata.modified),
        changed: time(metadata.changed),
        born: time(metadata.created),
        device: metadata.device.map_or((0, 0), |device| (device.major, device.minor)),
        opened: if is_open { Some(opened(node, &metadata)?) } else { None },
        contents: if metadata.is_file() { Some(contents(node)?) } else { None },
        entries: BTreeMap::new(),
        attributes: attributes(node)?,
        target: match metadata.file_type {
            FileType::Symlink => Some(node.read_link()?.into_vec()),
            _ => None,
        },
    })
}

fn opened(node: &Node, metadata: &Metadata) -> Result<OpenAttributes> {
    Ok(OpenAttributes {
        flags: FileFlags::from_bits_retain(metadata.xflags.bits()),
        project_id: metadata.project_id,
        extent_size: metadata.extent_size_hint_bytes as u32,
        cow_extent_size: metadata.cow_extent_size_hint_bytes as u32,
        extent_count: match metadata.extents {
            // For a short-form directory the kernel returns the byte count divided by the size of
            // an extent in its memory.
            0 if metadata.is_dir() => (metadata.size / 16) as u32,
            count => count as u32,
        },
        // The kernel only maps regular files.
        extents: if metadata.is_file() { extents(node, ForkKind::Data)? } else { Vec::new() },
        attribute_extents: if metadata.is_file() {
            extents(node, ForkKind::Attr)?
        } else {
            Vec::new()
        },
    })
}

fn extents(node: &Node, fork: ForkKind) -> Result<Vec<FileExtent>> {
    let describe = |extent: Result<ferroxfs::contents::FileExtent>| {
        let extent = extent?;
        let mut flags = ExtentFlags::empty();
        flags.set(ExtentFlags::UNWRITTEN, extent.unwritten);
        flags.set(ExtentFlags::SHARED, extent.shared);
        Ok(FileExtent {
            offset: extent.offset_bytes,
            address: extent.device_offset_bytes,
            length: extent.length_bytes,
            flags,
        })
    };
    node.extents(fork).map(describe).collect()
}

fn contents(node: &Node) -> Result<Contents> {
    let file = node.open()?;
    let size = file.metadata().size;
    let mut contents = Contents::default();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while let Some(start) = file.seek_data(at)?.filter(|_| at < size) {
        let end = file.seek_hole(start)?.unwrap_or(size).min(size);
        match contents.ranges.last_mut() {
            Some((offset, length)) if *offset + *length == start => *length += end - start,
            _ => contents.ranges.push((start, end - start)),
        }
        at = start;
        while at < end {
            let wanted = (end - at).min(buffer.len() as u64) as usize;
            let part = buffer.get_mut(..wanted).unwrap_or_default();
            let read = file.read_at(part, at)?;
            assert_ne!(read, 0, "a read within the file returned no bytes");
            contents.update(at, part.get(..read).unwrap_or_default());
            at += read as u64;
        }
    }
    Ok(contents)
}

fn attributes(node: &Node) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let value = |attribute: Result<ferroxfs::attr::Attribute>| {
        let name = attribute?.name;
        let value = node.attribute(&name)?;
        Ok::<_, Error>((name.into_vec(), value))
    };
    node.attributes().into_iter().map(value).collect()
}

fn time(time: Timestamp) -> Time {
    Time { seconds: time.seconds(), nanoseconds: time.nanoseconds() }
}

fn file_type(kind: FileType) -> rustix::fs::FileType {
    match kind {
        FileType::Fifo => rustix::fs::FileType::Fifo,
        FileType::CharDevice => rustix::fs::FileType::CharacterDevice,
        FileType::Directory => rustix::fs::FileType::Directory,
        FileType::BlockDevice => rustix::fs::FileType::BlockDevice,
        FileType::Regular => rustix::fs::FileType::RegularFile,
        FileType::Symlink => rustix::fs::FileType::Symlink,
        FileType::Socket => rustix::fs::FileType::Socket,
    }
}

/// Returns a name from the kernel's tree as the string that programs pass to calls.
pub(crate) fn name(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}
