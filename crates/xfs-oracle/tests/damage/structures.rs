//! The structures of a volume, as xfs_db finds and prints them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use xfs_oracle::Xfsprogs;
use xfs_oracle::harness::TrialError;

use crate::base::Base;
use crate::text;

/// A structure on disk, such as a header, a block or an inode.
#[derive(Clone, Debug)]
pub(crate) struct DiskStructure {
    /// The name, such as `agf 0` or `inode block: dblock 0`.
    pub(crate) name: String,
    /// The commands of xfs_db that lead to the structure.
    pub(crate) commands: Vec<String>,
    /// Offset of the structure in the image in bytes.
    pub(crate) offset: u64,
    /// Length of the structure in bytes.
    pub(crate) length: usize,
    /// The names of the fields that xfs_db can damage.
    pub(crate) fields: Vec<String>,
}

/// The btrees of a group. Each has the name of the header that leads to the btree, and the field of
/// that header with the root block.
const GROUP_BTREES: [(&str, &str); 6] = [
    ("agf", "bnoroot"),
    ("agf", "cntroot"),
    ("agf", "rmaproot"),
    ("agf", "refcntroot"),
    ("agi", "root"),
    ("agi", "free_root"),
];

/// The structures of each inode in addition to its core: the name of the inode, and the commands of
/// xfs_db that lead to the structures.
const OF_INODES: [(&str, &[&str]); 15] = [
    ("block", &["dblock 0"]),
    ("leaf", &["dblock 0", "dblock LEAF"]),
    ("node", &["dblock 0", "dblock SECOND", "dblock LEAF", "dblock LEAF+1", "dblock FREE"]),
    ("map-leaf", &["addr u3.bmbt.ptrs[1]"]),
    ("map-node", &["addr u3.bmbt.ptrs[1]", "addr u3.bmbt.ptrs[1];addr ptrs[2]"]),
    ("attr-leaf", &["ablock 0"]),
    ("attr-node", &["ablock 0", "ablock 1", "ablock 3"]),
    ("attr-remote", &["ablock 0", "ablock 1", "ablock 2"]),
    ("leaf/40-with-a-name", &["ablock 0", "ablock 1"]),
    ("link-remote", &["dblock 0"]),
    ("shared", &[]),
    ("unwritten", &[]),
    ("quota-user", &["dblock 0"]),
    ("quota-group", &["dblock 0"]),
    ("quota-project", &["dblock 0"]),
];

/// Returns all structures of a volume that xfs_db can address.
pub(crate) fn all(base: &Base) -> Result<Vec<DiskStructure>, TrialError> {
    let mut paths: Vec<(String, Vec<String>)> = Vec::new();
    let mut add = |name: String, commands: &[&str]| {
        paths.push((name, commands.iter().map(|&command| command.to_owned()).collect()));
    };
    for group in 0..3 {
        for kind in ["sb", "agf", "agi", "agfl"] {
            let name = format!("{kind} {group}");
            add(name.clone(), &[name.as_str()]);
        }
        for (header, root) in GROUP_BTREES {
            let (header, root) = (format!("{header} {group}"), format!("addr {root}"));
            add(format!("{header}: {root}"), &[&header, &root]);
            for child in ["addr ptrs[1]", "addr ptrs[2]"] {
                add(format!("{header}: {root}: {child}"), &[&header, &root, child]);
                let leaf = "addr ptrs[2]";
                add(format!("{header}: {root}: {child}: {leaf}"), &[&header, &root, child, leaf]);
            }
        }
    }
    for (what, number) in &base.inodes {
        add(format!("inode {what}"), &[&format!("inode {number}")]);
    }
    let directory_blocks_log = if base.kind.block_bytes() == 1024 { 2 } else { 0 };
    for (what, blocks) in OF_INODES {
        let Some(number) = base.inodes.get(what) else { continue };
        for block in blocks {
            let leaf = (32_u64 << 30) / base.kind.block_bytes();
            let command = block
                .replace("LEAF+1", &(leaf + (1 << directory_blocks_log)).to_string())
                .replace("LEAF", &leaf.to_string())
                .replace("FREE", &(2 * leaf).to_string())
                .replace("SECOND", &(1 << directory_blocks_log).to_string());
            let inode = format!("inode {number}");
            let mut commands = vec![inode.as_str()];
            commands.extend(command.split(';'));
            add(format!("inode {what}: {block}"), &commands);
        }
    }
    let mut places = BTreeSet::new();
    let mut structures = Vec::new();
    for (name, commands) in paths {
        let structure = describe(&base.image.data, name, commands)?;
        // A path that leads nowhere, or to a structure that another path has.
        structures.extend(structure.filter(|structure| places.insert(structure.offset)));
    }
    Ok(structures)
}

/// Returns the place and the fields of a structure, as xfs_db shows them. Returns `None` if the
/// commands lead to no structure.
fn describe(
    image: &Path,
    name: String,
    commands: Vec<String>,
) -> Result<Option<DiskStructure>, TrialError> {
    let mut db = Xfsprogs::newer()?.command("xfs_db");
    for command in &commands {
        db.args(["-c", command]);
    }
    let output = db.args(["-c", "stack", "-c", "print"]).arg(image).output().map_err(text)?;
    // A complaint is that of a path that leads nowhere.
    if !output.stderr.is_empty() {
        return Ok(None);
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |after: &str| -> Option<u64> {
        let rest = said.split_once(after)?.1;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let place = number("byte offset ").zip(number("length "));
    let fields = fields(&said);
    Ok(place.filter(|_| !fields.is_empty()).map(|(offset, length)| DiskStructure {
        name,
        commands,
        offset,
        length: length as usize,
        fields,
    }))
}

/// Returns the fields in the output of the xfs_db command `print`. Of an array, only some members
/// are returned.
fn fields(said: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in said.lines() {
        let Some((name, value)) = line.split_once(" = ") else { continue };
        // Lines with the members of an array begin with a number.
        if name.contains(' ') || name.ends_with("crc") || value.starts_with("(empty)") {
            continue;
        }
        let Some((array, range)) =
            name.split_once('[').filter(|(_, range)| range.ends_with(']') && range.contains('-'))
        else {
            names.push(name.to_owned());
            continue;
        };
        let bounds = range.trim_end_matches(']').split_once('-');
        let bounds = bounds.and_then(|(first, last)| {
            Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?))
        });
        let Some((first, last)) = bounds else { continue };
        let members = BTreeSet::from([first, (first + 1).min(last), (first + last) / 2, last]);
        let parts: Vec<&str> = match value.strip_prefix('[').and_then(|v| v.split_once(']')) {
            Some((parts, _)) => parts.split(',').collect(),
            None => vec![""],
        };
        for member in members {
            names.extend(parts.iter().map(|part| match part.is_empty() {
                true => format!("{array}[{member}]"),
                false => format!("{array}[{member}].{part}"),
            }));
        }
    }
    sampled(names)
}

/// Of the fields whose names differ only in numbers, keeps four: the first two, one in the middle,
/// and the last one.
fn sampled(names: Vec<String>) -> Vec<String> {
    let mut by_shape: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names {
        let shape = name.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        by_shape.entry(shape).or_default().push(name);
    }
    let kept = by_shape.into_values().flat_map(|names| {
        let last = names.len() - 1;
        let kept = BTreeSet::from([0, 1.min(last), last / 2, last]);
        names.into_iter().enumerate().filter(move |(i, _)| kept.contains(i)).map(|(_, name)| name)
    });
    kept.collect()
}
