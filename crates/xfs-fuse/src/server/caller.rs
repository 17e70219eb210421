//! What a caller may do beyond what its user and group may: groups and capabilities, as /proc shows them.
//!
//! A request says user, group and thread of its caller, and nothing else. The rest is read while the caller
//! waits for the answer.
//!
//! Owns: what of /proc is believed. Does **not** own: what follows from it ([`checks`](super::checks)).
//!
//! # Invariants
//!
//! - **I1** The thread of a request that is checked waits for the answer, and nothing calls it back from there
//!   once the request has been read: its number means no other thread meanwhile, its credentials do not change,
//!   and the reader is never the last who holds its memory.
//! - **I2** What cannot be known counts for nothing: no groups, no capabilities. So it is for a caller of another process
//!   namespace (its number is 0), and where /proc does not show a thread.
//! - **I3** The thread counts only where it shows the user and group that the request says: what a thread does with
//!   credentials that it has borrowed (as overlayfs does for all of its callers) is not done with its own.
//! - **I4** Capabilities are of a user namespace. Those of another one than the server's do not count, nor where
//!   the server may not see which one it is.
//! - **I5** Numbers are those of the server's namespaces: /proc is that of its process namespace, and the group
//!   that stands for all without a number in its user namespace is nobody's.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use ferroxfs::Capabilities;
use rustix::fs::{Mode, OFlags, PROC_SUPER_MAGIC, fstatfs, openat, readlinkat};
use rustix::io::Errno;

use crate::transport::Request;

/// Where a thread says whose it is, beneath its folder.
const STATUS: &str = "status";
/// What names its user namespace, there too.
const NAMESPACE: &str = "ns/user";
/// Room for most of what a thread says.
const STATUS_BYTES: usize = 4 << 10;
/// What a map of ids adds up to where it leaves out none.
const ALL_IDS: u64 = u32::MAX as u64;
/// The group of those without a number, unless the machine says another one.
const OVERFLOW_GROUP: u32 = 65534;

/// What somebody may do beyond what a user and a group may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CallerRights {
    pub(super) groups: Vec<u32>,
    pub(super) capabilities: Capabilities,
}

/// Who a request says that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallerId {
    uid: u32,
    gid: u32,
    thread: u32,
}

/// What a thread says of itself, of what counts here.
#[derive(Debug, PartialEq, Eq)]
struct Status {
    /// Those with which it uses files.
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    /// Those in effect.
    capabilities: Capabilities,
}

impl Status {
    /// Reads what proc(5) calls `status`. `None` where something is missing or no number.
    fn parse(text: &[u8]) -> Option<Self> {
        let field = |name: &str| {
            let line = text
                .split(|byte| *byte == b'\n')
                .find_map(|line| line.strip_prefix(name.as_bytes()));
            std::str::from_utf8(line?).ok()
        };
        let numbers = |name| {
            let words = field(name)?.split_ascii_whitespace();
            words.map(|word| word.parse::<u32>().ok()).collect::<Option<Vec<_>>>()
        };
        // Real, effective, saved, and that of files.
        let of_files = |name| match numbers(name)?.as_slice() {
            [_, _, _, of_files] => Some(*of_files),
            _ => None,
        };
        let bits = u64::from_str_radix(field("CapEff:")?.trim_ascii(), 16).ok()?;
        Some(Self {
            uid: of_files("Uid:")?,
            gid: of_files("Gid:")?,
            groups: numbers("Groups:")?,
            capabilities: Capabilities::from_bits_truncate(bits),
        })
    }
}

/// How many process namespaces a thread is in, counted from that of the /proc that says so.
fn namespaces(status: &[u8]) -> usize {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"));
    let words =
        line.map(|line| line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()));
    // A kernel without such namespaces does not say it.
    words.map_or(1, Iterator::count)
}

/// Whether a map of ids (user_namespaces(7)) leaves out none.
fn maps_all(map: &str) -> bool {
    let counts =
        map.lines().filter_map(|line| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok());
    counts.fold(0, u64::saturating_add) >= ALL_IDS
}

/// /proc, as it is when a mount begins.
#[derive(Debug)]
struct Proc {
    root: OwnedFd,
    /// The user namespace of this process.
    namespace: CString,
    /// The group that is nobody's, if the namespace has not all.
    nobodys: Option<u32>,
}

impl Proc {
    /// # Errors
    ///
    /// What the system gives; `ENODEV` if what is there is not /proc of this process namespace.
    fn open() -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open("/proc", flags, Mode::empty())?;
        if fstatfs(&root)?.f_type != PROC_SUPER_MAGIC {
            return Err(Errno::NODEV.into());
        }
        let namespace = readlinkat(&root, format!("self/{NAMESPACE}"), Vec::new())?;
        let mut this = Self { root, namespace, nobodys: None };
        if namespaces(&this.read(&format!("self/{STATUS}"))?) != 1 {
            return Err(Errno::NODEV.into());
        }
        if !maps_all(&String::from_utf8_lossy(&this.read("self/gid_map")?)) {
            let group = this.number("sys/kernel/overflowgid");
            this.nobodys = Some(group.unwrap_or(OVERFLOW_GROUP));
        }
        Ok(this)
    }

    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.root, path, flags, Mode::empty())?);
        let mut text = Vec::with_capacity(STATUS_BYTES);
        file.read_to_end(&mut text)?;
        Ok(text)
    }

    fn number(&self, path: &str) -> Option<u32> {
        std::str::from_utf8(&self.read(path).ok()?).ok()?.trim().parse().ok()
    }

    fn rights(&self, asked: CallerId) -> CallerRights {
        let Some(status) = self.status(asked) else { return CallerRights::default() };
        let Status { mut groups, mut capabilities, .. } = status;
        groups.retain(|group| Some(*group) != self.nobodys);
        if !capabilities.is_empty() && !self.shares_namespace(asked.thread) {
            capabilities = Capabilities::empty();
        }
        CallerRights { groups, capabilities }
    }

    /// What the thread says, where it is the caller (I2, I3).
    fn status(&self, asked: CallerId) -> Option<Status> {
        if asked.thread == 0 {
            return None;
        }
        let text = self.read(&format!("{}/{STATUS}", asked.thread)).ok()?;
        Status::parse(&text).filter(|status| (status.uid, status.gid) == (asked.uid, asked.gid))
    }

    fn shares_namespace(&self, thread: u32) -> bool {
        let link = readlinkat(&self.root, format!("{thread}/{NAMESPACE}"), Vec::new());
        link.is_ok_and(|link| link == self.namespace)
    }
}

/// What is asked of the thread that reads for others.
struct RightsRequest {
    asked: CallerId,
    answer: SyncSender<CallerRights>,
}

/// A thread that reads for those in a sandbox, which keeps them from /proc. It takes nothing from them but
/// numbers.
#[derive(Debug)]
struct ProcReader {
    /// There until it is stale_contents.
    questions: Option<Sender<RightsRequest>>,
    thread: Option<JoinHandle<()>>,
}

impl ProcReader {
    fn start(proc: Arc<Proc>) -> io::Result<Self> {
        let (questions, asked) = channel::<RightsRequest>();
        let read = move || {
            for RightsRequest { asked, answer } in asked {
                // Who asked waits for it.
                let _ = answer.send(proc.rights(asked));
            }
        };
        let thread = Builder::new().name("callers".to_owned()).spawn(read)?;
        Ok(Self { questions: Some(questions), thread: Some(thread) })
    }

    fn rights(&self, asked: CallerId) -> CallerRights {
        let (answer, answered) = sync_channel(1);
        let sent = self
            .questions
            .as_ref()
            .map(|questions| questions.send(RightsRequest { asked, answer }));
        if !matches!(sent, Some(Ok(()))) {
            return CallerRights::default();
        }
        answered.recv().unwrap_or_default()
    }
}

impl Drop for ProcReader {
    fn drop(&mut self) {
        drop(self.questions.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Who reads /proc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcAccess {
    /// Each worker.
    Worker,
    /// A thread that no sandbox keeps from it.
    Helper,
}

/// Where it is found out who callers are.
#[derive(Debug)]
pub(super) struct Callers {
    proc: Arc<Proc>,
    reader: Option<ProcReader>,
}

impl Callers {
    /// # Errors
    ///
    /// What keeps this process from /proc, or from starting a thread.
    pub(super) fn new(by: ProcAccess) -> io::Result<Self> {
        let proc = Arc::new(Proc::open()?);
        let reader = match by {
            ProcAccess::Worker => None,
            ProcAccess::Helper => Some(ProcReader::start(Arc::clone(&proc))?),
        };
        Ok(Self { proc, reader })
    }

    /// What the caller of a request may do beyond what its user and group may.
    pub(super) fn rights(&self, request: &Request<'_>) -> CallerRights {
        let asked = CallerId { uid: request.uid(), gid: request.gid(), thread: request.thread() };
        match &self.reader {
            Some(reader) => reader.rights(asked),
            None => self.proc.rights(asked),
        }
    }

    /// Whether this machine lets nobody give a further name to files of others. For who is in no sandbox.
    #[doc(alias = "fs.protected_hardlinks")]
    pub(super) fn protects_hard_links(&self) -> bool {
        // What cannot be read is taken for set.
        self.proc.number("sys/fs/protected_hardlinks") != Some(0)
    }
}

#[cfg(test)]
mod tests;
