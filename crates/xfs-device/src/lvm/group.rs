//! A volume group, as the text of its metadata describes it.
//!
//! Only the layouts linear and striped are described in detail. Other layouts keep their name, for
//! messages.

use super::SECTOR;
use super::text::{MetadataValue, Parser, find};

/// The largest number of logical volumes that are read from the metadata of a volume group.
const MAX_VOLUMES: usize = 256;
/// The limit on the segments of a logical volume, and on the stripes of a segment.
const MAX_SEGMENTS: usize = 65536;
const MAX_STRIPES: usize = 128;

type Section = [(String, MetadataValue)];

/// A volume group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeGroup {
    pub(crate) name: String,
    /// The UUID of the group. Names of groups are not unique.
    pub(crate) id: String,
    /// The number of changes to the metadata since the group was created. A physical volume with a
    /// lower number than another was absent while the group changed.
    pub(crate) sequence: u64,
    pub(crate) extent_bytes: u64,
    pub(crate) members: Vec<GroupMember>,
    pub(crate) volumes: Vec<LogicalVolume>,
}

/// A physical volume, as the metadata of its volume group describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupMember {
    /// The name in the metadata, such as "pv0".
    pub(crate) name: String,
    /// The UUID, without hyphens.
    pub(crate) id: String,
    /// The byte of the physical volume at which its first extent starts.
    pub(crate) start: u64,
}

/// A visible logical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogicalVolume {
    pub(crate) name: String,
    pub(crate) is_writable: bool,
    pub(crate) snapshot: SnapshotRole,
    /// The segments in the order of the volume. `None` if a segment is missing or impossible.
    pub(crate) segments: Option<Vec<Segment>>,
}

/// The role that a logical volume plays for copy-on-write snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotRole {
    None,
    /// The volume has snapshots. A write to the volume must first copy the old bytes to the
    /// snapshots.
    Origin,
    /// The volume holds the old bytes of a snapshot, in a form of its own.
    Store,
}

/// A segment of a logical volume. Numbers are in extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) count: u64,
    pub(crate) layout: SegmentLayout,
}

/// The layout of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SegmentLayout {
    /// Extents on one physical volume ("linear"), or striped over several.
    Striped { stripes: Vec<Stripe>, stripe_bytes: u64 },
    /// A layout of this name, which ferroxfs does not read.
    Other(String),
}

/// The extents of a segment on one physical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stripe {
    /// The name of the physical volume in the metadata.
    pub(crate) member: String,
    /// The first extent on the physical volume.
    pub(crate) extent: u64,
}

impl VolumeGroup {
    /// Parses the text of the metadata. Returns `None` if it describes no volume group.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let tree = Parser { rest: text }.section(0)?;
        let (name, group) = tree.iter().find_map(|(name, node)| Some((name, node.section()?)))?;
        let extent_bytes = find(group, "extent_size")?.number()?.checked_mul(SECTOR)?;
        if extent_bytes == 0 {
            return None;
        }
        let members = find(group, "physical_volumes")?.section()?;
        let members =
            members.iter().filter_map(|(name, member)| GroupMember::read(name, member.section()?));
        let none = Vec::new();
        let volumes =
            find(group, "logical_volumes").and_then(MetadataValue::section).unwrap_or(&none);
        let snapshots = Snapshots::of(volumes);
        let volumes = volumes
            .iter()
            .filter_map(|(name, volume)| LogicalVolume::read(name, volume.section()?, &snapshots));
        Some(Self {
            name: name.clone(),
            id: text_of(group, "id").unwrap_or_default(),
            sequence: number_of(group, "seqno").unwrap_or_default(),
            extent_bytes,
            members: members.take(MAX_VOLUMES).collect(),
            volumes: volumes.take(MAX_VOLUMES).collect(),
        })
    }

    /// Returns the offset in bytes of a logical volume from the start of the physical volume with
    /// this UUID. Returns `None` if the logical volume is not one contiguous piece of that physical
    /// volume.
    pub(crate) fn contiguous_start(&self, volume: &LogicalVolume, member_id: &str) -> Option<u64> {
        let member = self.members.iter().find(|member| member.id == member_id)?;
        let mut next: Option<u64> = None;
        let mut first = None;
        for segment in volume.segments.as_ref()? {
            let SegmentLayout::Striped { stripes, .. } = &segment.layout else { return None };
            let [stripe] = stripes.as_slice() else { return None };
            if stripe.member != member.name || next.is_some_and(|next| next != stripe.extent) {
                return None;
            }
            next = Some(stripe.extent.checked_add(segment.count)?);
            first = first.or(Some(stripe.extent));
        }
        first?.checked_mul(self.extent_bytes)?.checked_add(member.start)
    }
}

impl GroupMember {
    fn read(name: &str, member: &Section) -> Option<Self> {
        Some(Self {
            name: name.to_owned(),
            id: text_of(member, "id")?.replace('-', ""),
            start: number_of(member, "pe_start")?.checked_mul(SECTOR)?,
        })
    }
}

impl LogicalVolume {
    /// Reads the logical volume `name` from its section of the metadata. Returns `None` for a
    /// hidden logical volume.
    fn read(name: &str, volume: &Section, snapshots: &Snapshots) -> Option<Self> {
        let status = find(volume, "status")?.list()?;
        let has = |flag| status.iter().any(|value| value.text() == Some(flag));
        let snapshot = if snapshots.stores.iter().any(|store| store == name) {
            SnapshotRole::Store
        } else if snapshots.origins.iter().any(|origin| origin == name) {
            SnapshotRole::Origin
        } else {
            SnapshotRole::None
        };
        let (name, is_writable) = (name.to_owned(), has("WRITE") && !has("LOCKED"));
        let segments = segments(volume);
        has("VISIBLE").then_some(Self { name, is_writable, snapshot, segments })
    }
}

/// Returns the segments in order. Returns `None` if they do not follow each other from extent 0 on.
fn segments(volume: &Section) -> Option<Vec<Segment>> {
    let segments = volume
        .iter()
        .filter(|(name, node)| name.starts_with("segment") && node.section().is_some());
    let segments =
        segments.take(MAX_SEGMENTS).map(|(_, segment)| Segment::read(segment.section()?));
    let mut segments = segments.collect::<Option<Vec<_>>>()?;
    segments.sort_by_key(|segment| segment.start);
    let mut next = 0_u64;
    for segment in &segments {
        if segment.start != next {
            return None;
        }
        next = next.checked_add(segment.count)?;
    }
    (!segments.is_empty()).then_some(segments)
}

impl Segment {
    /// Reads a segment. Returns `None` if it has impossible values.
    fn read(segment: &Section) -> Option<Self> {
        let (start, count) =
            (number_of(segment, "start_extent")?, number_of(segment, "extent_count")?);
        let kind = text_of(segment, "type")?;
        if !matches!(kind.as_str(), "striped" | "linear") {
            return Some(Self { start, count, layout: SegmentLayout::Other(kind) });
        }
        let values = find(segment, "stripes")?.list()?;
        let (pairs, rest) = values.as_chunks::<2>();
        let stripes = pairs.iter().map(|[member, extent]| {
            Some(Stripe { member: member.text()?.to_owned(), extent: extent.number()? })
        });
        let stripes = stripes.collect::<Option<Vec<_>>>()?;
        let stated = number_of(segment, "stripe_count").unwrap_or(1);
        let stripe_bytes = match stripes.len() {
            1 => u64::MAX,
            _ => number_of(segment, "stripe_size")?.checked_mul(SECTOR)?,
        };
        let parts = stripes.len() as u64;
        let is_possible = rest.is_empty()
            && parts == stated
            && (1..=MAX_STRIPES).contains(&stripes.len())
            && stripe_bytes > 0
            && count > 0
            && count.is_multiple_of(parts.max(1));
        is_possible.then_some(Self {
            start,
            count,
            layout: SegmentLayout::Striped { stripes, stripe_bytes },
        })
    }
}

/// The names of the volumes that copy-on-write snapshots consist of.
struct Snapshots {
    origins: Vec<String>,
    stores: Vec<String>,
}

impl Snapshots {
    fn of(volumes: &Section) -> Self {
        let mut snapshots = Self { origins: Vec::new(), stores: Vec::new() };
        let segments = volumes.iter().filter_map(|(_, volume)| volume.section()).flatten();
        for segment in segments.filter_map(|(_, segment)| segment.section()) {
            if text_of(segment, "type").as_deref() == Some("snapshot") {
                snapshots.origins.extend(text_of(segment, "origin"));
                snapshots.stores.extend(text_of(segment, "cow_store"));
            }
        }
        snapshots
    }
}

fn text_of(section: &Section, name: &str) -> Option<String> {
    find(section, name)?.text().map(str::to_owned)
}

fn number_of(section: &Section, name: &str) -> Option<u64> {
    find(section, name)?.number()
}
