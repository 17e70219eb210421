//! The groups and capabilities of a caller, as /proc shows them.
//!
//! A request names the user, group and thread of its caller, and nothing else. The server reads the
//! caller's other groups and its capabilities from /proc while the caller waits for the answer.
//!
//! Owns: which data of /proc is trusted. Does **not** own: the permission checks
//! ([`checks`](super::checks)).
//!
//! # Invariants
//!
//! - **I1** The thread of a checked request waits for the answer, and nothing wakes it once the
//!   request has been read. While it waits, its ID belongs to no other thread and its credentials
//!   do not change. It keeps its own memory meanwhile, so the thread that reads /proc never becomes
//!   the last holder of that memory.
//! - **I2** Unknown rights count as none: no groups, no capabilities. This applies to a caller of
//!   another process namespace (whose thread ID is 0), and to a thread that /proc does not show.
//! - **I3** A thread's rights count only if /proc shows the user and group that the request names.
//!   A thread may act with the credentials of another user, as overlayfs does for all of its
//!   callers. Its own rights do not apply then.
//! - **I4** Capabilities belong to a user namespace. Those of a namespace other than the server's
//!   do not count, nor those of a namespace that the server may not identify.
//! - **I5** IDs are those of the server's namespaces. The server's /proc belongs to the server's
//!   process namespace. The overflow group of the server's user namespace stands for all groups
//!   that have no ID in it, and grants nothing.

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

/// Name of the file with a thread's credentials, in the thread's folder in /proc.
const STATUS: &str = "status";
/// Name of the link that identifies a thread's user namespace, in the thread's folder in /proc.
const NAMESPACE: &str = "ns/user";
/// Size of the buffer for a status file in bytes. Most status files are smaller.
const STATUS_BYTES: usize = 4 << 10;
/// Number of IDs that an ID map without gaps maps.
const ALL_IDS: u64 = u32::MAX as u64;
/// The overflow group of a kernel with default settings: it stands for groups without an ID in a
/// user namespace.
const OVERFLOW_GROUP: u32 = 65534;

/// The groups and capabilities that a caller has in addition to its user and group ID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CallerRights {
    pub(super) groups: Vec<u32>,
    pub(super) capabilities: Capabilities,
}

/// The user, group and thread that a request names as its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallerId {
    uid: u32,
    gid: u32,
    thread: u32,
}

/// The fields of a thread's status file in /proc that the server needs.
#[derive(Debug, PartialEq, Eq)]
struct Status {
    /// The filesystem user ID. The field `gid` is the filesystem group ID.
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    /// The effective capabilities.
    capabilities: Capabilities,
}

impl Status {
    /// Parses the status file of a thread in /proc (see proc(5)). Returns `None` if a field is
    /// missing or malformed.
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
        // The IDs are real, effective, saved, filesystem.
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

/// Returns the number of nested process namespaces in which a thread has an ID. The outermost one
/// is the namespace of the /proc that is read.
fn namespaces(status: &[u8]) -> usize {
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"));
    let words =
        line.map(|line| line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()));
    // A kernel without process namespaces has no such line.
    words.map_or(1, Iterator::count)
}

/// Returns whether an ID map (see user_namespaces(7)) covers all IDs.
fn maps_all(map: &str) -> bool {
    let counts =
        map.lines().filter_map(|line| line.split_ascii_whitespace().nth(2)?.parse::<u64>().ok());
    counts.fold(0, u64::saturating_add) >= ALL_IDS
}

/// The folder /proc, opened when the mount begins.
#[derive(Debug)]
struct Proc {
    root: OwnedFd,
    /// The identity of this process's user namespace, as a link in /proc shows it.
    namespace: CString,
    /// The overflow group: the ID that stands for all groups without an ID in the user namespace.
    /// This ID grants nothing. `None` if the user namespace maps all groups.
    nobodys: Option<u32>,
}

impl Proc {
    /// Opens /proc.
    ///
    /// # Errors
    ///
    /// The error of the system, or `ENODEV` if /proc is missing or shows another process namespace.
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
        // The overflow group grants nothing (I5).
        groups.retain(|group| Some(*group) != self.nobodys);
        // Those of another namespace, or of one that is hidden, do not count (I4).
        if !capabilities.is_empty() && !self.shares_namespace(asked.thread) {
            capabilities = Capabilities::empty();
        }
        CallerRights { groups, capabilities }
    }

    /// Returns the status of the caller's thread, or `None` if the thread's rights do not count:
    /// /proc does not show it (I2), or shows another user or group (I3).
    fn status(&self, asked: CallerId) -> Option<Status> {
        if asked.thread == 0 {
            return None;
        }
        // The thread waits for the answer, so this is its file (I1).
        let text = self.read(&format!("{}/{STATUS}", asked.thread)).ok()?;
        // I3: the rights of the thread count only if it acts as the user of the request.
        Status::parse(&text).filter(|status| (status.uid, status.gid) == (asked.uid, asked.gid))
    }

    fn shares_namespace(&self, thread: u32) -> bool {
        let link = readlinkat(&self.root, format!("{thread}/{NAMESPACE}"), Vec::new());
        link.is_ok_and(|link| link == self.namespace)
    }
}

/// A request to the helper thread for the rights of one caller.
struct RightsRequest {
    asked: CallerId,
    answer: SyncSender<CallerRights>,
}

/// A helper thread that reads /proc for workers whose sandbox forbids it. The workers can pass only
/// IDs to the helper, no paths.
#[derive(Debug)]
struct ProcReader {
    /// The sender of requests to the helper. `None` only while this reader is being dropped.
    questions: Option<Sender<RightsRequest>>,
    thread: Option<JoinHandle<()>>,
}

impl ProcReader {
    fn start(proc: Arc<Proc>) -> io::Result<Self> {
        let (questions, asked) = channel::<RightsRequest>();
        let read = move || {
            for RightsRequest { asked, answer } in asked {
                // The worker waits for this.
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
            let ended = thread.join();
            let is_sound = ended.is_ok() || std::thread::panicking();
            assert!(is_sound, "the thread that reads /proc has panicked");
        }
    }
}

/// Which thread reads /proc to look up the rights of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcAccess {
    /// Each worker reads /proc itself.
    Worker,
    /// A helper thread outside the sandbox reads /proc.
    Helper,
}

/// Looks up the rights of callers.
#[derive(Debug)]
pub(super) struct Callers {
    proc: Arc<Proc>,
    reader: Option<ProcReader>,
}

impl Callers {
    /// Opens /proc. If `by` is [`ProcAccess::Helper`], also starts the helper thread that reads
    /// /proc.
    ///
    /// # Errors
    ///
    /// The error of opening /proc or of starting a thread.
    pub(super) fn new(by: ProcAccess) -> io::Result<Self> {
        let proc = Arc::new(Proc::open()?);
        let reader = match by {
            ProcAccess::Worker => None,
            ProcAccess::Helper => Some(ProcReader::start(Arc::clone(&proc))?),
        };
        Ok(Self { proc, reader })
    }

    /// Returns the groups and capabilities of a request's caller.
    pub(super) fn rights(&self, request: &Request<'_>) -> CallerRights {
        let asked = CallerId { uid: request.uid(), gid: request.gid(), thread: request.thread() };
        match &self.reader {
            Some(reader) => reader.rights(asked),
            None => self.proc.rights(asked),
        }
    }

    /// Returns whether this machine restricts hard links to files of other users. Must not be
    /// called in a sandbox.
    #[doc(alias = "fs.protected_hardlinks")]
    pub(super) fn protects_hard_links(&self) -> bool {
        // If the setting cannot be read, it counts as set.
        self.proc.number("sys/fs/protected_hardlinks") != Some(0)
    }
}

#[cfg(test)]
mod tests;
