//! The part of the test that runs in the guest: filling a mounted volume, and listing it.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::fs::{CWD, FallocateFlags, FileType, Mode, XattrFlags, makedev};
use rustix::io::Errno;
use xfs_oracle::model::{Abilities, Features, Generator, Model};
use xfs_oracle::{
    ExtentFlags, FileFlags, InodeView, Kernel, Random, Subject, Tree, change_flags, shut_down,
};

/// The option with which this program fills a volume. Its arguments are the folder of the mount,
/// the seed, and how the volume is left (a `VolumeEnd`).
pub(super) const FILL: &str = "--fill-volume";
/// The option with which this program lists a volume. Its arguments are the folder of the mount,
/// and how the volume was left.
pub(super) const LIST: &str = "--list-volume";
/// Number of random operations in each of two folders.
const OPERATIONS: usize = 150;
/// The unit of writes and holes in files. It is at least a block of every kind of volume.
const UNIT: u64 = 4096;
/// The unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;
/// The largest number of operations that each thread of [`storm`] performs.
const STORM_MAX: u64 = 50_000;

type Filled<T = ()> = io::Result<T>;

/// Fills or lists a volume if the arguments ask for that. Returns `None` for the arguments of a
/// test.
pub(crate) fn run_in_guest() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [FILL, folder, seed, end] => {
            let seed = seed.parse().expect("the script passes a number");
            fill(Path::new(folder), seed, end)
        }
        [LIST, folder, end] => list(Path::new(folder), end),
        _ => return None,
    };
    match outcome {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(error) => {
            println!("{words:?}: {error}");
            Some(ExitCode::FAILURE)
        }
    }
}

fn list(folder: &Path, end: &str) -> Filled {
    let lines = listing(folder, end)?;
    let lines = lines.into_iter().map(|(number, line)| format!("{number}\t{line}\n"));
    print!("{}", lines.collect::<String>());
    Ok(())
}

/// Returns the lines of all inodes of a mounted volume that was left as `end` says.
pub(super) fn listing(folder: &Path, end: &str) -> Filled<BTreeMap<u64, String>> {
    let mut tree = Tree::walk(folder).map_err(io::Error::other)?;
    leave_out(&mut tree, end);
    Ok(tree.lines())
}

/// Removes from the tree the facts about realtime files that cannot be compared. ferroxfs does not
/// show which realtime blocks are shared. Linux 7.2 shows blocks of attributes, which lie on the
/// data device, as if they lay in the realtime section.
///
/// After a storm, a recovery completes intents. It reads their inodes for that, and a kernel that
/// lets an inode go frees the blocks past its end.
pub(super) fn leave_out(tree: &mut Tree, end: &str) {
    if end == "Storm" {
        tree.nodes.values_mut().for_each(leave_out_past_end);
    }
    let opened = tree.nodes.values_mut().filter_map(|node| node.opened.as_mut());
    for opened in opened.filter(|opened| opened.flags.contains(FileFlags::REALTIME)) {
        for extent in &mut opened.extents {
            extent.flags.remove(ExtentFlags::SHARED);
        }
        opened.attribute_extents.clear();
    }
}

/// Removes the blocks past the end of a file from what is compared.
fn leave_out_past_end(node: &mut InodeView) {
    let Some(opened) = &mut node.opened else { return };
    let mut past = 0;
    opened.extents.retain_mut(|extent| {
        let inside = node.size.saturating_sub(extent.offset).min(extent.length);
        past += extent.length - inside;
        extent.length = inside;
        opened.extent_count -= u32::from(inside == 0);
        inside != 0
    });
    node.blocks -= past / SECTOR_BYTES;
}

/// Fills a volume, and shuts it down if `end` asks for that.
pub(super) fn fill(root: &Path, seed: u64, end: &str) -> Filled {
    let mut random = Random::new(seed);
    for (name, is_realtime) in [("plain", false), ("realtime", true)] {
        let folder = root.join(name);
        fs::create_dir(&folder)?;
        let opened = File::open(&folder)?;
        // New files of the folder lie in the realtime section, where the volume has one. On a zoned
        // volume the folder has the flag already and loses it, so that the other folder is the one
        // with realtime files.
        if is_realtime && change_flags(&opened, FileFlags::REALTIME_INHERIT.bits(), 0).is_err() {
            println!("the volume has no realtime flag");
        }
        files(&folder, &mut random)?;
        operations(&folder, &mut random)?;
    }
    names(root, &mut random)?;
    attributes(root, &mut random)?;
    special(root, &mut random)?;
    let opened = File::open(root)?;
    rustix::fs::syncfs(&opened)?;
    match end {
        "Logged" => {
            logged(root, &mut random)?;
            shut_down(&opened, true)?;
        }
        "Storm" => storm(root, &opened, &mut random)?,
        _ => {}
    }
    Ok(())
}

/// Performs random operations of every kind, and ignores which of them the kernel refuses.
fn operations(folder: &Path, random: &mut Random) -> Filled {
    let root = folder.join("operations");
    fs::create_dir(&root)?;
    let abilities = Abilities::REFLINK;
    let features = Features { block_bytes: UNIT, inode_bytes: 512, abilities, section: None };
    let mut generator = Generator::new(random.next(), features);
    let (mut model, mut kernel) = (Model::new(features), Kernel::new(&root));
    for _ in 0..OPERATIONS {
        let operation = generator.next(&model);
        let _ = model.perform(&operation);
        let _ = kernel.perform(&operation);
    }
    Ok(())
}

/// Makes regular files: contents of random lengths, holes, unwritten ranges, many extents, and
/// extents that files share.
fn files(folder: &Path, random: &mut Random) -> Filled {
    for index in 0..6 {
        let length = random.below(300_000) as usize;
        fs::write(folder.join(format!("whole-{index}")), random.bytes(length))?;
    }
    for index in 0..4 {
        let file = new_file(&folder.join(format!("sparse-{index}")))?;
        for _ in 0..1 + random.below(8) {
            let length = random.below(20_000) as usize;
            file.write_all_at(&random.bytes(length), random.below(1 << 30))?;
        }
        file.set_len(random.below(1 << 34))?;
    }
    let file = new_file(&folder.join("unwritten"))?;
    allocate(&file, FallocateFlags::empty(), 0, 64 * UNIT)?;
    for _ in 0..random.below(12) {
        file.write_all_at(&random.bytes(5000), random.below(64) * UNIT)?;
    }
    let file = new_file(&folder.join("fragments"))?;
    for index in 0..20 + random.below(300) {
        file.write_all_at(&random.bytes(100), index * 4 * UNIT)?;
    }
    file.sync_all()?;
    let file = new_file(&folder.join("punched"))?;
    file.write_all_at(&random.bytes(60 * UNIT as usize), 0)?;
    for _ in 0..8 {
        let at = random.below(60) * UNIT;
        allocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, UNIT)?;
    }
    shared(folder, random)
}

/// Makes files that share extents, where the volume can do that.
fn shared(folder: &Path, random: &mut Random) -> Filled {
    let source = new_file(&folder.join("shared"))?;
    source.write_all_at(&random.bytes(100 * UNIT as usize), 0)?;
    for index in 0..4 {
        let copy = new_file(&folder.join(format!("shared-{index}")))?;
        if rustix::fs::ioctl_ficlone(&copy, &source).is_err() {
            return Ok(());
        }
        for _ in 0..index {
            copy.write_all_at(&random.bytes(UNIT as usize), random.below(100) * UNIT)?;
        }
    }
    Ok(())
}

/// Makes a deep path, directories of several forms, and files with several names.
fn names(root: &Path, random: &mut Random) -> Filled {
    let mut deep = root.to_owned();
    for depth in 0..10 + random.below(40) {
        deep.push(format!("level {depth}"));
        fs::create_dir(&deep)?;
    }
    fs::write(deep.join("leaf"), b"deep")?;
    for (name, count) in [("few", 3), ("block", 20), ("leaf", 130), ("node", 400)] {
        let folder = root.join(name);
        fs::create_dir(&folder)?;
        let count = count + random.below(count);
        for index in 0..count {
            let length = 1 + random.below(60) as usize;
            let path = folder.join(format!("{index} {}", "n".repeat(length)));
            if index == 0 || random.below(4) > 0 {
                File::create(&path)?;
            } else {
                fs::hard_link(deep.join("leaf"), &path)?;
            }
            if random.below(5) == 0 {
                fs::remove_file(&path)?;
            }
        }
    }
    fs::write(root.join("few/Name \u{c9}"), b"not only ASCII")?;
    fs::rename(root.join("few"), root.join("block/moved"))
}

/// Sets extended attributes: in the inode, in blocks, with long values, and on all kinds of files.
fn attributes(root: &Path, random: &mut Random) -> Filled {
    let folder = root.join("attributes");
    fs::create_dir(&folder)?;
    for count in [1, 4, 40, 150] {
        let path = folder.join(format!("{count}"));
        File::create(&path)?;
        for index in 0..count + random.below(count) {
            let length = random.below(60) as usize;
            set_attribute(&path, &format!("user.number {index}"), &random.bytes(length))?;
        }
    }
    for length in [300, 3000, 20_000 + random.below(40_000) as usize] {
        let path = folder.join(format!("value-{length}"));
        File::create(&path)?;
        set_attribute(&path, "user.value", &random.bytes(length))?;
        set_attribute(&path, "trusted.value", b"trusted")?;
        set_attribute(&path, "security.value", b"secure")?;
    }
    symlink("target", folder.join("link"))?;
    set_attribute(&folder.join("link"), "trusted.on-link", b"link")?;
    set_attribute(&folder, "user.on-folder", &random.bytes(100))
}

fn set_attribute(path: &Path, name: &str, value: &[u8]) -> Filled {
    Ok(rustix::fs::lsetxattr(path, name, value, XattrFlags::empty())?)
}

/// Makes symbolic links, devices, pipes, and files with unusual owners, modes and projects.
fn special(root: &Path, random: &mut Random) -> Filled {
    let folder = root.join("special");
    fs::create_dir(&folder)?;
    for length in [1, 30, 300, 1 + random.below(1023) as usize] {
        let path = folder.join(format!("link-{length}"));
        symlink("t".repeat(length), &path)?;
        lchown(&path, Some(random.below(1 << 20) as u32), Some(7))?;
    }
    let kinds =
        [FileType::CharacterDevice, FileType::BlockDevice, FileType::Fifo, FileType::Socket];
    for kind in kinds {
        let path = folder.join(format!("{kind:?}"));
        let device = makedev(random.below(512) as u32, random.below(1 << 18) as u32);
        let device = if kind == FileType::Fifo || kind == FileType::Socket { 0 } else { device };
        rustix::fs::mknodat(CWD, &path, kind, Mode::from(0o640), device)?;
    }
    for (index, mode) in [0o0, 0o4755, 0o2711, 0o1777].into_iter().enumerate() {
        let path = folder.join(format!("mode-{mode:o}"));
        fs::write(&path, b"mode")?;
        chown(&path, Some(random.below(1 << 31) as u32), Some(random.below(9) as u32))?;
        rustix::fs::chmod(&path, Mode::from(mode))?;
        change_flags(&File::open(&path)?, 0, index as u32 * 21_000)?;
    }
    Ok(())
}

/// Makes changes of every kind shortly before the end, so that the log of a volume that is shut
/// down has them.
fn logged(root: &Path, random: &mut Random) -> Filled {
    let folder = root.join("logged");
    fs::create_dir(&folder)?;
    for index in 0..60 {
        let path = folder.join(format!("{index}"));
        let length = random.below(9000) as usize;
        fs::write(&path, random.bytes(length))?;
        if index % 3 == 0 {
            set_attribute(&path, "user.logged", &random.bytes(random_length(index)))?;
        }
        if index % 7 == 0 {
            fs::rename(&path, root.join(format!("attributes/logged-{index}")))?;
        }
    }
    for index in (1..60).filter(|index| index % 4 == 1 && index % 7 != 0) {
        fs::remove_file(folder.join(format!("{index}")))?;
    }
    fs::remove_file(root.join("plain/whole-0"))?;
    fs::remove_file(root.join("realtime/whole-1"))?;
    let file = OpenOptions::new().write(true).open(root.join("realtime/whole-2"))?;
    file.set_len(random.below(100_000))?;
    file.write_all_at(&random.bytes(30_000), random.below(1 << 20))?;
    file.sync_all()?;
    rustix::fs::syncfs(&file)?;
    symlink("after the sync", folder.join("link"))
}

/// Returns the length in bytes of the attribute of the file with this index. Some of these lengths
/// fit into the inode, and some do not.
fn random_length(index: usize) -> usize {
    if index.is_multiple_of(2) { 40 } else { 900 }
}

/// Shuts the volume down at a random moment, while threads change files.
fn storm(root: &Path, opened: &File, random: &mut Random) -> Filled {
    let folders: Vec<PathBuf> =
        ["plain/storm", "realtime/storm"].iter().map(|name| root.join(name)).collect();
    for folder in &folders {
        fs::create_dir(folder)?;
        fs::write(folder.join("source"), random.bytes(80 * UNIT as usize))?;
    }
    let (pause, flushes) = (200 + random.below(1500), random.below(2) == 0);
    std::thread::scope(|scope| {
        for folder in &folders {
            let mut random = Random::new(random.next());
            scope.spawn(move || {
                let mut steps = 0..STORM_MAX;
                // After the shutdown, each operation fails with EIO.
                while steps.next().is_some() && !is_shut(storm_step(folder, &mut random)) {}
            });
        }
        std::thread::sleep(Duration::from_millis(pause));
        shut_down(opened, flushes)
    })?;
    Ok(())
}

fn is_shut(outcome: Filled) -> bool {
    outcome.is_err_and(|error| error.raw_os_error() == Some(Errno::IO.raw_os_error()))
}

/// Performs one operation of [`storm`]: share, overwrite, punch, truncate, rename, remove or sync.
fn storm_step(folder: &Path, random: &mut Random) -> Filled {
    let path = folder.join(format!("{}", random.below(12)));
    let at = random.below(80) * UNIT;
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path)?;
    match random.below(10) {
        0 | 1 => {
            let source = File::open(folder.join("source"))?;
            match rustix::fs::ioctl_ficlone(&file, &source) {
                Err(Errno::OPNOTSUPP | Errno::INVAL) => {
                    file.write_all_at(&random.bytes(3 * UNIT as usize), at)
                }
                other => Ok(other?),
            }
        }
        2 | 3 => file.write_all_at(&random.bytes(2 * UNIT as usize), at),
        4 => allocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, UNIT),
        5 => file.set_len(at),
        6 => fs::remove_file(&path),
        7 => fs::rename(&path, folder.join(format!("{}", random.below(12)))),
        8 => set_attribute(&path, "user.storm", &random.bytes(700)),
        _ => file.sync_all(),
    }
}

fn new_file(path: &Path) -> Filled<File> {
    File::create_new(path)
}

/// Calls fallocate. Zoned volumes refuse some modes.
fn allocate(file: &File, flags: FallocateFlags, offset: u64, length: u64) -> Filled {
    match rustix::fs::fallocate(file, flags, offset, length) {
        Err(Errno::OPNOTSUPP) => Ok(()),
        other => Ok(other?),
    }
}
