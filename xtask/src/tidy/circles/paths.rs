//! Finds the paths in a Rust file that begin with `crate` or `super`, and the paths of re-exports.

/// Returns `code` without the items that only tests compile.
pub(super) fn without_tests(code: &str) -> String {
    let mut parts = code.split("#[cfg(test)]");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(part.get(item_length(part)..).unwrap_or_default());
    }
    kept
}

/// Returns the length of the item at the start of `code`. A `use` ends at its semicolon. Any other
/// item ends at its semicolon or at the end of its block.
fn item_length(code: &str) -> usize {
    let is_import = code.split(';').next().is_some_and(|item| {
        item.split_whitespace().find(|word| !word.starts_with("pub")) == Some("use")
    });
    let mut depth = 0_usize;
    for (index, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c == ';' || (c == '}' && !is_import)) {
            return index + 1;
        }
    }
    code.len()
}

/// Returns the segments of each path that begins with `crate` or `super`. A path with a group in
/// braces gives one path for each name in the group.
pub(super) fn named(code: &str) -> Vec<Vec<&str>> {
    let starts = ["crate::", "super::"].into_iter().flat_map(|start| code.match_indices(start));
    let is_start = |index: &usize| {
        let before = code.get(..*index).unwrap_or_default();
        !before.ends_with(|c: char| is_name(c) || c == ':')
    };
    let starts = starts.map(|(index, _)| index).filter(is_start);
    starts.flat_map(|index| expand(code.get(index..).unwrap_or_default())).collect()
}

/// Returns the segments of each path that the module re-exports under its own name.
pub(super) fn re_exported(code: &str) -> Vec<Vec<&str>> {
    let uses = code.match_indices("use ").filter(|(index, _)| {
        let line = code.get(..*index).and_then(|before| before.rsplit('\n').next());
        line.is_some_and(|before| before.trim_start().starts_with("pub"))
    });
    let tree = |(index, word): (usize, &str)| code.get(index + word.len()..).unwrap_or_default();
    uses.map(tree).flat_map(expand).collect()
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the paths in the tree at the start of `code`, which has the form of a `use` declaration:
/// `a::{b, c}` has the paths `a::b` and `a::c`.
fn expand(code: &str) -> Vec<Vec<&str>> {
    let mut tree = Tree { rest: code, follows_colons: true, ..Tree::default() };
    while tree.step().is_some() {}
    tree.paths
}

/// The state while a tree of paths such as `crate::a::{b, c::d}` is read.
#[derive(Default)]
struct Tree<'a> {
    rest: &'a str,
    /// Whether the last token was `::`, so that the next one may be a segment or a group in braces.
    follows_colons: bool,
    /// The segments of the current path that have been read.
    path: Vec<&'a str>,
    /// For each group of braces that is open, the number of segments before the group.
    groups: Vec<usize>,
    /// The paths that have been read to their end.
    paths: Vec<Vec<&'a str>>,
}

impl Tree<'_> {
    /// Reads the next token. Returns `None` at the end of the tree.
    fn step(&mut self) -> Option<()> {
        self.rest = self.rest.trim_start();
        let length = self.rest.find(|c| !is_name(c)).unwrap_or(self.rest.len());
        let (name, after_name) = self.rest.split_at(length);
        if let Some(after) = self.rest.strip_prefix("::") {
            (self.rest, self.follows_colons) = (after, true);
        } else if self.follows_colons && !name.is_empty() {
            self.path.push(name);
            (self.rest, self.follows_colons) = (after_name, false);
        } else if let Some(after) = self.rest.strip_prefix('{').filter(|_| self.follows_colons) {
            self.groups.push(self.path.len());
            self.rest = after;
        } else {
            return self.end_path();
        }
        Some(())
    }

    /// Ends the current path, and adds it to `paths`. Inside a group, continues after the next
    /// comma or closing brace, and skips a renaming with `as` before it. Outside of groups the tree
    /// ends: returns `None`.
    fn end_path(&mut self) -> Option<()> {
        let start = self.groups.last().copied().unwrap_or(0);
        if self.path.len() > start {
            self.paths.push(self.path.clone());
        }
        self.path.truncate(start);
        self.groups.last()?;
        let end = self.rest.find([',', '}'])?;
        let (_, end) = self.rest.split_at(end);
        self.follows_colons = end.starts_with(',');
        self.rest = end.get(1..)?;
        if !self.follows_colons {
            self.groups.pop();
            self.path.truncate(*self.groups.last()?);
        }
        Some(())
    }
}
