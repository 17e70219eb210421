//! The volumes on which damage is tried. Each is filled with every form of every structure.
//!
//! The kernel fills each volume in two steps. The contents after the first step are kept, because a
//! lost write leaves a block as it was before the second step.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FallocateFlags, FileType, Mode, XattrFlags};
use rustix::io::Errno;
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Image, Xfsprogs};

use crate::contents::Contents;
use crate::text;

/// A kind of volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BaseKind {
    pub(crate) name: &'static str,
    options: &'static str,
    size_bytes: u64,
    block_bytes: u64,
    /// Number of files in the large directory. The number for blocks of 1 KiB gives inode btrees of
    /// two levels.
    files: u64,
}

impl BaseKind {
    pub(crate) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }
}

/// The kinds of volumes: one with small blocks, which make deep btrees, and one with blocks of the
/// usual size.
pub(crate) const KINDS: [BaseKind; 2] = [
    BaseKind {
        name: "block-1k",
        options: "-b size=1024 -i size=512,exchange=1 -n parent=1 -m rmapbt=1 \
                  -d agcount=3 -l size=8m",
        size_bytes: 96 << 20,
        block_bytes: 1024,
        files: 4600,
    },
    BaseKind {
        name: "block-4k",
        options: "-i exchange=1 -n parent=1 -m rmapbt=1 -d agcount=3 -l size=16m",
        size_bytes: 192 << 20,
        block_bytes: 4096,
        files: 1200,
    },
];

/// A volume to be damaged.
pub(crate) struct Base {
    pub(crate) kind: BaseKind,
    pub(crate) image: Image,
    /// The contents of the volume before any damage.
    pub(crate) contents: Contents,
    /// The contents after the first of the two steps in which the volume is filled.
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
        let data = folder.join(format!("{}.xfs", kind.name));
        File::create(&data).and_then(|file| file.set_len(kind.size_bytes)).map_err(text)?;
        let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
        mkfs.arg("-q").args(kind.options.split_whitespace()).arg(&data);
        // mkfs.xfs makes volumes of this size only for its own tests.
        mkfs.envs(["TEST_DIR", "TEST_DEV", "QA_CHECK_FS"].map(|name| (name, "1")));
        succeed(&mut mkfs)?;
        let image = Image { data, log: None, realtime: None };
        let mount = image.mount_if_possible()?;
        let filler = Filler { root: mount.path().to_owned(), kind };
        filler.first().map_err(text)?;
        mount.unmount()?;
        let earlier = Contents::read(&image.data)?;
        let mount = image.mount(&[])?;
        let filler = Filler { root: mount.path().to_owned(), kind };
        filler.second().map_err(text)?;
        let inodes = filler.inodes().map_err(text)?;
        mount.unmount()?;
        let inodes = with_unlinked(inodes, &image)?;
        let contents = Contents::read(&image.data)?;
        let log = log_of(&contents)?;
        Ok(Self { kind, image, contents, earlier, inodes, log })
    }
}

/// Makes inodes that are in the unlinked lists of the volume, so that one list has three members.
/// Adds the first and the last of them to `inodes`, the inodes that the tests damage, and returns
/// `inodes`.
fn with_unlinked(
    mut inodes: BTreeMap<&'static str, u64>,
    image: &Image,
) -> Result<BTreeMap<&'static str, u64>, TrialError> {
    let mut db = Xfsprogs::newer()?.command("xfs_db");
    let output = db.args(["-x", "-c", "iunlink -n 140"]).arg(&image.data).output().map_err(text)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let number = |line: &str| line.split_whitespace().nth(3)?.parse::<u64>().ok();
    let made: Vec<u64> = said.lines().filter_map(number).collect();
    let (Some(first), Some(last)) = (made.first(), made.last()) else {
        return Err(text(format!("xfs_db makes no unlinked inodes: {said}")));
    };
    inodes.insert("unlinked", *first);
    inodes.insert("unlinked-last", *last);
    Ok(inodes)
}

/// Returns offset and length of the log in bytes.
fn log_of(contents: &Contents) -> Result<(u64, u64), TrialError> {
    let place = StructureAddress::Disk(DiskAddr(0));
    let superblock = Superblock::decode(&contents.bytes(0, 512), place).map_err(text)?;
    let geometry = &superblock.geometry;
    let start = geometry.block_disk_addr(superblock.log_start).and_then(DiskAddr::byte_offset);
    let start = start.ok_or_else(|| text("the log is not inside of the volume"))?;
    Ok((start, u64::from(superblock.log_blocks) << geometry.block_log))
}

/// Runs a program that must succeed.
fn succeed(command: &mut std::process::Command) -> Result<(), TrialError> {
    let output = command.output().map_err(text)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(text(String::from_utf8_lossy(&output.stderr))),
    }
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
                self.file(&format!("{name}/{index}-with-a-name"))?;
            }
        }
        fs::create_dir_all(self.path("a/b/c/d"))?;
        fs::create_dir(self.path("node"))?;
        for index in 0..self.kind.files / 2 {
            self.file(&format!("node/{index:05}-a-rather-long-name-of-a-file"))?;
        }
        self.scatter("map-leaf", 40)?;
        self.attributes("attr-leaf", 12)?;
        self.special()?;
        self.shared()
    }

    fn second(&self) -> std::io::Result<()> {
        for index in self.kind.files / 2..self.kind.files {
            self.file(&format!("node/{index:05}-a-rather-long-name-of-a-file"))?;
        }
        for index in (0..self.kind.files).step_by(37) {
            fs::remove_file(self.path(&format!("node/{index:05}-a-rather-long-name-of-a-file")))?;
        }
        for index in 0..12 {
            self.file(&format!("leaf/{index}-second"))?;
            fs::remove_file(self.path(&format!("leaf/{}-with-a-name", index * 3)))?;
        }
        let links = self.path("leaf/40-with-a-name");
        (0..60).try_for_each(|index| {
            fs::hard_link(&links, self.path(&format!("twice/link-{index}-of-the-file")))
        })?;
        self.scatter("map-root", 12)?;
        self.scatter("map-leaf", 90)?;
        self.scatter("map-node", 1600)?;
        self.attributes("attr-short", 2)?;
        self.attributes("attr-leaf", 15)?;
        self.attributes("attr-node", 260)?;
        self.remote("attr-remote")?;
        self.holes()?;
        self.partial_chunks()
    }

    /// Writes `count` single blocks of a file, with a hole after each.
    fn scatter(&self, name: &str, count: u64) -> std::io::Result<()> {
        let file = self.file(name)?;
        let block = self.kind.block_bytes;
        (0..count).try_for_each(|index| file.write_all_at(b"a block", index * 2 * block))
    }

    fn attribute(&self, name: &str, attribute: &str, value: &[u8]) -> std::io::Result<()> {
        rustix::fs::lsetxattr(self.path(name), attribute, value, XattrFlags::empty())?;
        Ok(())
    }

    fn attributes(&self, name: &str, count: u64) -> std::io::Result<()> {
        self.file(name)?.write_all_at(b"contents", 0)?;
        let value = [b'v'; 30];
        (0..count).try_for_each(|index| self.attribute(name, &format!("user.name-{index}"), &value))
    }

    fn remote(&self, name: &str) -> std::io::Result<()> {
        self.file(name)?;
        let value = [b'r'; 9000];
        self.attribute(name, "user.remote", &value)?;
        self.attribute(name, "user.local", b"local")
    }

    fn special(&self) -> std::io::Result<()> {
        symlink("a/b", self.path("link-local"))?;
        symlink("long/".repeat(200), self.path("link-remote"))?;
        for (name, kind) in [("fifo", FileType::Fifo), ("device", FileType::CharacterDevice)] {
            rustix::fs::mknodat(CWD, self.path(name), kind, Mode::RUSR, 0x103)?;
        }
        let unwritten = self.file("unwritten")?;
        let length = 8 * self.kind.block_bytes;
        rustix::fs::fallocate(&unwritten, FallocateFlags::empty(), 0, length)?;
        Ok(())
    }

    /// Makes two files that share every second block.
    fn shared(&self) -> std::io::Result<()> {
        let (first, second) = (self.file("shared")?, self.file("shared-too")?);
        let block = self.kind.block_bytes as usize;
        first.write_all_at(&vec![b's'; 700 * block], 0)?;
        first.sync_all()?;
        rustix::fs::ioctl_ficlone(&second, &first)?;
        (0..350).try_for_each(|index| second.write_all_at(b"own", (index * 2 * block) as u64))?;
        second.sync_all()
    }

    /// Makes many small areas of free space.
    fn holes(&self) -> std::io::Result<()> {
        let file = self.file("punched")?;
        let block = self.kind.block_bytes;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 2400 * block)?;
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for index in 0..1200 {
            rustix::fs::fallocate(&file, punch, index * 2 * block, block)?;
        }
        Ok(())
    }

    /// Uses up all space except for pieces that are too small for a whole inode chunk, and makes
    /// files, whose chunks are then sparse.
    fn partial_chunks(&self) -> std::io::Result<()> {
        let file = self.file("filler")?;
        let (mut length, block) = (0, self.kind.block_bytes);
        for step in [16 << 20, 1 << 20, 64 << 10, block] {
            loop {
                match rustix::fs::fallocate(&file, FallocateFlags::empty(), length, step) {
                    Ok(()) => length += step,
                    Err(Errno::NOSPC) => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        // A whole chunk has 64 inodes, a part of one at least 16 KiB.
        let chunk = 64 * if block == 1024 { 512 } else { 2048 };
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        for piece in 0..400 {
            rustix::fs::fallocate(&file, punch, piece * 4 * chunk, chunk - block)?;
        }
        file.sync_all()?;
        fs::create_dir(self.path("partial"))?;
        for index in 0..1000 {
            match self.file(&format!("partial/{index}")) {
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                other => other?,
            };
        }
        Ok(())
    }

    /// Returns the inodes whose structures the tests damage. The key describes the inode; the value
    /// is the inode number.
    fn inodes(&self) -> std::io::Result<BTreeMap<&'static str, u64>> {
        let names = [
            "short",
            "block",
            "leaf",
            "node",
            "a/b",
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
            "unwritten",
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
