//! The names of a volume, and a count of the names that a repair has kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io::Read;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ferroxfs::quota::QuotaType;
use ferroxfs::{FileType, Node, Volume};
use xfs_device::SharedDevice;
use xfs_format::inode::{DeviceNumber, ForkKind};
use xfs_oracle::harness::TrialError;

use crate::contents::Patch;
use crate::text;

/// The longest contents of a file that are compared.
pub(crate) const MOST_BYTES: u64 = 16 << 20;

/// The attributes of a file that are compared before and after a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileFacts {
    number: u64,
    mode: u16,
    links: u32,
    /// The checksum of the contents, of the target of a symbolic link, or of the device number.
    contents: u32,
    /// The attributes with their values.
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// The names of a volume.
#[derive(Default)]
pub(crate) struct Names {
    files: BTreeMap<PathBuf, FileFacts>,
    /// The byte ranges of the device that hold contents of files, each with the file's inode
    /// number.
    contents: Vec<(Range<u64>, u64)>,
    /// The byte range of the device with the block that holds an entry, for each entry outside of
    /// an inode. The key is the inode number of the directory, and the name.
    entries: BTreeMap<(u64, Vec<u8>), Range<u64>>,
    /// The byte ranges of the device that hold blocks of directories, each with the directory's
    /// inode number.
    directory_blocks: Vec<(Range<u64>, u64)>,
    /// The limits of each user, group and project that has some: of blocks and of inodes, the soft
    /// and the hard one.
    limits: BTreeMap<(&'static str, u32), [u64; 4]>,
    quota_inodes: Vec<u64>,
    /// The byte ranges of the device that hold dquots.
    quota_blocks: Vec<Range<u64>>,
    /// The parts that could not be read.
    pub(crate) unreadable: Vec<String>,
}

/// The numbers of the undamaged volume's names that a repair has kept, changed, moved or lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Names that still lead to the same inode, with unchanged contents and attributes.
    pub(crate) intact: u64,
    /// Names that still lead to the same inode, but with changed contents or attributes.
    pub(crate) changed: u64,
    /// Names that no longer lead to their inode, although the inode has another name, for example
    /// in lost+found.
    pub(crate) moved: u64,
    /// Names whose inode has no name any more.
    pub(crate) gone: u64,
}

impl Kept {
    /// Returns whether every name is intact.
    pub(crate) fn is_whole(&self) -> bool {
        self.changed + self.moved + self.gone == 0
    }
}

impl Names {
    /// Reads all names of a volume. Parts that cannot be read are listed in `unreadable`.
    pub(crate) fn read(image: &Path) -> Result<Self, TrialError> {
        let volume = Volume::open(image).map_err(text)?;
        let mut names = Self::default();
        let walk = volume.walk("/").map_err(text)?;
        for entry in walk {
            match entry {
                Ok(entry) => {
                    if let Some(facts) = names.facts(&entry.node) {
                        names.files.insert(entry.path, facts);
                    }
                }
                Err(error) => names.unreadable.push(error.to_string()),
            }
        }
        names.locate_entries(volume.cache().device()).map_err(text)?;
        names.read_limits(&volume);
        Ok(names)
    }

    /// Finds the block of each entry that lies outside of its directory's inode. An entry has the
    /// inode number, the length of the name and the name, and starts at a multiple of 8 bytes.
    fn locate_entries(&mut self, device: &SharedDevice) -> std::io::Result<()> {
        const BLOCK_BYTES: usize = 4096;
        let expected: HashMap<(u64, &[u8]), u64> = self
            .links()
            .map(|link| ((link.directory, link.name.as_bytes()), link.file.number))
            .collect();
        let mut found = BTreeMap::new();
        let mut block = vec![0; BLOCK_BYTES];
        for (range, directory) in &self.directory_blocks {
            for start in range.clone().step_by(BLOCK_BYTES) {
                device.read_at(&mut block, start)?;
                for at in (0..BLOCK_BYTES).step_by(8) {
                    let Some((number, name)) = block.get(at..).and_then(entry_at) else { continue };
                    if expected.get(&(*directory, name)) == Some(&number) {
                        let range = start..start + BLOCK_BYTES as u64;
                        found.insert((*directory, name.to_vec()), range);
                    }
                }
            }
        }
        self.entries = found;
        Ok(())
    }

    fn read_limits(&mut self, volume: &Volume) {
        for kind in [QuotaType::User, QuotaType::Group, QuotaType::Project] {
            for quota in volume.quota().iter(kind).into_iter().flatten().flatten() {
                let (blocks, inodes) = (quota.blocks, quota.inodes);
                let limits = [blocks.soft, blocks.hard, inodes.soft, inodes.hard];
                if limits != [0; 4] {
                    self.limits.insert((kind.name(), quota.id), limits);
                }
            }
        }
        for number in volume.superblock().quota_inodes.into_iter().flatten() {
            self.quota_inodes.push(number.0);
            let node = volume.node_trusted(number);
            self.quota_blocks.extend(node.iter().flat_map(places).map(|(range, _)| range));
        }
    }

    /// Returns the limits of users, groups and projects that the volume `other` lacks or has other
    /// values of, although no byte of a dquot or of a quota inode is overwritten.
    pub(crate) fn unlimited(&self, other: &Self, damage: &Overwritten<'_>) -> Vec<String> {
        let is_quota_hit = self.quota_blocks.iter().any(|range| is_hit(range, damage.patches));
        if is_quota_hit || self.quota_inodes.iter().any(|inode| (damage.is_inode)(*inode)) {
            return Vec::new();
        }
        let lost =
            self.limits.iter().filter(|(owner, limits)| other.limits.get(*owner) != Some(*limits));
        let describe = |((kind, id), limits): (&(&str, u32), _)| {
            format!("{kind} {id}: {:?} instead of {limits:?}", other.limits.get(&(*kind, *id)))
        };
        lost.map(|(owner, limits)| describe((owner, limits))).collect()
    }

    /// Returns the paths of the files that are new or changed since `earlier`.
    pub(crate) fn changed_since(&self, earlier: &Self) -> BTreeSet<PathBuf> {
        let is_same = |path: &PathBuf, file: &FileFacts| earlier.files.get(path) == Some(file);
        let changed = self.files.iter().filter(|(path, file)| !is_same(path, file));
        changed.map(|(path, _)| path.clone()).collect()
    }

    fn facts(&mut self, node: &Node) -> Option<FileFacts> {
        let metadata = node.metadata();
        let contents = match node.file_type() {
            FileType::Regular => {
                self.contents.extend(places(node));
                let mut bytes = Vec::new();
                let file = node.open_read_only();
                let read = file.map_err(|error| error.to_string()).and_then(|file| {
                    let read = file.take(MOST_BYTES).read_to_end(&mut bytes);
                    read.map_err(|error| error.to_string())
                });
                if let Err(error) = read {
                    self.unreadable.push(error);
                    return None;
                }
                crc32c::crc32c(&bytes)
            }
            FileType::Directory => {
                self.directory_blocks.extend(entry_places(node));
                0
            }
            FileType::Symlink => match node.read_link() {
                Ok(target) => crc32c::crc32c(target.as_bytes()),
                Err(error) => {
                    self.unreadable.push(error.to_string());
                    return None;
                }
            },
            _ => metadata.device.map_or(0, device_checksum),
        };
        let mut attributes = BTreeMap::new();
        for attribute in node.attributes().into_iter().flatten() {
            if let Ok(value) = node.attribute(&attribute.name) {
                attributes.insert(attribute.name.as_bytes().to_vec(), value);
            }
        }
        let number = node.number().0;
        Some(FileFacts { number, mode: metadata.mode, links: metadata.nlink, contents, attributes })
    }

    /// Returns the inode numbers of the files whose contents lie in the ranges of these patches.
    pub(crate) fn files_in(&self, patches: &[Patch]) -> impl Iterator<Item = u64> {
        let is_hit = move |range: &Range<u64>| is_hit(range, patches);
        self.contents.iter().filter(move |(range, _)| is_hit(range)).map(|(_, number)| *number)
    }

    /// Returns the names that are gone in the volume `other`, or that lead to a file of another
    /// type, although their entry is undamaged. An entry counts as undamaged if no byte of the
    /// directory's inode is overwritten, and none of the directory block with the entry. The
    /// directory itself may have another path. Names for which `is_excused` holds are left out.
    pub(crate) fn unnamed(
        &self,
        other: &Self,
        damage: &Overwritten<'_>,
        is_excused: impl Fn(&Path) -> bool,
    ) -> Vec<String> {
        let is_undamaged = |link: &Link<'_>| {
            let block = self.entries.get(&(link.directory, link.name.as_bytes().to_vec()));
            !(damage.is_inode)(link.directory)
                && block.is_none_or(|block| !is_hit(block, damage.patches))
        };
        let left: BTreeMap<(u64, &OsStr), u16> = other
            .links()
            .map(|link| ((link.directory, link.name), link.file.type_bits()))
            .collect();
        self.links()
            .filter(|link| !is_excused(link.path) && is_undamaged(link))
            .filter(|link| left.get(&(link.directory, link.name)) != Some(&link.file.type_bits()))
            .map(|link| format!("{} in inode {}", link.path.display(), link.directory))
            .collect()
    }

    fn links(&self) -> impl Iterator<Item = Link<'_>> {
        self.files.iter().filter_map(|(path, file)| {
            let directory = self.files.get(path.parent()?)?.number;
            Some(Link { path, directory, name: path.file_name()?, file })
        })
    }

    /// Returns all names with their files.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&PathBuf, &FileFacts)> {
        self.files.iter()
    }

    /// Returns the file at a path, or `None` if the volume has no such name.
    pub(crate) fn file(&self, path: &Path) -> Option<&FileFacts> {
        self.files.get(path)
    }

    /// Compares the undamaged volume (`self`) with the repaired volume `other`. Returns how many
    /// names are intact, changed, moved and gone.
    pub(crate) fn kept_in(&self, other: &Self) -> Kept {
        let numbers: BTreeSet<u64> = other.files.values().map(|file| file.number).collect();
        let mut kept = Kept::default();
        for (path, file) in &self.files {
            let there = other.files.get(path);
            let count = match there {
                Some(found) if found.number == file.number && found.is_equal(file) => {
                    &mut kept.intact
                }
                Some(found) if found.number == file.number => &mut kept.changed,
                _ if numbers.contains(&file.number) => &mut kept.moved,
                _ => &mut kept.gone,
            };
            *count += 1;
        }
        kept
    }

    /// Returns descriptions of the first `most` names that are not intact in the volume `other`.
    pub(crate) fn differences(&self, other: &Self, most: usize) -> Vec<String> {
        let differs = |(path, file): &(&PathBuf, &FileFacts)| {
            !other
                .files
                .get(*path)
                .is_some_and(|found| found.number == file.number && found.is_equal(file))
        };
        let describe = |(path, file): (&PathBuf, &FileFacts)| match other.files.get(path) {
            None => format!("{}: no such name", path.display()),
            Some(found) => format!("{}: {}", path.display(), file.difference(found)),
        };
        self.files.iter().filter(differs).map(describe).take(most).collect()
    }

    /// Returns the names that are not in their place in the volume `other`, although undamaged
    /// inodes testify to them. Undamaged inodes testify to a name if two conditions hold for the
    /// inode of the name and for those of all directories above it except the root. The inode holds
    /// its own parent pointers, and no byte of the inode is overwritten. Names for which
    /// `is_excused` holds are left out.
    pub(crate) fn displaced(
        &self,
        other: &Self,
        damage: &Overwritten<'_>,
        is_excused: impl Fn(&Path) -> bool,
    ) -> Vec<String> {
        let has_witness = |path: &Path| match self.files.get(path) {
            Some(file) if path.parent().is_some() => {
                file.has_pointer_inside() && !(damage.is_inode)(file.number)
            }
            // The root is no name.
            _ => true,
        };
        let is_there = |path: &Path, file: &FileFacts| {
            other.files.get(path).is_some_and(|found| found.number == file.number)
        };
        let is_displaced = |path: &Path, file: &FileFacts| {
            !is_there(path, file) && !is_excused(path) && path.ancestors().all(has_witness)
        };
        self.files
            .iter()
            .filter(|(path, file)| is_displaced(path, file))
            .map(|(path, file)| format!("{} of inode {}", path.display(), file.number))
            .collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }
}

/// The bits of a mode that have the type of the file.
pub(crate) const TYPE_BITS: u16 = 0o170_000;

/// The bytes that a damage has overwritten.
pub(crate) struct Overwritten<'a> {
    pub(crate) patches: &'a [Patch],
    /// Returns whether a byte of the inode with this number is overwritten.
    pub(crate) is_inode: &'a dyn Fn(u64) -> bool,
}

/// A name of a volume.
struct Link<'a> {
    path: &'a Path,
    /// The inode number of the directory.
    directory: u64,
    name: &'a OsStr,
    file: &'a FileFacts,
}

/// Returns the inode number and the name at the start of these bytes, if they can be an entry.
fn entry_at(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first()?;
    Some((u64::from_be_bytes(*number), rest.get(..usize::from(*length))?))
}

/// Returns whether a patch overwrites a byte of the range.
pub(crate) fn is_hit(range: &Range<u64>, patches: &[Patch]) -> bool {
    patches.iter().any(|patch| {
        let end = patch.offset + patch.bytes.len() as u64;
        patch.offset < range.end && range.start < end
    })
}

/// Returns the byte ranges of the device that hold the data fork of a file or directory, each with
/// the inode number.
fn places(node: &Node) -> Vec<(Range<u64>, u64)> {
    let range = |start: u64, length: u64| (start..start + length, node.number().0);
    let extents = node.extents(ForkKind::Data).flatten();
    extents.map(|extent| range(extent.device_offset_bytes, extent.length_bytes)).collect()
}

/// Returns the byte ranges of the device with the blocks of a directory that hold entries, each
/// with the inode number. The blocks of its index are left out.
fn entry_places(node: &Node) -> Vec<(Range<u64>, u64)> {
    const INDEX_START_BYTES: u64 = 32 << 30;
    let extents = node.extents(ForkKind::Data).flatten();
    let extents = extents.filter(|extent| extent.offset_bytes < INDEX_START_BYTES);
    let range = |start: u64, length: u64| (start..start + length, node.number().0);
    extents.map(|extent| range(extent.device_offset_bytes, extent.length_bytes)).collect()
}

/// Returns the checksum by which the numbers of devices are compared.
pub(crate) fn device_checksum(device: DeviceNumber) -> u32 {
    crc32c::crc32c(format!("{}:{}", device.major, device.minor).as_bytes())
}

impl FileFacts {
    pub(crate) fn type_bits(&self) -> u16 {
        self.mode & TYPE_BITS
    }

    /// Returns whether the inode's only parent pointer lies within the inode. With more pointers or
    /// other attributes, all pointers may lie in blocks outside the inode.
    fn has_pointer_inside(&self) -> bool {
        let is_directory = self.mode & 0o170_000 == 0o040_000;
        (is_directory || self.links == 1) && self.attributes.is_empty()
    }

    /// Returns the inode number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the checksum of the contents, of the target of a symbolic link, or of the device
    /// number.
    pub(crate) fn contents(&self) -> u32 {
        self.contents
    }

    /// Returns whether mode, link count, contents and attributes are equal. The link count of a
    /// directory is left out, because a repair may add lost+found to the root.
    fn is_equal(&self, other: &Self) -> bool {
        let is_directory = self.mode & 0o170_000 == 0o040_000;
        self.mode == other.mode
            && (is_directory || self.links == other.links)
            && self.contents == other.contents
            && self.attributes == other.attributes
    }

    fn difference(&self, other: &Self) -> String {
        if self.number != other.number {
            return format!("inode {} instead of {}", other.number, self.number);
        }
        if self.mode != other.mode {
            return format!("mode {:o} instead of {:o}", other.mode, self.mode);
        }
        if self.links != other.links {
            return format!("{} links instead of {}", other.links, self.links);
        }
        if self.attributes != other.attributes {
            let (here, there) = (self.attributes.len(), other.attributes.len());
            return format!("{there} attributes instead of {here}, or other values");
        }
        "other contents".to_owned()
    }
}
