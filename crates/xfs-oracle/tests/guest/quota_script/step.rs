//! The steps of the quota script: their text, and the calls that they stand for.
//!
//! ```text
//! ACTOR VERB ARGUMENT …
//! ```
//!
//! The actor is `root`, or the ID of a user, whose group has the same ID. `1001+1002` is the user
//! 1001 that is also a member of the group 1002. Sizes and offsets are in bytes, limits in blocks
//! of 4096 bytes and in inodes, times in seconds.

use xfs_format::dquot::QuotaKind;
use xfs_oracle::model::{
    AllocationMode, FileRanges, FileTarget, NodeSettings, Operation, RenameMode, SetMode,
};
use xfs_oracle::{FileFlags, QuotaSetting};

/// Number of basic blocks, which have 512 bytes each, in a filesystem block.
pub(super) const BASIC_BLOCKS: u64 = 8;

/// The user on whose behalf a call is made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Actor {
    /// The user and its group, 0 for root.
    pub(super) id: u32,
    /// A further group of the user. `None` if the user has none.
    pub(super) group: Option<u32>,
}

/// A step of the script.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) actor: Actor,
    pub(super) call: Call,
}

/// A call of the script.
#[derive(Debug, Clone)]
pub(super) enum Call {
    File(Operation),
    /// Sets limits and timers of an owner.
    Limit {
        kind: QuotaKind,
        id: u32,
        settings: Vec<QuotaSetting>,
    },
    /// Sets the timer of an owner's blocks or inodes to this number of seconds from now.
    Timer {
        kind: QuotaKind,
        id: u32,
        is_blocks: bool,
        seconds: u64,
    },
    /// Moves the clock forward by seconds.
    Clock(u64),
    /// Shows the sizes that statfs returns for a directory.
    Space(String),
    /// Shows which types of quota are accounted and enforced.
    State,
    /// Unmounts the volume, and mounts it with these options.
    Remount(String),
}

impl Step {
    /// Returns the step that a line of the script stands for.
    ///
    /// # Panics
    ///
    /// If the line is no step: the script belongs to this program.
    pub(super) fn parse(line: &str) -> Self {
        let mut words = Words { line, words: line.split_whitespace() };
        let actor = words.next();
        let (id, group) = match actor.split_once('+') {
            Some((id, group)) => (id, Some(words.number_of(group) as u32)),
            None => (actor, None),
        };
        let id = if id == "root" { 0 } else { words.number_of(id) as u32 };
        let verb = words.next();
        let call = words.settings(verb).or_else(|| words.on_names(verb));
        let call = call.or_else(|| words.on_contents(verb).map(Call::File));
        let call = call.unwrap_or_else(|| words.wrong("an unknown verb"));
        assert_eq!(words.words.next(), None, "too many words: {line}");
        Self { actor: Actor { id, group }, call }
    }
}

/// The words of a line that are not parsed yet.
struct Words<'a> {
    line: &'a str,
    words: std::str::SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    #[allow(clippy::panic, reason = "the script belongs to this program")]
    fn wrong(&self, what: &str) -> ! {
        panic!("{what}: {}", self.line)
    }

    fn next(&mut self) -> &'a str {
        self.words.next().unwrap_or_else(|| self.wrong("too few words"))
    }

    fn number_of(&self, word: &str) -> u64 {
        word.parse().unwrap_or_else(|_| self.wrong("not a number"))
    }

    fn number(&mut self) -> u64 {
        let word = self.next();
        self.number_of(word)
    }

    /// Returns a path. The root of the volume is `.` in the script.
    fn path(&mut self) -> String {
        match self.next() {
            "." => String::new(),
            path => path.to_owned(),
        }
    }

    fn kind(&mut self) -> QuotaKind {
        let word = self.next();
        let kind = QuotaKind::ALL.into_iter().find(|kind| kind.name() == word);
        kind.unwrap_or_else(|| self.wrong("not a type of quota"))
    }

    fn settings(&mut self, verb: &str) -> Option<Call> {
        Some(match verb {
            "limit" => {
                let (kind, id) = (self.kind(), self.number() as u32);
                let mut settings = Vec::new();
                while let Some(word) = self.words.next() {
                    settings.push(self.setting(word));
                }
                Call::Limit { kind, id, settings }
            }
            "timer" => Call::Timer {
                kind: self.kind(),
                id: self.number() as u32,
                is_blocks: self.next() == "blocks",
                seconds: self.number(),
            },
            "clock" => Call::Clock(self.number()),
            "statfs" => Call::Space(self.path()),
            "state" => Call::State,
            "remount" => Call::Remount(self.next().to_owned()),
            _ => return None,
        })
    }

    fn setting(&self, word: &str) -> QuotaSetting {
        let (name, value) = word.split_once('=').unwrap_or_else(|| self.wrong("no value"));
        let value = self.number_of(value);
        match name {
            "block-soft" => QuotaSetting::BlockSoft(value * BASIC_BLOCKS),
            "block-hard" => QuotaSetting::BlockHard(value * BASIC_BLOCKS),
            "block-grace" => QuotaSetting::BlockTimer(value),
            "inode-soft" => QuotaSetting::InodeSoft(value),
            "inode-hard" => QuotaSetting::InodeHard(value),
            "inode-grace" => QuotaSetting::InodeTimer(value),
            _ => self.wrong("no limit"),
        }
    }

    fn on_names(&mut self, verb: &str) -> Option<Call> {
        Some(Call::File(match verb {
            "create" => Operation::Create { path: self.path(), mode: 0o644 },
            "mkdir" => Operation::MakeDirectory { path: self.path(), mode: 0o755 },
            "mkfifo" => Operation::MakeNode { path: self.path(), mode: 0o010_644, device: (0, 0) },
            "symlink" => {
                Operation::Symlink { target: vec![b't'; self.number() as usize], path: self.path() }
            }
            "link" => Operation::Link { from: self.path(), to: self.path() },
            "unlink" => Operation::Unlink { path: self.path() },
            "rmdir" => Operation::RemoveDirectory { path: self.path() },
            "rename" => self.rename(RenameMode::Replace),
            "exchange" => self.rename(RenameMode::Exchange),
            "tmpfile" => Operation::MakeTemporary { slot: 0, folder: self.path(), mode: 0o644 },
            "link-open" => Operation::LinkSlot { slot: 0, path: self.path() },
            "open" => Operation::Open { slot: 0, path: self.path() },
            "close" => Operation::Close { slot: 0 },
            "chmod" => Operation::ChangeMode { mode: self.octal(), path: self.path() },
            "chown" => Operation::ChangeOwner {
                uid: self.number() as u32,
                gid: self.number() as u32,
                path: self.path(),
            },
            "project" => self.project(FileFlags::empty()),
            "project-inherit" => self.project(FileFlags::PROJECT_INHERIT),
            "setxattr" => Operation::SetAttribute {
                path: self.path(),
                name: self.next().to_owned(),
                length: self.number() as usize,
                number: 1,
                mode: SetMode::Either,
            },
            _ => return None,
        }))
    }

    fn octal(&mut self) -> u32 {
        let word = self.next();
        u32::from_str_radix(word, 8).unwrap_or_else(|_| self.wrong("not a mode"))
    }

    fn rename(&mut self, mode: RenameMode) -> Operation {
        Operation::Rename { from: self.path(), to: self.path(), mode }
    }

    fn project(&mut self, flags: FileFlags) -> Operation {
        let settings =
            NodeSettings { flags, project_id: self.number() as u32, ..NodeSettings::default() };
        Operation::SetFlags { path: self.path(), settings }
    }

    fn on_contents(&mut self, verb: &str) -> Option<Operation> {
        let allocate = |words: &mut Self, mode| Operation::Allocate {
            file: words.file(),
            mode,
            offset: words.number(),
            length: words.number(),
        };
        Some(match verb {
            "write" => Operation::Write {
                file: self.file(),
                offset: self.number(),
                length: self.number(),
                number: 1,
            },
            "truncate" => Operation::Truncate { file: self.file(), size: self.number() },
            "fallocate" => allocate(self, AllocationMode::Allocate),
            "punch" => allocate(self, AllocationMode::PunchHole),
            "zero" => allocate(self, AllocationMode::Zero),
            "collapse" => allocate(self, AllocationMode::Collapse),
            "unshare" => allocate(self, AllocationMode::Unshare),
            "reflink" => Operation::Clone(self.ranges()),
            "exchange-range" => Operation::Exchange(self.ranges()),
            _ => return None,
        })
    }

    /// Returns a file: a path, or the open file, which the script calls `@`.
    fn file(&mut self) -> FileTarget {
        match self.path().as_str() {
            "@" => FileTarget::Slot(0),
            path => FileTarget::Path(path.to_owned()),
        }
    }

    /// Returns two files and a length. Both ranges begin at offset 0.
    fn ranges(&mut self) -> FileRanges {
        let (from, to) = (self.file(), self.file());
        FileRanges { from, from_offset: 0, to, to_offset: 0, length: self.number() }
    }
}
