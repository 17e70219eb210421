//! Tests that shrink volumes with ferroxfs that the kernel has filled. The kernel must see the same
//! tree afterwards, and use and grow the volume. xfs_repair and `check` must find nothing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use ferroxfs::OpenOptions;
use ferroxfs::admin::Shrunk;
use xfs_oracle::harness::{TrialError, patiently};
use xfs_oracle::{Image, InodeView, Tree, Xfsprogs, ready};

use crate::failed;

const VOLUME_BYTES: u64 = 1 << 30;
/// The options of mkfs.xfs: eight groups, with the log in the first one.
const OPTIONS: [&str; 4] = [
    "-d agcount=8 -l agnum=0,size=64m",
    "-d agcount=8 -l agnum=0,size=64m -b size=1024",
    "-d agcount=8 -l agnum=0,size=64m -m rmapbt=1 -n size=64k,parent=1",
    "-d agcount=8 -l agnum=0,size=64m -m rmapbt=0,reflink=0,finobt=0,inobtcount=0",
];
const FILES: usize = 300;
/// The sizes and numbers of the files that take up the first groups for a while. The smaller ones
/// take what the larger ones leave.
const SPACERS: [(&str, usize); 3] = [("8m", 60), ("1m", 30), ("100k", 150)];

pub(crate) fn check() -> Result<(), TrialError> {
    ready()?;
    for (number, options) in OPTIONS.into_iter().enumerate() {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
        let image = make(&folder.path().join("volume"), options)?;
        let mount = image.mount(&["noatime"])?;
        fill(mount.path()).map_err(failed)?;
        mount.unmount()?;
        let before = see(&image)?;
        // To the end of a group, inside a group, and as far as possible.
        let third = VOLUME_BYTES / 8 * 3;
        for to in [Some(VOLUME_BYTES / 8 * 5), Some(third + (300 << 10)), None] {
            let shrunk = shrink(&image, to)?;
            if let Some(findings) = image.findings()? {
                return Err(failed(format!("{options}, {to:?}: {findings}")));
            }
            if see(&image)? != before {
                return Err(failed(format!("{options}, {to:?}: another tree")));
            }
            if to.is_some() && shrunk.moved_blocks == 0 && number == 0 && to < Some(third * 2) {
                return Err(failed("nothing has moved, which tests too little"));
            }
        }
        grow_and_use(&image)?;
    }
    Ok(())
}

fn make(path: &Path, options: &str) -> Result<Image, TrialError> {
    File::create_new(path).and_then(|file| file.set_len(VOLUME_BYTES)).map_err(failed)?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    let output = mkfs.arg("-q").args(options.split_whitespace()).arg(path).output();
    let output = output.map_err(failed)?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr)));
    }
    Ok(Image { data: path.to_owned(), log: None, realtime: None })
}

/// Fills the root directory with files, all of them in inodes of the first group. Other files take
/// the first groups meanwhile, so that most blocks are in later ones.
fn fill(root: &Path) -> std::io::Result<()> {
    let name = |index: usize| root.join(format!("a file with a rather long name {index}"));
    for index in 0..FILES {
        File::create(name(index))?;
        if index % 10 == 0 {
            File::create(name(FILES + index))?;
        }
        if index % 25 == 0 {
            let target = "target/".repeat(140);
            std::os::unix::fs::symlink(target, root.join(format!("link {index}")))?;
        }
    }
    // The kernel gives a small file blocks of the group of its inode, as long as there are any.
    let mut spacers = Vec::new();
    for (size, count) in SPACERS {
        for index in 0..count {
            let spacer = root.join(format!("spacer {size} {index}"));
            run(Command::new("fallocate").args(["-l", size]).arg(&spacer))?;
            spacers.push(spacer);
        }
    }
    for index in 0..FILES {
        let file = File::options().write(true).open(name(index))?;
        for piece in 0..1 + index as u64 % 20 {
            use std::os::unix::fs::FileExt;
            file.write_all_at(&[(index % 250) as u8 + 1; 5000], piece * 20_000)?;
        }
        file.sync_all()?;
        if index % 10 == 0 {
            let mut set = Command::new("setfattr");
            set.args(["-n", "user.long", "-v", &"value ".repeat(index)]).arg(name(index));
            run(&mut set)?;
            let mut copy = Command::new("cp");
            run(copy.arg("--reflink=auto").arg(name(index)).arg(name(FILES + index)))?;
        }
    }
    spacers.into_iter().try_for_each(fs::remove_file)
}

fn run(command: &mut Command) -> std::io::Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(std::io::Error::other(format!("{command:?}"))) }
}

/// Returns the facts of each inode that must not change, as the kernel shows them.
fn see(image: &Image) -> Result<BTreeMap<u64, String>, TrialError> {
    let mount = image.mount(&["ro", "noatime"])?;
    let tree = Tree::walk(mount.path())?;
    mount.unmount()?;
    let facts = |node: &InodeView| {
        format!(
            "{:?} {:o} {} {}:{} {} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            node.paths,
            node.mode,
            node.links,
            node.uid,
            node.gid,
            node.size,
            node.modified,
            node.changed,
            node.born,
            node.contents,
            node.entries,
            node.attributes,
            node.target
        )
    };
    Ok(tree.nodes.iter().map(|(number, node)| (*number, facts(node))).collect())
}

/// Shrinks the volume and then its image file.
fn shrink(image: &Image, to: Option<u64>) -> Result<Shrunk, TrialError> {
    let options = OpenOptions::new().write(true);
    let devices = patiently(|| options.open_devices(&image.data)).map_err(failed)?;
    let block_size = {
        let volume = OpenOptions::new().with_devices(devices.data().clone(), None).open();
        u64::from(volume.map_err(failed)?.geometry().block_size)
    };
    let shrunk = devices.shrink(to.map(|bytes| bytes / block_size)).map_err(failed)?;
    drop(devices);
    if to.is_some_and(|bytes| shrunk.blocks != bytes / block_size) {
        return Err(failed(format!("{shrunk:?}, not {to:?} bytes")));
    }
    let file = File::options().write(true).open(&image.data).map_err(failed)?;
    file.set_len(shrunk.blocks * block_size).map_err(failed)?;
    Ok(shrunk)
}

/// Lets the kernel grow the volume and write to it.
fn grow_and_use(image: &Image) -> Result<(), TrialError> {
    let file = File::options().write(true).open(&image.data).map_err(failed)?;
    file.set_len(VOLUME_BYTES).map_err(failed)?;
    let mount = image.mount(&[])?;
    let mut growfs = Xfsprogs::newer()?.command("xfs_growfs");
    run(growfs.arg(mount.path()).stdout(std::process::Stdio::null())).map_err(failed)?;
    for number in 0..64_u8 {
        let folder = mount.path().join(format!("folder {number}"));
        fs::create_dir(&folder).map_err(failed)?;
        fs::write(folder.join("file"), [number; 50_000]).map_err(failed)?;
    }
    mount.unmount()?;
    match image.findings()? {
        None => Ok(()),
        Some(findings) => Err(failed(findings)),
    }
}
