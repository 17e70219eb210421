//! The import of an archive: turns its members into files, in order.
//!
//! # Invariants
//!
//! - **I1** No path leads out of the target directory. Symbolic links in a path are followed as
//!   after chroot(2) to that directory: an absolute target starts there, and `..` stops there.
//! - **I2** A member whose own path climbs out of the target directory is left out.
//! - **I3** Directories get their times and permissions after all their entries, even if the
//!   archive is cut off.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use ferroxfs::{Error, FileType, Node, PosixError};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::file::source::{Source, names_of};
use crate::import::archive::{ArchiveReader, Member, MemberKind};
use crate::import::writer::{ImageWriter, OpenDirectory, WriteFailure};
use crate::interrupt;
use crate::terminal::names;
use crate::text::size;

/// The unit in which the space of files is estimated, in bytes: the usual size of a block.
const BLOCK_BYTES: u64 = 4096;

/// The largest number of symbolic links that one path may lead through, as in Linux.
const MOST_LINKS: u32 = 40;

/// The start of the name of a whiteout: a member of a layer that hides a file of lower layers.
const WHITEOUT: &[u8] = b".wh.";
/// The whiteout that hides everything that lower layers have put into its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// The start of other names in a layer that belong to no file: AUFS used them for itself.
const LAYER_METADATA: &[u8] = b".wh..wh.";

/// The import of an archive into a directory.
pub(crate) struct Unpacker<'a, 'b> {
    top: Node,
    writer: &'a mut ImageWriter<'b>,
    /// Directories of the archive that are being filled, by path without symbolic links. They get
    /// their times after all their entries.
    open: BTreeMap<Vec<u8>, OpenDirectory>,
    /// The directory that the last member was put into.
    last: Option<UnpackedDirectory>,
    keeps_links: bool,
    /// Whether the archive is a layer of a container image, with whiteouts.
    has_whiteouts: bool,
    /// Whether the archive is read once, so that nothing else says how much space it needs.
    is_stream: bool,
    /// The size in bytes of the member that was written last.
    last_bytes: u64,
}

/// A directory of the image, and its path from the target directory without symbolic links.
#[derive(Clone)]
struct UnpackedDirectory {
    path: Vec<u8>,
    node: Node,
}

/// A path component that is still to be resolved: of the path of a member, or of a link target.
struct Component {
    name: Vec<u8>,
    /// Whether the component comes from the target of a symbolic link. In such a target, `..` stops
    /// at the target directory.
    is_of_link: bool,
}

impl<'a, 'b> Unpacker<'a, 'b> {
    /// Creates an import into the directory `top`. With `keeps_links`, a directory of the archive
    /// does not replace a symbolic link to a directory.
    pub(super) fn new(top: Node, writer: &'a mut ImageWriter<'b>, keeps_links: bool) -> Self {
        let open = BTreeMap::new();
        let (has_whiteouts, is_stream) = (false, false);
        Self { top, writer, open, last: None, keeps_links, has_whiteouts, is_stream, last_bytes: 0 }
    }

    /// Lets a failure for lack of space say how much the rest of the archive needs.
    pub(super) fn with_stream(self, is_stream: bool) -> Self {
        Self { is_stream, ..self }
    }

    /// Lets members with names of whiteouts hide files of lower layers.
    pub(super) fn with_whiteouts(self) -> Self {
        Self { has_whiteouts: true, ..self }
    }

    /// Writes all members of the archive.
    ///
    /// # Errors
    ///
    /// Failures that would repeat for every further member.
    pub(super) fn fill(mut self, mut archive: ArchiveReader) -> Result<(), Failure> {
        let ended = self.members(&mut archive).map_err(|failure| {
            match failure.is_of_room() && self.is_stream {
                true => self.with_rest(failure, &mut archive),
                false => failure,
            }
        });
        let reported = self.report_all(archive.take_remarks());
        match ended {
            // Reading has failed: finish the directories that exist (I3).
            Err(failure) if archive.is_broken() => self.finish().and(Err(failure)),
            ended => ended.and(reported).and_then(|()| self.finish()),
        }
    }

    /// Adds to a failure for lack of space how much the members need that were not written: the
    /// last one and those after it. An archive that cannot be read to its end adds nothing.
    fn with_rest(&self, failure: Failure, archive: &mut ArchiveReader) -> Failure {
        let space = |size: u64| (size.div_ceil(BLOCK_BYTES) + 1).saturating_mul(BLOCK_BYTES);
        let mut bytes = space(self.last_bytes);
        loop {
            match archive.next() {
                Ok(Some(member)) if self.takes(&member) => {
                    bytes = bytes.saturating_add(space(member.facts().size));
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return failure,
            }
            if interrupt::check().is_err() {
                return failure;
            }
        }
        failure.more(&format!("; the rest of the archive needs about {}", size::human(bytes)))
    }

    fn members(&mut self, archive: &mut ArchiveReader) -> Result<(), Failure> {
        let name = archive.name();
        while let Some(mut member) = archive.next()? {
            if member.path.is_empty() {
                let message = "a member with an empty name is left out";
                let failure = Failure::new(Exit::Failed, message).about(&name).placed();
                self.report_all(vec![failure])?;
                continue;
            }
            if !self.takes(&member) {
                continue;
            }
            let problems = member.take_problems();
            self.last_bytes = member.facts().size;
            let made = self.member(&member);
            let (path, kind) = (std::mem::take(&mut member.path), member.kind.clone());
            drop(member);
            if let Err(WriteFailure::Source(failure)) = made {
                // Nothing more can be read. The failure names the archive.
                return Err(failure);
            }
            let is_made = made.is_ok();
            self.writer.check(&path, made)?;
            if is_made && !matches!(kind, MemberKind::LeftOut(_)) {
                for problem in problems {
                    self.writer.check::<()>(&path, Err(WriteFailure::One(problem)))?;
                }
            }
            self.report_all(archive.take_remarks())?;
        }
        Ok(())
    }

    /// Returns whether the user's choice of files includes a member. For a whiteout, the file that
    /// it hides decides. This file may be a directory.
    fn takes(&self, member: &Member<'_>) -> bool {
        let hidden = self.has_whiteouts.then(|| hidden_path(&member.path)).flatten();
        match hidden {
            Some(path) => self.writer.takes(&path, false) || self.writer.takes(&path, true),
            None => self.writer.takes(&member.path, member.kind == MemberKind::Directory),
        }
    }

    fn report_all(&mut self, failures: Vec<Failure>) -> Result<(), Failure> {
        for failure in failures {
            self.writer.check::<()>(b"", Err(WriteFailure::One(failure)))?;
        }
        Ok(())
    }

    fn member(&mut self, member: &Member<'_>) -> Result<(), WriteFailure> {
        if let MemberKind::LeftOut(reason) = &member.kind {
            return Err(one(reason.as_str()));
        }
        let parts = parts(&member.path)?;
        let is_directory = member.kind == MemberKind::Directory;
        let (name, above) = match parts.split_last() {
            Some((name, above)) if *name != b".." => (*name, above),
            _ if !is_directory => return Err(one("has the name of a directory, and is left out")),
            // The target directory itself, or the parent of another directory.
            _ => {
                let UnpackedDirectory { path, node } = self.directory(&parts, true)?;
                let entered = self.writer.present_directory(node, &path, member);
                self.open.insert(path, entered);
                return Ok(());
            }
        };
        if self.has_whiteouts && (is_layer_metadata(above) || name.starts_with(WHITEOUT)) {
            return self.whiteout(name, above);
        }
        let directory = self.directory(above, true)?;
        self.keep_times(&directory);
        let path = join(&directory.path, name);
        if is_directory
            && self.keeps_links
            && self.is_link_to_directory(&directory.node, name, &parts)?
        {
            return Ok(());
        }
        match &member.kind {
            MemberKind::HardLink(target) => {
                let file = self.find(target)?;
                self.writer.put_link(&directory.node, name, &file)?;
                self.forget(&path);
                match member.has_contents() {
                    true => self.writer.put_linked_contents(&file, &path, member),
                    false => Ok(()),
                }
            }
            _ => {
                let put = self.writer.put_member(&directory.node, name, &path, member);
                match put? {
                    Some(entered) => _ = self.open.insert(path, entered),
                    None => self.forget(&path),
                }
                Ok(())
            }
        }
    }

    /// Forgets the open directories at and below `path`, because another file may have replaced
    /// them.
    fn forget(&mut self, path: &[u8]) {
        self.open.remove(path);
        let below = [path, b"/"].concat();
        let is_below = |(path, _): &(&Vec<u8>, &OpenDirectory)| path.starts_with(&below);
        let first = self.open.range(below.clone()..).take_while(is_below);
        let gone: Vec<Vec<u8>> = first.map(|(path, _)| path.clone()).collect();
        gone.iter().for_each(|path| _ = self.open.remove(path));
        if self.last.as_ref().is_some_and(|last| last.path.starts_with(path)) {
            self.last = None;
        }
    }

    /// Lets a directory of lower layers keep its times, although this layer changes its entries
    /// without listing it.
    fn keep_times(&mut self, directory: &UnpackedDirectory) {
        if self.writer.is_layered() && !self.open.contains_key(&directory.path) {
            let entered = OpenDirectory::unlisted(directory.node.clone());
            self.open.insert(directory.path.clone(), entered);
        }
    }

    /// Hides files of lower layers: those that the whiteout `name` in the directory with the
    /// components `above` names.
    fn whiteout(&mut self, name: &[u8], above: &[&[u8]]) -> Result<(), WriteFailure> {
        let is_opaque = name == OPAQUE;
        if is_layer_metadata(above) || name.starts_with(LAYER_METADATA) && !is_opaque {
            return Ok(());
        }
        let hidden = name.strip_prefix(WHITEOUT).unwrap_or_default();
        if !is_opaque && matches!(hidden, b"" | b"." | b"..") {
            return Err(one("is a whiteout that names no file, and is left out"));
        }
        let directory = match self.directory(above, false) {
            Ok(directory) => directory,
            // Where there is no directory, there is nothing to hide.
            Err(WriteFailure::One(failure)) if failure.lacks_name() => return Ok(()),
            Err(failed) => return Err(failed),
        };
        self.keep_times(&directory);
        let path = match is_opaque {
            true => {
                self.writer.hide_entries(&directory.node)?;
                directory.path
            }
            false => {
                self.writer.hide(&directory.node, OsStr::from_bytes(hidden))?;
                join(&directory.path, hidden)
            }
        };
        // Directories that are gone are not looked up any more.
        self.last = None;
        let gone = self.open.range(path.clone()..).take_while(|(open, _)| open.starts_with(&path));
        let gone = gone.filter(|(_, entered)| !entered.exists()).map(|(open, _)| open.clone());
        gone.collect::<Vec<_>>().iter().for_each(|open| _ = self.open.remove(open));
        Ok(())
    }

    /// Returns the directory at the path with these components. With `makes`, missing directories
    /// are created; otherwise a missing directory is an error.
    fn directory(
        &mut self,
        parts: &[&[u8]],
        makes: bool,
    ) -> Result<UnpackedDirectory, WriteFailure> {
        let path = parts.join(&b'/');
        if let Some(entered) = self.open.get(&path) {
            return Ok(UnpackedDirectory { path, node: entered.directory.clone() });
        }
        if let Some(last) = self.last.as_ref().filter(|last| last.path == path) {
            return Ok(last.clone());
        }
        let found = self.walk(parts, makes)?;
        if found.path == path {
            // The path has no symbolic link: only a member at one of these paths changes its
            // meaning.
            self.last = Some(found.clone());
        }
        Ok(found)
    }

    fn walk(&mut self, parts: &[&[u8]], makes: bool) -> Result<UnpackedDirectory, WriteFailure> {
        let own = |part: &&[u8]| Component { name: part.to_vec(), is_of_link: false };
        let mut steps: VecDeque<Component> = parts.iter().map(own).collect();
        let mut links = MOST_LINKS;
        // Missing directories have no node until the whole path is resolved.
        let mut way: Vec<(Vec<u8>, Option<Node>)> = Vec::new();
        while let Some(Component { name, is_of_link }) = steps.pop_front() {
            if name == b".." {
                // In the target of a link, `..` stops at the top (I1). A member whose own path
                // climbs out is left out (I2).
                if way.pop().is_none() && !is_of_link {
                    return Err(one("leads out of the archive, and is left out"));
                }
                continue;
            }
            let here = way.last().map_or(Some(&self.top), |(_, node)| node.as_ref());
            let found = match here.map(|node| node.lookup(OsStr::from_bytes(&name))) {
                None | Some(Err(Error::Posix(PosixError::NotFound))) => None,
                Some(found) => Some(found?),
            };
            match found.as_ref().map(Node::file_type) {
                None | Some(FileType::Directory) => way.push((name, found)),
                Some(FileType::Symlink) => {
                    links = links
                        .checked_sub(1)
                        .ok_or_else(|| one("is below more than 40 symbolic links"))?;
                    let target = match found {
                        Some(node) => node.read_link()?.into_vec(),
                        None => Vec::new(),
                    };
                    if target.starts_with(b"/") {
                        way.clear();
                    }
                    for name in names_of(&target).rev() {
                        steps.push_front(Component { name: name.to_vec(), is_of_link: true });
                    }
                }
                // Below another file, nothing is there to be hidden or linked to. The layer may
                // replace that file by a directory later.
                Some(_) if self.has_whiteouts && !makes => return Err(PosixError::NotFound.into()),
                Some(_) => return Err(PosixError::NotDirectory.into()),
            }
        }
        self.arrive(way, makes)
    }

    /// Returns the directory at the end of `way`, a resolved path: each component, with its node if
    /// it exists. With `makes`, missing directories are created.
    fn arrive(
        &mut self,
        way: Vec<(Vec<u8>, Option<Node>)>,
        makes: bool,
    ) -> Result<UnpackedDirectory, WriteFailure> {
        let mut directory = UnpackedDirectory { path: Vec::new(), node: self.top.clone() };
        for (name, node) in way {
            let node = match node {
                Some(node) => node,
                None if makes => {
                    let path = join(&directory.path, &name);
                    self.writer.make_directory(&directory.node, &name, &path)?
                }
                None => return Err(PosixError::NotFound.into()),
            };
            directory = UnpackedDirectory { path: join(&directory.path, &name), node };
        }
        Ok(directory)
    }

    /// Returns whether `name` in `directory` is a symbolic link to a directory of the image.
    /// `parts` is the whole path of that name.
    fn is_link_to_directory(
        &mut self,
        directory: &Node,
        name: &[u8],
        parts: &[&[u8]],
    ) -> Result<bool, WriteFailure> {
        let is_link = match directory.lookup(OsStr::from_bytes(name)) {
            Ok(node) => node.file_type() == FileType::Symlink,
            Err(Error::Posix(PosixError::NotFound)) => false,
            Err(error) => return Err(error.into()),
        };
        // A dangling or circular link is replaced.
        match is_link.then(|| self.walk(parts, false)) {
            None | Some(Err(WriteFailure::One(_))) => Ok(false),
            Some(walked) => walked.map(|_| true),
        }
    }

    /// Returns the file of the image that was created for the member at this path of the archive.
    fn find(&mut self, path: &[u8]) -> Result<Node, WriteFailure> {
        let target = || format!("a link to {}", names::in_message(path));
        let out = || {
            let target = names::in_message(path);
            one(format!("is a link to {target}, which leads out of the archive, and is left out"))
        };
        let parts = parts(path).map_err(|_| out())?;
        let Some((name, above)) = parts.split_last().filter(|(name, _)| **name != b"..") else {
            return Err(if parts.is_empty() { PosixError::IsDirectory.into() } else { out() });
        };
        let climbs = above.iter().try_fold(0_usize, |depth, part| match *part {
            b".." => depth.checked_sub(1),
            _ => Some(depth + 1),
        });
        if climbs.is_none() {
            return Err(out());
        }
        let about = |failed: WriteFailure| failed.about(&target());
        let directory = self.directory(above, false).map_err(about)?;
        let found = directory.node.lookup(OsStr::from_bytes(name));
        let node = found.map_err(|error| about(error.into()))?;
        match node.file_type() {
            FileType::Directory => Err(PosixError::IsDirectory.into()),
            _ => Ok(node),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        for (path, entered) in self.open {
            let shown = if path.is_empty() { b"/" } else { path.as_slice() };
            self.writer.leave(entered, shown)?;
        }
        Ok(())
    }
}

/// Returns the directory at `path` below `top`. Missing directories are created; symbolic links are
/// followed as after chroot(2) to `top`.
pub(super) fn make_directories(
    top: &Node,
    writer: &mut ImageWriter<'_>,
    path: &[u8],
) -> Result<Node, WriteFailure> {
    let parts = parts(path)?;
    let found = Unpacker::new(top.clone(), writer, false).directory(&parts, true)?;
    Ok(found.node)
}

/// Returns whether a path leads through a directory in which AUFS kept its own files.
fn is_layer_metadata(above: &[&[u8]]) -> bool {
    above.iter().any(|part| part.starts_with(LAYER_METADATA))
}

/// Returns the path that a whiteout at `path` hides: a file, or the directory whose entries are
/// hidden. `None` if the path is not that of a whiteout.
fn hidden_path(path: &[u8]) -> Option<Vec<u8>> {
    let parts: Vec<&[u8]> = names_of(path).collect();
    let (name, above) = parts.split_last()?;
    let hidden = name.strip_prefix(WHITEOUT)?;
    let above = above.join(&b'/');
    Some(if *name == OPAQUE { above } else { join(&above, hidden) })
}

/// Returns the components of a path in an archive, relative to the target directory.
fn parts(path: &[u8]) -> Result<Vec<&[u8]>, WriteFailure> {
    if path.contains(&0) {
        return Err(one("has a name with a zero byte, and is left out"));
    }
    Ok(names_of(path).collect())
}

/// Returns the path of the entry `name` of a directory.
fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    match directory.is_empty() {
        true => name.to_vec(),
        false => [directory, name].join(&b'/'),
    }
}

/// Returns a failure that concerns only one member.
fn one(message: impl Into<String>) -> WriteFailure {
    WriteFailure::One(Failure::new(Exit::Failed, message))
}
