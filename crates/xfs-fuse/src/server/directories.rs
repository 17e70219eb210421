//! Serves requests that list directories.
//!
//! For each entry the kernel gets a cookie with which it continues the listing after the entry: 1
//! after `.`, 2 after `..`, and for other entries the cookie of the library plus 2.

use std::os::unix::ffi::OsStrExt;

use ferroxfs::FileType;
use ferroxfs::dir::Cookie;
use ferroxfs::{DirEntry as Entry, Metadata};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Server, errno};
use crate::transport::wire::{DirEntry, EntryOut, ReadIn};
use crate::transport::{MAX_WRITE_BYTES, Reply, Request};

/// Number of cookies that `.` and `..` use.
const DOTS: u64 = 2;
/// Alignment of entries, in bytes.
const ALIGNMENT: usize = 8;
/// Number of the lowest type bit in a mode. The type in an entry is the mode shifted down by this
/// number.
const TYPE_SHIFT: u16 = 12;

/// The kind of listing: names only, or names with attributes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listing {
    Names,
    NamesAndAttributes,
}

/// An entry to append to a listing.
struct ListedEntry<'a> {
    name: &'a [u8],
    inode: u64,
    file_type: Option<FileType>,
    next: u64,
    /// Metadata of the entry's node, which the answer gives to the kernel. `None` in a listing of
    /// names only, for `.` and `..`, and for an unreadable inode, whose error a later lookup
    /// reports.
    metadata: Option<&'a Metadata>,
}

impl Server {
    pub(super) fn list(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        self.list_as(Listing::Names, request, reply)
    }

    pub(super) fn list_with_attributes(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        self.list_as(Listing::NamesAndAttributes, request, reply)
    }

    fn list_as(
        &self,
        listing: Listing,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<ReadIn>()?;
        let most = wanted.size.min(MAX_WRITE_BYTES) as usize;
        let directory = self.node(request.node())?;
        if wanted.offset == 0 {
            self.note_access(&directory, OFlags::from_bits_retain(wanted.flags));
        }
        for (cookie, name) in [(0, b".".as_slice()), (1, b"..")] {
            if wanted.offset <= cookie {
                let inode = match cookie {
                    0 => directory.number(),
                    _ => directory.parent().map_err(errno)?.number(),
                };
                let file_type = Some(FileType::Directory);
                let entry = ListedEntry {
                    name,
                    inode: inode.0,
                    file_type,
                    next: cookie + 1,
                    metadata: None,
                };
                if !self.add(listing, &entry, most, reply) {
                    return Ok(());
                }
            }
        }
        let from = u32::try_from(wanted.offset.saturating_sub(DOTS)).map_err(|_| Errno::INVAL)?;
        let mut add = |entry: &Entry, metadata: Option<&Metadata>| {
            let listed = ListedEntry {
                name: entry.name().as_bytes(),
                inode: entry.number().0,
                file_type: entry.file_type(),
                next: u64::from(entry.cookie().after().0) + DOTS,
                metadata,
            };
            self.add(listing, &listed, most, reply)
        };
        match listing {
            Listing::Names => {
                for entry in directory.entries_from(Cookie(from)).map_err(errno)? {
                    if !add(&entry.map_err(errno)?, None) {
                        break;
                    }
                }
            }
            Listing::NamesAndAttributes => {
                for entry in directory.entries_with_metadata_from(Cookie(from)).map_err(errno)? {
                    let (entry, metadata) = entry.map_err(errno)?;
                    if !add(&entry, metadata.as_ref()) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Appends an entry to the answer. Returns `false`, and appends nothing, if the answer would
    /// exceed `most` bytes.
    fn add(
        &self,
        listing: Listing,
        entry: &ListedEntry<'_>,
        most: usize,
        reply: &mut Reply<'_>,
    ) -> bool {
        let head = match listing {
            Listing::Names => size_of::<DirEntry>(),
            Listing::NamesAndAttributes => size_of::<EntryOut>() + size_of::<DirEntry>(),
        };
        let length = (head + entry.name.len()).next_multiple_of(ALIGNMENT);
        if reply.body_length() + length > most {
            return false;
        }
        if listing == Listing::NamesAndAttributes {
            let known = entry.metadata.map(|metadata| self.entry_of(metadata));
            reply.add(&known.unwrap_or_default());
        }
        reply.add(&DirEntry {
            inode: entry.inode,
            next: entry.next,
            name_length: entry.name.len() as u32,
            file_type: entry.file_type.map_or(0, |kind| u32::from(kind.mode_bits() >> TYPE_SHIFT)),
        });
        reply.add_bytes(entry.name);
        let padding = length - head - entry.name.len();
        reply.add_bytes([0; ALIGNMENT].get(..padding).unwrap_or_default());
        true
    }
}
