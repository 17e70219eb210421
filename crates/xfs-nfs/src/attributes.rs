//! The attributes of files in replies (`fattr3`) and the changes to them in calls (`sattr3`).

use ferroxfs::{FileType, Metadata, Node, SetAttributes, Timestamp};

use crate::status::NfsStatus;
use crate::xdr::{Decoder, Encoder, Garbage};

/// The number of a file type in `ftype3`.
const fn type_number(file_type: FileType) -> u32 {
    match file_type {
        FileType::Regular => 1,
        FileType::Directory => 2,
        FileType::BlockDevice => 3,
        FileType::CharDevice => 4,
        FileType::Symlink => 5,
        FileType::Socket => 6,
        FileType::Fifo => 7,
    }
}

/// Encodes the attributes of a file. `fsid` names the volume.
pub(crate) fn encode(metadata: &Metadata, fsid: u64, reply: &mut Encoder) {
    let device = metadata.device.unwrap_or_default();
    reply
        .u32(type_number(metadata.file_type))
        .u32(u32::from(metadata.mode) & 0o7777)
        .u32(metadata.nlink)
        .u32(metadata.uid)
        .u32(metadata.gid)
        .u64(metadata.size)
        .u64(metadata.blocks.saturating_mul(512))
        .u32(device.major)
        .u32(device.minor)
        .u64(fsid)
        .u64(metadata.number.0);
    for time in [metadata.accessed, metadata.modified, metadata.changed] {
        encode_time(time, reply);
    }
}

/// Encodes a time. NFS has unsigned seconds of 32 bits: a time outside of 1970 to 2106 becomes the
/// nearest one of them.
fn encode_time(time: Timestamp, reply: &mut Encoder) {
    let (seconds, nanoseconds) = wire_time(time);
    reply.u32(seconds).u32(nanoseconds);
}

/// Returns the seconds and nanoseconds with which NFS shows a time.
pub(crate) fn wire_time(time: Timestamp) -> (u32, u32) {
    match u32::try_from(time.seconds()) {
        Ok(seconds) => (seconds, time.nanoseconds()),
        Err(_) if time.seconds() < 0 => (0, 0),
        Err(_) => (u32::MAX, 999_999_999),
    }
}

/// A new time of a file, in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewTime {
    /// The time of the server.
    Now,
    /// The time that the client has sent.
    At(Timestamp),
}

/// The changes to a file's attributes in a call. `None` changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) accessed: Option<NewTime>,
    pub(crate) modified: Option<NewTime>,
}

/// Decodes a time of a client.
pub(crate) fn decode_time(arguments: &mut Decoder<'_>) -> Result<Timestamp, Garbage> {
    let (seconds, nanoseconds) = (arguments.u32()?, arguments.u32()?);
    Timestamp::new(seconds.into(), nanoseconds).ok_or(Garbage)
}

fn decode_new_time(arguments: &mut Decoder<'_>) -> Result<Option<NewTime>, Garbage> {
    match arguments.u32()? {
        0 => Ok(None),
        1 => Ok(Some(NewTime::Now)),
        2 => Ok(Some(NewTime::At(decode_time(arguments)?))),
        _ => Err(Garbage),
    }
}

impl Changes {
    pub(crate) fn decode(arguments: &mut Decoder<'_>) -> Result<Self, Garbage> {
        Ok(Self {
            mode: arguments.optional(Decoder::u32)?,
            uid: arguments.optional(Decoder::u32)?,
            gid: arguments.optional(Decoder::u32)?,
            size: arguments.optional(Decoder::u64)?,
            accessed: decode_new_time(arguments)?,
            modified: decode_new_time(arguments)?,
        })
    }

    /// Returns the permission bits for a new file, or `otherwise`.
    pub(crate) fn mode_or(&self, otherwise: u16) -> u16 {
        self.mode.map_or(otherwise, |mode| (mode & 0o7777) as u16)
    }

    /// Makes the changes to a file, except those of its size.
    pub(crate) fn apply(&self, node: &Node, now: Timestamp) -> Result<(), NfsStatus> {
        let time = |new: NewTime| match new {
            NewTime::Now => now,
            NewTime::At(time) => time,
        };
        let mut changes = SetAttributes::new();
        changes.mode = self.mode.map(|mode| (mode & 0o7777) as u16);
        changes.uid = self.uid;
        changes.gid = self.gid;
        changes.accessed = self.accessed.map(time);
        changes.modified = self.modified.map(time);
        if changes == SetAttributes::new() {
            return Ok(());
        }
        Ok(node.set_attributes(&changes)?)
    }
}
