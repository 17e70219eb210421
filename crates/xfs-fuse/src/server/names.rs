//! Serves requests that look up, create, rename or remove names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::FileType;
use ferroxfs::{CreateOptions, Error, NewKind, Node, PosixError, RenameMode};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::attributes::decode_device;
use super::{Server, errno};
use crate::transport::wire::{
    CreateIn, EntryOut, LinkIn, MakeDirectoryIn, MakeNodeIn, OpenOut, Rename2In, RenameIn,
};
use crate::transport::{Reply, Request};

/// The flag of renameat2 that refuses to replace a name. The next constants are the other flags of
/// renameat2.
const RENAME_NOREPLACE: u32 = 1 << 0;
const RENAME_EXCHANGE: u32 = 1 << 1;
const RENAME_WHITEOUT: u32 = 1 << 2;
/// The bits of a mode that a program can set: permissions, set-ID bits, sticky bit.
const PERMISSION_BITS: u32 = 0o7777;

/// The mode that a program requests for a new file, and the program's umask.
#[derive(Clone, Copy)]
struct RequestedMode {
    mode: u32,
    umask: u32,
}

/// The target of a rename: a directory and a name in it.
#[derive(Clone, Copy)]
struct NewName<'a> {
    /// The kernel's node number of the directory.
    directory: u64,
    name: &'a OsStr,
}

impl Server {
    pub(super) fn lookup(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (name, context) = (request.name()?, self.context(request));
        let by_number = || context.volume().node(self.number(request.node()));
        let found = match name.as_bytes() {
            // From a file handle, which may be older than the file.
            b"." => by_number(),
            b".." => by_number().and_then(|node| node.parent()),
            _ => context.node(request.node())?.lookup(name),
        };
        match found {
            Ok(node) => {
                context.check_found(&node)?;
                reply.add(&self.entry_out(&node));
            }
            // The kernel caches missing names too.
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
        self.make(request, name, &kind, RequestedMode { mode: 0o777, umask: 0 })
            .map(|node| reply.add(&self.entry_out(&node)))
    }

    pub(super) fn make_directory(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (wanted, name) = request.argument_and_name::<MakeDirectoryIn>()?;
        let mode = RequestedMode { mode: wanted.mode, umask: wanted.umask };
        let made = self.make(request, name, &NewKind::Directory, mode)?;
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
        let mode = RequestedMode { mode: wanted.mode, umask: wanted.umask };
        let made = self.make(request, name, &kind, mode)?;
        reply.add(&self.entry_out(&made));
        Ok(())
    }

    pub(super) fn create(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (wanted, name) = request.argument_and_name::<CreateIn>()?;
        let mode = RequestedMode { mode: wanted.mode, umask: wanted.umask };
        let made = self.make(request, name, &NewKind::Regular, mode)?;
        self.answer_opened(&made, wanted.flags, reply)
    }

    pub(super) fn create_unnamed(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
    ) -> Result<(), Errno> {
        let (wanted, _) = request.argument::<CreateIn>()?;
        let directory = self.context(request).node(request.node())?;
        let mode = RequestedMode { mode: wanted.mode, umask: wanted.umask };
        let creation = self.creation(request, &directory, mode);
        let made = directory.create_unnamed(&creation).map_err(errno)?;
        let made = self.with_all_rights(made)?;
        self.answer_opened(&made, wanted.flags, reply)?;
        self.unlinked.keep(self.node_of(made.number()), made);
        Ok(())
    }

    /// Opens a node that was just created, and answers with the node and the new handle.
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
        mode: RequestedMode,
    ) -> Result<Node, Errno> {
        let directory = self.context(request).node(request.node())?;
        let creation = self.creation(request, &directory, mode);
        let made = directory.create(name, kind, &creation).map_err(errno)?;
        self.sync_if_required(&made)?;
        // Its mode applies to later callers.
        self.with_all_rights(made)
    }

    fn creation(
        &self,
        request: &Request<'_>,
        directory: &Node,
        RequestedMode { mode, umask }: RequestedMode,
    ) -> CreateOptions {
        let owner = directory.metadata();
        CreateOptions::new((mode & PERMISSION_BITS) as u16)
            .umask(umask as u16)
            .uid(if self.settings.uid.is_some() { owner.uid } else { request.uid() })
            .gid(if self.settings.gid.is_some() { owner.gid } else { request.gid() })
    }

    pub(super) fn link(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno> {
        let (link, name) = request.argument_and_name::<LinkIn>()?;
        let context = self.context_for_link(request);
        let (directory, file) = (context.node(request.node())?, context.node(link.node)?);
        directory.link(&file, name).map_err(errno)?;
        // The file may have had no name before.
        self.unlinked.forget(link.node, &mut 1);
        self.sync_if_required(&file)?;
        reply.add(&self.entry_out(&file));
        Ok(())
    }

    pub(super) fn unlink(&self, request: &Request<'_>) -> Result<(), Errno> {
        let (directory, name) = (self.context(request).node(request.node())?, request.name()?);
        self.keep_unnamed(directory.detach_file(name).map_err(errno)?)?;
        self.sync_if_required(&directory)
    }

    pub(super) fn remove_directory(&self, request: &Request<'_>) -> Result<(), Errno> {
        let (directory, name) = (self.context(request).node(request.node())?, request.name()?);
        self.keep_unnamed(directory.detach_dir(name).map_err(errno)?)?;
        self.sync_if_required(&directory)
    }

    /// Stores the node of a file that has no name any more, for programs that have the file open.
    /// Does nothing if the file has another name. Must be called after a name of the file was
    /// removed.
    fn keep_unnamed(&self, node: Node) -> Result<(), Errno> {
        if node.metadata().nlink == 0 {
            self.unlinked.keep(self.node_of(node.number()), self.with_all_rights(node)?);
        }
        Ok(())
    }

    pub(super) fn rename_without_flags(&self, request: &Request<'_>) -> Result<(), Errno> {
        let (wanted, from, to) = request.argument_and_names::<RenameIn>()?;
        let to = NewName { directory: wanted.directory, name: to };
        self.rename_to(request, from, to, RenameMode::Replace)
    }

    pub(super) fn rename(&self, request: &Request<'_>) -> Result<(), Errno> {
        let (wanted, from, to) = request.argument_and_names::<Rename2In>()?;
        let mode = match wanted.flags {
            0 => RenameMode::Replace,
            RENAME_NOREPLACE => RenameMode::NoReplace,
            RENAME_EXCHANGE => RenameMode::Exchange,
            RENAME_WHITEOUT => RenameMode::Whiteout,
            // The kernel locks both directories meanwhile, so the name stays free.
            flags if flags == RENAME_WHITEOUT | RENAME_NOREPLACE => {
                match self.context(request).node(wanted.directory)?.lookup(to) {
                    Err(Error::Posix(PosixError::NotFound)) => RenameMode::Whiteout,
                    Err(error) => return Err(errno(error)),
                    Ok(_) => return Err(Errno::EXIST),
                }
            }
            _ => return Err(Errno::INVAL),
        };
        self.rename_to(request, from, NewName { directory: wanted.directory, name: to }, mode)
    }

    fn rename_to(
        &self,
        request: &Request<'_>,
        from: &OsStr,
        NewName { directory, name: to }: NewName<'_>,
        mode: RenameMode,
    ) -> Result<(), Errno> {
        let replaced = match mode {
            RenameMode::NoReplace | RenameMode::Exchange => None,
            _ => match self.node(directory)?.lookup(to) {
                Ok(replaced) => Some(replaced),
                Err(Error::Posix(PosixError::NotFound)) => None,
                // Otherwise the replaced file would be freed while a program uses it.
                Err(error) => return Err(errno(error)),
            },
        };
        let context = self.context(request);
        let (source, target) = (context.node(request.node())?, context.node(directory)?);
        source.rename(from, &target, to, mode).map_err(errno)?;
        if let Some(replaced) = replaced {
            self.keep_unnamed(replaced)?;
        }
        self.sync_if_required(&target)
    }
}
