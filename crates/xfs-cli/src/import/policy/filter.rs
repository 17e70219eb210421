//! The choice of the files that are copied: patterns of paths to leave out, and of paths to take.
//!
//! Owns: the syntax of the patterns. Does **not** own: the patterns of a single name
//! ([`Glob`]).
//!
//! A pattern without a slash matches a name at any depth. Any other pattern matches a path from the
//! top of the source on; `**` stands for any number of directories. With a slash at its end, it
//! matches directories only. A directory is left out, or taken, with everything below it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use xfs_sync::{AtomicBool, Ordering, Slot};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::source::names_of;
use crate::terminal::names;
use crate::text::glob::Glob;

/// The files that are copied.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    excluded: Vec<PathPattern>,
    /// `None` if all files are taken.
    included: Option<Vec<PathPattern>>,
    /// The directories of which files are copied at all; `None` for all.
    within: Option<Vec<PathPattern>>,
}

/// A pattern of paths.
#[derive(Debug)]
pub(crate) struct PathPattern {
    parts: Vec<PatternPart>,
    only_directories: bool,
    /// The text and the place that the user gave, for messages.
    given: Given,
    /// Whether a file has matched. The thread that reads a tree ahead asks too.
    is_used: AtomicBool<Slot>,
}

/// A pattern as the user gave it.
#[derive(Debug)]
struct Given {
    /// The option or the file with the pattern.
    place: String,
    text: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternPart {
    /// One name.
    Name(Glob),
    /// Any number of names: `**`.
    AnyNames,
}

/// How far a pattern matches a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathMatch {
    No,
    /// The pattern may match a path below this one.
    OnTheWay,
    Whole,
}

impl Filter {
    /// Parses the patterns to leave out, and the files with the patterns to take.
    ///
    /// # Errors
    ///
    /// An empty pattern, or a file that cannot be read.
    pub(crate) fn parse(excluded: &[OsString], included: &[PathBuf]) -> Result<Self, Failure> {
        let excluded = excluded.iter().map(|text| PathPattern::parse(text.as_bytes(), "--exclude"));
        let excluded = excluded.collect::<Result<_, _>>()?;
        if included.is_empty() {
            return Ok(Self { excluded, ..Self::default() });
        }
        let mut patterns = Vec::new();
        for path in included {
            let name = path.as_os_str();
            let text = fs::read(path).map_err(|error| Failure::host(name, &error))?;
            for line in text.split(|byte| *byte == b'\n') {
                let line = line.strip_suffix(b"\r").unwrap_or(line);
                if !line.is_empty() && !line.starts_with(b"#") {
                    let shown = names::in_message(name.as_bytes());
                    patterns.push(PathPattern::parse(line, &shown)?);
                }
            }
        }
        Ok(Self { excluded, included: Some(patterns), within: None })
    }

    /// Leaves out, in addition, everything outside of these directories.
    pub(crate) fn within(self, directories: &[&str]) -> Result<Self, Failure> {
        let parse = |path: &&str| PathPattern::parse(format!("/{path}").as_bytes(), "");
        let within = directories.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { within: Some(within), ..self })
    }

    /// Returns whether the file at `path`, below the top of its source, is copied. A directory is
    /// also copied if a pattern may match something below it.
    pub(crate) fn takes(&self, path: &[u8], is_directory: bool) -> bool {
        if self.excluded.is_empty() && self.included.is_none() && self.within.is_none() {
            return true;
        }
        let names: Vec<&[u8]> = names_of(path).collect();
        if names.is_empty() {
            return true;
        }
        let mut is_excluded = false;
        for pattern in &self.excluded {
            is_excluded |= pattern.reaches(&names, is_directory);
        }
        if is_excluded {
            return false;
        }
        [&self.included, &self.within].into_iter().flatten().all(|included| {
            let mut is_included = false;
            for pattern in included {
                is_included |= pattern.reaches(&names, is_directory)
                    || is_directory && pattern.compare(&names) == PathMatch::OnTheWay;
            }
            is_included
        })
    }

    /// Returns the patterns that no file has matched.
    pub(super) fn unused(&self) -> impl Iterator<Item = &PathPattern> {
        let all = self.excluded.iter().chain(self.included.iter().flatten());
        all.filter(|pattern| pattern.is_unused())
    }
}

impl PathPattern {
    /// Parses a pattern. `place` names the place where the user gave it.
    ///
    /// # Errors
    ///
    /// A pattern without a name.
    pub(crate) fn parse(text: &[u8], place: &str) -> Result<Self, Failure> {
        let only_directories = text.ends_with(b"/");
        let names: Vec<&[u8]> = names_of(text).collect();
        let inner = text.strip_suffix(b"/").unwrap_or(text);
        let mut parts = Vec::new();
        if !inner.contains(&b'/') {
            parts.push(PatternPart::AnyNames);
        }
        for (number, name) in names.iter().enumerate() {
            match *name {
                b"**" => {
                    if number + 1 == names.len() {
                        // At the end it stands for at least one name.
                        parts.push(PatternPart::Name(Glob::new(b"*", false)));
                    }
                    parts.push(PatternPart::AnyNames);
                }
                name => parts.push(PatternPart::Name(Glob::new(name, false))),
            }
        }
        match names.is_empty() {
            false => {
                let given = Given { place: place.to_owned(), text: text.to_vec() };
                Ok(Self { parts, only_directories, given, is_used: AtomicBool::default() })
            }
            true => {
                let shown = names::in_message(text);
                Err(Failure::usage(format!("{place}: {shown:?} is not a pattern of a path")))
            }
        }
    }

    /// Returns whether the pattern matches exactly this path.
    pub(crate) fn matches(&self, path: &[u8], is_directory: bool) -> bool {
        let names: Vec<&[u8]> = names_of(path).collect();
        let is_match =
            (is_directory || !self.only_directories) && self.compare(&names) == PathMatch::Whole;
        self.note(is_match)
    }

    /// Notes whether a file has matched, and returns it.
    fn note(&self, is_match: bool) -> bool {
        if is_match {
            self.is_used.store(true, Ordering::Relaxed);
        }
        is_match
    }

    /// Returns whether no file has matched yet.
    pub(super) fn is_unused(&self) -> bool {
        !self.is_used.load(Ordering::Relaxed)
    }

    /// Returns the failure for a pattern that no file has matched.
    pub(super) fn unused_failure(&self) -> Failure {
        let Given { place, text } = &self.given;
        let shown = names::in_message(text);
        Failure::new(Exit::Fine, format!("{place}: no file matches {shown}")).placed()
    }

    /// Returns whether the pattern matches the path with these names, or a directory above it.
    fn reaches(&self, names: &[&[u8]], is_directory: bool) -> bool {
        self.note((1..=names.len()).any(|length| {
            let is_above = length < names.len();
            (is_above || is_directory || !self.only_directories)
                && self.compare(names.get(..length).unwrap_or_default()) == PathMatch::Whole
        }))
    }

    /// Compares the pattern with the path that has these names. All ways to match are followed
    /// together, so the work is at most the product of both lengths.
    fn compare(&self, names: &[&[u8]]) -> PathMatch {
        let end = self.parts.len();
        let mut reached = vec![false; end + 1];
        self.reach(&mut reached, 0);
        for name in names {
            let mut next = vec![false; end + 1];
            for (at, part) in self.parts.iter().enumerate() {
                if !reached.get(at).is_some_and(|is_reached| *is_reached) {
                    continue;
                }
                match part {
                    PatternPart::AnyNames => self.reach(&mut next, at),
                    PatternPart::Name(glob) if glob.matches(name) => self.reach(&mut next, at + 1),
                    PatternPart::Name(_) => {}
                }
            }
            reached = next;
        }
        match (reached.pop(), reached.contains(&true)) {
            (Some(true), _) => PathMatch::Whole,
            (_, true) => PathMatch::OnTheWay,
            _ => PathMatch::No,
        }
    }

    /// Marks the position `at` of the pattern as reached. If the pattern has `**` there, also marks
    /// the next position, because `**` may match no names.
    fn reach(&self, reached: &mut [bool], at: usize) {
        for (position, is_reached) in reached.iter_mut().enumerate().skip(at) {
            *is_reached = true;
            if self.parts.get(position) != Some(&PatternPart::AnyNames) {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests;
