//! The procedures that list directories: READDIR and READDIRPLUS.
//!
//! A cookie is the place in the directory at which a listing continues: 1 after `.`, 2 after `..`,
//! and for other entries the cookie of the library plus 2. Such cookies stay valid while the
//! directory changes, so there is no verifier for them.

use std::os::unix::ffi::OsStrExt;

use ferroxfs::dir::Cookie;
use ferroxfs::{FileType, InodeNumber, Node};

use super::{After, NfsCall, number};
use crate::attributes::encode;
use crate::handle::{FileHandle, ReceivedHandle};
use crate::record::MOST_CONTENTS_BYTES;
use crate::status::NfsStatus;
use crate::xdr::{Decoder, Encoder, Garbage, encoded_length};

/// Number of cookies that `.` and `..` use.
const DOTS: u64 = 2;
/// The bytes of a reply around its entries: status, attributes, verifier, the end of the list.
const FRAME_BYTES: usize = 4 + 88 + 8 + 8;

/// The arguments of both procedures.
struct Listing {
    from: u64,
    /// The most bytes of the names and cookies.
    most_name_bytes: usize,
    /// The most bytes of the reply.
    most_bytes: usize,
    has_attributes: bool,
}

/// An entry to add to a reply.
struct Listed<'a> {
    inode: InodeNumber,
    name: &'a [u8],
    /// The cookie of the next entry.
    next: u64,
    /// `None` in a listing of names only, and for an inode that cannot be read.
    node: Option<Node>,
}

/// The entries of a reply.
struct Entries {
    encoder: Encoder,
    /// The bytes of names and cookies.
    name_bytes: usize,
    /// Whether the directory has no further entries.
    is_end: bool,
}

impl NfsCall<'_> {
    pub(super) fn list(&self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<(), Garbage> {
        let handle = ReceivedHandle::decode(args)?;
        let from = args.u64()?;
        let (_verifier, count) = (args.fixed::<8>()?, args.u32()?);
        let most_bytes = count.min(MOST_CONTENTS_BYTES) as usize;
        let listing =
            Listing { from, most_name_bytes: most_bytes, most_bytes, has_attributes: false };
        self.answer_listing(handle, &listing, reply);
        Ok(())
    }

    pub(super) fn list_with_attributes(
        &self,
        args: &mut Decoder<'_>,
        reply: &mut Encoder,
    ) -> Result<(), Garbage> {
        let handle = ReceivedHandle::decode(args)?;
        let from = args.u64()?;
        let _verifier = args.fixed::<8>()?;
        let (names, count) = (args.u32()?, args.u32()?);
        let listing = Listing {
            from,
            most_name_bytes: names as usize,
            most_bytes: count.min(MOST_CONTENTS_BYTES) as usize,
            has_attributes: true,
        };
        self.answer_listing(handle, &listing, reply);
        Ok(())
    }

    fn answer_listing(&self, handle: ReceivedHandle<'_>, listing: &Listing, reply: &mut Encoder) {
        let mut after: After = None;
        let outcome = self.find(handle).and_then(|directory| {
            after = Some(directory.clone());
            match directory.file_type() {
                FileType::Directory => self.entries(&directory, listing),
                _ => Err(NfsStatus::NOT_DIRECTORY),
            }
        });
        reply.u32(number(&outcome));
        self.encode_after(after.as_ref(), reply);
        if let Ok(entries) = outcome {
            reply.fixed([0; 8]).append(&entries.encoder);
            reply.flag(false).flag(entries.is_end);
        }
    }

    fn entries(&self, directory: &Node, listing: &Listing) -> Result<Entries, NfsStatus> {
        let mut entries = Entries { encoder: Encoder::default(), name_bytes: 0, is_end: false };
        let is_full = self.fill(directory, listing, &mut entries)?;
        if is_full && entries.encoder.length() == 0 {
            return Err(NfsStatus::TOO_SMALL);
        }
        entries.is_end = !is_full;
        Ok(entries)
    }

    /// Adds entries until the reply is full. Returns whether it is, so that entries are left.
    fn fill(
        &self,
        directory: &Node,
        listing: &Listing,
        entries: &mut Entries,
    ) -> Result<bool, NfsStatus> {
        for (cookie, name) in [(0, b".".as_slice()), (1, b"..")] {
            if listing.from <= cookie {
                let node = if cookie == 0 { directory.clone() } else { directory.parent()? };
                let listed =
                    Listed { inode: node.number(), name, next: cookie + 1, node: Some(node) };
                if !self.add(entries, listing, &listed) {
                    return Ok(true);
                }
            }
        }
        let from =
            u32::try_from(listing.from.saturating_sub(DOTS)).map_err(|_| NfsStatus::INVALID)?;
        for entry in directory.entries_from(Cookie(from))? {
            let entry = entry?;
            // An unreadable inode has a name, and its error belongs to a later LOOKUP.
            let node = if listing.has_attributes { entry.node().ok() } else { None };
            let next = u64::from(entry.cookie().after().0) + DOTS;
            let name = entry.name().as_bytes();
            let listed = Listed { inode: entry.number(), name, next, node };
            if !self.add(entries, listing, &listed) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds an entry. Returns `false`, and adds nothing, if the reply would become too long.
    fn add(&self, entries: &mut Entries, listing: &Listing, entry: &Listed<'_>) -> bool {
        let name_bytes = entries.name_bytes + 8 + encoded_length(entry.name.len()) + 8;
        let mut encoder = Encoder::default();
        encoder.flag(true).u64(entry.inode.0).bytes(entry.name).u64(entry.next);
        if listing.has_attributes {
            let metadata = entry.node.as_ref().map(Node::metadata);
            encoder.flag(metadata.is_some());
            if let Some(metadata) = &metadata {
                encode(metadata, self.fsid(), &mut encoder);
            }
            encoder.flag(metadata.is_some());
            if let Some(metadata) = &metadata {
                FileHandle::of(metadata, self.export.id).encode(&mut encoder);
            }
        }
        let length = FRAME_BYTES + entries.encoder.length() + encoder.length();
        if length > listing.most_bytes || name_bytes > listing.most_name_bytes {
            return false;
        }
        entries.encoder.append(&encoder);
        entries.name_bytes = name_bytes;
        true
    }
}
