//! What files that are put into a volume have besides their contents: mode, owner, times, attributes, flags, hints.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::format::inode::ExtendedFlags;
use ferroxfs::{
    AclKind, CreateOptions, Error, Node, PosixError, SetAttributes, SetMode, Timestamp,
};

use super::{Deposit, Failed};
use crate::facts::{Facts, FileKind, Time};
use crate::failure::Failure;
use crate::names;
use crate::source::{NamedValue, Source};

/// Permission bits of a mode.
const PERMISSION_BITS: u32 = 0o7777;

/// The attribute that holds the access control list of a file, and so its mode.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Flags of a file that cannot be renamed or linked any more.
const LATE_FLAGS: ExtendedFlags = ExtendedFlags::IMMUTABLE.union(ExtendedFlags::APPEND);

impl Deposit<'_> {
    /// What the inode of a source says, as far as it may show (I5).
    pub(super) fn facts<S: Source>(&self, source: &S) -> Facts {
        let facts = source.facts();
        let is_by_contents = self.manner.is_by_contents(source);
        Facts { accessed: if is_by_contents { facts.modified } else { facts.accessed }, ..facts }
    }

    /// What a new file is made with; the rest comes when it has its contents.
    pub(super) fn creation(&self, facts: &Facts) -> CreateOptions {
        let owned = self.manner.is_archive && !self.manner.is_all_root;
        let (uid, gid) = if owned { (facts.uid, facts.gid) } else { (0, 0) };
        CreateOptions { mode: self.mode(facts), uid, gid, umask: 0 }
    }

    /// Without an owner of its own a file must not make anybody act as another one.
    fn mode(&self, facts: &Facts) -> u16 {
        let bits = if self.manner.is_archive { PERMISSION_BITS } else { 0o777 };
        (facts.mode & bits) as u16
    }

    /// Sets what a file has besides its contents, but for what comes [late](Self::late_changes). An attribute that it
    /// cannot have is reported, and one for which there is no room is the end.
    pub(super) fn apply(
        &mut self,
        (node, path): (&Node, &[u8]),
        facts: &Facts,
        attributes: Vec<Result<NamedValue, Failure>>,
    ) -> Result<(), Failed> {
        if !self.manner.is_archive {
            return Ok(());
        }
        for kind in [AclKind::Access, AclKind::Default] {
            // What it has got from its directory is not its own.
            if node.acl(kind)?.is_some() {
                node.set_acl(kind, None)?;
            }
        }
        let mut mode = (facts.kind() != FileKind::Symlink).then(|| self.mode(facts));
        if attributes.iter().flatten().any(|attribute| attribute.name == ACCESS_LIST) {
            // The mode in an archive may have the group's permissions where the list has the mask.
            // The list counts.
            node.set_attributes(&SetAttributes { mode: mode.take(), ..SetAttributes::default() })?;
        }
        for attribute in attributes {
            let set = attribute.map_err(Failed::Source).and_then(|NamedValue { name, value }| {
                let set = node.set_attribute(OsStr::from_bytes(&name), &value, SetMode::Either);
                let shown = format!("attribute {}", names::in_message(&name));
                set.map_err(|error| Failed::from(error).about(&shown))
            });
            match set {
                Err(all @ Failed::All(_)) => return Err(all),
                // What it is about is said there, and it is no end.
                one => _ = self.check(path, one).ok(),
            }
        }
        let flags = ExtendedFlags::from_bits_truncate(facts.xflags) - LATE_FLAGS;
        let xflags = (!flags.is_empty()).then_some(flags);
        Ok(node.set_attributes(&SetAttributes { mode, xflags, ..self.times(facts) })?)
    }

    /// The times of a file, and the creation that an archive gives it.
    pub(super) fn times(&self, facts: &Facts) -> SetAttributes {
        SetAttributes {
            accessed: Some(self.time(facts.accessed)),
            modified: Some(self.time(facts.modified)),
            created: facts.created.map(|created| self.time(created)),
            ..SetAttributes::default()
        }
    }

    /// Gives a file the hints for the size of extents of its source, and none that it has taken over from its directory.
    /// One that the volume cannot have is left out: they are of whole blocks, no longer than half of a
    /// group, and copies are made only where blocks can be shared.
    pub(super) fn hint(&self, node: &Node, facts: &Facts) -> Result<(), Failed> {
        let hints = facts.extent_size_hints.filter(|_| self.manner.is_archive);
        let Some((extent, copy)) = hints else { return Ok(()) };
        let has = node.metadata();
        let change = |bytes: u64, to_changes: &dyn Fn(u64) -> SetAttributes| match node
            .set_attributes(&to_changes(bytes))
        {
            Err(Error::Posix(PosixError::InvalidArgument)) => node.set_attributes(&to_changes(0)),
            changed => changed,
        };
        if has.extent_size_hint_bytes != extent {
            change(extent, &|bytes| SetAttributes {
                extent_size_hint_bytes: Some(bytes),
                ..SetAttributes::default()
            })?;
        }
        if has.cow_extent_size_hint_bytes != copy {
            change(copy, &|bytes| SetAttributes {
                cow_extent_size_hint_bytes: Some(bytes),
                ..SetAttributes::default()
            })?;
        }
        Ok(())
    }

    /// What would be in the way of a name, or of something in a directory (I4).
    pub(super) fn late_changes(&self, facts: &Facts) -> SetAttributes {
        if !self.manner.is_archive {
            return SetAttributes::default();
        }
        let flags = ExtendedFlags::from_bits_truncate(facts.xflags);
        SetAttributes {
            project_id: (facts.project != 0).then_some(facts.project),
            xflags: flags.intersects(LATE_FLAGS).then_some(flags),
            ..SetAttributes::default()
        }
    }

    fn time(&self, time: Time) -> Timestamp {
        let time = Timestamp::new(time.seconds, time.nanoseconds).unwrap_or_default();
        self.manner.latest.map_or(time, |latest| time.min(latest))
    }
}
