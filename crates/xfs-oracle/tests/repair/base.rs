//! The volume on which damage is tried. It has parent pointers, and every form of directories,
//! forks and attributes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Image, Xfsprogs};

use crate::contents::Contents;
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
    /// Returns the size for this run: large if the run is long, and otherwise small.
    pub(crate) fn chosen() -> Self {
        match is_long() {
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
    pub(crate) image: Image,
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
    /// Makes and fills a volume in `folder`.
    pub(crate) fn make(kind: BaseKind, folder: &Path) -> Result<Self, TrialError> {
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
        let image = Image { data, log: None };
        let mount = image.mount_if_possible()?;
        Filler { root: mount.path().to_owned(), kind }.first().map_err(text)?;
        mount.unmount()?;
        let earlier = Contents::read(&image.data)?;
        let mount = image.mount(&[])?;
        let filler = Filler { root: mount.path().to_owned(), kind };
        filler.second().map_err(text)?;
        let inodes = filler.inodes().map_err(text)?;
        mount.unmount()?;
        let contents = Contents::read(&image.data)?;
        let log = log_of(&contents)?;
        Ok(Self { kind, image, contents, earlier, inodes, log })
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
        for (name, kind) in [("fifo", FileType::Fifo), ("device", FileType::CharacterDevice)] {
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
