//! The changes that the user asks for while files are copied into an image: which files are copied,
//! and their owners, modes, times, projects and SELinux labels.
//!
//! Owns: the rules, and their order. Does **not** own: setting the properties
//! ([`ImageWriter`](crate::import::writer::ImageWriter)).
//!
//! The order: ids are mapped, then the owner is replaced, then the rules for modes apply in the
//! order of the command line.

pub(crate) mod contexts;
pub(crate) mod filter;
pub(crate) mod id_tables;
mod projects;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use ferroxfs::attr::AclTag;
use ferroxfs::raw::format::acl;

use crate::cli::PolicyOptions;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind, Time};
use crate::file::source::NamedValue;
use crate::terminal::names;
use crate::text::mode::{Circumstances, ModeChange};
use contexts::FileContexts;
use filter::{Filter, PathPattern};
use id_tables::IdTables;
use projects::Projects;

const TYPE_BITS: u32 = 0o170_000;
const PERMISSION_BITS: u32 = 0o7777;
/// The attributes that hold ids of users and groups.
const LISTS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];
const LABEL: &[u8] = b"security.selinux";

/// The changes that the user asks for.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    /// The thread that reads a tree ahead shares it.
    pub(crate) filter: Arc<Filter>,
    uid: Option<u32>,
    gid: Option<u32>,
    id_map: Vec<IdRange>,
    modes: Vec<ModeRule>,
    /// The time that all files get; `None` if they keep theirs.
    modified: Option<Time>,
    contexts: Option<FileContexts>,
    /// The projects of trees in the image.
    pub(crate) projects: Projects,
}

/// A range of ids of users and groups, and the range to which it is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IdRange {
    from: u32,
    to: u32,
    count: u32,
}

/// A change of the mode of those files that match a pattern; of all files if there is none.
#[derive(Debug)]
struct ModeRule {
    change: ModeChange,
    pattern: Option<PathPattern>,
}

impl Policy {
    /// Parses the options. `has_latest` says whether there is a latest time for all files
    /// (SOURCE_DATE_EPOCH), which `--mtime clamp` needs. `tables` has the names of owners.
    ///
    /// # Errors
    ///
    /// An invalid option, or a file of patterns or contexts that cannot be read.
    pub(crate) fn parse(
        options: &PolicyOptions,
        has_latest: bool,
        tables: &IdTables,
    ) -> Result<Self, Failure> {
        let (uid, gid) = match &options.owner {
            Some(owner) => parse_owner(owner, tables)?,
            None => (None, None),
        };
        let contexts = options.selinux_file_contexts.as_deref().map(FileContexts::open);
        Ok(Self {
            filter: Arc::new(Filter::parse(&options.exclude, &options.include_from)?),
            uid,
            gid,
            id_map: options
                .chown_map
                .iter()
                .map(|text| parse_range(text))
                .collect::<Result<_, _>>()?,
            modes: options.mode.iter().map(parse_rule).collect::<Result<_, _>>()?,
            modified: options
                .mtime
                .as_deref()
                .map_or(Ok(None), |text| parse_time(text, has_latest))?,
            contexts: contexts.transpose()?,
            projects: Projects::parse(&options.project)?,
        })
    }

    /// Returns the facts that the copy of a file gets. `path` is the path of the copy below the
    /// target directory, which all files go into.
    pub(crate) fn change(&self, path: &[u8], facts: Facts) -> Facts {
        let mut mode = facts.mode;
        let is_directory = facts.kind() == FileKind::Directory;
        if facts.kind() != FileKind::Symlink {
            for ModeRule { change, pattern } in &self.modes {
                if pattern.as_ref().is_none_or(|pattern| pattern.matches(path, is_directory)) {
                    let circumstances = Circumstances { is_directory, umask: 0 };
                    mode = mode & TYPE_BITS | change.of(mode & PERMISSION_BITS, circumstances);
                }
            }
        }
        Facts {
            mode,
            uid: self.uid.unwrap_or_else(|| self.mapped(facts.uid)),
            gid: self.gid.unwrap_or_else(|| self.mapped(facts.gid)),
            modified: self.modified.unwrap_or(facts.modified),
            accessed: self.modified.unwrap_or(facts.accessed),
            ..facts
        }
    }

    /// Returns a failure for each option that names files which the sources do not have: a tree of
    /// a project, a pattern. A pattern without a file is no error.
    pub(crate) fn unused(&self) -> impl Iterator<Item = Failure> {
        let of_modes = self.modes.iter().filter_map(|rule| rule.pattern.as_ref());
        let patterns = self.filter.unused().chain(of_modes.filter(|it| it.is_unused()));
        self.projects.missing().chain(patterns.map(PathPattern::unused_failure))
    }

    /// Returns the attributes that the copy of a file gets: ids in access control lists are mapped,
    /// and the label is that of the file contexts. `path` is the path in the image.
    pub(crate) fn relabel(
        &self,
        path: &[u8],
        kind: FileKind,
        mut attributes: Vec<Result<NamedValue, Failure>>,
    ) -> Vec<Result<NamedValue, Failure>> {
        if !self.id_map.is_empty() {
            for attribute in attributes.iter_mut().flatten() {
                if LISTS.contains(&attribute.name.as_slice()) {
                    self.map_list(&mut attribute.value);
                }
            }
        }
        let label = self.contexts.as_ref().and_then(|contexts| contexts.find(path, kind));
        if let Some(label) = label {
            let is_other = |found: &Result<NamedValue, Failure>| {
                !found.as_ref().is_ok_and(|found| found.name == LABEL)
            };
            attributes.retain(is_other);
            // Linux stores the label with the zero byte at its end.
            let value = [label, b"\0"].concat();
            attributes.push(Ok(NamedValue { name: LABEL.to_vec(), value }));
        }
        attributes
    }

    /// Maps the ids in `value`, an access control list. An invalid list stays as it is, and is
    /// reported when the attribute is set.
    fn map_list(&self, value: &mut Vec<u8>) {
        let Some(mut entries) = acl::decode_posix_xattr(value) else { return };
        for entry in &mut entries {
            match &mut entry.tag {
                AclTag::User(id) | AclTag::Group(id) => *id = self.mapped(*id),
                _ => {}
            }
        }
        *value = acl::encode_posix_xattr(&entries);
    }

    fn mapped(&self, id: u32) -> u32 {
        let found = self.id_map.iter().find_map(|range| {
            let above = id.checked_sub(range.from).filter(|above| *above < range.count)?;
            Some(range.to + above)
        });
        found.unwrap_or(id)
    }
}

/// Parses `USER:GROUP`, `USER` or `:GROUP`, as names of the tables or numbers.
fn parse_owner(owner: &OsStr, tables: &IdTables) -> Result<(Option<u32>, Option<u32>), Failure> {
    let mut parts = owner.as_bytes().splitn(2, |byte| *byte == b':');
    let uid = parts.next().filter(|name| !name.is_empty());
    let gid = parts.next().filter(|name| !name.is_empty());
    if uid.is_none() && gid.is_none() {
        return Err(Failure::usage("--owner: the owner is missing"));
    }
    let known = |what: &str, table: &Option<Vec<u8>>, name: &[u8], found: Option<u32>| {
        found.ok_or_else(|| {
            let shown = names::in_message(name);
            let place = if table.is_some() { "the table" } else { "this host" };
            Failure::usage(format!("--owner: {shown} is neither a {what} of {place} nor a number"))
        })
    };
    let uid = uid.map(|name| known("user", &tables.users, name, tables.user(name))).transpose()?;
    Ok((uid, gid.map(|name| known("group", &tables.groups, name, tables.group(name))).transpose()?))
}

/// Parses `FROM:TO` or `FROM:TO:COUNT`.
fn parse_range(text: &str) -> Result<IdRange, Failure> {
    let numbers: Option<Vec<u32>> = text.split(':').map(|number| number.parse().ok()).collect();
    let range = match numbers.as_deref() {
        Some(&[from, to]) => Some(IdRange { from, to, count: 1 }),
        Some(&[from, to, count]) => Some(IdRange { from, to, count }),
        _ => None,
    };
    // The id 2^32 - 1 means "no change" in system calls.
    let fits = |start: u32, count: u32| start.checked_add(count).is_some();
    let range = range.filter(|range| {
        range.count > 0 && fits(range.from, range.count) && fits(range.to, range.count)
    });
    range.ok_or_else(|| {
        Failure::usage(format!("--chown-map: {text} is not FROM:TO or FROM:TO:COUNT, as numbers"))
    })
}

/// Parses `MODE` or `MODE:PATTERN`.
fn parse_rule(text: &OsString) -> Result<ModeRule, Failure> {
    let bytes = text.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b':').unwrap_or(bytes.len());
    let (mode, pattern) = bytes.split_at(at);
    let change = std::str::from_utf8(mode).ok().and_then(ModeChange::parse).ok_or_else(|| {
        let shown = names::in_message(mode);
        Failure::usage(format!("--mode: {shown} is not a mode, such as 644 or u=rwX,go=rX"))
    })?;
    let pattern = pattern.strip_prefix(b":").map(|pattern| PathPattern::parse(pattern, "--mode"));
    Ok(ModeRule { change, pattern: pattern.transpose()? })
}

/// Parses the argument of `--mtime`: `clamp`, which needs a latest time, or seconds since 1970.
fn parse_time(text: &str, has_latest: bool) -> Result<Option<Time>, Failure> {
    match (text, text.parse()) {
        ("clamp", _) if has_latest => Ok(None),
        ("clamp", _) => Err(Failure::usage("--mtime clamp: there is no latest time")
            .hint("set SOURCE_DATE_EPOCH to the latest time, in seconds since 1970")),
        (_, Ok(seconds)) => Ok(Some(Time { seconds, nanoseconds: 0 })),
        (_, Err(_)) => Err(Failure::usage(format!(
            "--mtime: {text} is neither \"clamp\" nor a number of seconds since 1970"
        ))),
    }
}

#[cfg(test)]
mod tests;
