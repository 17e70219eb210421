//! The volume on which damage is tried. It has parent pointers, every form of directories, forks
//! and attributes, and names of every type in all parts of the tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, lchown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Image, Xfsprogs};

use crate::contents::{Contents, Patch};
use crate::states::{self, FIRST_OWNER, OWNERS, VolumeState};
use crate::tree::{self, Names};
use crate::{is_long, text};

/// The options of mkfs.xfs: the default features with the reverse map, and four groups.
const OPTIONS: &str = "-i exchange=1 -n parent=1 -m rmapbt=1 -d agcount=4 -l size=16m";
const BLOCK_BYTES: u64 = 4096;

/// The size of the test volume: its length in bytes, and the numbers of its directories and files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BaseKind {
    size_bytes: u64,
    /// Number of directories in the tree of the volume, and number of files in each of them.
    tree: (u64, u64),
    /// Number of files in the large directory.
    large: u64,
}

impl BaseKind {
    /// Returns the size for this run. Only a clean volume of a long run is large.
    pub(crate) fn chosen(state: VolumeState) -> Self {
        match is_long() && state == VolumeState::Clean {
            true => Self { size_bytes: 640 << 20, tree: (420, 97), large: 4600 },
            false => Self { size_bytes: 192 << 20, tree: (24, 40), large: 1100 },
        }
    }

    pub(crate) fn block_bytes(self) -> u64 {
        BLOCK_BYTES
    }
}

/// A volume to be damaged.
pub(crate) struct Base {
    pub(crate) kind: BaseKind,
    pub(crate) state: VolumeState,
    pub(crate) image: Image,
    /// The names of the undamaged volume, with the changes of a dirty log.
    pub(crate) names: Names,
    /// The paths whose files a dirty log changes. Empty if the log is clean.
    late: BTreeSet<PathBuf>,
    /// The contents of the volume before any damage.
    pub(crate) contents: Contents,
    /// The contents of the volume before the last files were created. A simulated lost write gives
    /// a block these older contents.
    pub(crate) earlier: Contents,
    /// The inodes whose structures the tests damage. The key describes the inode, for example as a
    /// directory with leaves; the value is the inode number.
    pub(crate) inodes: BTreeMap<&'static str, u64>,
    /// Offset and length of the log in bytes.
    pub(crate) log: (u64, u64),
}

impl Base {
    /// Makes and fills a volume in `folder`, and brings it into the state `state`.
    pub(crate) fn make(state: VolumeState, folder: &Path) -> Result<Self, TrialError> {
        let kind = BaseKind::chosen(state);
        let data = folder.join("base.xfs");
        File::create(&data).and_then(|file| file.set_len(kind.size_bytes)).map_err(text)?;
        let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
        mkfs.arg("-q").args(OPTIONS.split_whitespace()).arg(&data);
        // mkfs.xfs makes volumes of this size only for its own tests.
        mkfs.envs(["TEST_DIR", "TEST_DEV", "QA_CHECK_FS"].map(|name| (name, "1")));
        let output = mkfs.output().map_err(text)?;
        if !output.status.success() {
            return Err(text(String::from_utf8_lossy(&output.stderr)));
        }
        let image = Image { data, log: None, realtime: None };
        let mount = image.mount_if_possible()?;
        Filler { root: mount.path().to_owned(), kind }.first().map_err(text)?;
        mount.unmount()?;
        let earlier = Contents::read(&image.data)?;
        let mount = image.mount(&[])?;
        let filler = Filler { root: mount.path().to_owned(), kind };
        filler.second().map_err(text)?;
        if state == VolumeState::Quota {
            filler.owners().map_err(text)?;
        }
        let mut inodes = filler.inodes().map_err(text)?;
        mount.unmount()?;
        if state == VolumeState::Quota {
            states::set_quota(&image.data)?;
        }
        let before_cut = Names::read(&image.data)?;
        if state.has_dirty_log() {
            states::dirty_log(&image.data)?;
        }
        // ferroxfs opens no volume with the mark.
        let names = Names::read(&image.data)?;
        let late = names.changed_since(&before_cut);
        if state.is_marked() {
            states::mark(&image.data)?;
        }
        let contents = Contents::read(&image.data)?;
        let log = log_of(&contents)?;
        inodes.extend(quota_inodes(&superblock(&contents)?));
        Ok(Self { kind, state, image, names, late, contents, earlier, inodes, log })
    }

    /// Returns whether a damage with these patches can destroy changes that only the log has.
    pub(crate) fn hits_dirty_log(&self, patches: &[Patch]) -> bool {
        let range = self.log.0..self.log.0 + self.log.1;
        self.state.has_dirty_log() && tree::is_hit(&range, patches)
    }

    /// Returns whether only the log has the newest state of the file at this path.
    pub(crate) fn is_late(&self, path: &Path) -> bool {
        self.late.contains(path)
    }

    /// Returns the superblock of the undamaged volume.
    pub(crate) fn superblock(&self) -> Result<Superblock, TrialError> {
        superblock(&self.contents)
    }
}

fn superblock(contents: &Contents) -> Result<Superblock, TrialError> {
    let place = StructureAddress::Disk(DiskAddr(0));
    Superblock::decode(&contents.bytes(0, 512), place).map_err(text)
}

/// Returns the quota inodes of a volume, each with a name for reports.
fn quota_inodes(superblock: &Superblock) -> impl Iterator<Item = (&'static str, u64)> {
    let names = ["quota-user", "quota-group", "quota-project"];
    let inodes = names.into_iter().zip(superblock.quota_inodes);
    inodes.filter_map(|(name, inode)| Some((name, inode?.0)))
}

/// Returns offset and length of the log in bytes.
fn log_of(contents: &Contents) -> Result<(u64, u64), TrialError> {
    let superblock = superblock(contents)?;
    let geometry = &superblock.geometry;
    let start = geometry.block_disk_addr(superblock.log_start).and_then(DiskAddr::byte_offset);
    let start = start.ok_or_else(|| text("the log is not inside of the volume"))?;
    Ok((start, u64::from(superblock.log_blocks) << geometry.block_log))
}

/// Fills a mounted volume.
struct Filler {
    root: PathBuf,
    kind: BaseKind,
}

impl Filler {
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn file(&self, name: &str) -> std::io::Result<File> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).open(self.path(name))
    }

    fn first(&self) -> std::io::Result<()> {
        for (name, count) in [("short", 3), ("block", 12), ("leaf", 150), ("twice", 30)] {
            fs::create_dir(self.path(name))?;
            for index in 0..count {
                let file = self.file(&format!("{name}/{index}-with-a-name"))?;
                file.write_all_at(format!("contents of {name} {index}").as_bytes(), 0)?;
            }
        }
        fs::create_dir_all(self.path("a/b/c/d"))?;
        fs::create_dir(self.path("node"))?;
        for index in 0..self.kind.large / 2 {
            self.file(&format!("node/{index:05}-a-rather-long-name-of-a-file"))?;
        }
        self.tree(0)?;
        self.scatter("map-leaf", 40)?;
        self.special()
    }

    fn second(&self) -> std::io::Result<()> {
        for index in self.kind.large / 2..self.kind.large {
            self.file(&format!("node/{index:05}-a-rather-long-name-of-a-file"))?;
        }
        self.tree(self.kind.tree.0 / 2)?;
        let links = self.path("leaf/40-with-a-name");
        for index in 0..60 {
            fs::hard_link(&links, self.path(&format!("twice/link-{index}-of-the-file")))?;
        }
        self.scatter("map-root", 12)?;
        self.scatter("map-leaf", 90)?;
        self.scatter("map-node", 1600)?;
        for (name, count) in [("attr-short", 2), ("attr-leaf", 15), ("attr-node", 260)] {
            self.file(name)?.write_all_at(b"contents", 0)?;
            for index in 0..count {
                self.attribute(name, &format!("user.name-{index}"), &[b'v'; 30])?;
            }
        }
        self.file("attr-remote")?;
        self.attribute("attr-remote", "user.remote", &[b'r'; 9000])?;
        self.attribute("attr-remote", "user.local", b"local")
    }

    /// Makes half of the directories of the tree, from number `first` on.
    fn tree(&self, first: u64) -> std::io::Result<()> {
        let (directories, files) = self.kind.tree;
        for number in first..first + directories / 2 {
            let directory = format!("tree/{}/{}/{number}", number % 5, number % 17);
            fs::create_dir_all(self.path(&directory))?;
            for index in 0..files {
                let file = self.file(&format!("{directory}/file {index} of {number}"))?;
                file.write_all_at(format!("{number} {index}\n").repeat(9).as_bytes(), 0)?;
            }
            self.other_types(&directory, number)?;
        }
        Ok(())
    }

    /// Makes two names in a directory: links, pipes, sockets or devices. `number`, the number of
    /// the directory, selects the types in turn.
    fn other_types(&self, directory: &str, number: u64) -> std::io::Result<()> {
        let path = |name: &str| self.path(&format!("{directory}/{name} of {number}"));
        let node = |name: &str, kind: FileType| {
            rustix::fs::mknodat(CWD, path(name), kind, Mode::RUSR | Mode::WUSR, 0x800 + number)
        };
        match number % 3 {
            0 => {
                symlink(format!("../{number}"), path("short link"))?;
                node("pipe", FileType::Fifo)?;
            }
            1 => {
                symlink(format!("{number}/").repeat(150), path("remote link"))?;
                node("socket", FileType::Socket)?;
            }
            _ => {
                node("character device", FileType::CharacterDevice)?;
                node("block device", FileType::BlockDevice)?;
            }
        }
        Ok(())
    }

    /// Sets the owners of files: users, groups and projects.
    fn owners(&self) -> std::io::Result<()> {
        for (number, directory) in ["leaf", "block", "short"].iter().enumerate() {
            for entry in fs::read_dir(self.path(directory))? {
                let path = entry?.path();
                let id = FIRST_OWNER + (fs::metadata(&path)?.ino() as u32 + number as u32) % OWNERS;
                lchown(&path, Some(id), Some(FIRST_OWNER + (id + 5) % OWNERS))?;
                xfs_oracle::change_flags(&File::open(&path)?, 0, id)?;
            }
        }
        Ok(())
    }

    /// Writes `count` single blocks of a file, with a hole after each.
    fn scatter(&self, name: &str, count: u64) -> std::io::Result<()> {
        let file = self.file(name)?;
        (0..count).try_for_each(|index| {
            file.write_all_at(format!("block {index}").as_bytes(), index * 2 * BLOCK_BYTES)
        })
    }

    fn attribute(&self, name: &str, attribute: &str, value: &[u8]) -> std::io::Result<()> {
        rustix::fs::lsetxattr(self.path(name), attribute, value, XattrFlags::empty())?;
        Ok(())
    }

    fn special(&self) -> std::io::Result<()> {
        symlink("a/b", self.path("link-local"))?;
        symlink("long/".repeat(200), self.path("link-remote"))?;
        let kinds = [
            ("fifo", FileType::Fifo),
            ("device", FileType::CharacterDevice),
            ("socket", FileType::Socket),
        ];
        for (name, kind) in kinds {
            rustix::fs::mknodat(CWD, self.path(name), kind, Mode::RUSR, 0x103)?;
        }
        let (first, second) = (self.file("shared")?, self.file("shared-too")?);
        let block = BLOCK_BYTES as usize;
        first.write_all_at(&vec![b's'; 60 * block], 0)?;
        first.sync_all()?;
        rustix::fs::ioctl_ficlone(&second, &first)?;
        (0..30).try_for_each(|index| second.write_all_at(b"own", index * 2 * BLOCK_BYTES))?;
        second.sync_all()
    }

    /// Returns the inodes whose structures the tests damage. The key describes the inode; the value
    /// is the inode number.
    fn inodes(&self) -> std::io::Result<BTreeMap<&'static str, u64>> {
        let names = [
            "short",
            "block",
            "leaf",
            "node",
            "tree/1",
            "map-root",
            "map-leaf",
            "map-node",
            "attr-short",
            "attr-leaf",
            "attr-node",
            "attr-remote",
            "link-local",
            "link-remote",
            "fifo",
            "device",
            "socket",
            "shared",
            "leaf/40-with-a-name",
        ];
        let mut inodes = BTreeMap::new();
        inodes.insert("root", fs::metadata(&self.root)?.ino());
        for name in names {
            inodes.insert(name, fs::symlink_metadata(self.path(name))?.ino());
        }
        Ok(inodes)
    }
}
