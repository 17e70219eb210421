//! The procedures for names: LOOKUP, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::{
    CreateOptions, DeviceNumber, Error, FileType, NewKind, Node, PosixError, RenameMode,
    SetAttributes, Timestamp,
};

use super::{After, NfsCall, now, number};
use crate::attributes::{Changes, NewTime};
use crate::handle::ReceivedHandle;
use crate::status::NfsStatus;
use crate::xdr::{Decoder, Encoder, Garbage};

/// A directory and a name in it: `diropargs3`.
#[derive(Clone, Copy)]
struct Place<'a> {
    directory: ReceivedHandle<'a>,
    name: &'a OsStr,
}

impl<'a> Place<'a> {
    fn decode(args: &mut Decoder<'a>) -> Result<Self, Garbage> {
        let directory = ReceivedHandle::decode(args)?;
        Ok(Self { directory, name: OsStr::from_bytes(args.bytes()?) })
    }
}

/// How CREATE treats a file that exists: `createhow3`.
enum CreateHow {
    /// It is opened.
    Unchecked(Changes),
    /// It is an error.
    Guarded(Changes),
    /// It is an error, unless an earlier call with the same verifier has made it.
    Exclusive([u8; 8]),
}

impl CreateHow {
    fn decode(args: &mut Decoder<'_>) -> Result<Self, Garbage> {
        match args.u32()? {
            0 => Ok(Self::Unchecked(Changes::decode(args)?)),
            1 => Ok(Self::Guarded(Changes::decode(args)?)),
            2 => Ok(Self::Exclusive(args.fixed()?)),
            _ => Err(Garbage),
        }
    }
}

/// Returns the access and modification time that hold the verifier of an exclusive CREATE, until
/// the client sets them. They are durable with the file.
fn verifier_times(verifier: [u8; 8]) -> [Timestamp; 2] {
    let (halves, _) = verifier.as_chunks();
    let time = |half: &[u8; 4]| {
        Timestamp::new(u32::from_be_bytes(*half).into(), 0).expect("no nanoseconds")
    };
    let mut times = halves.iter().map(time);
    std::array::from_fn(|_| times.next().expect("two halves"))
}

fn is_dots(name: &OsStr) -> bool {
    name == "." || name == ".."
}

impl NfsCall<'_> {
    pub(super) fn look_up(
        &self,
        args: &mut Decoder<'_>,
        reply: &mut Encoder,
    ) -> Result<(), Garbage> {
        let place = Place::decode(args)?;
        let mut after: After = None;
        let outcome = self.find(place.directory).and_then(|directory| {
            after = Some(directory.clone());
            if directory.file_type() != FileType::Directory {
                return Err(NfsStatus::NOT_DIRECTORY);
            }
            match place.name.as_bytes() {
                b"." => Ok(directory),
                b".." => Ok(directory.parent()?),
                _ => Ok(directory.lookup(place.name)?),
            }
        });
        match &outcome {
            Ok(node) => {
                self.encode_handle(node, reply.u32(0));
                self.encode_after(Some(node), reply);
            }
            Err(status) => drop(reply.u32(status.number())),
        }
        self.encode_after(after.as_ref(), reply);
        Ok(())
    }

    pub(super) fn create(
        &self,
        args: &mut Decoder<'_>,
        reply: &mut Encoder,
    ) -> Result<(), Garbage> {
        let place = Place::decode(args)?;
        let how = CreateHow::decode(args)?;
        self.make(place, reply, |directory, name| match how {
            CreateHow::Exclusive(verifier) => create_exclusive(directory, name, verifier),
            CreateHow::Guarded(changes) => {
                self.make_node(directory, name, NewKind::Regular, changes)
            }
            CreateHow::Unchecked(changes) => {
                match self.make_node(directory, name, NewKind::Regular, changes) {
                    Err(NfsStatus::EXISTS) => self.open_present(directory, name, changes),
                    made => made,
                }
            }
        });
        Ok(())
    }

    /// Returns the file that an unchecked CREATE has found. Of the attributes only the length is
    /// set, as by open(2) with `O_TRUNC`.
    fn open_present(
        &self,
        directory: &Node,
        name: &OsStr,
        changes: Changes,
    ) -> Result<Node, NfsStatus> {
        let present = directory.lookup(name)?;
        if let Some(size) = changes.size {
            self.set_size(&present, size)?;
        } else if present.file_type() != FileType::Regular {
            return Err(NfsStatus::EXISTS);
        }
        Ok(present)
    }

    pub(super) fn make_directory(
        &self,
        args: &mut Decoder<'_>,
        reply: &mut Encoder,
    ) -> Result<(), Garbage> {
        let place = Place::decode(args)?;
        let changes = Changes::decode(args)?;
        self.make(place, reply, |directory, name| {
            self.make_node(directory, name, NewKind::Directory, changes)
        });
        Ok(())
    }

    pub(super) fn make_symlink(
        &self,
        args: &mut Decoder<'_>,
        reply: &mut Encoder,
    ) -> Result<(), Garbage> {
        let place = Place::decode(args)?;
        let changes = Changes::decode(args)?;
        let target = args.bytes()?;
        // Links have no mode of their own.
        let changes = Changes { mode: None, size: None, ..changes };
        self.make(place, reply, |directory, name| {
            self.make_node(directory, name, NewKind::Symlink(target), changes)
        });
        Ok(())
    }

    pub(super) fn make_special(
        &self,
        args: &mut Decoder<'_>,
        reply: &mut Encoder,
    ) -> Result<(), Garbage> {
        let place = Place::decode(args)?;
        let file_type = args.u32()?;
        let described = match file_type {
            3 | 4 => {
                let changes = Changes::decode(args)?;
                let device = DeviceNumber { major: args.u32()?, minor: args.u32()? };
                let kind = match file_type {
                    3 => NewKind::BlockDevice(device),
                    _ => NewKind::CharacterDevice(device),
                };
                Ok((kind, changes))
            }
            6 => Ok((NewKind::Socket, Changes::decode(args)?)),
            7 => Ok((NewKind::Fifo, Changes::decode(args)?)),
            _ => Err(NfsStatus::BAD_TYPE),
        };
        self.make(place, reply, |directory, name| {
            let (kind, changes) = described?;
            self.make_node(directory, name, kind, changes)
        });
        Ok(())
    }

    /// Makes a file with `act`, and encodes the results that all such procedures have.
    fn make(
        &self,
        place: Place<'_>,
        reply: &mut Encoder,
        act: impl FnOnce(&Node, &OsStr) -> Result<Node, NfsStatus>,
    ) {
        let mut after: After = None;
        let outcome = self.find_to_change(place.directory).and_then(|directory| {
            after = Some(directory.clone());
            if is_dots(place.name) {
                return Err(NfsStatus::EXISTS);
            }
            let made = act(&directory, place.name)?;
            self.settle(&made)?;
            self.settle(&directory)?;
            Ok(made)
        });
        reply.u32(number(&outcome));
        if let Ok(made) = &outcome {
            self.encode_handle(made, reply.flag(true));
            self.encode_after(Some(made), reply);
        }
        self.encode_change(after.as_ref(), reply);
    }

    fn make_node(
        &self,
        directory: &Node,
        name: &OsStr,
        kind: NewKind<'_>,
        changes: Changes,
    ) -> Result<Node, NfsStatus> {
        let mode = match kind {
            NewKind::Directory => changes.mode_or(0o755),
            NewKind::Symlink(_) => 0o777,
            _ => changes.mode_or(0o644),
        };
        let made = directory.create(name, &kind, &CreateOptions::new(mode))?;
        if let Some(size) = changes.size.filter(|size| *size > 0) {
            self.set_size(&made, size)?;
        }
        // The client sends the owner only if it is another one.
        let rest = Changes { mode: None, size: None, ..changes };
        let metadata = made.metadata();
        let rest = Changes {
            uid: rest.uid.filter(|uid| *uid != metadata.uid),
            gid: rest.gid.filter(|gid| *gid != metadata.gid),
            accessed: rest.accessed.filter(|time| *time != NewTime::Now),
            modified: rest.modified.filter(|time| *time != NewTime::Now),
            ..rest
        };
        rest.apply(&made, now())?;
        Ok(made)
    }

    pub(super) fn remove(
        &self,
        args: &mut Decoder<'_>,
        act: impl FnOnce(&Node, &OsStr) -> ferroxfs::Result<()>,
        reply: &mut Encoder,
    ) -> Result<(), Garbage> {
        let place = Place::decode(args)?;
        let mut after: After = None;
        let outcome = self.find_to_change(place.directory).and_then(|directory| {
            after = Some(directory.clone());
            act(&directory, place.name)?;
            self.settle(&directory)
        });
        reply.u32(number(&outcome));
        self.encode_change(after.as_ref(), reply);
        Ok(())
    }

    pub(super) fn rename(
        &self,
        args: &mut Decoder<'_>,
        reply: &mut Encoder,
    ) -> Result<(), Garbage> {
        let (from, to) = (Place::decode(args)?, Place::decode(args)?);
        let mut after: [After; 2] = [None, None];
        let outcome = self.find_to_change(from.directory).and_then(|directory| {
            let target = self.find_to_change(to.directory)?;
            after = [Some(directory.clone()), Some(target.clone())];
            directory.rename(from.name, &target, to.name, RenameMode::Replace)?;
            self.settle(&directory)?;
            self.settle(&target)
        });
        reply.u32(number(&outcome));
        for directory in &after {
            self.encode_change(directory.as_ref(), reply);
        }
        Ok(())
    }

    pub(super) fn link(&self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<(), Garbage> {
        let (file, place) = (ReceivedHandle::decode(args)?, Place::decode(args)?);
        let (mut linked, mut after): (After, After) = (None, None);
        let outcome = self.find_to_change(file).and_then(|file| {
            linked = Some(file.clone());
            let directory = self.find_to_change(place.directory)?;
            after = Some(directory.clone());
            directory.link(&file, place.name)?;
            self.settle(&file)?;
            self.settle(&directory)
        });
        reply.u32(number(&outcome));
        self.encode_after(linked.as_ref(), reply);
        self.encode_change(after.as_ref(), reply);
        Ok(())
    }
}

/// Makes a file that holds the verifier in its times. A second call with the same verifier, after a
/// lost reply, finds it.
fn create_exclusive(directory: &Node, name: &OsStr, verifier: [u8; 8]) -> Result<Node, NfsStatus> {
    let [accessed, modified] = verifier_times(verifier);
    match directory.create(name, &NewKind::Regular, &CreateOptions::new(0)) {
        Ok(made) => {
            made.set_attributes(&SetAttributes::new().accessed(accessed).modified(modified))?;
            Ok(made)
        }
        Err(Error::Posix(PosixError::Exists)) => {
            let present = directory.lookup(name)?;
            let metadata = present.metadata();
            let is_ours = metadata.is_file()
                && metadata.size == 0
                && [metadata.accessed, metadata.modified] == [accessed, modified];
            if is_ours { Ok(present) } else { Err(NfsStatus::EXISTS) }
        }
        Err(error) => Err(error.into()),
    }
}
