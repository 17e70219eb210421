//! The citations of invariants in a Rust file.
//!
//! A citation counts in three forms: in a test, in a string literal of production code, and in a
//! comment directly above a check or after it on the same line. A string literal counts because it
//! is the message of an assert, an `expect` or an error. A documentation comment of production code
//! does not count, since it checks nothing.

use std::collections::BTreeSet;

use super::{PAGES, is_invariant};
use crate::tidy::File;
use crate::tidy::source::{Masked, production_lines};

/// Texts by which the rule recognises a line of code that checks something or takes a lock.
const CHECKS: [&str; 18] = [
    "if ",
    "match ",
    "while ",
    "else {",
    "assert",
    "expect(",
    "panic!",
    "unreachable!",
    "Err(",
    "?;",
    "?.",
    "?)",
    "? ",
    ".then(",
    ".filter(",
    "lock(",
    ".latch",
    ".ok_or",
];

/// A citation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Citation {
    /// The invariant: `I3`.
    pub(super) name: String,
    /// The module that the citation names: `the crate`, a path such as `xfs_log::writer`, or the
    /// path of a page. `None` if it names none.
    pub(super) module: Option<String>,
}

/// The lines of a file, each in three forms: whole, without comments, and with nothing but its
/// comments.
struct Lines<'a> {
    lines: Vec<Line<'a>>,
    /// The number of lines of production code, after which the tests begin.
    production: usize,
}

/// One line of a file.
#[derive(Clone, Copy)]
struct Line<'a> {
    text: &'a str,
    code: &'a str,
    comment: &'a str,
}

/// Returns the invariants that a file cites in a form that the rule accepts: in a test, in a string
/// literal, or in a comment on a check.
pub(super) fn of(file: &File) -> BTreeSet<Citation> {
    let masked = Masked::new(&file.text);
    let parts = masked.code.split('\n').zip(masked.comments.split('\n'));
    let lines = file.text.split('\n').zip(parts);
    let lines = lines.map(|(text, (code, comment))| Line { text, code, comment }).collect();
    let lines = Lines { lines, production: production_lines(file) };
    (0..lines.lines.len()).flat_map(|index| lines.citations(index)).collect()
}

impl Lines<'_> {
    /// Returns the citations of a line that the rule accepts: in a literal, in a comment on a
    /// check, or anywhere in a test.
    fn citations(&self, index: usize) -> Vec<Citation> {
        let Some(line) = self.lines.get(index) else { return Vec::new() };
        if line.text.starts_with("//!") {
            return Vec::new();
        }
        if index >= self.production {
            return citations(line.text);
        }
        let (in_code, in_comment) = (citations(line.code), citations(line.comment));
        let is_literal = |found: &Citation| !in_code.contains(found) && !in_comment.contains(found);
        let mut counting = citations(line.text);
        counting.retain(is_literal);
        let is_documentation = line.text.trim_start().starts_with("///");
        if !in_comment.is_empty() && !is_documentation && self.is_check(index) {
            counting.extend(in_comment);
        }
        counting
    }

    /// Returns whether the statement on a line checks something. If the line has only a comment,
    /// the statement after the comment counts.
    fn is_check(&self, index: usize) -> bool {
        let lines = self.lines.iter().take(self.production).skip(index);
        let is_comment = |line: &&Line<'_>| line.code.trim().is_empty() && !line.comment.is_empty();
        for line in lines.skip_while(is_comment) {
            let code = format!("{} ", line.code.trim_end());
            if CHECKS.iter().any(|check| code.contains(check)) {
                return true;
            }
            let code = code.trim();
            if code.is_empty() || code.ends_with([';', '{', '}', ',']) {
                return false;
            }
        }
        false
    }
}

/// Returns the citations in a text.
fn citations(text: &str) -> Vec<Citation> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_name) {
        let (_, word) = rest.split_at(start);
        let (word, after) = word.split_at(word.find(|c| !is_name(c)).unwrap_or(word.len()));
        if is_invariant(word) {
            found.push(Citation { name: word.to_owned(), module: named_module(after) });
        }
        rest = after;
    }
    found
}

/// Returns the module in the text `after` the name of an invariant: `the crate`, a path in
/// backticks, or the path of a page. Returns `None` if the text names no module.
fn named_module(after: &str) -> Option<String> {
    if let Some(page) = after.strip_prefix(" in ").filter(|page| page.starts_with(PAGES)) {
        return page.split_inclusive(".md").next().map(str::to_owned);
    }
    let module = after.strip_prefix(" of ")?;
    match module.strip_prefix('`') {
        Some(path) => path.split_once('`').map(|(path, _)| path.to_owned()),
        None => module.starts_with("the crate").then(|| "the crate".to_owned()),
    }
}
