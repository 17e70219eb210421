//! A physical volume of LVM: the logical volumes on it, and their offsets.
//!
//! Owns: parsing the label and the text of the metadata. Does **not** own: opening the logical
//! volumes.
//!
//! ```text
//! label, one of the first 4 sectors: "LABELONE"  8 its sector  20 offset of the header in it
//!         24 "LVM2 001"
//! header: 32 bytes of UUID, 8 size; then pairs (offset, size), each list ended by zeros: data
//!         areas, metadata areas
//! metadata area: 4 " LVM2 x[5A%r0N*>"  32 its size  40 the text: offset in the area, 48 its size
//! text: a ring in the area from byte 512 on
//!   vg0 { extent_size = 8192
//!         physical_volumes { pv0 { id = "..." pe_start = 2048 } }
//!         logical_volumes { root { status = ["VISIBLE"] segment1 { start_extent = 0
//!                          extent_count = 25 type = "striped" stripe_count = 1
//!                          stripes = ["pv0", 0] } } } }
//! ```
//!
//! Nothing in a physical volume is trusted: sizes, depth and the number of values are bounded, and
//! impossible values are left out.

use std::io;

use crate::device::BlockDevice;

const SECTOR: u64 = 512;
const LABEL_SECTORS: u64 = 4;
/// Number of bytes of the header that contain its lists of areas.
const HEADER_BYTES: usize = 480;
const AREA_MAGIC: &[u8] = b" LVM2 x[5A%r0N*>";
/// Offset in bytes of the ring of text in a metadata area.
const RING_START: u64 = 512;
const MAX_TEXT_BYTES: u64 = 4 << 20;
const MAX_DEPTH: usize = 8;
/// The most logical volumes that are read from the metadata of a volume group.
const MAX_VOLUMES: usize = 256;

/// A physical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PhysicalVolume {
    /// The volume group. `None` if the physical volume belongs to none, or its metadata cannot be
    /// read.
    pub(crate) group: Option<VolumeGroup>,
    /// Whether this physical volume has no copy of the metadata, so that only other physical
    /// volumes describe it.
    pub(crate) is_described_elsewhere: bool,
}

/// A volume group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VolumeGroup {
    pub(crate) name: String,
    pub(crate) volumes: Vec<LogicalVolume>,
}

/// A logical volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogicalVolume {
    pub(crate) name: String,
    /// The logical volume's offset in bytes from the start of the physical volume. `None` if it is
    /// not one contiguous piece of this physical volume.
    pub(crate) start: Option<u64>,
}

/// Reads the physical volume that starts at byte `start`. Returns `None` if it has no label.
pub(crate) fn read(device: &dyn BlockDevice, start: u64) -> io::Result<Option<PhysicalVolume>> {
    let volume = OffsetReader { device, start };
    for sector in 0..LABEL_SECTORS {
        let Some(label) = volume.read(sector * SECTOR, SECTOR)? else { break };
        let is_label = label.starts_with(b"LABELONE") && at(&label, 24, 8) == b"LVM2 001";
        if !is_label {
            continue;
        }
        let header = sector * SECTOR + number(&label, 20, 4);
        let Some(header) = volume.read(header, HEADER_BYTES as u64)? else { break };
        return describe(&volume, &header).map(Some);
    }
    Ok(None)
}

fn describe(volume: &OffsetReader<'_>, header: &[u8]) -> io::Result<PhysicalVolume> {
    let mut pairs = header
        .get(40..)
        .unwrap_or_default()
        .chunks_exact(16)
        .map(|pair| (number(pair, 0, 8), number(pair, 8, 8)));
    // Skips the data areas and the end of their list.
    let _ = pairs.by_ref().position(|(offset, _)| offset == 0);
    let areas: Vec<_> = pairs.take_while(|(offset, _)| *offset != 0).collect();
    for (offset, _) in &areas {
        let Some(text) = read_text(volume, *offset)? else { continue };
        if let Some(group) = group(&text, at(header, 0, 32)) {
            return Ok(PhysicalVolume { group: Some(group), is_described_elsewhere: false });
        }
    }
    Ok(PhysicalVolume { group: None, is_described_elsewhere: areas.is_empty() })
}

/// Reads the text of a metadata area. Returns `None` if the area has no valid text.
fn read_text(volume: &OffsetReader<'_>, area: u64) -> io::Result<Option<String>> {
    let Some(head) = volume.read(area, SECTOR)? else { return Ok(None) };
    let (size, offset, length) = (number(&head, 32, 8), number(&head, 40, 8), number(&head, 48, 8));
    let is_sound = at(&head, 4, 16) == AREA_MAGIC
        && (RING_START..size).contains(&offset)
        && (1..=MAX_TEXT_BYTES.min(size - RING_START)).contains(&length);
    if !is_sound {
        return Ok(None);
    }
    let first = length.min(size - offset);
    let (Some(mut text), Some(rest)) = (
        volume.read(area.saturating_add(offset), first)?,
        volume.read(area.saturating_add(RING_START), length - first)?,
    ) else {
        return Ok(None);
    };
    text.extend(rest);
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}

fn group(text: &str, own_id: &[u8]) -> Option<VolumeGroup> {
    let tree = Parser { rest: text }.section(0)?;
    let (name, MetadataValue::Section(group)) =
        tree.iter().find(|(_, node)| matches!(node, MetadataValue::Section(_)))?
    else {
        return None;
    };
    let extent_bytes = find(group, "extent_size")?.number()?.checked_mul(SECTOR)?;
    let own = find(group, "physical_volumes")?.section()?.iter().find(|(_, volume)| {
        let id =
            volume.section().and_then(|volume| find(volume, "id")).and_then(MetadataValue::text);
        id.is_some_and(|id| id.bytes().filter(|byte| *byte != b'-').eq(own_id.iter().copied()))
    });
    let own = own.and_then(|(name, volume)| {
        let start = find(volume.section()?, "pe_start")?.number()?.checked_mul(SECTOR)?;
        Some(OwnVolume { name, start })
    });
    let none = Vec::new();
    let volumes = find(group, "logical_volumes").and_then(MetadataValue::section).unwrap_or(&none);
    let volumes = volumes.iter().filter_map(|(name, volume)| {
        let volume = volume.section()?;
        let is_visible =
            find(volume, "status")?.list()?.iter().any(|s| s.text() == Some("VISIBLE"));
        let start = own.as_ref().and_then(|own| start_of(volume, own, extent_bytes));
        is_visible.then(|| LogicalVolume { name: name.clone(), start })
    });
    Some(VolumeGroup { name: name.clone(), volumes: volumes.take(MAX_VOLUMES).collect() })
}

/// This physical volume, as the metadata of its volume group describes it.
struct OwnVolume<'a> {
    name: &'a str,
    /// The offset in bytes of the first extent of the physical volume.
    start: u64,
}

/// Returns the offset in bytes of a logical volume that is one contiguous piece of the physical
/// volume `own`. Returns `None` for other logical volumes.
fn start_of(
    volume: &[(String, MetadataValue)],
    own: &OwnVolume<'_>,
    extent_bytes: u64,
) -> Option<u64> {
    let segments = volume.iter().filter(|(name, _)| name.starts_with("segment"));
    let mut segments: Vec<_> = segments
        .filter_map(|(_, segment)| Some(Segment::read(segment.section()?, own.name)))
        .collect();
    segments.sort_by_key(|segment| segment.as_ref().map(|segment| segment.start));
    let mut whole: Option<Segment> = None;
    for segment in segments {
        let segment = segment?;
        let joined = match whole {
            None if segment.start == 0 => segment,
            Some(before)
                if before.count == segment.start
                    && before.place.checked_add(before.count)? == segment.place =>
            {
                Segment { count: before.count.checked_add(segment.count)?, ..before }
            }
            _ => return None,
        };
        whole = Some(joined);
    }
    whole?.place.checked_mul(extent_bytes)?.checked_add(own.start)
}

/// A segment of a logical volume. Numbers are in extents.
#[derive(Clone, Copy)]
struct Segment {
    start: u64,
    count: u64,
    place: u64,
}

impl Segment {
    /// Reads a segment. Returns `None` if the segment is not linear, or is on another physical
    /// volume.
    fn read(segment: &[(String, MetadataValue)], own: &str) -> Option<Self> {
        let is_linear = matches!(find(segment, "type")?.text()?, "striped" | "linear")
            && find(segment, "stripe_count").is_none_or(|count| count.number() == Some(1));
        let [volume, place] = find(segment, "stripes")?.list()? else { return None };
        if !is_linear || volume.text()? != own {
            return None;
        }
        let number = |name| find(segment, name)?.number();
        Some(Self {
            start: number("start_extent")?,
            count: number("extent_count")?,
            place: place.number()?,
        })
    }
}

/// A value in the text of the metadata.
#[derive(Clone, Debug)]
enum MetadataValue {
    Section(Vec<(String, MetadataValue)>),
    List(Vec<MetadataValue>),
    Text(String),
    Number(u64),
    /// A value of a kind that is not needed: a negative number, or a number with a fraction.
    Other,
}

fn find<'a>(section: &'a [(String, MetadataValue)], name: &str) -> Option<&'a MetadataValue> {
    section.iter().find(|(key, _)| key == name).map(|(_, node)| node)
}

impl MetadataValue {
    fn section(&self) -> Option<&Vec<(String, MetadataValue)>> {
        if let Self::Section(nodes) = self { Some(nodes) } else { None }
    }

    fn list(&self) -> Option<&[MetadataValue]> {
        if let Self::List(nodes) = self { Some(nodes) } else { None }
    }

    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    fn number(&self) -> Option<u64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }
}

/// A parser of the text of the metadata. Each step consumes a character, so the work is bounded by
/// the length of the text.
struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    /// Parses the values up to the end of a section, or of the text on the outermost level. Returns
    /// `None` if the text is invalid or nested too deeply.
    fn section(&mut self, depth: usize) -> Option<Vec<(String, MetadataValue)>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut nodes = Vec::new();
        loop {
            self.skip();
            if self.rest.is_empty() {
                return (depth == 0).then_some(nodes);
            }
            if self.take('}') {
                return (depth > 0).then_some(nodes);
            }
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_-.+/".contains(letter);
            let name = self.word(is_name)?.to_owned();
            self.skip();
            let node = if self.take('{') {
                MetadataValue::Section(self.section(depth + 1)?)
            } else if self.take('=') {
                self.value(depth)?
            } else {
                return None;
            };
            nodes.push((name, node));
        }
    }

    fn value(&mut self, depth: usize) -> Option<MetadataValue> {
        self.skip();
        if self.take('"') {
            return self.string().map(MetadataValue::Text);
        }
        if self.take('[') {
            if depth > MAX_DEPTH {
                return None;
            }
            let mut nodes = Vec::new();
            loop {
                self.skip();
                if self.take(']') {
                    return Some(MetadataValue::List(nodes));
                }
                if !self.take(',') {
                    nodes.push(self.value(depth + 1)?);
                }
            }
        }
        let word = self.word(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))?;
        Some(word.parse().map_or(MetadataValue::Other, MetadataValue::Number))
    }

    /// Parses a string up to its closing quote. Returns `None` if there is no such quote.
    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut letters = self.rest.char_indices();
        while let Some((place, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.rest = self.rest.get(place + 1..)?;
                    return Some(text);
                }
                '\\' => text.push(letters.next()?.1),
                _ => text.push(letter),
            }
        }
        None
    }

    /// Skips blanks and comments.
    fn skip(&mut self) {
        loop {
            // The text ends with a NUL.
            let is_blank = |letter: char| letter.is_whitespace() || letter == '\0';
            self.rest = self.rest.trim_start_matches(is_blank);
            let Some(comment) = self.rest.strip_prefix('#') else { return };
            self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    fn take(&mut self, letter: char) -> bool {
        let rest = self.rest.strip_prefix(letter);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn word(&mut self, is_part: impl Fn(char) -> bool) -> Option<&str> {
        let end = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// A device, read relative to a start offset.
struct OffsetReader<'a> {
    device: &'a dyn BlockDevice,
    start: u64,
}

impl OffsetReader<'_> {
    /// Reads `length` bytes at `offset` from the start offset. Returns `None` if the bytes reach
    /// past the end of the device.
    fn read(&self, offset: u64, length: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(start) = self.start.checked_add(offset) else { return Ok(None) };
        let is_there =
            start.checked_add(length).is_some_and(|end| end <= self.device.length_bytes());
        if !is_there {
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        self.device.read_at(&mut bytes, start)?;
        Ok(Some(bytes))
    }
}

fn at(bytes: &[u8], start: usize, length: usize) -> &[u8] {
    bytes.get(start..).and_then(|rest| rest.get(..length)).unwrap_or_default()
}

/// Decodes a little-endian number of up to 8 bytes at byte `start`.
fn number(bytes: &[u8], start: usize, length: usize) -> u64 {
    at(bytes, start, length).iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

#[cfg(test)]
pub(crate) mod tests;
