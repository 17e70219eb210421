//! Prototype files: the tree with which mkfs.xfs(8) fills a volume (`-p`).
//!
//! Owns: the syntax of the text, and the files that the text describes. Does **not** own: writing
//! the files ([`writer`](crate::import::writer)), or the contents of regular files, which come from
//! files of the host.
//!
//! ```text
//! title 0 0                        a word and two numbers without a meaning
//! d--755 0 0                       the root: mode, user, group
//!   sh  -u-755 0 0 /bin/sh         name, mode, user, group, and the file with the contents
//!   dev d--755 0 0                 a directory, up to its $
//!     tty c--666 0 5 5 0           a device has two numbers, a link (l) its target
//!   $
//! : a comment, to the end of the line
//! $
//! ```
//!
//! Directories refer to their entries by index and are not nested in memory, because the text
//! decides the depth.

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::{ffi::OsStr, fs};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind, Time};
use crate::file::source::{NamedValue, Source};
use crate::import::host::HostSource;
use crate::terminal::names;

/// Options for reading a prototype file.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PrototypeOptions {
    /// Whether a slash in a name means a space.
    pub(crate) slashes_are_spaces: bool,
    /// The time that all files get.
    pub(crate) time: Time,
}

/// A tree of files that was read from a prototype file.
#[derive(Debug)]
pub(crate) struct Prototype {
    /// All files of the tree; the first is the root.
    files: Vec<PrototypeFile>,
}

#[derive(Debug)]
struct PrototypeFile {
    facts: Facts,
    what: PrototypeKind,
}

/// The type of a file, with the data of that type: entries, the host file with the contents, or a
/// link target.
#[derive(Debug)]
enum PrototypeKind {
    /// The names in a directory, each with the index of its file in `Prototype::files`.
    Directory(Vec<(Vec<u8>, usize)>),
    Contents(PathBuf),
    Target(Vec<u8>),
    Nothing,
}

/// A file of a prototype, as a source of an import.
pub(crate) struct PrototypeSource {
    tree: Rc<Prototype>,
    number: usize,
    contents: Option<HostSource>,
}

impl PrototypeSource {
    /// Reads a prototype file and returns its root.
    ///
    /// # Errors
    ///
    /// A line with an invalid entry, or a file of the host that does not exist.
    pub(crate) fn open(path: &Path, reading: PrototypeOptions) -> Result<Self, Failure> {
        let text = fs::read(path).map_err(|error| Failure::host(path.as_os_str(), &error))?;
        let tree = Prototype::parse(&text, reading);
        let shown = names::in_message(path.as_os_str().as_bytes());
        let tree = Rc::new(tree.map_err(|failure| failure.about(&shown))?);
        Ok(Self { tree, number: 0, contents: None })
    }

    fn file(&self) -> Option<&PrototypeFile> {
        self.tree.files.get(self.number)
    }
}

impl Prototype {
    /// Parses the text of a prototype file.
    fn parse(text: &[u8], reading: PrototypeOptions) -> Result<Self, Failure> {
        let mut words = Words { text, at: 0, line: 1 };
        words.next().ok_or_else(|| words.wrong("is empty"))?;
        words.number()?;
        words.number()?;
        let mut tree = Self { files: Vec::new() };
        let root = tree.file(&mut words, reading)?;
        if tree.entries(root).is_none() {
            return Err(words.wrong("begins with a file that is not a directory"));
        }
        let mut open = vec![root];
        while let Some(directory) = open.last().copied() {
            // The end of the text ends all directories, as in mkfs.xfs.
            let Some(name) = words.next() else { break };
            if name == b"$" {
                open.pop();
                continue;
            }
            let mut name = name.to_vec();
            if reading.slashes_are_spaces {
                name.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = b' ');
            }
            let file = tree.file(&mut words, reading)?;
            if tree.entries(file).is_some() {
                open.push(file);
            }
            if let Some(entries) = tree.entries(directory) {
                entries.push((name, file));
            }
        }
        Ok(tree)
    }

    fn entries(&mut self, number: usize) -> Option<&mut Vec<(Vec<u8>, usize)>> {
        match self.files.get_mut(number) {
            Some(PrototypeFile { what: PrototypeKind::Directory(entries), .. }) => Some(entries),
            _ => None,
        }
    }

    /// Parses the words after the name of a file: mode, owner, and the data of its type. Adds the
    /// file to `files`, and returns its index there.
    fn file(&mut self, words: &mut Words<'_>, reading: PrototypeOptions) -> Result<usize, Failure> {
        let mode = words.word()?;
        let mode = mode_of(mode).ok_or_else(|| {
            let shown = names::in_message(mode);
            words.wrong(&format!("{shown} is not a mode, such as d--755 or -u-644"))
        })?;
        let (uid, gid) = (words.number()?, words.number()?);
        let mut facts = Facts { mode, links: 1, uid, gid, ..Facts::default() };
        (facts.accessed, facts.modified) = (reading.time, reading.time);
        let what = match facts.kind() {
            FileKind::Directory => PrototypeKind::Directory(Vec::new()),
            FileKind::Symlink => PrototypeKind::Target(words.word()?.to_vec()),
            FileKind::BlockDevice | FileKind::CharDevice => {
                facts.device = (words.number()?, words.number()?);
                PrototypeKind::Nothing
            }
            FileKind::Regular => {
                let path = Path::new(OsStr::from_bytes(words.word()?));
                let metadata = fs::metadata(path);
                let metadata = metadata.map_err(|error| Failure::host(path.as_os_str(), &error))?;
                if !metadata.is_file() {
                    let shown = names::in_message(path.as_os_str().as_bytes());
                    return Err(words.wrong(&format!("{shown} is not a regular file")));
                }
                facts.size = metadata.len();
                PrototypeKind::Contents(path.to_owned())
            }
            _ => PrototypeKind::Nothing,
        };
        self.files.push(PrototypeFile { facts, what });
        Ok(self.files.len() - 1)
    }
}

/// Returns the mode that a word of six characters means: the type, set-user-ID, set-group-ID, and
/// three octal digits. `None` if the word is invalid.
fn mode_of(word: &[u8]) -> Option<u32> {
    let [kind, user, group, permissions @ ..] = word else { return None };
    let kind = match kind {
        b'-' => 0o100_000,
        b'd' => 0o040_000,
        b'l' => 0o120_000,
        b'b' => 0o060_000,
        b'c' => 0o020_000,
        b'p' => 0o010_000,
        _ => return None,
    };
    let bit = |found: u8, letter: u8, bit: u32| match found {
        b'-' => Some(0),
        found => (found == letter).then_some(bit),
    };
    let is_octal = permissions.len() == 3 && permissions.iter().all(|d| (b'0'..=b'7').contains(d));
    let permissions = std::str::from_utf8(permissions).ok().filter(|_| is_octal)?;
    let permissions = u32::from_str_radix(permissions, 8).ok()?;
    Some(kind | bit(*user, b'u', 0o4000)? | bit(*group, b'g', 0o2000)? | permissions)
}

/// An iterator over the words of a prototype file, without comments.
struct Words<'a> {
    text: &'a [u8],
    at: usize,
    line: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace());
            let blanks = blanks.inspect(|byte| self.line += usize::from(**byte == b'\n')).count();
            let rest = rest.get(blanks..).unwrap_or_default();
            let is_end: fn(&u8) -> bool = match rest.first()? {
                b':' => |byte| *byte == b'\n',
                _ => u8::is_ascii_whitespace,
            };
            let length = rest.iter().position(is_end).unwrap_or(rest.len());
            self.at += blanks + length;
            if rest.first() != Some(&b':') {
                return rest.get(..length);
            }
        }
    }

    fn word(&mut self) -> Result<&'a [u8], Failure> {
        self.next().ok_or_else(|| self.wrong("ends in the middle of a file"))
    }

    fn number(&mut self) -> Result<u32, Failure> {
        let word = self.word()?;
        let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
        number.ok_or_else(|| self.wrong(&format!("{} is not a number", names::in_message(word))))
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::new(Exit::Failed, format!("line {}: {what}", self.line))
    }
}

impl Source for PrototypeSource {
    type Entries = PrototypeEntries;

    fn facts(&self) -> Facts {
        self.file().map_or_else(Facts::default, |file| file.facts)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Failure> {
        self.contents.as_ref().map_or(Ok(0), |contents| contents.read_at(buffer, offset))
    }

    fn length(&self) -> Option<u64> {
        self.contents.as_ref().map_or(Some(0), HostSource::length)
    }

    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>, Failure> {
        self.contents.as_ref().map_or(Ok(None), |contents| contents.data_after(offset))
    }

    fn lies_on_host(&self) -> bool {
        true
    }

    fn target(&self) -> Result<Vec<u8>, Failure> {
        match self.file() {
            Some(PrototypeFile { what: PrototypeKind::Target(target), .. }) => Ok(target.clone()),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns the attributes of the host file from which the contents come.
    fn attributes(&self) -> Vec<Result<NamedValue, Failure>> {
        self.contents.as_ref().map_or_else(Vec::new, HostSource::attributes)
    }

    fn entries(&self) -> Result<Self::Entries, Failure> {
        Ok(PrototypeEntries { tree: Rc::clone(&self.tree), directory: self.number, next: 0 })
    }
}

/// The entries of a directory, in the order of the text. The host file that holds the contents of
/// an entry is opened only when the entry is reached.
pub(crate) struct PrototypeEntries {
    tree: Rc<Prototype>,
    directory: usize,
    next: usize,
}

impl Iterator for PrototypeEntries {
    type Item = Result<(Vec<u8>, PrototypeSource), Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let PrototypeKind::Directory(entries) = &self.tree.files.get(self.directory)?.what else {
            return None;
        };
        let (name, number) = entries.get(self.next)?;
        self.next += 1;
        let contents = match &self.tree.files.get(*number)?.what {
            PrototypeKind::Contents(path) => Some(HostSource::open(path, true)),
            _ => None,
        };
        let source = |contents| {
            let source = PrototypeSource { tree: Rc::clone(&self.tree), number: *number, contents };
            (name.clone(), source)
        };
        Some(contents.transpose().map(source))
    }
}

#[cfg(test)]
mod tests;
