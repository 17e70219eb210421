//! SELinux file contexts: the label of each path, from a file in the format of
//! `selabel_file(5)`.
//!
//! ```text
//! # path as a regular expression   type   context
//! /usr/bin(/.*)?                   --     system_u:object_r:bin_t:s0
//! /var/run                         -d     <<none>>
//! ```
//!
//! Owns: the format, and the choice of the entry. Does **not** own: regular expressions (the crate
//! `regex`), or the syntax of a context, which only a policy can check.
//!
//! The last matching entry counts. An entry without special characters precedes all others. As in
//! libselinux, the files FILE.homedirs and FILE.local continue FILE, and FILE.subs and
//! FILE.subs_dist replace the start of a path.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use regex::bytes::{Regex, RegexBuilder};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::terminal::names;
use crate::text::pattern;

/// The largest file that is read, in bytes. The policies of distributions have under 1 MiB.
const MAX_BYTES: usize = 64 << 20;
/// The largest size in bytes of one compiled expression.
const MAX_REGEX_BYTES: usize = 4 << 20;
/// The end of an expression for a directory with everything below it.
const WITH_ALL_BELOW: &str = "(/.*)?";
const NO_CONTEXT: &str = "<<none>>";
const SPECIAL: &[char] = &['.', '^', '$', '?', '*', '+', '|', '[', '(', '{'];

/// The labels of paths.
#[derive(Debug, Default)]
pub(crate) struct FileContexts {
    /// The entries in the order in which they are tried.
    entries: Vec<ContextEntry>,
    /// Starts of paths, and their replacements: those of FILE.subs, and those of FILE.subs_dist.
    substitutions: [Vec<(Vec<u8>, Vec<u8>)>; 2],
}

#[derive(Debug)]
struct ContextEntry {
    path: PathExpression,
    /// The type that a file must have; `None` for all types.
    kind: Option<FileKind>,
    /// The label that a matching file gets; `None` if it gets no label.
    context: Option<Vec<u8>>,
}

#[derive(Debug)]
enum PathExpression {
    Exact(Vec<u8>),
    /// A path with everything below it.
    Below(Vec<u8>),
    /// An expression, and the bytes with which every matching path starts.
    Regex {
        start: Vec<u8>,
        regex: Box<Regex>,
    },
}

impl FileContexts {
    /// Reads the file of contexts at `path`, and the files beside it that belong to it.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, or a line that is not an entry.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let mut contexts = Self::default();
        contexts.add(&read(path)?, path)?;
        for end in [".homedirs", ".local"] {
            let path = beside(path, end);
            if path.exists() {
                contexts.add(&read(&path)?, &path)?;
            }
        }
        for (end, pairs) in [".subs", ".subs_dist"].iter().zip(&mut contexts.substitutions) {
            let path = beside(path, end);
            if path.exists() {
                *pairs = parse_pairs(&read(&path)?);
            }
        }
        contexts.arrange();
        Ok(contexts)
    }

    /// Adds the entries of a file in the order of its lines.
    fn add(&mut self, text: &str, path: &Path) -> Result<(), Failure> {
        for (number, line) in text.lines().enumerate() {
            let entry = parse_line(line).map_err(|message| {
                let shown = names::in_message(path.as_os_str().as_bytes());
                Failure::usage(format!("{shown}: line {}: {message}", number + 1))
            })?;
            self.entries.extend(entry);
        }
        Ok(())
    }

    /// Puts the entries into the order in which they are tried: the last one first, and those
    /// without special characters before all others.
    fn arrange(&mut self) {
        self.entries.reverse();
        self.entries.sort_by_key(|entry| !matches!(entry.path, PathExpression::Exact(_)));
    }

    /// Returns the context of the file of this type at `path` in the image. `None` if no entry
    /// matches, or if the entry gives no label.
    pub(crate) fn find(&self, path: &[u8], kind: FileKind) -> Option<&[u8]> {
        let mut path = path.to_vec();
        for pairs in &self.substitutions {
            let found = pairs.iter().find_map(|(from, to)| {
                let rest = path.strip_prefix(from.as_slice())?;
                (rest.is_empty() || rest.starts_with(b"/")).then(|| [to.as_slice(), rest].concat())
            });
            path = found.unwrap_or(path);
        }
        let entry = self.entries.iter().find(|entry| {
            entry.kind.is_none_or(|wanted| wanted == kind) && entry.path.matches(&path)
        });
        entry?.context.as_deref()
    }
}

impl PathExpression {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = literal(text) {
            return Ok(Self::Exact(path));
        }
        if let Some(path) = text.strip_suffix(WITH_ALL_BELOW).and_then(literal) {
            return Ok(Self::Below(path));
        }
        let mut builder = RegexBuilder::new(&format!("^(?:{text})$"));
        builder.unicode(false).dot_matches_new_line(true).size_limit(MAX_REGEX_BYTES);
        let regex =
            builder.build().map_err(|error| format!("{text}: {}", pattern::reason(&error)))?;
        Ok(Self::Regex { start: literal_start(text), regex: Box::new(regex) })
    }

    fn matches(&self, path: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => exact == path,
            Self::Below(top) => path
                .strip_prefix(top.as_slice())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/")),
            Self::Regex { start, regex } => path.starts_with(start) && regex.is_match(path),
        }
    }
}

/// Returns the path that an expression without special characters means; `None` for any other
/// expression.
fn literal(text: &str) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            // An escaped letter or digit means something else than itself.
            b'\\' => path.push(bytes.next().filter(|byte| !byte.is_ascii_alphanumeric())?),
            byte if SPECIAL.contains(&char::from(byte)) => return None,
            byte => path.push(byte),
        }
    }
    Some(path)
}

/// Returns bytes with which every path starts that matches the expression.
fn literal_start(text: &str) -> Vec<u8> {
    // Parentheses in a class are no groups, so the depth of a bar is unknown there.
    let has_class = text.contains('[');
    let mut depth = 0_usize;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => _ = characters.next(),
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 || has_class => return Vec::new(),
            _ => {}
        }
    }
    let end = text.find(SPECIAL).unwrap_or(text.len());
    let end = text.find('\\').map_or(end, |escape| escape.min(end));
    let (mut start, rest) = text.split_at_checked(end).unwrap_or_default();
    if rest.starts_with(['?', '*', '{']) {
        // The last character is repeated, perhaps zero times.
        start =
            start.char_indices().next_back().map_or("", |(at, _)| start.get(..at).unwrap_or(""));
    }
    start.as_bytes().to_vec()
}

/// Parses one line: `None` for a blank line or a comment.
fn parse_line(line: &str) -> Result<Option<ContextEntry>, String> {
    let line = line.trim_start();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let (path, kind, context) = match words.as_slice() {
        [path, context] => (path, None, context),
        [path, kind, context] => {
            let parsed = parse_kind(kind);
            let kind =
                parsed.ok_or_else(|| format!("{kind} is not a type of a file, such as --"))?;
            (path, Some(kind), context)
        }
        _ => return Err("is not a path, a type and a context".to_owned()),
    };
    let path = PathExpression::parse(path)?;
    let context = (*context != NO_CONTEXT).then(|| context.as_bytes().to_vec());
    Ok(Some(ContextEntry { path, kind, context }))
}

fn parse_kind(word: &str) -> Option<FileKind> {
    match word {
        "--" => Some(FileKind::Regular),
        "-d" => Some(FileKind::Directory),
        "-l" => Some(FileKind::Symlink),
        "-b" => Some(FileKind::BlockDevice),
        "-c" => Some(FileKind::CharDevice),
        "-p" => Some(FileKind::Fifo),
        "-s" => Some(FileKind::Socket),
        _ => None,
    }
}

/// Parses lines with two paths each. Other lines are ignored, as in libselinux.
fn parse_pairs(text: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pair = |line: &str| {
        let mut words = line.split_whitespace().filter(|_| !line.trim_start().starts_with('#'));
        Some((words.next()?.as_bytes().to_vec(), words.next()?.as_bytes().to_vec()))
    };
    text.lines().filter_map(pair).collect()
}

/// Returns `path` with `end` appended: the path of a file that belongs to the one at `path`.
fn beside(path: &Path, end: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Returns the text of a file.
fn read(path: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::host(path.as_os_str(), &error);
    let bytes = fs::read(path).map_err(failed)?;
    let text = String::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_BYTES);
    text.ok_or_else(|| {
        let shown = names::in_message(path.as_os_str().as_bytes());
        Failure::new(Exit::Failed, format!("{shown}: is not a text of file contexts"))
            .hint("a compiled file (.bin) is not read; name the text from which it was made")
    })
}

#[cfg(test)]
mod tests;
