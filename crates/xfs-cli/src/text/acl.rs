//! Access control lists as text: `user:1000:rw-`, as in setfacl(1), getfacl(1) and tar.
//!
//! Owns: the text of an entry, and the change of a list by entries that a user gives. Does **not**
//! own: the check that a list is valid ([`ferroxfs::attr::Acl`]).

use ferroxfs::attr::Acl;
use ferroxfs::attr::{AclCheck, AclEntry, AclTag};
use ferroxfs::raw::format::acl::{decode_posix_xattr, encode_posix_xattr};

use crate::text::owners;

const READ: u16 = 4;
const WRITE: u16 = 2;
const EXECUTE: u16 = 1;

/// Returns the text of one entry. A user or group appears as a number.
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

/// Returns the text `rwx`, with `-` for each permission that is not granted.
pub(crate) fn permission_text(permissions: u16) -> String {
    let bit = |mask: u16, letter: char| if permissions & mask == 0 { '-' } else { letter };
    [bit(READ, 'r'), bit(WRITE, 'w'), bit(EXECUTE, 'x')].into_iter().collect()
}

/// Converts a list from the form of a Linux attribute value to text; `None` if the value is no
/// list.
pub(crate) fn value_text(value: &[u8]) -> Option<String> {
    let entries = decode_posix_xattr(value)?;
    Some(entries.iter().map(entry_text).collect::<Vec<_>>().join(","))
}

/// Converts the text of a list in an archive to the form of a Linux attribute value. Entries that
/// are invalid on this host are left out of the value and returned. The value is `None` if no list
/// remains.
pub(crate) fn archived_value(text: &str) -> (Option<Vec<u8>>, Vec<InvalidEntry>) {
    let (mut given, mut wrong) = (Vec::new(), Vec::new());
    for entry in GivenEntry::split(text) {
        match GivenEntry::parse(entry) {
            Ok(entry) => given.push(entry),
            Err(entry) => wrong.push(entry),
        }
    }
    let list = AclBuilder::given(&given, false).finish().ok().flatten();
    (list.map(|list| encode_posix_xattr(list.entries())), wrong)
}

/// The permissions in the text of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permissions {
    always: u16,
    /// Whether the letter `X` is given. It means execute permission if the file is a directory or
    /// some user can execute it.
    executes_if_any: bool,
}

impl Permissions {
    /// Parses letters of `rwxX-`, or one octal digit; `None` if the text is invalid.
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

/// The reason why the text of an entry is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InvalidEntry {
    /// The text does not have the form of an entry.
    Entry(String),
    /// This host has no user of this name.
    User(String),
    /// This host has no group of this name.
    Group(String),
}

/// An entry that was given as text, to be set or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GivenEntry {
    /// Whether the entry belongs to the default list of a directory.
    pub(crate) is_default: bool,
    tag: AclTag,
    /// The permissions; `None` if the text has none, because it only names an entry to be removed.
    permissions: Option<Permissions>,
}

impl GivenEntry {
    /// Parses entries separated by commas.
    pub(crate) fn parse_all(text: &str) -> Result<Vec<Self>, InvalidEntry> {
        Self::split(text).map(Self::parse).collect()
    }

    fn split(text: &str) -> impl Iterator<Item = &str> {
        text.split([',', '\n']).map(str::trim).filter(|entry| !entry.is_empty())
    }

    /// Parses one entry. In archives of star, the number of the user or group follows the
    /// permissions; other programs append the effective permissions after a `#`.
    fn parse(entry: &str) -> Result<Self, InvalidEntry> {
        let wrong = || InvalidEntry::Entry(entry.to_owned());
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
                let unknown = || InvalidEntry::User((*who).to_owned());
                (AclTag::User(owners::user(who.as_bytes()).ok_or_else(unknown)?), rest)
            }
            ["g" | "group", "", ref rest @ ..] => (AclTag::OwningGroup, rest),
            ["g" | "group", who, ref rest @ ..] => {
                let unknown = || InvalidEntry::Group((*who).to_owned());
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

    /// Returns whether the text of the entry has permissions.
    pub(crate) fn has_permissions(&self) -> bool {
        self.permissions.is_some()
    }

    /// Returns the entry to be set; `None` if the text has no permissions. `can_execute` says
    /// whether `X` means execute permission.
    fn entry(&self, can_execute: bool) -> Option<AclEntry> {
        let permissions = self.permissions?.resolve(can_execute);
        Some(AclEntry { tag: self.tag, permissions })
    }
}

/// An access control list that is being changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct AclBuilder {
    entries: Vec<AclEntry>,
    has_given_mask: bool,
}

impl AclBuilder {
    /// Creates a builder with the entries of `list`; without entries if `list` is `None`.
    pub(crate) fn of(list: Option<&Acl>) -> Self {
        let entries = list.map_or_else(Vec::new, |list| list.entries().to_vec());
        Self { entries, has_given_mask: false }
    }

    /// Creates a list of only these entries. For a directory, `X` means execute permission.
    pub(crate) fn given(entries: &[GivenEntry], is_directory: bool) -> Self {
        let mut builder = Self::default();
        builder.modify(entries, is_directory);
        builder
    }

    /// Returns whether the list has no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether any entry of the list grants execute permission.
    fn can_execute(&self) -> bool {
        self.entries.iter().any(|entry| entry.permissions & EXECUTE != 0)
    }

    /// Sets entries: changes those that exist and adds the others. `X` means execute permission if
    /// the file is a directory, or if an entry of the list, as changed so far, grants execute
    /// permission.
    pub(crate) fn modify(&mut self, given: &[GivenEntry], is_directory: bool) {
        for given in given {
            let can_execute = is_directory || self.can_execute();
            let Some(entry) = given.entry(can_execute) else { continue };
            self.has_given_mask |= entry.tag == AclTag::Mask;
            self.put(entry);
        }
    }

    /// Removes these entries if they exist. If the mask is among them, a later `set_mask` makes no
    /// new mask.
    pub(crate) fn remove(&mut self, given: &[GivenEntry]) {
        self.has_given_mask |= given.iter().any(|given| given.tag == AclTag::Mask);
        self.entries.retain(|entry| !given.iter().any(|given| given.tag == entry.tag));
    }

    /// Reduces the list to entries that permission bits can express. The owning group keeps only
    /// permissions that the mask allowed.
    pub(crate) fn remove_extended(&mut self) {
        let mask = self.permissions_of(AclTag::Mask).unwrap_or(READ | WRITE | EXECUTE);
        self.entries.retain(|entry| !is_extended(entry.tag));
        for entry in &mut self.entries {
            if entry.tag == AclTag::OwningGroup {
                entry.permissions &= mask;
            }
        }
    }

    /// Adds the entries that every list must have and that are missing here, copied from `other`.
    pub(crate) fn complete_from(&mut self, other: &Self) {
        for entry in other.entries.iter().filter(|entry| !is_extended(entry.tag)) {
            if self.permissions_of(entry.tag).is_none() {
                self.put(*entry);
            }
        }
    }

    /// Sets the mask to the union of the permissions of named users, named groups and the owning
    /// group, unless a mask was given or removed. With `keeps_mask` an existing mask stays, and a
    /// missing mask gets the permissions of the owning group.
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

    /// Returns the finished list; `None` if it has no entries. Fails if the list is invalid.
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

/// Returns whether permission bits cannot express an entry with this tag.
fn is_extended(tag: AclTag) -> bool {
    matches!(tag, AclTag::User(_) | AclTag::Group(_) | AclTag::Mask)
}

/// Returns the key by which the entries of a list are sorted: the kind of the entry, and the number
/// of its user or group.
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
