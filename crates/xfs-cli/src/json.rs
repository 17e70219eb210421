//! The JSON documents that commands print.
//!
//! A run prints one document, with `schema_version` first. Numbers are integers, and times are
//! nanoseconds since 1970, as in the rows of `scan`. A name that is not UTF-8 is written as base64
//! under its key with the suffix `_bytes`. Lists are written as they are produced, one entry per
//! line, so that memory does not grow with the volume.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::file::facts::{Facts, FileKind};
use crate::terminal::escaping::EscapedOutput;

/// The version of the documents. The version changes when a key changes its meaning or is removed,
/// but not when a key is added.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// A JSON object to which keys are added.
pub(crate) type Object = Map<String, Value>;

/// Adds a name to the object: as text under `key`, or, if it is not UTF-8, as base64 under the key
/// with the suffix `_bytes`.
pub(crate) fn insert_name(object: &mut Object, key: &str, name: &[u8]) {
    match std::str::from_utf8(name) {
        Ok(text) => object.insert(key.to_owned(), text.into()),
        Err(_) => object.insert(format!("{key}_bytes"), STANDARD.encode(name).into()),
    };
}

/// Returns the facts of a file as a JSON object.
pub(crate) fn facts(facts: &Facts) -> Object {
    let mut object = Object::new();
    let mut insert = |key: &str, value: Value| object.insert(key.to_owned(), value);
    insert("ino", facts.inode.into());
    insert("type", kind_name(facts.kind()).into());
    insert("mode", facts.mode.into());
    insert("nlink", facts.links.into());
    insert("uid", facts.uid.into());
    insert("gid", facts.gid.into());
    insert("project_id", facts.project.into());
    insert("size", facts.size.into());
    insert("blocks", facts.blocks.into());
    for (key, time) in [
        ("atime", facts.accessed),
        ("mtime", facts.modified),
        ("ctime", facts.changed),
        ("btime", facts.born),
    ] {
        // XFS stores times up to the year 2486. Times after April 2262 do not fit and become null.
        insert(key, i64::try_from(time.total_nanoseconds()).map_or(Value::Null, Value::from));
    }
    insert("xflags", facts.xflags.into());
    if matches!(facts.kind(), FileKind::BlockDevice | FileKind::CharDevice) {
        insert("rdev_major", facts.device.0.into());
        insert("rdev_minor", facts.device.1.into());
    }
    object
}

/// Returns the word for a file type in JSON.
pub(crate) fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::BlockDevice => "block_device",
        FileKind::CharDevice => "char_device",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::Unknown => "unknown",
    }
}

/// Writes a document without a list: `schema_version`, and then the keys of the object.
pub(crate) fn write_document(out: &mut EscapedOutput, object: Object) -> io::Result<()> {
    let mut document = Object::new();
    document.insert("schema_version".to_owned(), SCHEMA_VERSION.into());
    document.extend(object);
    serde_json::to_writer_pretty(out.json(), &document)?;
    out.write_all(b"\n")
}

/// A document that holds a list and is written entry by entry.
pub(crate) struct List {
    has_entries: bool,
}

impl List {
    /// Begins a document whose list has the key `key`.
    pub(crate) fn begin(out: &mut EscapedOutput, key: &str) -> io::Result<Self> {
        write!(out, "{{\"schema_version\": {SCHEMA_VERSION}, \"{key}\": [")?;
        Ok(Self { has_entries: false })
    }

    /// Begins a document that has the keys of `head` before the list.
    pub(crate) fn begin_with(
        out: &mut EscapedOutput,
        head: &Object,
        key: &str,
    ) -> io::Result<Self> {
        write!(out, "{{\"schema_version\": {SCHEMA_VERSION}")?;
        for (name, value) in head {
            write!(out, ", \"{name}\": ")?;
            serde_json::to_writer(out.json(), value)?;
        }
        write!(out, ", \"{key}\": [")?;
        Ok(Self { has_entries: false })
    }

    /// Writes one entry of the list.
    pub(crate) fn push(&mut self, out: &mut EscapedOutput, entry: &Object) -> io::Result<()> {
        out.write_all(if self.has_entries { b",\n" } else { b"\n" })?;
        self.has_entries = true;
        Ok(serde_json::to_writer(out.json(), entry)?)
    }

    /// Writes the end of the list and of the document.
    pub(crate) fn end(self, out: &mut EscapedOutput) -> io::Result<()> {
        out.write_all(b"\n]}\n")
    }
}
