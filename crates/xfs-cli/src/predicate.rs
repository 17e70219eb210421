//! The expressions of find(1): what they are, and what they need to know of a file.
//!
//! Owns: the expression tree, its parser and its evaluation. Does **not** own: the walk. Expressions
//! are evaluated over the [`Entry`] trait, so that tests run them on a host directory beside find(1)
//! itself.

mod evaluate;
mod parse;
mod permission;
mod printf;

use std::ffi::OsString;

use regex::bytes::Regex;

pub(crate) use evaluate::Evaluation;
pub(crate) use parse::{Parser, find_id, is_expression_start};
use permission::Permission;
use printf::Format;

use crate::facts::{Facts, FileKind, Time};
use crate::failure::Failure;
use crate::glob::Glob;

/// The part of the help that clap cannot know.
pub(crate) const HELP: &str = "\
Expression (as in find(1); numbers take + and - in front):
  ( EXPR )  ! EXPR  -not EXPR  EXPR [-a] EXPR  EXPR -o EXPR  EXPR , EXPR
  -name -iname -path -ipath -lname -ilname PATTERN    -regex REGEX
  -type [fdlbcps,...]  -size N[cwbkMG]  -empty  -links N  -inum N  -perm [-/]MODE
  -uid N  -gid N  -user NAME  -group NAME  -project N  (names are this host's)
  -amin -cmin -mmin -Bmin N   -atime -ctime -mtime -Btime N
  -newer IMAGE:/path  -newerXY REFERENCE  (X: a B c m; Y also: t, a time)
  -xattr NAME[=VALUE]  -true  -false
  -maxdepth N  -mindepth N  -depth  -prune  -quit
  -print  -print0  -printf FORMAT  -ls
Owners are shown as numbers: their names are those of another system.";

/// What an expression can ask about a file.
pub(crate) trait Entry {
    /// The path as the walk reached it, starting with the argument of the command.
    fn path(&self) -> &[u8];
    /// The part of the path below the argument of the command.
    fn path_below_start(&self) -> &[u8];
    /// How deep below the argument of the command.
    fn depth(&self) -> usize;
    /// What the inode says.
    fn facts(&self) -> &Facts;
    /// The value of an extended attribute.
    fn attribute(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Failure>;
    /// The target of a symbolic link.
    fn target(&self) -> Result<Option<Vec<u8>>, Failure>;
    /// Whether a directory has no entries.
    fn is_empty_directory(&self) -> Result<bool, Failure>;

    /// The last component of the path.
    fn name(&self) -> &[u8] {
        last_component(self.path())
    }
}

/// The last component of a path; `/` for the root.
pub(crate) fn last_component(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let trimmed = path.get(..end).unwrap_or_default();
    match trimmed.iter().rposition(|&byte| byte == b'/') {
        _ if trimmed.is_empty() => path.get(..1).unwrap_or_default(),
        None => trimmed,
        Some(slash) => trimmed.get(slash + 1..).unwrap_or_default(),
    }
}

/// What a whole command line of find asks for.
#[derive(Debug)]
pub(crate) struct Program {
    /// What is evaluated for every file.
    pub(crate) expression: Expression,
    /// How deep the walk goes.
    pub(crate) max_depth: usize,
    /// Above this depth nothing is evaluated.
    pub(crate) min_depth: usize,
    /// Whether directories come after what is in them.
    pub(crate) is_depth_first: bool,
    /// Whether the expression prints by itself.
    pub(crate) has_action: bool,
    /// The files that it refers to. Who evaluates it looks up their times first.
    pub(crate) references: Vec<Reference>,
}

/// A file that `-newer` and its like refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Where it is.
    pub(crate) address: OsString,
    /// Which of its times is meant.
    pub(crate) stamp: Stamp,
}

/// An expression.
#[derive(Debug)]
pub(crate) enum Expression {
    /// Both; the right one only where the left one is true.
    And(Box<Self>, Box<Self>),
    /// One of both; the right one only where the left one is false.
    Or(Box<Self>, Box<Self>),
    /// The left one is forgotten.
    Comma(Box<Self>, Box<Self>),
    /// The opposite.
    Not(Box<Self>),
    /// A question.
    Test(Test),
    /// A side effect; true.
    Action(Action),
}

/// A question about a file.
#[derive(Debug)]
pub(crate) enum Test {
    /// Always or never.
    Constant(bool),
    /// The last component of the path.
    Name(Glob),
    /// The path.
    Path(Glob),
    /// The path as a whole, by a regular expression.
    PathRegex(Regex),
    /// The target of a symbolic link.
    Target(Glob),
    /// The type is one of these.
    Kind(Vec<FileKind>),
    /// The size, rounded up to units.
    Size(Comparison, u64),
    /// Nothing in it: a regular file or a directory.
    Empty,
    /// A number of the inode.
    Number(Number, Comparison),
    /// Permissions.
    Permission(Permission),
    /// Age in days, rounded down.
    AgeDays(Stamp, Comparison),
    /// Age in minutes.
    AgeMinutes(Stamp, Comparison),
    /// Later than a time.
    NewerThan(Stamp, Time),
    /// Later than the time of a file: which of the program's references.
    NewerThanFile(Stamp, usize),
    /// An extended attribute, with this value where one is given.
    Attribute(Vec<u8>, Option<Vec<u8>>),
}

/// A number of the inode that can be compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    /// Hard links.
    Links,
    /// Inode number.
    Inode,
    /// Owner.
    Uid,
    /// Group.
    Gid,
    /// Project.
    Project,
}

/// One of the four times of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// Last access.
    Accessed,
    /// Last change of the contents.
    Modified,
    /// Last change of the inode.
    Changed,
    /// Creation.
    Born,
}

impl Stamp {
    /// This time of a file.
    pub(crate) fn of(self, facts: &Facts) -> Time {
        match self {
            Self::Accessed => facts.accessed,
            Self::Modified => facts.modified,
            Self::Changed => facts.changed,
            Self::Born => facts.born,
        }
    }

    fn from_letter(letter: u8) -> Option<Self> {
        match letter {
            b'a' => Some(Self::Accessed),
            b'm' => Some(Self::Modified),
            b'c' => Some(Self::Changed),
            b'B' => Some(Self::Born),
            _ => None,
        }
    }
}

/// `N`, `+N` or `-N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Exactly.
    Equal(u64),
    /// More than.
    More(u64),
    /// Less than.
    Less(u64),
}

impl Comparison {
    /// Whether `value` is as asked for.
    pub(crate) fn holds(self, value: i128) -> bool {
        match self {
            Self::Equal(wanted) => value == i128::from(wanted),
            Self::More(wanted) => value > i128::from(wanted),
            Self::Less(wanted) => value < i128::from(wanted),
        }
    }
}

/// A side effect.
#[derive(Debug)]
pub(crate) enum Action {
    /// The path, and a newline.
    Print,
    /// The path, and a NUL.
    Print0,
    /// By a format.
    Printf(Format),
    /// As `ls -dils`.
    Ls,
    /// Do not go into this directory.
    Prune,
    /// Stop here.
    Quit,
}

#[cfg(test)]
mod tests;
