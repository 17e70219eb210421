//! A churn: a sequence of operations in which files, extents, holes, shared blocks and attributes
//! come and go. So every btree of a volume grows by some levels or blocks and shrinks again.

use std::ffi::OsStr;
use std::ops::Range;

use ferroxfs::attr::SetMode;
use ferroxfs::contents::RangeMode;
use ferroxfs::{CreateOptions, File, NewKind, Node, Result, Volume};
use xfs_oracle::Random;

/// Number of files of the large directory.
const FILES: u64 = 500;
/// Number of blocks of the file that has a hole after each block.
const SCATTERED: u64 = 420;

/// Number of blocks of the file whose blocks are shared.
const SHARED: u64 = 300;

/// The folder in which the churn works, on an open volume.
pub(crate) struct Churn {
    folder: Node,
    block: u64,
    random: Random,
}

/// One stage of the churn: its name, and the function that performs it.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    work: fn(&mut Churn) -> Result<()>,
}

/// The stages, in the order in which they are performed. The volume is checked after each stage,
/// not only at the end, because the library notices many mistakes itself and then stops.
pub(crate) const STAGES: [Stage; 13] = [
    Stage { name: "start", work: Churn::start },
    Stage { name: "one removed", work: |churn| churn.folder.remove_file("second") },
    Stage { name: "few files", work: |churn| churn.files(0..60) },
    Stage { name: "many files", work: |churn| churn.files(60..FILES) },
    Stage { name: "few extents", work: |churn| churn.scattered(0..50) },
    Stage { name: "many extents", work: |churn| churn.scattered(50..SCATTERED) },
    Stage { name: "shared", work: Churn::shared },
    Stage { name: "unshared", work: Churn::unshared },
    Stage { name: "removed", work: Churn::removed },
    Stage { name: "attributes", work: Churn::attributes },
    Stage { name: "punched", work: Churn::punched },
    Stage { name: "moved", work: Churn::moved },
    Stage { name: "removed all", work: Churn::removed_all },
];

/// Performs one stage in a folder of its own, and closes the volume.
pub(crate) fn run(volume: Volume, stage: &Stage, seed: u64) -> Result<()> {
    let block = volume.geometry().block_size.into();
    let name = OsStr::new("churn");
    let root = volume.root()?;
    let folder = match root.lookup(name) {
        Ok(folder) => folder,
        Err(_) => root.create(name, &NewKind::Directory, &CreateOptions::new(0o755))?,
    };
    let mut churn = Churn { folder, block, random: Random::new(seed) };
    let done = (stage.work)(&mut churn);
    drop((churn, root));
    done.and(volume.close())
}

impl Churn {
    fn create(&self, name: &str) -> Result<File> {
        self.folder.create(name, &NewKind::Regular, &CreateOptions::new(0o644))?.open()
    }

    /// Opens a file, or creates it.
    fn open(&self, name: &str) -> Result<File> {
        match self.folder.lookup(OsStr::new(name)) {
            Ok(node) => node.open(),
            Err(_) => self.create(name),
        }
    }

    fn name(index: u64) -> String {
        format!("file-{index}-of-a-large-directory")
    }

    /// Creates some files.
    fn start(&mut self) -> Result<()> {
        for name in ["first", "second", "third"] {
            write(&self.create(name)?, &vec![b's'; 5 * self.block as usize], 0)?;
        }
        Ok(())
    }

    /// Creates files, most of them with a block or two.
    fn files(&mut self, numbers: Range<u64>) -> Result<()> {
        for index in numbers {
            let file = self.create(&Self::name(index))?;
            let length = self.random.below(3 * self.block) as usize;
            write(&file, &vec![b'f'; length], 0)?;
        }
        Ok(())
    }

    /// Writes blocks of one file with a hole after each. The order of the writes is not that of the
    /// blocks in the file.
    fn scattered(&mut self, numbers: Range<u64>) -> Result<()> {
        let file = self.open("scattered")?;
        for index in numbers {
            let at = (index * 131 % SCATTERED) * 2 * self.block;
            write(&file, b"scattered", at)?;
            if index % 16 == 0 {
                file.sync_data()?;
            }
        }
        file.sync_all()
    }

    /// Shares the blocks of a file with a second file, and a third of them with a third file. Then
    /// writes to some of the shared blocks, which copies them.
    fn shared(&mut self) -> Result<()> {
        let [first, second, third] =
            ["shared", "shared-too", "shared-third"].map(|name| self.create(name));
        let (first, second, third) = (first?, second?, third?);
        write(&first, &vec![b's'; (SHARED * self.block) as usize], 0)?;
        first.sync_all()?;
        second.clone_range(0, &first, 0, SHARED * self.block)?;
        third.clone_range(0, &first, 0, SHARED / 3 * self.block)?;
        for index in (SHARED / 2..SHARED).step_by(2) {
            write(&second, b"own", index * self.block)?;
        }
        second.sync_all()
    }

    /// Writes to more of the shared blocks, also to neighbours of blocks written before, so that
    /// reference count records can be joined. Removes the third file.
    fn unshared(&mut self) -> Result<()> {
        let file = self.open("shared-too")?;
        for index in (0..SHARED / 2).step_by(2).chain((1..SHARED / 4).step_by(2)) {
            write(&file, b"own", index * self.block)?;
        }
        file.sync_all()?;
        self.folder.remove_file("shared-third")
    }

    /// Removes files in an order that leaves holes in inode chunks and in free space.
    fn removed(&mut self) -> Result<()> {
        for index in (0..FILES).filter(|index| index % 3 != 0) {
            self.folder.remove_file(Self::name(index))?;
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

    /// Removes a range from a file, inserts one, and truncates the file.
    fn moved(&mut self) -> Result<()> {
        let file = self.open("scattered")?;
        file.change_range(0..8 * self.block, RangeMode::Collapse)?;
        file.change_range(4 * self.block..20 * self.block, RangeMode::Insert)?;
        file.set_len(SCATTERED * self.block)?;
        file.sync_all()
    }

    fn removed_all(&mut self) -> Result<()> {
        for index in (0..FILES).step_by(3) {
            self.folder.remove_file(Self::name(index))?;
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
