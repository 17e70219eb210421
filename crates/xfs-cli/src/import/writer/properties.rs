//! Setting the properties of files that are written into a volume: mode, owner, times, attributes,
//! flags, extent size hints.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::attr::{AclKind, SetMode};
use ferroxfs::{CreateOptions, Error, Node, PosixError, SetAttributes, Timestamp};

use super::{ImageWriter, WriteFailure};
use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind, Time};
use crate::file::node;
use crate::file::source::{NamedValue, Source, join};
use crate::terminal::names;

/// The permission bits of a mode.
const PERMISSION_BITS: u32 = 0o7777;

/// The attribute that holds the access control list of a file. The list includes the permissions in
/// the mode of the file.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Flags with which a file can no longer be renamed or linked.
const LATE_FLAGS: ExtendedFlags = ExtendedFlags::IMMUTABLE.union(ExtendedFlags::APPEND);

impl ImageWriter<'_> {
    /// Returns the facts (mode, owner, times, …) that the copy of a source gets. `path` is the path
    /// of the copy below the target directory of the [`ImageWriter`]. If the copy must not depend
    /// on earlier reads of the source, the access time is replaced by the modification time (I5 of
    /// `writer`).
    pub(super) fn facts<S: Source>(&self, source: &S, path: &[u8]) -> Facts {
        let facts = source.facts();
        let is_by_contents = self.writer_options.is_by_contents(source.lies_on_host());
        let accessed = if is_by_contents { facts.modified } else { facts.accessed };
        self.governed(path, Facts { accessed, ..facts })
    }

    /// Returns `facts` as the policy changes them.
    pub(super) fn governed(&self, path: &[u8], facts: Facts) -> Facts {
        let facts = self.policy.change(path, facts);
        match self.policy.projects.is_empty() {
            true => facts,
            false => self.policy.projects.assign(&join(&self.base, path), facts),
        }
    }

    /// Returns the attributes that the copy of a source gets.
    pub(super) fn attributes<S: Source>(
        &self,
        source: &S,
        path: &[u8],
    ) -> Vec<Result<NamedValue, Failure>> {
        let path = join(&self.base, path);
        self.policy.relabel(&path, source.facts().kind(), source.attributes())
    }

    /// Returns the attributes for a directory that no source lists.
    pub(super) fn labels(&self, path: &[u8], kind: FileKind) -> Vec<NamedValue> {
        let labels = self.policy.relabel(&join(&self.base, path), kind, Vec::new());
        labels.into_iter().flatten().collect()
    }

    /// Returns the mode and owner with which a file is created. The other properties are set after
    /// its contents.
    pub(super) fn creation(&self, facts: &Facts) -> CreateOptions {
        let owned = self.writer_options.is_archive && !self.writer_options.is_all_root;
        let (uid, gid) = if owned { (facts.uid, facts.gid) } else { (0, 0) };
        CreateOptions::new(self.mode(facts)).uid(uid).gid(gid)
    }

    /// Returns the mode of the copy. Without `is_archive`, the copy gets no set-user-ID,
    /// set-group-ID or sticky bit.
    fn mode(&self, facts: &Facts) -> u16 {
        let bits = if self.writer_options.is_archive { PERMISSION_BITS } else { 0o777 };
        (facts.mode & bits) as u16
    }

    /// Sets the label and the project of the target directory, which an archive need not list.
    ///
    /// # Errors
    ///
    /// Failures that would repeat for every further file.
    pub(crate) fn label_top(&mut self, top: &Node) -> Result<(), Failure> {
        for NamedValue { name, value } in self.labels(b"", FileKind::Directory) {
            let set = top.set_attribute(OsStr::from_bytes(&name), &value, SetMode::Either);
            self.check(b"", set.map_err(WriteFailure::from))?;
        }
        let Facts { project, xflags, .. } = self.governed(b"", node::facts(top));
        if project != top.metadata().project_id {
            let placed = self.place(top, b"", project, xflags);
            self.check(b"", placed)?;
        }
        Ok(())
    }

    /// Lets a directory that no source lists pass on its project, and remembers to set the project
    /// itself at the end (I4 of `writer`).
    pub(super) fn place(
        &mut self,
        directory: &Node,
        path: &[u8],
        project: u32,
        xflags: u32,
    ) -> Result<(), WriteFailure> {
        let flags = ExtendedFlags::from_bits_truncate(xflags);
        directory.set_attributes(&SetAttributes::new().xflags(flags))?;
        let late = SetAttributes::new().project_id(project);
        self.late.push((directory.clone(), late, path.to_vec()));
        Ok(())
    }

    /// Sets the properties of a file, except the [late](Self::late_changes) ones. An attribute that
    /// the file cannot have is reported; a full volume ends the run.
    pub(super) fn apply(
        &mut self,
        node: &Node,
        path: &[u8],
        facts: &Facts,
        attributes: Vec<Result<NamedValue, Failure>>,
    ) -> Result<(), WriteFailure> {
        if !self.writer_options.is_archive {
            return Ok(());
        }
        for kind in [AclKind::Access, AclKind::Default] {
            // Remove what it inherited from its directory.
            if node.acl(kind)?.is_some() {
                node.set_acl(kind, None)?;
            }
        }
        let mut mode = (facts.kind() != FileKind::Symlink).then(|| self.mode(facts));
        if attributes.iter().flatten().any(|attribute| attribute.name == ACCESS_LIST) {
            // The mode in an archive may have the permissions of the group where the list has the
            // mask. The list counts.
            let mut changes = SetAttributes::new();
            changes.mode = mode.take();
            node.set_attributes(&changes)?;
        }
        for attribute in attributes {
            let set =
                attribute.map_err(WriteFailure::Source).and_then(|NamedValue { name, value }| {
                    let set = node.set_attribute(OsStr::from_bytes(&name), &value, SetMode::Either);
                    let shown = format!("attribute {}", names::in_message(&name));
                    set.map_err(|error| WriteFailure::from(error).about(&shown))
                });
            match set {
                Err(all @ WriteFailure::All(_)) => return Err(all),
                // The check has added the subject, and one attribute does not end the run.
                one => _ = self.check(path, one).ok(),
            }
        }
        let flags = ExtendedFlags::from_bits_truncate(facts.xflags) - LATE_FLAGS;
        let xflags = (!flags.is_empty()).then_some(flags);
        let mut changes = self.times(facts);
        changes.mode = mode;
        changes.xflags = xflags;
        Ok(node.set_attributes(&changes)?)
    }

    /// Returns the change that sets the times of a file, and its creation time if an archive has
    /// one.
    pub(super) fn times(&self, facts: &Facts) -> SetAttributes {
        let mut changes = SetAttributes::new()
            .accessed(self.time(facts.accessed))
            .modified(self.time(facts.modified));
        changes.created = facts.created.map(|created| self.time(created));
        changes
    }

    /// Gives a file the extent size hints of its source, and removes those inherited from its
    /// directory. A hint that the volume cannot have is left out: hints are whole blocks, at most
    /// half an allocation group, and a copy-on-write hint needs shared blocks.
    pub(super) fn hint(&self, node: &Node, facts: &Facts) -> Result<(), WriteFailure> {
        let hints = facts.extent_size_hints.filter(|_| self.writer_options.is_archive);
        let Some((extent, copy)) = hints else { return Ok(()) };
        let has = node.metadata();
        let change = |bytes: u64, to_changes: &dyn Fn(u64) -> SetAttributes| match node
            .set_attributes(&to_changes(bytes))
        {
            Err(Error::Posix(PosixError::InvalidArgument)) => node.set_attributes(&to_changes(0)),
            changed => changed,
        };
        if has.extent_size_hint_bytes != extent {
            change(extent, &|bytes| SetAttributes::new().extent_size_hint_bytes(bytes))?;
        }
        if has.cow_extent_size_hint_bytes != copy {
            change(copy, &|bytes| SetAttributes::new().cow_extent_size_hint_bytes(bytes))?;
        }
        Ok(())
    }

    /// Returns the changes that would prevent further names of a file, or further entries of a
    /// directory (I4 of `writer`).
    pub(super) fn late_changes(&self, facts: &Facts) -> SetAttributes {
        if !self.writer_options.is_archive {
            return SetAttributes::default();
        }
        let flags = ExtendedFlags::from_bits_truncate(facts.xflags);
        let mut changes = SetAttributes::new();
        changes.project_id = (facts.project != 0).then_some(facts.project);
        changes.xflags = flags.intersects(LATE_FLAGS).then_some(flags);
        changes
    }

    fn time(&self, time: Time) -> Timestamp {
        let time = Timestamp::new(time.seconds, time.nanoseconds).unwrap_or_default();
        self.writer_options.latest.map_or(time, |latest| time.min(latest))
    }
}
