//! Causes and consequences: damage that makes other structures seem wrong.
//!
//! Owns: the findings that a gap (a structure that could not be read) makes doubtful, and the
//! choice of the finding that is the reason for the gap. Does **not** own: the gaps themselves,
//! which the passes report.
//!
//! A structure that cannot be read leaves a gap. A comparison that has a gap on one side cannot be
//! judged, so its differences are consequences of the damage that opened the gap. Each consequence
//! is counted on that finding, its *cause*.
//!
//! The cause is chosen by code and place: first a damage of the inode that the consequence is
//! about, then the first finding of the list that can open the gap.

use std::collections::BTreeMap;

use xfs_format::InodeNumber;

use crate::blocks::Findings;
use crate::code::{Area, Code};
use crate::facts::Gap;
use crate::finding::{Finding, Severity};
use crate::region::Region;
use crate::report::Unchecked;
use crate::sums::Gaps;

/// The most consequences that are kept. Further consequences are only counted.
const MOST_KEPT: usize = 1 << 17;

/// The reasons why a difference between structures may be a consequence of other damage, and no
/// damage of its own.
#[derive(Clone, Copy)]
pub(crate) struct Doubt<'a> {
    /// The gaps (structures that could not be read) that would explain the difference. The most
    /// precise one is first.
    pub(crate) gaps: &'a [Gap],
    /// The inode whose damage would explain the difference.
    pub(crate) near: Option<InodeNumber>,
}

impl<'a> Doubt<'a> {
    /// Returns the doubt about a difference that any of these gaps (structures that could not be
    /// read) would explain.
    pub(crate) const fn of(gaps: &'a [Gap]) -> Self {
        Self { gaps, near: None }
    }

    /// Returns the doubt about a difference that any of these gaps (structures that could not be
    /// read) would explain. The most likely one is a gap that comes from damage of this inode.
    pub(crate) const fn near(inode: InodeNumber, gaps: &'a [Gap]) -> Self {
        Self { gaps, near: Some(inode) }
    }
}

/// A difference between structures that a gap (a structure that could not be read) may explain.
struct Consequence {
    finding: Finding,
    gap: Gap,
    near: Option<InodeNumber>,
}

/// All differences of a run that are consequences of other damage.
#[derive(Default)]
pub(crate) struct Consequences {
    list: Vec<Consequence>,
    /// For each gap (structure that could not be read), the number of consequences that were not
    /// kept because the list was full.
    uncounted: BTreeMap<Gap, u64>,
}

impl Consequences {
    /// Adds a difference to the consequences if one of the gaps that would explain it is among
    /// `open`, the structures that could not be read. Otherwise the difference is damage of its
    /// own, and its finding is returned.
    pub(crate) fn absorb(
        &mut self,
        finding: Finding,
        doubt: Doubt<'_>,
        open: &Gaps,
    ) -> Option<Finding> {
        let Some(&gap) = doubt.gaps.iter().find(|gap| open.has(**gap)) else {
            return Some(finding);
        };
        if self.list.len() < MOST_KEPT {
            self.list.push(Consequence { finding, gap, near: doubt.near });
        } else {
            *self.uncounted.entry(gap).or_default() += 1;
        }
        None
    }

    /// Finds the cause of each consequence among `findings`, and counts the consequence on that
    /// finding. Returns the consequences, each with the index of its cause, in the order of their
    /// causes.
    pub(crate) fn attribute(self, findings: &mut [Finding]) -> Vec<Finding> {
        let mut causes = Causes::of(findings);
        let mut counts = vec![0_u64; findings.len()];
        let mut count = |cause: Option<usize>, number: u64| {
            if let Some(count) = cause.and_then(|cause| counts.get_mut(cause)) {
                *count += number;
            }
        };
        let mut consequences = Vec::with_capacity(self.list.len());
        for Consequence { mut finding, gap, near } in self.list {
            finding.cause = causes.find(gap, near, findings);
            count(finding.cause, 1);
            consequences.push(finding);
        }
        for (gap, number) in self.uncounted {
            count(causes.find(gap, None, findings), number);
        }
        for (finding, count) in findings.iter_mut().zip(counts) {
            finding.consequences = count;
        }
        let key = |finding: &Finding| (finding.cause.unwrap_or(usize::MAX), finding.code);
        consequences.sort_by(|a, b| {
            let by_place = || a.place.cmp(&b.place).then_with(|| a.found.cmp(&b.found));
            key(a).cmp(&key(b)).then_with(by_place)
        });
        consequences
    }
}

/// Decides for each difference between two structures whether it is a finding, or only a
/// consequence of the fact that a part of one of the structures could not be read.
pub(crate) struct Judge<'a> {
    pub(crate) gaps: &'a Gaps,
    pub(crate) findings: &'a mut Findings,
    pub(crate) consequences: &'a mut Consequences,
}

impl Judge<'_> {
    /// Adds a difference to the findings. If a gap (a structure that could not be read) may explain
    /// the difference, adds it to the consequences instead.
    pub(crate) fn judge(&mut self, finding: Finding, doubt: Doubt<'_>) {
        if let Some(finding) = self.consequences.absorb(finding, doubt, self.gaps) {
            self.findings.push(finding);
        }
    }
}

/// The findings that can be the cause of a difference between two structures. A finding is given by
/// its index in the list of findings.
struct Causes {
    /// For each gap (structure that could not be read) that was looked up, the first finding whose
    /// damage can be the reason for it; `None` if there is no such finding.
    of_gaps: BTreeMap<Gap, Option<usize>>,
    /// For each inode that could not be read, the first finding that reports this.
    of_inodes: BTreeMap<InodeNumber, usize>,
}

impl Causes {
    fn of(findings: &[Finding]) -> Self {
        let mut of_inodes = BTreeMap::new();
        for (index, finding) in findings.iter().enumerate() {
            if let Some(inode) = finding.place.inode.filter(|_| is_source(finding.code)) {
                of_inodes.entry(inode).or_insert(index);
            }
        }
        Self { of_gaps: BTreeMap::new(), of_inodes }
    }

    fn find(&mut self, gap: Gap, near: Option<InodeNumber>, all: &[Finding]) -> Option<usize> {
        let opens_gap = |index: &usize| all.get(*index).is_some_and(|found| opens(found, gap));
        let near = near.and_then(|inode| self.of_inodes.get(&inode)).copied();
        near.filter(opens_gap).or_else(|| {
            *self
                .of_gaps
                .entry(gap)
                .or_insert_with(|| all.iter().position(|finding| opens(finding, gap)))
        })
    }
}

/// The largest number of unchecked parts for which the cause is searched. Each search reads the
/// list of findings.
const MOST_EXPLAINED: usize = 1 << 10;

/// Finds the cause of each part that was not checked: the first finding whose damage can be the
/// reason for its gap.
pub(crate) fn attribute_gaps(
    parts: Vec<(String, Option<Gap>)>,
    findings: &[Finding],
) -> Vec<Unchecked> {
    let mut causes = Causes::of(findings);
    let numbered = parts.into_iter().enumerate();
    let explained = numbered.map(|(number, (what, gap))| {
        let gap = gap.filter(|_| number < MOST_EXPLAINED);
        Unchecked { what, cause: gap.and_then(|gap| causes.find(gap, None, findings)) }
    });
    explained.collect()
}

/// Returns whether a finding with this code means that a structure could not be read. A finding
/// that comes from comparing two structures does not mean that.
fn is_source(code: Code) -> bool {
    let is_comparison = matches!(
        code,
        Code::SbCopy
            | Code::SbCopyDamaged
            | Code::SbRoot
            | Code::SbNeedsRepair
            | Code::BnoDiffers
            | Code::FinoDiffers
            | Code::InoFree
            | Code::InoAlign
            | Code::RmapMissing
            | Code::RmapExtra
            | Code::RefcCount
            | Code::RefcMetadata
            | Code::ParentMissing
            | Code::ParentExtra
            | Code::InodeUnlinked
            | Code::InodeReflink
            | Code::DirIndex
            | Code::DirBestFree
            | Code::DirSize
            | Code::DirType
            | Code::DirTarget
            | Code::DirParent
            | Code::DirTwice
            | Code::DirUnreachable
            | Code::DirRing
            | Code::QuotaCount
            | Code::MetaMixed
            | Code::RtLeaked
            | Code::RtCrosslinked
            | Code::RtRefcount
            | Code::RtRmapMissing
            | Code::RtRmapExtra
            | Code::RtSummary
            | Code::RtAlign
    );
    !is_comparison && code.area() != Area::Space && code.severity() > Severity::Counter
}

/// Returns whether the damage that a finding reports can be the reason why the structure of `gap`
/// could not be read.
fn opens(finding: &Finding, gap: Gap) -> bool {
    if !is_source(finding.code) {
        return false;
    }
    // Groups past the end of the device are missing. Forks that were not read can lack anything.
    if matches!(finding.code, Code::SbDeviceShort | Code::DirAliased) {
        return true;
    }
    let area = finding.code.area();
    let is_of_inode = matches!(area, Area::Agi | Area::Btree | Area::InodeBtree | Area::Inode);
    let of_group = match gap {
        Gap::Claims => return is_of_inode || area == Area::Map,
        Gap::Usage => return is_of_inode || matches!(area, Area::Map | Area::Quota),
        Gap::Superblock => return area == Area::Superblock,
        Gap::Names => return is_of_inode || matches!(area, Area::Map | Area::Directory),
        Gap::Parents => {
            let is_attribute = matches!(area, Area::Attributes | Area::ParentPointers);
            return is_of_inode || is_attribute || area == Area::Map;
        }
        Gap::MetadataFiles => return area == Area::MetadataDirectory || is_of_inode,
        Gap::GroupClaims(Region::Realtime(_))
        | Gap::ReverseMap(Region::Realtime(_))
        | Gap::Refcounts(Region::Realtime(_)) => {
            return is_of_inode
                || matches!(area, Area::Realtime | Area::MetadataDirectory | Area::Map);
        }
        Gap::GroupClaims(Region::Data(group)) => {
            let is_header = matches!(area, Area::Agf | Area::Agfl | Area::Agi | Area::Btree);
            let is_record = matches!(
                area,
                Area::FreeSpace | Area::InodeBtree | Area::ReverseMap | Area::Refcount
            );
            (is_header || is_record, group)
        }
        Gap::FreeSpace(group) => (matches!(area, Area::Agf | Area::Btree | Area::FreeSpace), group),
        Gap::ReverseMap(Region::Data(group)) => {
            (matches!(area, Area::Agf | Area::Btree | Area::ReverseMap), group)
        }
        Gap::Refcounts(Region::Data(group)) => {
            (matches!(area, Area::Agf | Area::Btree | Area::Refcount), group)
        }
        Gap::FreeInodes(group) => {
            (matches!(area, Area::Agi | Area::Btree | Area::InodeBtree), group)
        }
        Gap::Inodes(group) => (is_of_inode, group),
        Gap::Unlinked(group) => (matches!(area, Area::Agi | Area::Inode), group),
    };
    let (may_open, group) = of_group;
    may_open && finding.place.group == Some(group)
}

#[cfg(test)]
mod tests {
    use xfs_format::{AgNumber, InodeNumber};

    use super::{Consequences, Doubt};
    use crate::code::Code;
    use crate::facts::Gap;
    use crate::finding::{Finding, Place};
    use crate::region::Region;
    use crate::sums::Gaps;

    fn in_group(code: Code, group: u32) -> Finding {
        Finding::new(code, Place::of_group(AgNumber(group)), "found")
    }

    fn of_inode(code: Code, inode: u64) -> Finding {
        let place = Place { inode: Some(InodeNumber(inode)), ..Place::default() };
        Finding::new(code, place, "found")
    }

    fn open(gaps: &[Gap]) -> Gaps {
        let mut open = Gaps::default();
        gaps.iter().for_each(|gap| open.note(*gap));
        open
    }

    /// Adds three differences: a `space.leaked` of group 1, and two `parent.extra` of names in
    /// directory 131. They are consequences, because the structures that would show the missing
    /// facts could not be read. Finds their causes among `findings`. Returns the code and the cause
    /// of each.
    fn attributed(findings: &mut [Finding]) -> Vec<(Code, Option<usize>)> {
        let group = AgNumber(1);
        let region = Region::Data(group);
        let open = open(&[Gap::GroupClaims(region), Gap::Names]);
        let mut consequences = Consequences::default();
        let names = Doubt::near(InodeNumber(131), &[Gap::Names]);
        for inode in [700, 600] {
            let extra = of_inode(Code::ParentExtra, inode);
            assert_eq!(consequences.absorb(extra, names, &open), None);
        }
        let gaps = [Gap::GroupClaims(region), Gap::Claims];
        let claims = Doubt::of(&gaps);
        let leaked = in_group(Code::SpaceLeaked, 1);
        assert_eq!(consequences.absorb(leaked, claims, &open), None);
        let list = consequences.attribute(findings);
        list.into_iter().map(|finding| (finding.code, finding.cause)).collect()
    }

    #[test]
    fn consequence_belongs_to_the_damage_of_its_group_or_of_its_inode() {
        let mut findings = [
            in_group(Code::AgfChecksum, 0),
            in_group(Code::AgfChecksum, 1),
            of_inode(Code::DirChecksum, 130),
            of_inode(Code::DirChecksum, 131),
        ];
        let expected = [
            (Code::SpaceLeaked, Some(1)),
            (Code::ParentExtra, Some(3)),
            (Code::ParentExtra, Some(3)),
        ];
        assert_eq!(attributed(&mut findings), expected);
        assert_eq!(findings.map(|finding| finding.consequences), [0, 1, 0, 2]);
    }

    #[test]
    fn consequence_without_damage_of_its_inode_belongs_to_the_first_that_opens_the_gap() {
        let mut findings = [in_group(Code::AgiMagic, 3), of_inode(Code::DirChecksum, 130)];
        let expected =
            [(Code::ParentExtra, Some(0)), (Code::ParentExtra, Some(0)), (Code::SpaceLeaked, None)];
        assert_eq!(attributed(&mut findings), expected);
    }

    #[test]
    fn difference_without_an_open_gap_stays_a_finding() {
        let mut consequences = Consequences::default();
        let doubt = Doubt::of(&[Gap::FreeSpace(AgNumber(2))]);
        let open = open(&[Gap::FreeSpace(AgNumber(1)), Gap::Claims]);
        let differs = in_group(Code::BnoDiffers, 2);
        assert_eq!(consequences.absorb(differs.clone(), doubt, &open), Some(differs));
    }

    #[test]
    fn comparison_is_never_a_cause() {
        let mut findings = [in_group(Code::BnoDiffers, 1), of_inode(Code::DirTarget, 131)];
        let causes = attributed(&mut findings);
        assert!(causes.iter().all(|(_, cause)| cause.is_none()), "{causes:?}");
    }
}
