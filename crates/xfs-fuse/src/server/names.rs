//! Names: looking them up, making, moving and removing them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::format::inode::FileType;
use ferroxfs::{CreateOptions, Error, NewKind, Node, PosixError, RenameMode};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::attributes::decode_device;
use super::{Server, errno};
use crate::transport::wire::{
    CreateIn, EntryOut, LinkIn, MakeDirectoryIn, MakeNodeIn, OpenOut, Rename2In, RenameIn,
};
use crate::transport::{Reply, Request};

/// Flags of renameat2.
const RENAME_NOREPLACE: u32 = 1 << 0;
const RENAME_EXCHANGE: u32 = 1 << 1;
const RENAME_WHITEOUT: u32 = 1 << 2;
/// The permission bits of a mode.
const PERMISSION_BITS: u32 = 0o7777;

impl Server {
    pub(super) fn lookup(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (name, asking) = (request.name()?, self.asking(request));
        let by_number = || asking.volume().node(self.number(request.node()));
        let found = match name.as_bytes() {
            // From a file handle, which may be older than the file.
            b"." => by_number(),
            b".." => by_number().and_then(|node| node.parent()),
            _ => asking.node(request.node())?.lookup(name),
        };
        match found {
            Ok(node) => {
                asking.check_found(&node)?;
                reply.add(&self.entry_out(&node));
            }
            // The kernel remembers that as well.
            Err(Error::Posix(PosixError::NotFound)) if name != "." && name != ".." => {
                let entry_valid = self.name_valid_seconds();
                reply.add(&EntryOut { entry_valid, ..EntryOut::default() });
            }
            Err(error) => return Err(errno(error)),
        }
        Ok(())
    }

    pub(super) fn read_link(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let node = self.node(request.node())?;
        reply.add_bytes(node.read_link().map_err(errno)?.as_bytes());
        self.note_access(&node, OFlags::empty());
        Ok(())
    }

    pub(super) fn symlink(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (name, target) = request.names()?;
        let kind = NewKind::Symlink(target.as_bytes());
        self.make(request, name, &kind, (0o777, 0)).map(|node| reply.add(&self.entry_out(&node)))
    }

    pub(super) fn make_directory(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (wanted, name) = request.argument_and_name::<MakeDirectoryIn>()?;
        let made = self.make(request, name, &NewKind::Directory, (wanted.mode, wanted.umask))?;
        reply.add(&self.entry_out(&made));
        Ok(())
    }

    pub(super) fn make_node(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (wanted, name) = request.argument_and_name::<MakeNodeIn>()?;
        let device = decode_device(wanted.rdev);
        let kind = match FileType::from_mode(wanted.mode as u16) {
            Some(FileType::Regular) => NewKind::Regular,
            Some(FileType::Fifo) => NewKind::Fifo,
            Some(FileType::Socket) => NewKind::Socket,
            Some(FileType::CharDevice) => NewKind::CharacterDevice(device),
            Some(FileType::BlockDevice) => NewKind::BlockDevice(device),
            _ => return Err(Errno::INVAL),
        };
        let made = self.make(request, name, &kind, (wanted.mode, wanted.umask))?;
        reply.add(&self.entry_out(&made));
        Ok(())
    }

    pub(super) fn create(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, name) = request.argument_and_name::<CreateIn>()?;
        let made = self.make(request, name, &NewKind::Regular, (wanted.mode, wanted.umask))?;
        self.answer_opened(&made, wanted.flags, reply)
    }

    pub(super) fn create_unnamed(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<CreateIn>()?;
        let directory = self.asking(request).node(request.node())?;
        let creation = self.creation(request, &directory, (wanted.mode, wanted.umask));
        let made = directory.create_unnamed(&creation).map_err(errno)?;
        let made = self.for_all(made)?;
        self.answer_opened(&made, wanted.flags, reply)?;
        self.unnamed.keep(self.node_of(made.number()), made);
        Ok(())
    }

    /// Answers with a node and a handle on it.
    fn answer_opened(&self, node: &Node, flags: u32, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let handle = self.opened(node, flags)?;
        reply.add(&self.entry_out(node));
        reply.add(&OpenOut { handle, flags: self.open_flags(node, true), padding: 0 });
        Ok(())
    }

    fn make(
        &self,
        request: &Request<'_>,
        name: &OsStr,
        kind: &NewKind<'_>,
        mode_and_umask: (u32, u32),
    ) -> Result<Node, Errno> {
        let directory = self.asking(request).node(request.node())?;
        let creation = self.creation(request, &directory, mode_and_umask);
        let made = directory.create(name, kind, &creation).map_err(errno)?;
        self.settle(&made)?;
        // Its mode is for those who come later.
        self.for_all(made)
    }

    fn creation(
        &self,
        request: &Request<'_>,
        directory: &Node,
        (mode, umask): (u32, u32),
    ) -> CreateOptions {
        let owner = directory.metadata();
        CreateOptions {
            mode: (mode & PERMISSION_BITS) as u16,
            umask: umask as u16,
            uid: if self.settings.uid.is_some() { owner.uid } else { request.uid() },
            gid: if self.settings.gid.is_some() { owner.gid } else { request.gid() },
        }
    }

    pub(super) fn link(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (link, name) = request.argument_and_name::<LinkIn>()?;
        let asking = self.asking_for_link(request);
        let (directory, file) = (asking.node(request.node())?, asking.node(link.node)?);
        directory.link(&file, name).map_err(errno)?;
        // It may have been one without a name.
        self.unnamed.forget(link.node, &mut 1);
        self.settle(&file)?;
        reply.add(&self.entry_out(&file));
        Ok(())
    }

    pub(super) fn unlink(&self, request: &Request<'_>) -> Result<(), Errno> {
        let (directory, name) = (self.asking(request).node(request.node())?, request.name()?);
        self.keep_unnamed(directory.detach_file(name).map_err(errno)?)?;
        self.settle(&directory)
    }

    pub(super) fn remove_directory(&self, request: &Request<'_>) -> Result<(), Errno> {
        let (directory, name) = (self.asking(request).node(request.node())?, request.name()?);
        self.keep_unnamed(directory.detach_dir(name).map_err(errno)?)?;
        self.settle(&directory)
    }

    /// Keeps what may have lost its last name for whoever has it open.
    fn keep_unnamed(&self, node: Node) -> Result<(), Errno> {
        if node.metadata().nlink == 0 {
            self.unnamed.keep(self.node_of(node.number()), self.for_all(node)?);
        }
        Ok(())
    }

    pub(super) fn rename_plainly(&self, request: &Request<'_>) -> Result<(), Errno> {
        let (wanted, from, to) = request.argument_and_names::<RenameIn>()?;
        self.rename_to(request, from, (wanted.directory, to), RenameMode::Replace)
    }

    pub(super) fn rename(&self, request: &Request<'_>) -> Result<(), Errno> {
        let (wanted, from, to) = request.argument_and_names::<Rename2In>()?;
        let mode = match wanted.flags {
            0 => RenameMode::Replace,
            RENAME_NOREPLACE => RenameMode::NoReplace,
            RENAME_EXCHANGE => RenameMode::Exchange,
            RENAME_WHITEOUT => RenameMode::Whiteout,
            // The kernel holds both directories meanwhile, so the name stays free.
            flags if flags == RENAME_WHITEOUT | RENAME_NOREPLACE => {
                match self.asking(request).node(wanted.directory)?.lookup(to) {
                    Err(Error::Posix(PosixError::NotFound)) => RenameMode::Whiteout,
                    Err(error) => return Err(errno(error)),
                    Ok(_) => return Err(Errno::EXIST),
                }
            }
            _ => return Err(Errno::INVAL),
        };
        self.rename_to(request, from, (wanted.directory, to), mode)
    }

    fn rename_to(
        &self,
        request: &Request<'_>,
        from: &OsStr,
        (directory, to): (u64, &OsStr),
        mode: RenameMode,
    ) -> Result<(), Errno> {
        let replaced = match mode {
            RenameMode::Replace | RenameMode::Whiteout => match self.node(directory)?.lookup(to) {
                Ok(replaced) => Some(replaced),
                Err(Error::Posix(PosixError::NotFound)) => None,
                // It would be freed under whoever uses it.
                Err(error) => return Err(errno(error)),
            },
            RenameMode::NoReplace | RenameMode::Exchange => None,
        };
        let asking = self.asking(request);
        let (source, target) = (asking.node(request.node())?, asking.node(directory)?);
        source.rename(from, &target, to, mode).map_err(errno)?;
        if let Some(replaced) = replaced {
            self.keep_unnamed(replaced)?;
        }
        self.settle(&target)
    }
}
