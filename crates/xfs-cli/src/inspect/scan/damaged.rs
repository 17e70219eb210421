//! `scan --damaged`: the rows of damaged volumes, as far as they can be read.
//!
//! Owns: the rows of inodes that a survey finds, in the order of their numbers, and the error rows
//! for inodes that are not whole and names whose inode is gone. Does **not** own: the formats
//! (`xfs-scan`), or the names (`xfs-salvage`).

use std::collections::BTreeMap;

use ferroxfs::raw::format::Superblock;
use xfs_format::acl;
use xfs_format::attr::Namespace;
use xfs_format::inode::FileType;
use xfs_salvage::{Attribute, FileReport, NameId, NameTree, Node, Salvage, Status};
use xfs_scan::{
    ByteList, Field, Fields, Finding, FindingCode, Row, RowPiece, RowView, RowWriter, ScanError,
    ScanReport, VolumeLabel,
};

use crate::damaged::shortfalls::{Shortfalls, describe};
use crate::damaged::volume::DamagedImage;
use crate::damaged::{name_tree, survey};
use crate::failure::Failure;
use crate::interrupt;
use crate::terminal::console::Console;
use crate::terminal::names;

/// The number of inodes whose rows are written together.
const PIECE_INODES: usize = 2048;

/// The result of a scan of damaged volumes.
pub(super) struct DamagedReport {
    pub(super) report: ScanReport,
    /// Whether all findings are about doubtful files: files that were read whole, although a
    /// structure that leads to them is damaged or contradicts another one. Then no row is missing.
    pub(super) is_only_doubtful: bool,
}

/// Writes the rows of damaged volumes. `failed` converts an error of the output to a failure.
pub(super) fn scan(
    images: Vec<DamagedImage>,
    fields: Fields,
    output: xfs_scan::Output<'_>,
    failed: &dyn Fn(ScanError) -> Failure,
    console: &mut Console,
) -> Result<DamagedReport, Failure> {
    let mut is_only_doubtful = true;
    let mut output = Some(output);
    let mut writer: Option<RowWriter<'_>> = None;
    for image in images {
        let shown = image.shown();
        let volume = image.read(|note| console.note(format!("{shown}: {note}")))?;
        let survey = survey(&volume, volume.survey_options(), &shown, console)?;
        let (tree, shortfalls) = name_tree(&survey, &shown, console)?;
        let label = label(&volume.superblock);
        let writer = match (&mut writer, output.take()) {
            (Some(writer), _) => {
                writer.next_volume(label).map_err(failed)?;
                writer
            }
            (begun, Some(output)) => begun.insert(RowWriter::begin(output, label).map_err(failed)?),
            (None, None) => unreachable!("the output is taken by the first volume"),
        };
        let is_doubtful = |report: &FileReport| report.status == Status::Doubtful;
        is_only_doubtful &= shortfalls.more() == 0 && shortfalls.reports().iter().all(is_doubtful);
        let rows = Rows { survey: &survey, tree: &tree, fields };
        rows.write(&shortfalls, writer, failed)?;
    }
    let writer = writer.expect("the command names at least one image");
    let report = writer.finish().map_err(failed)?;
    Ok(DamagedReport { report, is_only_doubtful })
}

fn label(superblock: &Superblock) -> VolumeLabel {
    VolumeLabel { uuid: superblock.uuid, label: superblock.label.as_bytes().to_vec(), log: None }
}

/// The source of the rows of one volume: its survey, which reads the inodes, and the tree of their
/// names.
struct Rows<'a> {
    survey: &'a Salvage<'a>,
    tree: &'a NameTree,
    fields: Fields,
}

impl Rows<'_> {
    fn write(
        &self,
        shortfalls: &Shortfalls,
        writer: &mut RowWriter<'_>,
        failed: &dyn Fn(ScanError) -> Failure,
    ) -> Result<(), Failure> {
        let mut inodes: Vec<(u64, NameId)> = Vec::new();
        for id in (0..self.tree.count()).filter_map(NameId::of_index) {
            inodes.extend(self.tree.inode(id).map(|inode| (inode.0, id)));
        }
        inodes.sort_unstable();
        let mut groups: Vec<&[(u64, NameId)]> = Vec::with_capacity(PIECE_INODES);
        for group in inodes.chunk_by(|(a, _), (b, _)| a == b) {
            groups.push(group);
            if groups.len() == PIECE_INODES {
                interrupt::check()?;
                writer.piece(|piece| self.rows(&groups, piece)).map_err(failed)?;
                groups.clear();
            }
        }
        writer.piece(|piece| self.rows(&groups, piece)).map_err(failed)?;
        let findings = self.findings(shortfalls);
        for findings in findings.chunks(PIECE_INODES) {
            let add = |piece: &mut RowPiece<'_>| {
                findings.iter().try_for_each(|finding| piece.finding(finding))
            };
            writer.piece(add).map_err(failed)?;
        }
        Ok(())
    }

    /// Adds the rows of the inodes in `groups` to `piece`, which is written as a whole. Each group
    /// holds all names of one inode.
    fn rows(&self, groups: &[&[(u64, NameId)]], piece: &mut RowPiece<'_>) -> Result<(), ScanError> {
        let geometry = self.survey.evidence().geometry();
        let (mut paths, mut xattrs) = (ByteList::default(), ByteList::default());
        for group in groups {
            let Some((number, first)) = group.first() else { continue };
            let node = self.tree.node(self.survey, *first);
            let Some(core) = node.inode().and_then(|inode| inode.any_core()) else { continue };
            let mut row = Row::new(core);
            let facts = node.facts();
            row.mode = facts.mode.into();
            row.xflags = facts.xflags;
            paths.clear();
            xattrs.clear();
            let has_name = |id: &NameId| self.tree.has_name(*id);
            let named = group.iter().map(|(_, id)| *id).filter(has_name);
            named.for_each(|id| paths.push(&self.tree.path(id)));
            let wants = |field: Field| self.fields.contains(field);
            if wants(Field::Xattrs) {
                add_names(&node, &mut xattrs);
            }
            let is_link = row.file_type() == Some(FileType::Symlink);
            let symlink = (wants(Field::Symlink) && is_link).then(|| node.target());
            let ag = geometry.split_inode(ferroxfs::InodeNumber(*number));
            let wants_paths = wants(Field::Paths);
            let is_orphan = wants_paths && paths.is_empty();
            if !wants_paths {
                paths.clear();
            }
            piece.row(&RowView {
                row: &row,
                ag: ag.map_or(0, |(group, _)| group.0),
                block_units_log: geometry.block_log - 9,
                paths: &paths,
                is_orphan,
                hash: None,
                symlink: symlink.as_deref(),
                xattrs: &xattrs,
                realtime_fs_blocks: 0,
                parents: &[],
                names: None,
            })?;
        }
        Ok(())
    }

    /// Returns the error rows, in the order of the inodes: one for each inode that is not whole,
    /// and one for each name whose inode is gone.
    fn findings(&self, shortfalls: &Shortfalls) -> Vec<Finding> {
        let mut findings: BTreeMap<(u64, Vec<u8>), Finding> = BTreeMap::new();
        for report in shortfalls.reports() {
            let key = (report.inode.0, report.path.clone());
            findings.insert(key, self.finding(report));
        }
        let mut findings: Vec<Finding> = findings.into_values().collect();
        // An inode without a row is missing once, whatever the number of its names.
        let mut last = None;
        for finding in &mut findings {
            if finding.ino == last {
                finding.inode_count = 0;
            }
            last = finding.ino;
        }
        if shortfalls.more() > 0 {
            let message = format!("{} more files are not whole", shortfalls.more());
            let mut finding = Finding::about(FindingCode::Corrupt, 0, message);
            finding.ino = None;
            findings.push(finding);
        }
        findings
    }

    fn finding(&self, report: &FileReport) -> Finding {
        let path = [b"/", report.path.as_slice()].concat();
        let message = format!("{}: {}", names::in_message(&path), describe(report));
        let code = match report.status {
            Status::Lost => FindingCode::DanglingEntry,
            _ => FindingCode::Corrupt,
        };
        let mut finding = Finding::about(code, report.inode.0, message);
        let geometry = self.survey.evidence().geometry();
        finding.ag = geometry.split_inode(report.inode).map(|(group, _)| group.0);
        let inode = self.survey.evidence().inode(report.inode);
        finding.inode_count = u32::from(inode.any_core().is_none());
        finding
    }
}

/// Adds the names of the attributes of `node` to `xattrs`, as Linux shows them.
fn add_names(node: &Node<'_>, xattrs: &mut ByteList) {
    for Attribute { namespace, name, .. } in node.attributes() {
        let (prefix, list): (&[u8], Option<&[u8]>) = match namespace {
            Namespace::User => (b"user.", None),
            Namespace::Security => (b"security.", None),
            Namespace::Trusted if name == acl::ACCESS_NAME => {
                (b"trusted.", Some(b"system.posix_acl_access"))
            }
            Namespace::Trusted if name == acl::DEFAULT_NAME => {
                (b"trusted.", Some(b"system.posix_acl_default"))
            }
            Namespace::Trusted => (b"trusted.", None),
            Namespace::Parent => continue,
        };
        list.into_iter().for_each(|name| xattrs.push(name));
        xattrs.push(&[prefix, &name].concat());
    }
}
