//! Test helper that reads everything in a volume, in a form that can be compared with another
//! volume.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use ferroxfs::contents::ForkKind;
use ferroxfs::{Error, FileType, Node, Result, Volume};

/// Fingerprints of everything that could be read from a volume, and the errors of the rest.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// A fingerprint of each path that could be read completely.
    pub(crate) files: BTreeMap<PathBuf, u64>,
    /// The errors of paths that could not be read completely.
    pub(crate) errors: Vec<Error>,
}

/// Reads everything in a volume: names, metadata, contents, extents, attributes, links, parents and
/// counters.
pub(crate) fn read_everything(volume: &Volume) -> Shown {
    let mut shown = Shown::default();
    // A file with several names is read once.
    let mut known = HashMap::new();
    let walk = volume.walk("/").and_then(|walk| volume.space().map(|_| walk));
    let walk = match walk {
        Ok(walk) => walk.sorted(),
        Err(error) => {
            shown.errors.push(error);
            return shown;
        }
    };
    for entry in walk {
        let (path, node) = match entry {
            Ok(entry) => (entry.path, entry.node),
            Err(error) => {
                shown.errors.push(error.source);
                continue;
            }
        };
        let print = match known.get(&node.number()) {
            Some(print) => Ok(*print),
            None => fingerprint(&node),
        };
        match print {
            Ok(print) => {
                known.insert(node.number(), print);
                shown.files.insert(path, print);
            }
            Err(error) => shown.errors.push(error),
        }
    }
    shown
}

fn fingerprint(node: &Node) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    format!("{:?}", node.metadata()).hash(&mut hasher);
    for fork in [ForkKind::Data, ForkKind::Attr] {
        for extent in node.extents(fork) {
            format!("{:?}", extent?).hash(&mut hasher);
        }
    }
    for attribute in node.attributes() {
        let name = attribute?.name;
        node.attribute(&name)?.hash(&mut hasher);
        name.hash(&mut hasher);
    }
    for parent in node.parents()? {
        format!("{parent:?}").hash(&mut hasher);
    }
    match node.file_type() {
        FileType::Symlink => node.read_link()?.hash(&mut hasher),
        FileType::Regular => contents(node, &mut hasher)?,
        _ => {}
    }
    Ok(hasher.finish())
}

fn contents(node: &Node, hasher: &mut DefaultHasher) -> Result<()> {
    let file = node.open()?;
    let mut buffer = vec![0; 64 << 10];
    let mut at = 0;
    while let Some(start) = file.seek_data(at)? {
        let end = file.seek_hole(start)?.unwrap_or(u64::MAX);
        at = start;
        while at < end {
            let wanted = (end - at).min(buffer.len() as u64) as usize;
            let read = file.read_at(&mut buffer[..wanted], at)?;
            if read == 0 {
                return Ok(());
            }
            (at, &buffer[..read]).hash(hasher);
            at += read as u64;
        }
    }
    Ok(())
}
