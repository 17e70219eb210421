//! What a volume is filled with: a tree of the host, a tar archive, or what a prototype file says.
//!
//! Owns: which of them it is, and the order in which the members of an archive become files. Does
//! **not** own what one file becomes ([`Deposit`]).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ferroxfs::{FileType, Node, PosixError};

use crate::deposit::{Deposit, Entered, Failed};
use crate::exit::Exit;
use crate::facts::FileKind;
use crate::failure::Failure;
use crate::host::HostSource;
use crate::input::{self, Spool};
use crate::names;
use crate::prototype::{PrototypeSource, Reading};
use crate::source::{Source, is_safe_name};
use crate::tally::{Gauge, Measure};
use crate::unarchive::{Member, MemberKind, Unarchive};

/// Bytes read of an archive at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// How an archive is read that comes through a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// Piece by piece: nothing that it could be made of is locked meanwhile.
    Stream,
    /// To its end, before the image is locked: the command that makes it may read that image.
    Whole,
}

impl Keeping {
    fn of(self, pipe: File, name: &str) -> Result<Box<dyn Read>, Failure> {
        match self {
            Self::Stream => Ok(Box::new(BufReader::with_capacity(CHUNK_BYTES, pipe))),
            Self::Whole => {
                let spool = Spool::read(pipe, name)?.into_reader();
                Ok(Box::new(BufReader::with_capacity(CHUNK_BYTES, spool)))
            }
        }
    }
}

/// What a volume is filled with.
pub(crate) enum Intake {
    /// What is in a directory.
    Tree(HostSource),
    /// A tar archive.
    Archive(Box<Unarchive<Box<dyn Read>>>, Option<Gauge>),
    /// The tree of a prototype file.
    Prototype(PrototypeSource),
}

impl Intake {
    /// Opens a directory, or an archive: a file, or standard input as `-`. What does not begin as an archive
    /// is refused here, before anything is made for it.
    pub(crate) fn open(path: &Path, keeping: Keeping) -> Result<Self, Failure> {
        if path == Path::new("-") {
            if io::stdin().is_terminal() {
                return Err(Failure::usage("an archive cannot be read from a terminal"));
            }
            let name = "standard input";
            let failed = |error| Failure::new(Exit::Failed, format!("{name}: {error}"));
            let input = input::open().map_err(failed)?;
            // A file is complete as it is.
            let is_file = input.metadata().map_err(failed)?.is_file();
            let keeping = if is_file { Keeping::Stream } else { keeping };
            return Self::archive(keeping.of(input, name)?, None, name.as_bytes());
        }
        let source = HostSource::open(path, true)?;
        match source.facts().kind() {
            FileKind::Directory => Ok(Self::Tree(source)),
            FileKind::Regular | FileKind::Fifo => {
                let name = path.as_os_str();
                let file = File::open(path).map_err(|error| Failure::host(name, &error))?;
                if source.facts().kind() == FileKind::Fifo {
                    let input = keeping.of(file, &names::in_message(name.as_bytes()))?;
                    return Self::archive(input, None, name.as_bytes());
                }
                let gauge = Gauge::new(file.metadata().map_or(0, |metadata| metadata.len()));
                let input = BufReader::with_capacity(CHUNK_BYTES, gauge.follow(file));
                Self::archive(Box::new(input), Some(gauge), name.as_bytes())
            }
            kind => {
                let shown = names::in_message(path.as_os_str().as_bytes());
                let message = format!("{shown}: is a {}, and no directory or archive", kind.name());
                Err(Failure::new(Exit::Failed, message))
            }
        }
    }

    fn archive(input: Box<dyn Read>, gauge: Option<Gauge>, name: &[u8]) -> Result<Self, Failure> {
        let archive = Unarchive::new(input, name).check_first()?;
        Ok(Self::Archive(Box::new(archive), gauge))
    }

    /// What says how much there is to put in.
    pub(crate) fn measure(&self) -> Measure {
        match self {
            Self::Archive(_, Some(gauge)) => Measure::Input(gauge.clone()),
            Self::Archive(_, None) | Self::Tree(_) | Self::Prototype(_) => Measure::Unknown,
        }
    }

    /// Opens what mkfs.xfs takes by `-p`: a directory, or a prototype file.
    pub(crate) fn open_prototype(path: &Path, reading: Reading) -> Result<Self, Failure> {
        match path.is_dir() {
            true => Self::open(path, Keeping::Stream),
            false => Ok(Self::Prototype(PrototypeSource::open(path, reading)?)),
        }
    }

    /// The same without the images that are written to, where they lie in a directory that is read.
    pub(crate) fn without<'a>(self, images: impl IntoIterator<Item = &'a Path>) -> Self {
        match self {
            Self::Tree(source) => Self::Tree(source.without(images)),
            other => other,
        }
    }

    /// Puts all of it into a directory.
    ///
    /// # Errors
    ///
    /// What makes it pointless to go on.
    pub(crate) fn fill(self, directory: Node, deposit: &mut Deposit<'_>) -> Result<(), Failure> {
        let filled = match self {
            Self::Tree(source) => deposit.put_contents(directory, source),
            Self::Prototype(source) => deposit.put_contents(directory, source),
            Self::Archive(archive, _) => {
                deposit.cross_kinds();
                let mut unpack = Unpack { top: directory, deposit, open: BTreeMap::new() };
                unpack.members(*archive).and_then(|()| unpack.finish())
            }
        };
        filled.and(deposit.seal())
    }
}

/// An archive on its way into a directory.
struct Unpack<'a, 'b> {
    top: Node,
    deposit: &'a mut Deposit<'b>,
    /// Directories that the archive has, by path: they get their times when all is in them.
    open: BTreeMap<Vec<u8>, Entered>,
}

impl Unpack<'_, '_> {
    fn members<R: Read>(&mut self, mut archive: Unarchive<R>) -> Result<(), Failure> {
        while let Some(member) = archive.next()? {
            let made = self.member(&member);
            self.deposit.check(&member.path, made)?;
        }
        Ok(())
    }

    fn member<R: Read>(&mut self, member: &Member<'_, R>) -> Result<(), Failed> {
        if let MemberKind::LeftOut(reason) = &member.kind {
            return Err(one(reason.as_str()));
        }
        let parts = parts(&member.path)?;
        let path = parts.join(&b'/');
        let Some((name, above)) = parts.split_last() else {
            // The directory that everything goes into.
            self.open.insert(path, Entered::present(self.top.clone(), member));
            return Ok(());
        };
        let directory = self.directory(above)?;
        match &member.kind {
            MemberKind::HardLink(target) => {
                let file = self.find(target)?;
                self.deposit.put_link(&directory, name, &file)?;
                self.open.remove(&path);
                Ok(())
            }
            _ => {
                match self.deposit.put_member(&directory, (name, &path), member)? {
                    Some(entered) => _ = self.open.insert(path, entered),
                    // A directory that was there is there no more.
                    None => _ = self.open.remove(&path),
                }
                Ok(())
            }
        }
    }

    /// The directory of a path, which is made where it is missing. Links are not followed: they may lead
    /// out of the directory that everything goes into.
    fn directory(&self, parts: &[&[u8]]) -> ferroxfs::Result<Node> {
        if let Some(entered) = self.open.get(&parts.join(&b'/')) {
            return Ok(entered.directory.clone());
        }
        let mut directory = self.top.clone();
        for part in parts {
            directory = Deposit::make_directory(&directory, part)?;
        }
        Ok(directory)
    }

    /// What a member of this path has become.
    fn find(&self, path: &[u8]) -> Result<Node, Failed> {
        let mut node = self.top.clone();
        let parts = parts(path).map_err(|_| {
            let target = names::in_message(path);
            one(format!("is a link to {target}, which leads out of the archive, and is left out"))
        })?;
        for part in parts {
            node = node.lookup(OsStr::from_bytes(part)).map_err(|error| {
                let target = names::in_message(path);
                Failed::One(Failure::from(error).about(&format!("a link to {target}")))
            })?;
        }
        match node.file_type() {
            FileType::Directory => Err(PosixError::IsDirectory.into()),
            _ => Ok(node),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        for (path, entered) in self.open {
            let shown = if path.is_empty() { b"/" } else { path.as_slice() };
            self.deposit.leave(entered, shown)?;
        }
        Ok(())
    }
}

/// The parts of a path in an archive, from the directory on that everything goes into.
fn parts(path: &[u8]) -> Result<Vec<&[u8]>, Failed> {
    let is_part = |part: &&[u8]| !part.is_empty() && *part != b".";
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(is_part).collect();
    match parts.iter().all(|part| is_safe_name(part)) {
        true => Ok(parts),
        false => Err(one("leads out of the archive, and is left out")),
    }
}

/// A failure of one member.
fn one(message: impl Into<String>) -> Failed {
    Failed::One(Failure::new(Exit::Failed, message))
}
