//! Access control lists as text: `user:1000:rw-`, as setfacl(1), getfacl(1) and tar have it.
//!
//! Owns: the text of an entry, and how entries that are given change a list. Does **not** own which
//! lists are valid ([`ferroxfs::Acl`]).

use ferroxfs::Acl;
use ferroxfs::format::acl::{AclCheck, AclEntry, AclTag, decode_posix_xattr, encode_posix_xattr};

use crate::owners;

const READ: u16 = 4;
const WRITE: u16 = 2;
const EXECUTE: u16 = 1;

/// One entry, with numbers for names.
pub(crate) fn entry_text(entry: &AclEntry) -> String {
    let who = match entry.tag {
        AclTag::Owner => "user:".to_owned(),
        AclTag::User(id) => format!("user:{id}"),
        AclTag::OwningGroup => "group:".to_owned(),
        AclTag::Group(id) => format!("group:{id}"),
        AclTag::Mask => "mask:".to_owned(),
        AclTag::Other => "other:".to_owned(),
    };
    format!("{who}:{}", permission_text(entry.permissions))
}

/// `rwx`, with `-` for what is not permitted.
pub(crate) fn permission_text(permissions: u16) -> String {
    let bit = |mask: u16, letter: char| if permissions & mask == 0 { '-' } else { letter };
    [bit(READ, 'r'), bit(WRITE, 'w'), bit(EXECUTE, 'x')].into_iter().collect()
}

/// A list in the form that Linux shows, as text; `None` where the value is no list.
pub(crate) fn value_text(value: &[u8]) -> Option<String> {
    let entries = decode_posix_xattr(value)?;
    Some(entries.iter().map(entry_text).collect::<Vec<_>>().join(","))
}

/// The form that Linux shows of a list in an archive, and the entries that make no sense here,
/// which are not in it. There is no form where no list remains.
pub(crate) fn archived_value(text: &str) -> (Option<Vec<u8>>, Vec<WrongEntry>) {
    let (mut given, mut wrong) = (Vec::new(), Vec::new());
    for entry in Given::split(text) {
        match Given::parse(entry) {
            Ok(entry) => given.push(entry),
            Err(entry) => wrong.push(entry),
        }
    }
    let list = Draft::given(&given, false).finish().ok().flatten();
    (list.map(|list| encode_posix_xattr(list.entries())), wrong)
}

/// The permissions of an entry that was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permissions {
    always: u16,
    /// Execute too, where the file is a directory or somebody can execute it.
    executes_if_any: bool,
}

impl Permissions {
    /// Letters, or one octal digit.
    fn parse(text: &str) -> Option<Self> {
        let mut permissions = Self { always: 0, executes_if_any: false };
        if let [digit @ b'0'..=b'7'] = text.as_bytes() {
            permissions.always = u16::from(digit - b'0');
            return Some(permissions);
        }
        for letter in text.chars() {
            match letter {
                'r' => permissions.always |= READ,
                'w' => permissions.always |= WRITE,
                'x' => permissions.always |= EXECUTE,
                'X' => permissions.executes_if_any = true,
                '-' => {}
                _ => return None,
            }
        }
        Some(permissions)
    }

    fn resolve(self, can_execute: bool) -> u16 {
        self.always | if self.executes_if_any && can_execute { EXECUTE } else { 0 }
    }
}

/// Why an entry cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WrongEntry {
    /// It has not the form of one.
    Entry(String),
    /// This host knows no such user.
    User(String),
    /// This host knows no such group.
    Group(String),
}

/// An entry as the command line has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// It is of the default list.
    pub(crate) is_default: bool,
    tag: AclTag,
    /// Missing where an entry shall be removed.
    permissions: Option<Permissions>,
}

impl Given {
    /// Reads entries between commas.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Self>, WrongEntry> {
        Self::split(text).map(Self::parse).collect()
    }

    fn split(text: &str) -> impl Iterator<Item = &str> {
        text.split([',', '\n']).map(str::trim).filter(|entry| !entry.is_empty())
    }

    /// Reads one entry. Star puts the number of a user or group behind the permissions of its name, and
    /// others what of them is effective.
    fn parse(entry: &str) -> Result<Self, WrongEntry> {
        let wrong = || WrongEntry::Entry(entry.to_owned());
        let text = entry.split('#').next().unwrap_or_default().trim_end();
        let mut words: Vec<&str> = text.split(':').map(str::trim).collect();
        let is_default = matches!(words.first(), Some(&("d" | "default")));
        if is_default {
            words.remove(0);
        }
        if let [what, name, permissions, id] = *words.as_slice() {
            let who = if name.is_empty() || id.is_empty() { name } else { id };
            words = vec![what, who, permissions];
        }
        let (tag, rest) = match *words.as_slice() {
            ["u" | "user", "", ref rest @ ..] => (AclTag::Owner, rest),
            ["u" | "user", who, ref rest @ ..] => {
                let unknown = || WrongEntry::User((*who).to_owned());
                (AclTag::User(owners::user(who.as_bytes()).ok_or_else(unknown)?), rest)
            }
            ["g" | "group", "", ref rest @ ..] => (AclTag::OwningGroup, rest),
            ["g" | "group", who, ref rest @ ..] => {
                let unknown = || WrongEntry::Group((*who).to_owned());
                (AclTag::Group(owners::group(who.as_bytes()).ok_or_else(unknown)?), rest)
            }
            // One colon and two mean the same here.
            ["m" | "mask", "", permissions] => {
                return Self::new(is_default, AclTag::Mask, permissions).ok_or_else(wrong);
            }
            ["o" | "other", "", permissions] => {
                return Self::new(is_default, AclTag::Other, permissions).ok_or_else(wrong);
            }
            ["m" | "mask", ref rest @ ..] => (AclTag::Mask, rest),
            ["o" | "other", ref rest @ ..] => (AclTag::Other, rest),
            _ => return Err(wrong()),
        };
        match *rest {
            [] | [""] => Ok(Self { is_default, tag, permissions: None }),
            [permissions] => Self::new(is_default, tag, permissions).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    }

    fn new(is_default: bool, tag: AclTag, permissions: &str) -> Option<Self> {
        Some(Self { is_default, tag, permissions: Some(Permissions::parse(permissions)?) })
    }

    /// Whether it says what is permitted.
    pub(crate) fn has_permissions(&self) -> bool {
        self.permissions.is_some()
    }

    /// The entry, of a file that somebody can execute or not.
    fn entry(&self, can_execute: bool) -> Option<AclEntry> {
        let permissions = self.permissions?.resolve(can_execute);
        Some(AclEntry { tag: self.tag, permissions })
    }
}

/// A list that is being changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    entries: Vec<AclEntry>,
    has_given_mask: bool,
}

impl Draft {
    /// Begins with a list, or with none.
    pub(crate) fn of(list: Option<&Acl>) -> Self {
        let entries = list.map_or_else(Vec::new, |list| list.entries().to_vec());
        Self { entries, has_given_mask: false }
    }

    /// A list of these entries alone.
    pub(crate) fn given(entries: &[Given], is_directory: bool) -> Self {
        let mut draft = Self::default();
        draft.modify(entries, is_directory);
        draft
    }

    /// Whether it has no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether somebody can execute what has this list.
    fn can_execute(&self) -> bool {
        self.entries.iter().any(|entry| entry.permissions & EXECUTE != 0)
    }

    /// Adds entries, or changes those that are there. An `X` goes by the entries before it, too.
    pub(crate) fn modify(&mut self, given: &[Given], is_directory: bool) {
        for given in given {
            let can_execute = is_directory || self.can_execute();
            let Some(entry) = given.entry(can_execute) else { continue };
            self.has_given_mask |= entry.tag == AclTag::Mask;
            self.put(entry);
        }
    }

    /// Removes entries, if they are there. Where the mask is among them no other one is made.
    pub(crate) fn remove(&mut self, given: &[Given]) {
        self.has_given_mask |= given.iter().any(|given| given.tag == AclTag::Mask);
        self.entries.retain(|entry| !given.iter().any(|given| given.tag == entry.tag));
    }

    /// Leaves what permission bits can say. The group keeps no more than the mask has let it have.
    pub(crate) fn remove_extended(&mut self) {
        let mask = self.permissions_of(AclTag::Mask).unwrap_or(READ | WRITE | EXECUTE);
        self.entries.retain(|entry| !is_extended(entry.tag));
        for entry in &mut self.entries {
            if entry.tag == AclTag::OwningGroup {
                entry.permissions &= mask;
            }
        }
    }

    /// Takes from another list what every list has to have, where it is missing here.
    pub(crate) fn complete_from(&mut self, other: &Self) {
        for entry in other.entries.iter().filter(|entry| !is_extended(entry.tag)) {
            if self.permissions_of(entry.tag).is_none() {
                self.put(*entry);
            }
        }
    }

    /// Makes the mask what users and groups by number, and the group, have together, unless one was
    /// given or removed. With `keeps_mask` one that is there stays, and one that is missing lets nobody have more
    /// than the group has.
    pub(crate) fn set_mask(&mut self, keeps_mask: bool) {
        let mask = self.permissions_of(AclTag::Mask);
        let is_needed = mask.is_some() || self.entries.iter().any(|entry| is_extended(entry.tag));
        if !is_needed || self.has_given_mask || (keeps_mask && mask.is_some()) {
            return;
        }
        let is_masked = |tag| match tag {
            AclTag::User(_) | AclTag::Group(_) => !keeps_mask,
            tag => tag == AclTag::OwningGroup,
        };
        let masked = self.entries.iter().filter(|entry| is_masked(entry.tag));
        let permissions = masked.fold(0, |all, entry| all | entry.permissions);
        self.put(AclEntry { tag: AclTag::Mask, permissions });
    }

    /// The list; `None` without entries.
    pub(crate) fn finish(mut self) -> Result<Option<Acl>, AclCheck> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        self.entries.sort_by_key(|entry| rank(entry.tag));
        Acl::new(self.entries).map(Some)
    }

    fn permissions_of(&self, tag: AclTag) -> Option<u16> {
        let found = self.entries.iter().find(|entry| entry.tag == tag);
        found.map(|entry| entry.permissions)
    }

    fn put(&mut self, entry: AclEntry) {
        match self.entries.iter_mut().find(|other| other.tag == entry.tag) {
            Some(other) => *other = entry,
            None => self.entries.push(entry),
        }
    }
}

/// Whether permission bits cannot say it.
fn is_extended(tag: AclTag) -> bool {
    matches!(tag, AclTag::User(_) | AclTag::Group(_) | AclTag::Mask)
}

/// Where an entry stands in a list.
fn rank(tag: AclTag) -> (u8, u32) {
    match tag {
        AclTag::Owner => (0, 0),
        AclTag::User(id) => (1, id),
        AclTag::OwningGroup => (2, 0),
        AclTag::Group(id) => (3, id),
        AclTag::Mask => (4, 0),
        AclTag::Other => (5, 0),
    }
}

#[cfg(test)]
mod tests;
