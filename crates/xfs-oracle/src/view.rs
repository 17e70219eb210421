//! The kernel's view of a mounted volume: every inode with all attributes that the kernel shows.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Statx, StatxFlags, StatxTimestamp};
use rustix::io::Errno;

use crate::data_ranges::next_data_range;
use crate::digest::{Digest, SparseDigest};
use crate::error::{Context, OracleError};
use crate::ioctl::{self, FileExtent, FileFlags};

/// All inodes of a volume, by inode number.
#[derive(Debug, Default)]
pub struct Tree {
    /// Every inode that can be reached from the root.
    pub nodes: BTreeMap<u64, InodeView>,
    /// The inode number of the root.
    pub root: u64,
}

/// One inode, as the kernel shows it.
#[derive(Debug, Default)]
pub struct InodeView {
    /// The paths of the inode from the root, without a leading `/`, sorted. The root's path is
    /// empty.
    pub paths: Vec<Vec<u8>>,
    /// `st_mode`: the permissions and the file type.
    pub mode: u32,
    /// Link count.
    pub links: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// Access time.
    pub accessed: Time,
    /// Modification time.
    pub modified: Time,
    /// Change time.
    pub changed: Time,
    /// Birth time.
    pub born: Time,
    /// Major and minor number of a device.
    pub device: (u32, u32),
    /// The attributes that only regular files and directories have. `None` for other types.
    pub opened: Option<OpenAttributes>,
    /// Contents of a regular file. `None` for other types.
    pub contents: Option<Contents>,
    /// Entries of a directory without `.` and `..`, by name.
    pub entries: BTreeMap<Vec<u8>, DirectoryEntry>,
    /// The values of extended attributes, by name. A name begins with its namespace.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Target of a symbolic link. `None` for other types.
    pub target: Option<Vec<u8>>,
}

/// The attributes that the kernel shows only for an open file.
#[derive(Debug, Default)]
pub struct OpenAttributes {
    /// Flags of the file.
    pub flags: FileFlags,
    /// Project ID.
    pub project_id: u32,
    /// Extent size hint in bytes.
    pub extent_size: u32,
    /// The copy-on-write extent size hint in bytes.
    pub cow_extent_size: u32,
    /// Number of data extents.
    pub extent_count: u32,
    /// The extent map of the data fork. The kernel shows none for directories.
    pub extents: Vec<FileExtent>,
    /// The extent map of the attribute fork.
    pub attribute_extents: Vec<FileExtent>,
}

/// Contents of a regular file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Ranges that contain data, as offset and length in bytes. Adjacent ranges are merged, and the
    /// last one is cut off at the end of the file.
    pub ranges: Vec<(u64, u64)>,
    /// Digest of the bytes in all of `ranges`, in the order of the ranges.
    pub digest: Digest,
    /// A digest of the sectors that are not zero. The digest is the same whether zeros were written
    /// or the range is a hole.
    pub sparse: SparseDigest,
}

impl Contents {
    /// Adds a range of data. `offset` must be a multiple of 512.
    pub fn update(&mut self, offset: u64, bytes: &[u8]) {
        self.digest.update(bytes);
        self.sparse.update(offset, bytes);
    }
}

/// One entry of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// The number of the inode that the entry names.
    pub inode: u64,
    /// The file type of the entry, from `d_type`.
    pub kind: FileType,
}

/// A time as the kernel shows it. The nanoseconds count forward from the second, also before 1970.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds after the start of the second.
    pub nanoseconds: u32,
}

impl From<StatxTimestamp> for Time {
    fn from(time: StatxTimestamp) -> Self {
        Self { seconds: time.tv_sec, nanoseconds: time.tv_nsec }
    }
}

impl Tree {
    /// Walks a volume that is mounted at `root`. It should be mounted read-only: then everything
    /// that the kernel shows is on the device, and the walk does not change access times.
    pub fn walk(root: &Path) -> Result<Self, OracleError> {
        let mut tree = Self::default();
        let (number, node) = node(root, Vec::new())?;
        tree.root = number;
        let mut folders = vec![(root.to_path_buf(), number)];
        tree.nodes.insert(number, node);
        while let Some((folder, number)) = folders.pop() {
            let entries = entries(&folder)?;
            for (name, entry) in &entries {
                let path = folder.join(std::ffi::OsStr::from_bytes(name));
                // An entry of an old volume does not say what it names.
                if tree.visit(root, &path, entry.inode)? == FileType::Directory {
                    folders.push((path, entry.inode));
                }
            }
            if let Some(node) = tree.nodes.get_mut(&number) {
                node.entries = entries;
            }
        }
        for node in tree.nodes.values_mut() {
            node.paths.sort();
        }
        Ok(tree)
    }

    /// Adds a path of the inode `number`, and the inode if it is new. Returns the type of its file.
    fn visit(&mut self, root: &Path, path: &Path, number: u64) -> Result<FileType, OracleError> {
        let short = path.strip_prefix(root).unwrap_or(path).as_os_str().as_bytes().to_vec();
        if let Some(known) = self.nodes.get_mut(&number) {
            known.paths.push(short);
            return Ok(FileType::from_raw_mode(known.mode));
        }
        let (number, node) = node(path, short)?;
        let kind = FileType::from_raw_mode(node.mode);
        self.nodes.insert(number, node);
        Ok(kind)
    }
}

fn entries(folder: &Path) -> Result<BTreeMap<Vec<u8>, DirectoryEntry>, OracleError> {
    let what = || folder.display().to_string();
    let directory = File::open(folder).context(what)?;
    let mut entries = BTreeMap::new();
    for entry in Dir::read_from(&directory).context(what)? {
        let entry = entry.context(what)?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            let entry = DirectoryEntry { inode: entry.ino(), kind: entry.file_type() };
            entries.insert(name.to_vec(), entry);
        }
    }
    Ok(entries)
}

fn node(path: &Path, short: Vec<u8>) -> Result<(u64, InodeView), OracleError> {
    let what = || path.display().to_string();
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat: Statx =
        rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, mask).context(what)?;
    let mut node = InodeView {
        paths: vec![short],
        mode: stat.stx_mode.into(),
        links: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        accessed: stat.stx_atime.into(),
        modified: stat.stx_mtime.into(),
        changed: stat.stx_ctime.into(),
        born: stat.stx_btime.into(),
        device: (stat.stx_rdev_major, stat.stx_rdev_minor),
        attributes: attributes(path)?,
        ..InodeView::default()
    };
    match FileType::from_raw_mode(node.mode) {
        FileType::RegularFile => {
            let file = File::open(path).context(what)?;
            node.opened = Some(opened(&file).context(what)?);
            node.contents = Some(contents(&file, node.size).context(what)?);
        }
        FileType::Directory => {
            node.opened = Some(opened(&File::open(path).context(what)?).context(what)?);
        }
        FileType::Symlink => {
            node.target = Some(fs::read_link(path).context(what)?.into_os_string().into_vec());
        }
        _ => {}
    }
    Ok((stat.stx_ino, node))
}

fn opened(file: &File) -> std::io::Result<OpenAttributes> {
    let attributes = ioctl::file_attributes(file)?;
    let extents = match ioctl::data_extents(file) {
        // The kernel has no map for directories.
        Err(Errno::OPNOTSUPP) => Vec::new(),
        other => other?,
    };
    let attribute_extents = match ioctl::attribute_extents(file) {
        Err(Errno::OPNOTSUPP) => Vec::new(),
        other => other?,
    };
    Ok(OpenAttributes {
        flags: FileFlags::from_bits_retain(attributes.flags),
        project_id: attributes.project_id,
        extent_size: attributes.extent_size,
        cow_extent_size: attributes.cow_extent_size,
        extent_count: attributes.extents,
        extents,
        attribute_extents,
    })
}

fn contents(file: &File, size: u64) -> std::io::Result<Contents> {
    // Collect all ranges before reading any byte: once an unwritten extent has been read into the
    // page cache, the kernel calls it data.
    let mut contents = Contents { ranges: ranges(file, size)?, ..Contents::default() };
    let mut buffer = vec![0; 1 << 20];
    for (offset, length) in contents.ranges.clone() {
        let mut at = offset;
        while at < offset + length {
            let wanted = (offset + length - at).min(buffer.len() as u64) as usize;
            let part = buffer.get_mut(..wanted).unwrap_or_default();
            file.read_exact_at(part, at)?;
            contents.update(at, part);
            at += wanted as u64;
        }
    }
    Ok(contents)
}

fn ranges(file: &File, size: u64) -> std::io::Result<Vec<(u64, u64)>> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut at = 0;
    // If a file ends within a block, the kernel may find data at its end.
    while let Some(Range { start, end }) =
        next_data_range(file, at)?.filter(|range| range.start < size)
    {
        let end = end.min(size);
        match ranges.last_mut() {
            Some((offset, length)) if *offset + *length == start => *length += end - start,
            _ => ranges.push((start, end - start)),
        }
        at = end;
    }
    Ok(ranges)
}

fn attributes(path: &Path) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, OracleError> {
    let what = || path.display().to_string();
    // The kernel refuses to list more than 64 KiB of names.
    let mut names = vec![0; 1 << 16];
    let length = rustix::fs::llistxattr(path, &mut names).context(what)?;
    let names = names.get(..length).unwrap_or_default();
    let mut value = vec![0; 1 << 16];
    let mut attributes = BTreeMap::new();
    for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let length = rustix::fs::lgetxattr(path, name, &mut value).context(what)?;
        attributes.insert(name.to_vec(), value.get(..length).unwrap_or_default().to_vec());
    }
    Ok(attributes)
}
