//! The files of a damaged volume, as a tree that a mount shows.
//!
//! Owns: the thread that reads the volume, and the questions to that thread. Does **not** own:
//! reading damaged structures (`xfs-salvage`), or the requests of the kernel (`xfs-fuse`).
//!
//! Only one thread can use a survey, which finds everything that can still be read. That thread
//! surveys the volume, keeps its names, and answers the questions of the workers one after the
//! other. The thread ends when the mount ends.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Builder;
use std::time::Duration;

use rustix::io::Errno;
use xfs_fuse::{FileTree, ROOT_NODE, TreeAttributes, TreeEntry, TreeSpace, TreeXattr};
use xfs_salvage::{NameId, NameTree, Salvage, SurveyProgress};

use crate::damaged::shortfalls::Shortfalls;
use crate::damaged::source::SalvageSource;
use crate::damaged::volume::{DamagedImage, DamagedVolume};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::Time;
use crate::file::source::{NamedValue, Source, is_safe_name};

/// The time between two checks for a signal during the survey, which finds everything that can
/// still be read.
const LOOK: Duration = Duration::from_millis(100);

/// The length, in bytes, of the longest file name that the kernel accepts.
const MOST_NAME_BYTES: usize = 255;

/// A question to the thread that reads the volume.
type Question = Box<dyn for<'a> FnOnce(&Surveyed<'a>) + Send>;

/// The files of a damaged volume.
pub(super) struct DamagedTree {
    questions: Sender<Question>,
    space: TreeSpace,
}

/// The result of a survey: the notes and losses to report to the user, and the space of the volume.
pub(super) struct SurveyReport {
    pub(super) notes: Vec<String>,
    pub(super) shortfalls: Shortfalls,
    /// The number of names that the tree leaves out, because there are too many.
    pub(super) dropped: u64,
    space: TreeSpace,
}

/// A receiver of the progress of a survey. It ends the survey when a message arrives on this
/// channel.
struct UntilStopped<'a>(&'a Receiver<()>);

impl SurveyProgress for UntilStopped<'_> {
    fn step(&self, _what: &'static str, _done: u64, _all: u64) -> ControlFlow<()> {
        match self.0.try_recv() {
            Ok(()) => ControlFlow::Break(()),
            Err(_) => ControlFlow::Continue(()),
        }
    }
}

impl DamagedTree {
    /// Starts the thread that reads the volume, and waits until it has surveyed the volume. During
    /// the wait, calls `is_stopped` regularly, and stops the survey if that returns true, because a
    /// signal has arrived.
    pub(super) fn start(
        image: DamagedImage,
        mut is_stopped: impl FnMut() -> bool,
    ) -> Result<(Self, SurveyReport), Failure> {
        let (questions, asked) = channel::<Question>();
        let (tell, told) = channel();
        let (stop, stopped) = channel();
        let work = move || read(image, &tell, &asked, &stopped);
        Builder::new().name("damaged".to_owned()).spawn(work).map_err(|error| {
            Failure::new(Exit::Failed, format!("its thread cannot be started: {error}"))
        })?;
        loop {
            match told.recv_timeout(LOOK) {
                Ok(report) => {
                    let report: SurveyReport = report?;
                    return Ok((Self { questions, space: report.space }, report));
                }
                Err(RecvTimeoutError::Timeout) if is_stopped() => {
                    let _ = stop.send(());
                    return Err(Failure::new(Exit::Failed, "stopped by a signal"));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::new(Exit::Failed, "the thread that reads it has ended"));
                }
            }
        }
    }

    /// Sends a question to the thread that reads the volume, and waits for the answer. Fails with
    /// EIO if that thread has ended.
    fn ask<R: Send + 'static>(
        &self,
        question: impl for<'a> FnOnce(&Surveyed<'a>) -> Result<R, Errno> + Send + 'static,
    ) -> Result<R, Errno> {
        let (tell, told) = channel();
        let question: Question = Box::new(move |surveyed| {
            // The worker waits for the answer.
            let _ = tell.send(question(surveyed));
        });
        self.questions.send(question).map_err(|_| Errno::IO)?;
        told.recv().map_err(|_| Errno::IO)?
    }
}

/// Surveys the volume, sends the result to `tell`, and then answers the questions that arrive in
/// `asked`, until their sender has been dropped. A message in `stopped` ends the survey.
fn read(
    image: DamagedImage,
    tell: &Sender<Result<SurveyReport, Failure>>,
    asked: &Receiver<Question>,
    stopped: &Receiver<()>,
) {
    let mut notes = Vec::new();
    let volume = match image.read(|note| notes.push(note)) {
        Ok(volume) => volume,
        Err(failure) => {
            let _ = tell.send(Err(failure));
            return;
        }
    };
    let progress = UntilStopped(stopped);
    let DamagedVolume { device, superblock, .. } = &volume;
    let options = volume.survey_options();
    // After a stop, no caller waits for the survey.
    let Ok(survey) = Salvage::survey(&**device, superblock, options, &progress) else { return };
    notes.extend(survey.notes().iter().cloned());
    let shortfalls: Rc<RefCell<Shortfalls>> = Rc::default();
    let sink = Rc::clone(&shortfalls);
    survey.report_to(move |report| sink.borrow_mut().take(report));
    let Ok(tree) = survey.name_tree(&progress) else { return };
    let space = TreeSpace {
        block_size: 1 << superblock.geometry.block_log,
        blocks: superblock.geometry.data_bytes() >> superblock.geometry.block_log,
        files: survey.inode_count(),
    };
    let hidden = (0..tree.count()).filter_map(NameId::of_index).skip(1);
    let hidden = hidden.filter(|id| !is_shown(tree.name(*id))).count();
    if hidden > 0 {
        notes.push(format!("{hidden} names are not shown, because no path can hold them"));
    }
    let (dropped, shortfalls) = (tree.dropped(), shortfalls.take());
    let _ = tell.send(Ok(SurveyReport { notes, shortfalls, dropped, space }));
    let surveyed = Surveyed { survey: &survey, tree, children: RefCell::default() };
    for question in asked {
        question(&surveyed);
    }
}

/// Returns whether a mount can show a name. If a listing had a name that cannot be part of a path,
/// the kernel would refuse the whole listing.
fn is_shown(name: &[u8]) -> bool {
    is_safe_name(name) && name.len() <= MOST_NAME_BYTES
}

/// A surveyed volume, owned by the thread that reads it.
struct Surveyed<'a> {
    survey: &'a Salvage<'a>,
    tree: NameTree,
    /// The entries of each directory that a worker has requested so far, sorted by name.
    children: RefCell<HashMap<NameId, Rc<[NameId]>>>,
}

impl<'a> Surveyed<'a> {
    /// Returns the name in the tree for which the FUSE node number `node` stands. ENOENT if there
    /// is none.
    fn id(&self, node: u64) -> Result<NameId, Errno> {
        let index = node.checked_sub(ROOT_NODE).and_then(|index| usize::try_from(index).ok());
        let index = index.filter(|index| *index < self.tree.count());
        index.and_then(NameId::of_index).ok_or(Errno::NOENT)
    }

    fn source(&self, node: u64) -> Result<SalvageSource<'a>, Errno> {
        Ok(SalvageSource::new(self.tree.node(self.survey, self.id(node)?)))
    }

    fn children(&self, node: u64) -> Result<Rc<[NameId]>, Errno> {
        let id = self.id(node)?;
        let mut known = self.children.borrow_mut();
        let children = known.entry(id).or_insert_with(|| {
            let shown = self.tree.children(id).filter(|id| is_shown(self.tree.name(*id)));
            let mut children: Vec<NameId> = shown.collect();
            children.sort_by(|a, b| self.tree.name(*a).cmp(self.tree.name(*b)));
            children.into()
        });
        Ok(Rc::clone(children))
    }

    fn inode(&self, id: NameId) -> u64 {
        // The directory of the orphans has no inode, and programs take 0 for no file.
        self.tree.inode(id).map_or(u64::MAX, |inode| inode.0)
    }

    fn attributes(&self, node: u64) -> Result<TreeAttributes, Errno> {
        let facts = self.source(node)?.facts();
        let time = |time: Time| (time.seconds, time.nanoseconds);
        Ok(TreeAttributes {
            inode: self.inode(self.id(node)?),
            size: facts.size,
            blocks: facts.blocks,
            mode: facts.mode,
            links: facts.links,
            uid: facts.uid,
            gid: facts.gid,
            device: facts.device,
            accessed: time(facts.accessed),
            modified: time(facts.modified),
            changed: time(facts.changed),
        })
    }

    fn entries(&self, directory: u64, skipped: u64, most: usize) -> Result<Vec<TreeEntry>, Errno> {
        let skipped = usize::try_from(skipped).map_err(|_| Errno::INVAL)?;
        let children = self.children(directory)?;
        let listed = children.iter().skip(skipped).take(most);
        let entry = |id: &NameId| TreeEntry {
            name: self.tree.name(*id).to_vec(),
            inode: self.inode(*id),
            mode: self.tree.node(self.survey, *id).facts().mode.into(),
        };
        Ok(listed.map(entry).collect())
    }

    /// Reads `length` bytes of a file's contents from `offset` on. Fails with EIO if one of the
    /// bytes is lost, because zeros in its place would be taken for contents.
    fn read(&self, node: u64, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let file = self.tree.node(self.survey, self.id(node)?);
        let mut bytes = vec![0; length];
        let read = file.read_at(&mut bytes, offset);
        bytes.truncate(read);
        let end = offset + read as u64;
        let missing = file.contents().map(xfs_salvage::Contents::missing).unwrap_or_default();
        match missing.iter().any(|range| range.start < end && offset < range.end) {
            true => Err(Errno::IO),
            false => Ok(bytes),
        }
    }
}

impl FileTree for DamagedTree {
    fn attributes(&self, node: u64) -> Result<TreeAttributes, Errno> {
        self.ask(move |surveyed| surveyed.attributes(node))
    }

    fn lookup(&self, directory: u64, name: &OsStr) -> Result<u64, Errno> {
        let name = name.as_bytes().to_vec();
        self.ask(move |surveyed| {
            let children = surveyed.children(directory)?;
            let found = children
                .binary_search_by(|id| surveyed.tree.name(*id).cmp(name.as_slice()))
                .map_err(|_| Errno::NOENT)?;
            let id = children.get(found).expect("a search returns an index of the slice");
            Ok(id.index() as u64 + ROOT_NODE)
        })
    }

    fn parent(&self, directory: u64) -> Result<u64, Errno> {
        self.ask(move |surveyed| {
            let id = surveyed.id(directory)?;
            Ok(surveyed.tree.parent(id).index() as u64 + ROOT_NODE)
        })
    }

    fn entries(&self, directory: u64, skipped: u64, most: usize) -> Result<Vec<TreeEntry>, Errno> {
        self.ask(move |surveyed| surveyed.entries(directory, skipped, most))
    }

    fn read(&self, node: u64, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        self.ask(move |surveyed| surveyed.read(node, offset, length))
    }

    fn target(&self, node: u64) -> Result<Vec<u8>, Errno> {
        self.ask(move |surveyed| surveyed.source(node)?.target().map_err(|_| Errno::IO))
    }

    fn extended_attributes(&self, node: u64) -> Result<Vec<TreeXattr>, Errno> {
        self.ask(move |surveyed| {
            let named = surveyed.source(node)?.attributes();
            let named = named.into_iter().flatten();
            Ok(named.map(|NamedValue { name, value }| TreeXattr { name, value }).collect())
        })
    }

    fn space(&self) -> TreeSpace {
        self.space
    }
}
