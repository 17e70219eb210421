//! Evaluation of an expression for one file.

use super::{Action, Comparison, ExaminedFile, Expression, Number, Stamp, Test};
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind, Time};
use crate::terminal::escaping::TerminalWrite;
use crate::terminal::names::NameStyle;
use crate::text::time::Clock;

/// One evaluation of an expression: its output, and its decisions about the walk.
pub(crate) struct Evaluation<'a> {
    /// The output to which actions print.
    pub(crate) out: &'a mut dyn TerminalWrite,
    /// How names are shown in the output.
    pub(crate) style: NameStyle,
    /// The clock for ages and for the display of times.
    pub(crate) clock: &'a Clock,
    /// The times of the files that the expression refers to.
    pub(crate) references: &'a [Time],
    /// Whether `-prune` was evaluated, so that the walk skips the directory.
    pub(crate) is_pruned: bool,
    /// Whether `-quit` was evaluated, so that nothing more is evaluated.
    pub(crate) has_quit: bool,
}

impl<'a> Evaluation<'a> {
    /// Creates an evaluation that has made no decisions yet.
    pub(crate) fn new(out: &'a mut dyn TerminalWrite, style: NameStyle, clock: &'a Clock) -> Self {
        Self { out, style, clock, references: &[], is_pruned: false, has_quit: false }
    }

    /// Evaluates `expression` for a file. Returns whether it is true.
    pub(crate) fn run(
        &mut self,
        expression: &Expression,
        entry: &dyn ExaminedFile,
    ) -> Result<bool, Failure> {
        if self.has_quit {
            return Ok(false);
        }
        match expression {
            Expression::And(left, right) => Ok(self.run(left, entry)? && self.run(right, entry)?),
            Expression::Or(left, right) => Ok(self.run(left, entry)? || self.run(right, entry)?),
            Expression::Comma(left, right) => {
                self.run(left, entry)?;
                self.run(right, entry)
            }
            Expression::Not(inner) => Ok(!self.run(inner, entry)?),
            Expression::Test(test) => self.test(test, entry),
            Expression::Action(action) => {
                self.act(action, entry)?;
                Ok(!self.has_quit)
            }
        }
    }

    fn test(&self, test: &Test, entry: &dyn ExaminedFile) -> Result<bool, Failure> {
        let facts = entry.facts();
        Ok(match test {
            Test::Constant(value) => *value,
            Test::Name(glob) => glob.matches(entry.name()),
            Test::Path(glob) => glob.matches(entry.path()),
            Test::PathRegex(regex) => regex.is_match(entry.path()),
            Test::Target(glob) => entry.target()?.is_some_and(|target| glob.matches(&target)),
            Test::Kind(kinds) => kinds.contains(&facts.kind()),
            Test::Size(comparison, unit) => {
                comparison.holds(i128::from(facts.size.div_ceil(*unit)))
            }
            Test::Empty => match facts.kind() {
                FileKind::Regular => facts.size == 0,
                FileKind::Directory => entry.is_empty_directory()?,
                _ => false,
            },
            Test::Number(number, comparison) => comparison.holds(number.of(facts)),
            Test::Permission(permission) => permission.holds(facts.mode),
            Test::AgeDays(stamp, comparison) => {
                const DAY: i128 = 86_400 * 1_000_000_000;
                comparison.holds(self.age_nanoseconds(*stamp, facts).div_euclid(DAY))
            }
            Test::AgeMinutes(stamp, comparison) => {
                self.is_minutes_old(self.age_nanoseconds(*stamp, facts), *comparison)
            }
            Test::NewerThan(stamp, time) => stamp.of(facts) > *time,
            Test::NewerThanFile(stamp, index) => {
                self.references.get(*index).is_some_and(|time| stamp.of(facts) > *time)
            }
            Test::Attribute(name, wanted) => match (entry.attribute(name)?, wanted) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(value), Some(wanted)) => value == *wanted,
            },
        })
    }

    fn age_nanoseconds(&self, stamp: Stamp, facts: &Facts) -> i128 {
        self.clock.now().total_nanoseconds() - stamp.of(facts).total_nanoseconds()
    }

    /// Compares an age in nanoseconds with minutes. Minutes are not rounded down as days are:
    /// `-mmin 5` means an age of at least 4 and less than 5 minutes.
    fn is_minutes_old(&self, age: i128, comparison: Comparison) -> bool {
        const MINUTE: i128 = 60 * 1_000_000_000;
        match comparison {
            Comparison::More(minutes) => age > i128::from(minutes) * MINUTE,
            Comparison::Less(minutes) => age < i128::from(minutes) * MINUTE,
            Comparison::Equal(minutes) => {
                let end = i128::from(minutes) * MINUTE;
                (end - MINUTE..end).contains(&age)
            }
        }
    }

    fn act(&mut self, action: &Action, entry: &dyn ExaminedFile) -> Result<(), Failure> {
        match action {
            Action::Print => {
                self.out.write_all(&self.style.show(entry.path()))?;
                self.out.write_all(b"\n")?;
            }
            Action::Print0 => {
                // This output is for programs, also on a terminal.
                self.out.raw().write_all(entry.path())?;
                self.out.raw().write_all(b"\0")?;
            }
            Action::Printf(format) => {
                // The format may control the terminal on purpose; names in it are quoted.
                let bytes = format.expand(entry, self.style, self.clock)?;
                self.out.raw().write_all(&bytes)?;
            }
            Action::Ls => self.ls(entry)?,
            Action::Prune => self.is_pruned = true,
            Action::Quit => self.has_quit = true,
        }
        Ok(())
    }

    fn ls(&mut self, entry: &dyn ExaminedFile) -> Result<(), Failure> {
        let facts = entry.facts();
        let size = match facts.kind() {
            FileKind::BlockDevice | FileKind::CharDevice => {
                format!("{:>3}, {:>3}", facts.device.0, facts.device.1)
            }
            _ => facts.size.to_string(),
        };
        write!(
            self.out,
            "{:>9} {:>6} {} {:>3} {:<8} {:<8} {:>8} {} ",
            facts.inode,
            facts.blocks.div_ceil(2),
            facts.mode_text(),
            facts.links,
            facts.uid,
            facts.gid,
            size,
            self.clock.format_short(facts.modified),
        )?;
        self.out.write_all(&self.style.show(entry.path()))?;
        if let Some(target) = entry.target()? {
            self.out.write_all(b" -> ")?;
            self.out.write_all(&self.style.show(&target))?;
        }
        self.out.write_all(b"\n")?;
        Ok(())
    }
}

impl Number {
    fn of(self, facts: &Facts) -> i128 {
        match self {
            Self::Links => i128::from(facts.links),
            Self::Inode => i128::from(facts.inode),
            Self::Uid => i128::from(facts.uid),
            Self::Gid => i128::from(facts.gid),
            Self::Project => i128::from(facts.project),
        }
    }
}
