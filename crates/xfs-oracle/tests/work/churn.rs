//! A churn: files, extents, holes, shared blocks and attributes come and go, so that every btree of
//! a volume grows by some levels or blocks and shrinks again.

use std::ffi::OsStr;

use ferroxfs::attr::SetMode;
use ferroxfs::contents::RangeMode;
use ferroxfs::{CreateOptions, File, NewKind, Node, Result, Volume};
use xfs_oracle::Random;

/// Number of files of the large directory.
const FILES: u64 = 500;
/// Number of single blocks of the scattered file.
const SCATTERED: u64 = 420;

struct Churn {
    folder: Node,
    block: u64,
    random: Random,
}

/// Creates some files and removes one, and closes the volume.
pub(crate) fn start(volume: Volume) -> Result<()> {
    let block = volume.geometry().block_size.into();
    let mode = CreateOptions::new(0o755);
    let folder = volume.root()?.create("start", &NewKind::Directory, &mode)?;
    let churn = Churn { folder, block, random: Random::new(0) };
    for name in ["first", "second", "third"] {
        write(&churn.create(name)?, &vec![b's'; 5 * block as usize], 0)?;
    }
    volume.sync()?;
    churn.folder.remove_file("second")?;
    drop(churn);
    volume.close()
}

/// Performs the churn in a folder of its own, and closes the volume.
pub(crate) fn run(volume: Volume, seed: u64) -> Result<()> {
    let block = volume.geometry().block_size.into();
    let mode = CreateOptions::new(0o755);
    let folder = volume.root()?.create("churn", &NewKind::Directory, &mode)?;
    let mut churn = Churn { folder, block, random: Random::new(seed) };
    churn.files()?;
    churn.scattered()?;
    volume.sync()?;
    churn.shared()?;
    churn.removed()?;
    churn.attributes()?;
    volume.sync()?;
    churn.punched()?;
    churn.moved()?;
    churn.removed_all()?;
    drop(churn);
    volume.close()
}

impl Churn {
    fn create(&self, name: &str) -> Result<File> {
        self.folder.create(name, &NewKind::Regular, &CreateOptions::new(0o644))?.open()
    }

    fn name(index: u64) -> String {
        format!("file-{index}-of-a-large-directory")
    }

    /// Creates files, most of them with a block or two.
    fn files(&mut self) -> Result<()> {
        for index in 0..FILES {
            let file = self.create(&Self::name(index))?;
            let length = self.random.below(3 * self.block) as usize;
            write(&file, &vec![b'f'; length], 0)?;
        }
        Ok(())
    }

    /// Writes single blocks with holes between them, in an order that is not that of the file.
    fn scattered(&mut self) -> Result<()> {
        let file = self.create("scattered")?;
        for index in 0..SCATTERED {
            let at = (index * 131 % SCATTERED) * 2 * self.block;
            write(&file, b"scattered", at)?;
            if index % 16 == 0 {
                file.sync_data()?;
            }
        }
        file.sync_all()
    }

    /// Shares the blocks of a file, and then copies some of them on write.
    fn shared(&mut self) -> Result<()> {
        let (first, second) = (self.create("shared")?, self.create("shared-too")?);
        let blocks = 300;
        write(&first, &vec![b's'; (blocks * self.block) as usize], 0)?;
        first.sync_all()?;
        second.clone_range(0, &first, 0, blocks * self.block)?;
        for index in (0..blocks).step_by(2) {
            write(&second, b"own", index * self.block)?;
        }
        second.sync_all()?;
        // The neighbours become alike again, so records are joined.
        for index in (1..blocks / 2).step_by(2) {
            write(&second, b"own", index * self.block)?;
        }
        second.sync_all()
    }

    /// Removes files in an order that leaves holes in inode chunks and in free space.
    fn removed(&mut self) -> Result<()> {
        for index in (0..FILES).filter(|index| index % 3 != 0) {
            self.folder.remove_file(&Self::name(index))?;
        }
        // One file is removed while it is open.
        let file = self.create("open")?;
        write(&file, b"still open", 0)?;
        self.folder.remove_file("open")?;
        file.close()
    }

    fn attributes(&mut self) -> Result<()> {
        let file = self.create("attributes")?;
        for index in 0..120 {
            let name = format!("user.attribute-{index}");
            file.node().set_attribute(OsStr::new(&name), &[b'a'; 40], SetMode::Either)?;
        }
        file.node().set_attribute(OsStr::new("user.large"), &[b'l'; 6000], SetMode::Either)?;
        for index in (0..120).step_by(2) {
            file.node().remove_attribute(OsStr::new(&format!("user.attribute-{index}")))?;
        }
        Ok(())
    }

    /// Punches holes into a file of one extent, and fills some of them again.
    fn punched(&mut self) -> Result<()> {
        let file = self.create("punched")?;
        let blocks = 400;
        write(&file, &vec![b'p'; (blocks * self.block) as usize], 0)?;
        file.sync_all()?;
        for index in (1..blocks).step_by(2) {
            let start = index * self.block;
            file.change_range(start..start + self.block, RangeMode::Punch)?;
        }
        for index in (1..blocks).step_by(6) {
            write(&file, b"filled", index * self.block)?;
        }
        file.sync_all()?;
        // Unwritten extents, and writes into the middle of them.
        let end = 2 * blocks * self.block;
        let mode = RangeMode::Allocate(ferroxfs::contents::AllocateMode::Extend);
        file.change_range(blocks * self.block..end, mode)?;
        for index in (blocks + 1..2 * blocks).step_by(9) {
            write(&file, b"written", index * self.block)?;
        }
        file.sync_all()
    }

    /// Moves ranges of a file, and cuts it.
    fn moved(&mut self) -> Result<()> {
        let file = self.folder.lookup(OsStr::new("scattered"))?.open()?;
        file.change_range(0..8 * self.block, RangeMode::Collapse)?;
        file.change_range(4 * self.block..20 * self.block, RangeMode::Insert)?;
        file.set_len(SCATTERED * self.block)?;
        file.sync_all()
    }

    fn removed_all(&mut self) -> Result<()> {
        for index in (0..FILES).step_by(3) {
            self.folder.remove_file(&Self::name(index))?;
        }
        for name in ["scattered", "shared"] {
            self.folder.remove_file(name)?;
        }
        Ok(())
    }
}

fn write(file: &File, bytes: &[u8], offset: u64) -> Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        done += file.write_at(rest, offset + done as u64)?;
    }
    Ok(())
}
