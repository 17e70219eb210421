//! The expressions of find(1), and the file properties that they need.
//!
//! Owns: the expression tree, its parser and its evaluation. Does **not** own: the walk of the
//! tree. Expressions are evaluated over the [`ExaminedFile`] trait, so that tests can run them on a
//! host directory and compare with find(1) itself.

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

/// The help on expressions, which clap does not generate.
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

/// A file to be examined: the properties that an expression can use.
pub(crate) trait ExaminedFile {
    /// Returns the path as the walk reached it, starting with the argument of the command.
    fn path(&self) -> &[u8];
    /// Returns the part of the path below the argument of the command.
    fn path_below_start(&self) -> &[u8];
    /// Returns the depth of the file below the argument of the command; 0 for the argument itself.
    fn depth(&self) -> usize;
    /// Returns the facts in the inode of the file.
    fn facts(&self) -> &Facts;
    /// Returns the value of an extended attribute; `None` if the file has none of that name.
    fn attribute(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Failure>;
    /// Returns the target of a symbolic link; `None` for any other file.
    fn target(&self) -> Result<Option<Vec<u8>>, Failure>;
    /// Returns whether the file is a directory without entries.
    fn is_empty_directory(&self) -> Result<bool, Failure>;

    /// Returns the last component of the path.
    fn name(&self) -> &[u8] {
        last_component(self.path())
    }
}

/// A parsed expression, with the options that it contains.
#[derive(Debug)]
pub(crate) struct Program {
    /// The expression that is evaluated for every file.
    pub(crate) expression: Expression,
    /// The maximum depth of the walk below each argument of the command.
    pub(crate) max_depth: usize,
    /// The minimum depth, below each argument of the command, at which files are evaluated.
    pub(crate) min_depth: usize,
    /// Whether a directory is evaluated after its entries.
    pub(crate) is_depth_first: bool,
    /// Whether the user gave an action. If not, the parser has added one that prints the path.
    pub(crate) has_action: bool,
    /// The files to which the expression refers. The caller must look up the times of these files
    /// before an evaluation.
    pub(crate) references: Vec<Reference>,
}

/// A file that `-newer` or a similar test refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The address of the file: `IMAGE:/path`.
    pub(crate) address: OsString,
    /// The time that is compared, one of the four times of the file.
    pub(crate) stamp: Stamp,
}

/// An expression: tests and actions, joined by operators.
#[derive(Debug)]
pub(crate) enum Expression {
    /// True if both sides are true. The right side is evaluated only if the left side is true.
    And(Box<Self>, Box<Self>),
    /// True if one side is true. The right side is evaluated only if the left side is false.
    Or(Box<Self>, Box<Self>),
    /// True if the right side is true. The left side is evaluated only for its effects.
    Comma(Box<Self>, Box<Self>),
    /// True if the operand is false.
    Not(Box<Self>),
    /// A test of the file.
    Test(Test),
    /// An action, whose result is always true.
    Action(Action),
}

/// A test of a file, true or false.
#[derive(Debug)]
pub(crate) enum Test {
    /// A test that is true for every file, or false for every file.
    Constant(bool),
    /// The last component of the path matches a pattern.
    Name(Glob),
    /// The whole path matches a pattern.
    Path(Glob),
    /// The whole path matches a regular expression.
    PathRegex(Regex),
    /// The file is a symbolic link whose target matches a pattern.
    Target(Glob),
    /// The file has one of these types.
    Kind(Vec<FileKind>),
    /// Compares the size, rounded up to units of this many bytes.
    Size(Comparison, u64),
    /// The file is a regular file without contents, or a directory without entries.
    Empty,
    /// Compares a number in the inode.
    Number(Number, Comparison),
    /// Compares the permissions.
    Permission(Permission),
    /// Compares the age of one of the file's four times, in days, rounded down.
    AgeDays(Stamp, Comparison),
    /// Compares the age of one of the file's four times, in minutes.
    AgeMinutes(Stamp, Comparison),
    /// A time of the file is later than the second value. The first value says which of the four
    /// times.
    NewerThan(Stamp, Time),
    /// A time of the file is later than the time of a reference file. The first value says which of
    /// the four times. The second value is the index of the reference file in
    /// `Program::references`.
    NewerThanFile(Stamp, usize),
    /// The file has this extended attribute and, if a value is given, with this value.
    Attribute(Vec<u8>, Option<Vec<u8>>),
}

/// A number in the inode of a file that a test can compare.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    /// The number of hard links.
    Links,
    /// The inode number.
    Inode,
    /// The user id of the owner.
    Uid,
    /// The group id.
    Gid,
    /// The project id.
    Project,
}

/// One of the four times of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// The time of the last access.
    Accessed,
    /// The time of the last modification of the contents.
    Modified,
    /// The time of the last change of the inode.
    Changed,
    /// The time of creation.
    Born,
}

impl Stamp {
    /// Returns the time that this value names, one of the four times of a file.
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

/// A comparison with a number, written `N`, `+N` or `-N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The value equals this number.
    Equal(u64),
    /// The value is more than this number.
    More(u64),
    /// The value is less than this number.
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

/// An action of an expression, such as `-print` or `-prune`.
#[derive(Debug)]
pub(crate) enum Action {
    /// Prints the path and a newline.
    Print,
    /// Prints the path and a NUL byte.
    Print0,
    /// Prints the file in a format (`-printf`).
    Printf(PrintfFormat),
    /// Prints the file as `ls -dils` does.
    Ls,
    /// Makes the walk skip the contents of this directory.
    Prune,
    /// Ends the search at once.
    Quit,
}

#[cfg(test)]
mod tests;
