//! The expressions of find(1), and the file properties that they need.
//!
//! Owns: the expression tree, its parser and its evaluation. Does **not** own: the walk.
//! Expressions are evaluated over the [`ExaminedFile`] trait, so that tests can run them on a host
//! directory and compare with find(1) itself.

mod evaluate;
mod parse;
mod permission;
mod printf;

use std::ffi::OsString;

use regex::bytes::Regex;

pub(crate) use evaluate::Evaluation;
pub(crate) use parse::{Parser, is_expression_start};
use permission::Permission;
use printf::PrintfFormat;

use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind, Time};
use crate::image::address::last_component;
use crate::text::glob::Glob;

/// The part of the help that clap does not generate.
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
Owners are shown as numbers: names of this host need not apply to the image.";

/// The properties of a file that an expression can use.
pub(crate) trait ExaminedFile {
    /// Returns the path as the walk reached it, starting with the argument of the command.
    fn path(&self) -> &[u8];
    /// Returns the part of the path below the argument of the command.
    fn path_below_start(&self) -> &[u8];
    /// Returns the depth below the argument of the command.
    fn depth(&self) -> usize;
    /// Returns the facts of the inode.
    fn facts(&self) -> &Facts;
    /// Returns the value of an extended attribute.
    fn attribute(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Failure>;
    /// Returns the target of a symbolic link.
    fn target(&self) -> Result<Option<Vec<u8>>, Failure>;
    /// Returns whether a directory has no entries.
    fn is_empty_directory(&self) -> Result<bool, Failure>;

    /// Returns the last component of the path.
    fn name(&self) -> &[u8] {
        last_component(self.path())
    }
}

/// A parsed command line of find.
#[derive(Debug)]
pub(crate) struct Program {
    /// The expression that is evaluated for every file.
    pub(crate) expression: Expression,
    /// The maximum depth of the walk.
    pub(crate) max_depth: usize,
    /// The minimum depth at which files are evaluated.
    pub(crate) min_depth: usize,
    /// Whether a directory comes after its entries.
    pub(crate) is_depth_first: bool,
    /// Whether the expression prints by itself.
    pub(crate) has_action: bool,
    /// Files that the expression refers to. The caller of the evaluation looks up their times
    /// first.
    pub(crate) references: Vec<Reference>,
}

/// A file that `-newer` or a similar test refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The address of the file.
    pub(crate) address: OsString,
    /// The time of the file that is used.
    pub(crate) stamp: Stamp,
}

/// An expression.
#[derive(Debug)]
pub(crate) enum Expression {
    /// Both; the right one is evaluated only if the left one is true.
    And(Box<Self>, Box<Self>),
    /// Either; the right one is evaluated only if the left one is false.
    Or(Box<Self>, Box<Self>),
    /// The right one; the left one is evaluated for its effects.
    Comma(Box<Self>, Box<Self>),
    /// The negation.
    Not(Box<Self>),
    /// A test.
    Test(Test),
    /// A side effect; true.
    Action(Action),
}

/// A test of a file.
#[derive(Debug)]
pub(crate) enum Test {
    /// Always or never.
    Constant(bool),
    /// The last component of the path.
    Name(Glob),
    /// The path.
    Path(Glob),
    /// The whole path, by a regular expression.
    PathRegex(Regex),
    /// The target of a symbolic link.
    Target(Glob),
    /// The type is one of these.
    Kind(Vec<FileKind>),
    /// The size, rounded up to units.
    Size(Comparison, u64),
    /// A regular file or directory without contents.
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
    /// Later than the time of the reference with this index.
    NewerThanFile(Stamp, usize),
    /// An extended attribute, with this value if one is given.
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
    /// Last modification of the contents.
    Modified,
    /// Last change of the inode.
    Changed,
    /// Creation.
    Born,
}

impl Stamp {
    /// Returns this time of a file.
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
    /// Returns whether `value` satisfies the comparison.
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
    /// Prints the path and a newline.
    Print,
    /// Prints the path and a NUL.
    Print0,
    /// Prints by a format.
    Printf(PrintfFormat),
    /// Prints as `ls -dils`.
    Ls,
    /// Does not enter this directory.
    Prune,
    /// Ends the search.
    Quit,
}

#[cfg(test)]
mod tests;
