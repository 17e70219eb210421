//! A salvaged file as a source of copies.

use std::ops::Range;

use ferroxfs::Timestamp;
use xfs_format::acl;
use xfs_format::attr::Namespace;
use xfs_format::inode::FileType;
use xfs_salvage::{Attribute, Node, NodeEntries};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind, Time};
use crate::file::source::{NamedValue, Source, is_carried_over};

/// A file or directory of a damaged volume.
pub(crate) struct SalvageSource<'a> {
    node: Node<'a>,
}

impl<'a> SalvageSource<'a> {
    pub(crate) const fn new(node: Node<'a>) -> Self {
        Self { node }
    }
}

/// An iterator over the entries of a directory of a damaged volume.
pub(crate) struct SalvageEntries<'a>(NodeEntries<'a>);

impl<'a> Iterator for SalvageEntries<'a> {
    type Item = Result<(Vec<u8>, SalvageSource<'a>), Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, node)| Ok((name, SalvageSource::new(node))))
    }
}

impl<'a> Source for SalvageSource<'a> {
    type Entries = SalvageEntries<'a>;

    fn facts(&self) -> Facts {
        let facts = self.node.facts();
        let [accessed, modified, changed, born] = facts.times.map(time);
        Facts {
            inode: facts.inode,
            mode: facts.mode.into(),
            links: facts.links,
            uid: facts.uid,
            gid: facts.gid,
            project: facts.project,
            size: facts.size,
            blocks: facts.blocks,
            device: facts.device.map_or((0, 0), |device| (device.major, device.minor)),
            accessed,
            modified,
            changed,
            born,
            created: None,
            xflags: facts.xflags,
            extent_size_hints: None,
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Failure> {
        Ok(self.node.read_at(buffer, offset))
    }

    fn data_after(&self, offset: u64) -> Result<Option<Range<u64>>, Failure> {
        Ok(self.node.data_after(offset))
    }

    fn target(&self) -> Result<Vec<u8>, Failure> {
        match self.node.target() {
            target if target.is_empty() => {
                Err(Failure::new(Exit::Corrupt, "nothing is left of the link's target"))
            }
            target => Ok(target),
        }
    }

    fn attributes(&self) -> Vec<Result<NamedValue, Failure>> {
        let is_link = FileKind::of(self.node.facts().mode.into()) == FileKind::Symlink;
        let named = self.node.attributes().into_iter().filter_map(|attribute| {
            named_value(attribute).unwrap_or_else(|lack| {
                self.node.add_lack(lack);
                None
            })
        });
        named
            .filter(|found| is_carried_over(&found.name))
            .filter(|found| !is_link || !found.name.starts_with(b"system."))
            .map(Ok)
            .collect()
    }

    fn set_copied(&self) {
        self.node.set_copied();
    }

    fn entries(&self) -> Result<SalvageEntries<'a>, Failure> {
        Ok(SalvageEntries(self.node.entries()))
    }
}

fn time(timestamp: Timestamp) -> Time {
    Time { seconds: timestamp.seconds(), nanoseconds: timestamp.nanoseconds() }
}

/// Returns an attribute under the name that Linux gives it; `None` for a parent pointer.
///
/// # Errors
///
/// The reason in words, if the attribute is an access control list that cannot be decoded.
fn named_value(attribute: Attribute) -> Result<Option<NamedValue>, String> {
    let Attribute { namespace, name, value } = attribute;
    let list = |linux: &[u8], value: &[u8]| {
        let entries = acl::decode(value, ferroxfs::InodeNumber(0))
            .map_err(|error| format!("an access control list is damaged: {error}"))?;
        Ok(Some(NamedValue { name: linux.to_vec(), value: acl::encode_posix_xattr(&entries) }))
    };
    let prefix: &[u8] = match namespace {
        Namespace::Trusted if name == acl::ACCESS_NAME => {
            return list(b"system.posix_acl_access", &value);
        }
        Namespace::Trusted if name == acl::DEFAULT_NAME => {
            return list(b"system.posix_acl_default", &value);
        }
        Namespace::User => b"user.",
        Namespace::Trusted => b"trusted.",
        Namespace::Security => b"security.",
        Namespace::Parent => return Ok(None),
    };
    Ok(Some(NamedValue { name: [prefix, &name].concat(), value }))
}

/// The types of files have the same bits in XFS and on the host.
const _: () = assert!(FileType::Regular.mode_bits() == 0o100_000);
