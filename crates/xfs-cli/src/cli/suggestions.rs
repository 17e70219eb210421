//! Suggestions for a word that is not a command, and for an argument that a command does not take.
//!
//! Owns: the tables of words and arguments that users know from other programs. Does **not** own:
//! the suggestions by similarity, which clap makes. A destructive command is never suggested: a
//! word that resembles `rm` may mean anything.

use std::path::Path;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, Error};

/// Words that users know from other programs, and the tip for each group of words.
const WORDS: &[(&[&str], &str)] = &[
    (
        &["format", "mkfs.xfs", "mkfs_xfs", "create", "new", "init", "newfs", "makefs", "mkxfs"],
        "'ferroxfs mkfs' makes a volume",
    ),
    (
        &["make", "bake", "mkosi", "recipe", "mkimage", "repart"],
        "'ferroxfs build RECIPE.toml' makes a volume or a disk as a recipe says",
    ),
    (
        &["fsck", "fsck.xfs", "xfs_check", "verify", "validate", "xfs_repair", "scrub"],
        "'ferroxfs check IMAGE' reports what is wrong with a volume, without changing it",
    ),
    (
        &[
            "extract",
            "unpack",
            "copy",
            "export",
            "restore",
            "unarchive",
            "cpio",
            "rsync",
            "x",
            "pull",
        ],
        "'ferroxfs cp -a IMAGE:/path DIRECTORY' copies files out; 'ferroxfs import ARCHIVE IMAGE:/' unpacks an archive into an image",
    ),
    (&["dir", "list", "ll", "la", "l", "listdir"], "'ferroxfs ls' lists directories"),
    (
        &["type", "print", "less", "more", "head", "tail", "view", "read", "show"],
        "'ferroxfs cat' prints the contents of files",
    ),
    (&["download", "fetch", "save"], "'ferroxfs get' writes a file to the host"),
    (&["upload", "write", "store", "push"], "'ferroxfs put' writes a file in an image"),
    (
        &["add", "load", "untar", "populate", "insert"],
        "'ferroxfs import' copies a directory or an archive into an image",
    ),
    (
        &["archive", "pack", "zip", "backup", "dump-tar", "xfsdump"],
        "'ferroxfs tar' writes an archive",
    ),
    (
        &[
            "xfs_info",
            "geometry",
            "blkid",
            "super",
            "superblock",
            "describe",
            "file",
            "df",
            "lsblk",
        ],
        "'ferroxfs info' shows the geometry of a volume",
    ),
    (
        &["xfs_db", "db", "debug", "debugfs", "inspect", "hexdump"],
        "'ferroxfs dump' shows structures",
    ),
    (
        &["xfs_growfs", "resize", "grow", "extend", "expand", "resize2fs"],
        "'ferroxfs growfs' makes a volume larger",
    ),
    (
        &["shrinkfs", "xfs_shrinkfs", "reduce", "compact", "minimize"],
        "'ferroxfs shrink' makes a volume smaller",
    ),
    (&["trim", "discard", "blkdiscard"], "'ferroxfs fstrim' gives free space back"),
    (&["sparsify", "virt-sparsify", "zerofree", "zero"], "'ferroxfs zap' clears free space"),
    (&["rename", "move", "ren"], "'ferroxfs mv' renames files"),
    (
        &["unmount", "eject", "detach", "unmnt", "fusermount", "fusermount3"],
        "'ferroxfs umount' ends a mount",
    ),
    (&["attach", "fuse", "mnt", "mount.xfs", "mount.ferroxfs"], "'ferroxfs mount' mounts a volume"),
    (&["nfs", "nfsd", "exportfs"], "'ferroxfs serve nfs' serves a volume through NFS"),
    (
        &["exec", "chroot", "with", "guestfish", "guestmount"],
        "'ferroxfs run' runs a program in a volume",
    ),
    (&["findmnt", "mtab", "listmounts"], "'ferroxfs mounts' lists mounts"),
    (&["search", "grep", "locate", "glob"], "'ferroxfs find' searches for files"),
    (&["usage", "size", "ncdu", "space"], "'ferroxfs du' adds up the space that files use"),
    (
        &["xfs_quota", "repquota", "quotacheck", "edquota", "setquota", "quotaon"],
        "'ferroxfs quota' shows usage and limits",
    ),
    (&["lsattr", "xfs_io", "fstat"], "'ferroxfs stat' shows the inode of a file"),
    (&["xattr", "attr", "attrs"], "'ferroxfs getfattr' shows extended attributes"),
    (&["acl", "acls", "facl"], "'ferroxfs getfacl' shows access control lists"),
    (
        &["xfs_admin", "name", "e2label", "tune2fs"],
        "'ferroxfs label' and 'ferroxfs uuid' show and change them",
    ),
    (&["replay", "journal", "recovery"], "'ferroxfs recover' replays the log"),
    (&["xfs_logprint", "logprint"], "'ferroxfs log' shows the log"),
    (
        &["xfs_bmap", "bmap", "filefrag", "fiemap"],
        "'ferroxfs extents' shows where a file is on disk",
    ),
    (
        &["inventory", "index", "parquet", "csv", "bulkstat"],
        "'ferroxfs scan' writes a row for each inode",
    ),
    (&["symlink", "link", "hardlink"], "'ferroxfs ln' makes links"),
    (&["md", "makedir"], "'ferroxfs mkdir' makes directories"),
    (&["ncheck", "path", "paths"], "'ferroxfs parents' shows the paths of an inode"),
    #[cfg(feature = "bench")]
    (&["benchmark", "fio", "perf"], "'ferroxfs bench' measures"),
    (&["manual", "manpage", "manpages"], "'ferroxfs man DIR' writes the man pages"),
    (
        &["defrag", "xfs_fsr", "fsr"],
        "files are not defragmented; 'ferroxfs extents' shows where a file is on disk",
    ),
    (&["ver", "version", "about"], "'ferroxfs --version' prints the version"),
];

/// Commands that are never suggested for a mistyped word.
const DESTRUCTIVE: [&str; 5] = ["rm", "truncate", "mkfs", "fallocate", "mv"];

/// Words that mean removing. They get no suggestion: commands with similar names do something else,
/// and commands that remove are never suggested.
const REMOVING: [&str; 10] =
    ["delete", "remove", "del", "erase", "unlink", "rmdir", "wipe", "shred", "destroy", "purge"];
/// Commands that other programs call, and that are never suggested.
const HIDDEN: [&str; 1] = ["complete"];

/// Commands that take one argument fewer than a command of the same name in other programs, and the
/// tip for the surplus argument.
const SURPLUS: [(&str, &str); 2] = [
    (
        "put",
        "'ferroxfs cp FILE IMAGE:/path' copies a file into an image; 'ferroxfs put IMAGE:/path' writes standard input",
    ),
    (
        "tar",
        "'ferroxfs tar IMAGE:/path' writes an archive; 'ferroxfs import ARCHIVE IMAGE:/' unpacks one",
    ),
];

/// Adds a suggestion for an argument that the command does not take.
pub(crate) fn explain_surplus(error: &mut Error) {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return };
    let usage = usage.to_string();
    let is_of = |command: &str| usage.contains(&format!("ferroxfs {command} "));
    let is_option = matches!(
        error.get(ContextKind::InvalidArg),
        Some(ContextValue::String(word)) if word.starts_with('-')
    );
    if let Some((_, tip)) = SURPLUS.iter().find(|(command, _)| !is_option && is_of(command)) {
        insert_tip(error, (*tip).to_owned());
    }
}

/// Replaces clap's suggestion for an unknown command with the tip that `WORDS` has for the word. A
/// path gets the tip that the command comes first. For any other word, clap's suggestion stays, but
/// destructive and hidden commands are removed from it.
pub(crate) fn replace(error: &mut Error) {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let word = word.clone();
    // Without tips clap leaves an empty line for them.
    error.remove(ContextKind::Suggested);
    let similar = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(names)) => names,
        Some(ContextValue::String(name)) => vec![name],
        _ => Vec::new(),
    };
    let lower = word.to_ascii_lowercase();
    let meant = WORDS.iter().find(|(words, _)| words.contains(&lower.as_str()));
    if let Some((_, tip)) = meant {
        insert_tip(error, (*tip).to_owned());
        return;
    }
    if lower.contains(":/") || Path::new(&word).exists() {
        insert_tip(error, "the command comes first: 'ferroxfs ls IMAGE:/path'".to_owned());
        return;
    }
    if REMOVING.contains(&lower.as_str()) {
        return;
    }
    let is_left_out = |name: &str| DESTRUCTIVE.contains(&name) || HIDDEN.contains(&name);
    let harmless: Vec<_> = similar.into_iter().filter(|name| !is_left_out(name.as_str())).collect();
    if !harmless.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(harmless));
    }
}

fn insert_tip(error: &mut Error, tip: String) {
    let tips = vec![StyledStr::from(tip)];
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

#[cfg(test)]
mod tests;
