//! File handles, which clients keep: 20 bytes.
//!
//! ```text
//!    0  8  the first bytes of the UUID of the volume
//!    8  8  inode number
//!   16  4  generation of the inode
//! ```
//!
//! A handle survives the server: the next one for the same volume accepts it (I3 of the crate).

use ferroxfs::{InodeNumber, Metadata, Node, Volume};

use crate::status::NfsStatus;
use crate::xdr::{Decoder, Encoder, Garbage};

/// A file handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHandle {
    pub(crate) volume: [u8; 8],
    pub(crate) inode: u64,
    pub(crate) generation: u32,
}

/// The bytes of a handle of a call, which may be of any kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedHandle<'a>(&'a [u8]);

impl<'a> ReceivedHandle<'a> {
    pub(crate) fn decode(arguments: &mut Decoder<'a>) -> Result<Self, Garbage> {
        arguments.bytes().map(Self)
    }

    fn parse(self) -> Option<FileHandle> {
        let (volume, rest) = self.0.split_first_chunk()?;
        let (inode, rest) = rest.split_first_chunk()?;
        let generation = rest.try_into().ok()?;
        Some(FileHandle {
            volume: *volume,
            inode: u64::from_be_bytes(*inode),
            generation: u32::from_be_bytes(generation),
        })
    }

    /// Returns the file of this handle.
    pub(crate) fn find(self, volume: &Volume, id: [u8; 8]) -> Result<Node, NfsStatus> {
        let handle = self.parse().ok_or(NfsStatus::BAD_HANDLE)?;
        if handle.volume != id {
            return Err(NfsStatus::STALE);
        }
        // The number comes from outside, so the inode btree decides whether there is an inode.
        let node = match volume.node(InodeNumber(handle.inode)) {
            Ok(node) => node,
            Err(error) => {
                let status = NfsStatus::of(&error);
                let is_absent = [NfsStatus::NOT_FOUND, NfsStatus::INVALID].contains(&status);
                return Err(if is_absent { NfsStatus::STALE } else { status });
            }
        };
        let metadata = node.metadata();
        let is_same = metadata.generation == handle.generation && metadata.nlink > 0;
        if is_same { Ok(node) } else { Err(NfsStatus::STALE) }
    }
}

impl FileHandle {
    pub(crate) const fn of(metadata: &Metadata, volume: [u8; 8]) -> Self {
        Self { volume, inode: metadata.number.0, generation: metadata.generation }
    }

    pub(crate) fn encode(self, reply: &mut Encoder) {
        let mut bytes = Vec::with_capacity(20);
        bytes.extend_from_slice(&self.volume);
        bytes.extend_from_slice(&self.inode.to_be_bytes());
        bytes.extend_from_slice(&self.generation.to_be_bytes());
        reply.bytes(&bytes);
    }
}
