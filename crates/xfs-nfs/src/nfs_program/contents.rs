//! The procedures for contents of files: READ, WRITE, COMMIT, READLINK.

use std::os::unix::ffi::OsStrExt;

use ferroxfs::{Access, FileType, Node};

use super::{After, NfsCall, number};
use crate::handle::ReceivedHandle;
use crate::record::MOST_CONTENTS_BYTES;
use crate::status::NfsStatus;
use crate::xdr::{Decoder, Encoder, Garbage};

/// When the bytes of a write are durable, in calls and replies: `stable_how`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stable {
    Unstable,
    DataSync,
    FileSync,
}

impl Stable {
    fn decode(args: &mut Decoder<'_>) -> Result<Self, Garbage> {
        match args.u32()? {
            0 => Ok(Self::Unstable),
            1 => Ok(Self::DataSync),
            2 => Ok(Self::FileSync),
            _ => Err(Garbage),
        }
    }

    const fn number(self) -> u32 {
        match self {
            Self::Unstable => 0,
            Self::DataSync => 1,
            Self::FileSync => 2,
        }
    }
}

fn check_regular(node: &Node) -> Result<(), NfsStatus> {
    match node.file_type() {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(NfsStatus::IS_DIRECTORY),
        _ => Err(NfsStatus::INVALID),
    }
}

impl NfsCall<'_> {
    pub(super) fn read(&self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<(), Garbage> {
        let handle = ReceivedHandle::decode(args)?;
        let (offset, count) = (args.u64()?, args.u32()?.min(MOST_CONTENTS_BYTES));
        let mut after: After = None;
        let outcome = self.find(handle).and_then(|node| {
            after = Some(node.clone());
            check_regular(&node)?;
            let file = self.for_contents(&node, Access::READ)?.open_read_only()?;
            let mut bytes = vec![0; count as usize];
            let read = file.read_at(&mut bytes, offset)?;
            bytes.truncate(read);
            let is_end = offset.saturating_add(read as u64) >= node.metadata().size;
            Ok((bytes, is_end))
        });
        reply.u32(number(&outcome));
        self.encode_after(after.as_ref(), reply);
        if let Ok((bytes, is_end)) = outcome {
            let count = u32::try_from(bytes.len()).expect("at most as many as wanted");
            reply.u32(count).flag(is_end).bytes(&bytes);
        }
        Ok(())
    }

    pub(super) fn write(&self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<(), Garbage> {
        let handle = ReceivedHandle::decode(args)?;
        let (offset, count) = (args.u64()?, args.u32()?);
        let (stable, bytes) = (Stable::decode(args)?, args.bytes()?);
        let bytes = bytes.get(..count as usize).ok_or(Garbage)?;
        let mut after: After = None;
        let outcome = self.find_to_change(handle).and_then(|node| {
            after = Some(node.clone());
            check_regular(&node)?;
            let file = self.for_contents(&node, Access::WRITE)?.open_write_only()?;
            let mut done = 0;
            while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
                match file.write_at(rest, offset.saturating_add(done as u64))? {
                    0 => return Err(NfsStatus::IO),
                    written => done += written,
                }
            }
            // A handle that is dropped would keep the error of its write to itself.
            file.close()?;
            let reached = if stable == Stable::Unstable || self.export.waits {
                Stable::Unstable
            } else {
                node.sync()?;
                Stable::FileSync
            };
            // To promise less than the client asked for is not allowed, so with `waits` the reply
            // says what the client wants to hear, as the option warns.
            Ok(reached.max(stable))
        });
        reply.u32(number(&outcome));
        self.encode_change(after.as_ref(), reply);
        if let Ok(reached) = outcome {
            reply.u32(count).u32(reached.number()).fixed(self.export.run);
        }
        Ok(())
    }

    pub(super) fn commit(
        &self,
        args: &mut Decoder<'_>,
        reply: &mut Encoder,
    ) -> Result<(), Garbage> {
        let handle = ReceivedHandle::decode(args)?;
        let (_offset, _count) = (args.u64()?, args.u32()?);
        let mut after: After = None;
        let outcome = self.find_to_change(handle).and_then(|node| {
            after = Some(node.clone());
            Ok(node.sync()?)
        });
        reply.u32(number(&outcome));
        self.encode_change(after.as_ref(), reply);
        if outcome.is_ok() {
            reply.fixed(self.export.run);
        }
        Ok(())
    }

    pub(super) fn read_link(
        &self,
        args: &mut Decoder<'_>,
        reply: &mut Encoder,
    ) -> Result<(), Garbage> {
        let handle = ReceivedHandle::decode(args)?;
        let mut after: After = None;
        let outcome = self.find(handle).and_then(|node| {
            after = Some(node.clone());
            Ok(node.read_link()?)
        });
        reply.u32(number(&outcome));
        self.encode_after(after.as_ref(), reply);
        if let Ok(target) = outcome {
            reply.bytes(target.as_bytes());
        }
        Ok(())
    }
}
