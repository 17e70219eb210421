//! The keys of a recipe, and the options of `mkfs` that they become.
//!
//! A test compares this table with the options of `mkfs`, so an option is never forgotten.

/// The values that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// `true` gives the option, `false` leaves it out.
    Flag,
    /// A text or a number.
    Text,
    /// A path.
    Path,
    /// One text or a list of them, each of which gives the option.
    Texts,
    /// One path or a list of them.
    Paths,
    /// Sources of files, one or a list: a path, an address of a container image, or "-".
    Sources,
    /// A table of suboptions, for the option of this letter. Those named here are paths.
    Suboptions(char, &'static [&'static str]),
}

/// A key of a recipe.
#[derive(Debug)]
pub(super) struct Key {
    /// The table that the key is in; empty for the top of the recipe.
    pub(super) table: &'static str,
    pub(super) name: &'static str,
    pub(super) kind: KeyKind,
    /// The option, with its dashes. Empty for the output, which is the argument of mkfs. An option
    /// that ends with `=` is one word with its value.
    pub(super) option: &'static str,
}

const fn key(table: &'static str, name: &'static str, kind: KeyKind, option: &'static str) -> Key {
    Key { table, name, kind, option }
}

const fn suboptions(name: &'static str, letter: char, paths: &'static [&'static str]) -> Key {
    key("", name, KeyKind::Suboptions(letter, paths), "")
}

/// The name of the table for disks.
pub(super) const DISK: &str = "disk";

/// All keys. The command line has the options in this order.
pub(super) static KEYS: &[Key] = &[
    key("", "output", KeyKind::Path, ""),
    key("", "from", KeyKind::Sources, "--from"),
    key("", "add", KeyKind::Paths, "--add"),
    suboptions("prototype", 'p', &["file"]),
    key("", "size", KeyKind::Text, "-d size="),
    key("", "free", KeyKind::Text, "--free"),
    key("", "minimize", KeyKind::Flag, "--minimize"),
    key("", "label", KeyKind::Text, "-L"),
    key("", "for", KeyKind::Texts, "--for"),
    suboptions("block", 'b', &[]),
    suboptions("data", 'd', &["name"]),
    suboptions("inode", 'i', &[]),
    suboptions("log", 'l', &["logdev"]),
    suboptions("metadata", 'm', &[]),
    suboptions("naming", 'n', &[]),
    suboptions("realtime", 'r', &["rtdev"]),
    suboptions("sector", 's', &[]),
    suboptions("configuration", 'c', &["options", "defaults"]),
    key("", "exclude", KeyKind::Texts, "--exclude"),
    key("", "include-from", KeyKind::Paths, "--include-from"),
    key("", "all-root", KeyKind::Flag, "--all-root"),
    key("", "owner", KeyKind::Text, "--owner"),
    key("", "passwd", KeyKind::Path, "--passwd"),
    key("", "group", KeyKind::Path, "--group"),
    key("", "passwd-from-image", KeyKind::Flag, "--passwd-from-image"),
    key("", "chown-map", KeyKind::Texts, "--chown-map"),
    key("", "mode", KeyKind::Texts, "--mode"),
    key("", "mtime", KeyKind::Text, "--mtime"),
    key("", "selinux-file-contexts", KeyKind::Path, "--selinux-file-contexts"),
    key("", "project", KeyKind::Texts, "--project"),
    key("", "platform", KeyKind::Text, "--platform"),
    key("", "composefs-objects", KeyKind::Path, "--composefs-objects"),
    key("", "quota", KeyKind::Texts, "--quota"),
    key("", "limit", KeyKind::Texts, "--limit"),
    key("", "keep-directory-symlink", KeyKind::Flag, "--keep-directory-symlink"),
    key("", "ignore-zeros", KeyKind::Flag, "--ignore-zeros"),
    key("", "time", KeyKind::Text, "--time"),
    key("", "seed", KeyKind::Text, "--seed"),
    key("", "epoch", KeyKind::Text, "--epoch"),
    key("", "digest", KeyKind::Flag, "--digest"),
    key("", "unsupported", KeyKind::Flag, "--unsupported"),
    key("", "force", KeyKind::Flag, "-f"),
    key("", "partition", KeyKind::Text, "--partition"),
    key("", "format", KeyKind::Text, "--format"),
    key("", "compression", KeyKind::Text, "--compression"),
    key(DISK, "kind", KeyKind::Text, "--disk"),
    key(DISK, "partition-type", KeyKind::Text, "--partition-type"),
    key(DISK, "partition-name", KeyKind::Text, "--partition-name"),
    key(DISK, "esp", KeyKind::Path, "--esp"),
    key(DISK, "esp-size", KeyKind::Text, "--esp-size"),
];
