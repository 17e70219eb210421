//! `extents`: shows where the contents of a file are, as `filefrag -v` or `xfs_bmap -vp` does.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use ferroxfs::Geometry;
use ferroxfs::contents::FileExtent;
use ferroxfs::contents::ForkKind;

use crate::cli::{ExtentsArguments, GlobalOptions};
use crate::failure::Failure;
use crate::file::node;
use crate::image::{ImagePath, ImagePaths};
use crate::json::{self, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::plural::counted;

struct Extents {
    arguments: ExtentsArguments,
    targets: ImagePaths,
}

/// Opens the image and returns the command, ready to run.
pub(crate) fn open(
    arguments: ExtentsArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let targets = ImagePaths::open(arguments.address.as_slice(), options)?;
    Ok(Box::new(Extents { arguments, targets }))
}

/// The extents of one fork of a file, to be printed as a map.
struct Map<'a> {
    target: &'a ImagePath,
    size: u64,
    extents: Vec<FileExtent>,
}

impl Run for Extents {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { arguments, targets } = *self;
        let fork = if arguments.attributes { ForkKind::Attr } else { ForkKind::Data };
        for target in targets.read(console) {
            let node = target.node(true)?;
            let mut extents = Vec::new();
            for extent in node.extents(fork) {
                match extent {
                    Ok(extent) => extents.push(extent),
                    Err(error) => console.report(&target.failure(error)),
                }
            }
            let map = Map { target: &target, size: node::facts(&node).size, extents };
            if arguments.json.json {
                json::write_document(console.out(), map.describe(&arguments))?;
            } else if arguments.bmap {
                map.print_bmap(fork, console)?;
            } else {
                map.print_filefrag(console)?;
            }
        }
        Ok(())
    }
}

/// A row of the map: an extent, or a hole between extents. Positions are in basic blocks of 512
/// bytes.
enum MapRow<'a> {
    Hole { start: u64, end: u64 },
    Extent { start: u64, end: u64, extent: &'a FileExtent },
}

const BASIC_BLOCK: u64 = 512;

impl Map<'_> {
    fn geometry(&self) -> &Geometry {
        self.target.volume.inner().geometry()
    }

    fn describe(&self, arguments: &ExtentsArguments) -> Object {
        let mut object = Object::new();
        json::insert_name(&mut object, "path", self.target.path.as_os_str().as_bytes());
        let fork = if arguments.attributes { "attributes" } else { "data" };
        object.insert("fork".to_owned(), fork.into());
        object.insert("size".to_owned(), self.size.into());
        object.insert("block_size".to_owned(), self.geometry().block_size.into());
        let extents = self.extents.iter().map(|extent| {
            let mut object = Object::new();
            object.insert("offset_bytes".to_owned(), extent.offset_bytes.into());
            object.insert("length_bytes".to_owned(), extent.length_bytes.into());
            object.insert("device_offset_bytes".to_owned(), extent.device_offset_bytes.into());
            object.insert("fsblock".to_owned(), extent.block.0.into());
            object.insert("unwritten".to_owned(), extent.unwritten.into());
            object.insert("shared".to_owned(), extent.shared.into());
            if extent.realtime {
                object.insert("realtime".to_owned(), true.into());
            }
            serde_json::Value::from(object)
        });
        object.insert("extents".to_owned(), extents.collect());
        object
    }

    /// Prints the extents as `filefrag -v` does: in filesystem blocks, with the number of fragments
    /// at the end.
    fn print_filefrag(&self, console: &mut Console) -> io::Result<()> {
        let style = console.name_style(false);
        let block = u64::from(self.geometry().block_size);
        let shown = style.show(self.target.path.as_os_str().as_bytes());
        let out = console.out();
        out.write_all(b"Filesystem type is: 58465342\nFile size of ")?;
        out.write_all(&shown)?;
        let blocks = self.size.div_ceil(block);
        let blocks = counted(blocks, "block");
        writeln!(out, " is {} ({blocks} of {block} bytes)", self.size)?;
        if !self.extents.is_empty() {
            writeln!(
                out,
                " ext:     logical_offset:        physical_offset: length:   expected: flags:"
            )?;
        }
        let mut pieces = 0u64;
        // The position at which file and device would continue without a break.
        let mut next: Option<(u64, u64)> = None;
        for (index, extent) in self.extents.iter().enumerate() {
            let (logical, physical) =
                (extent.offset_bytes / block, extent.device_offset_bytes / block);
            let length = extent.length_bytes / block;
            let expected = next.and_then(|(next_logical, next_physical)| {
                let over_hole = next_physical.saturating_add(logical.saturating_sub(next_logical));
                (physical != next_physical && physical != over_hole).then_some(over_hole)
            });
            pieces += u64::from(expected.is_some() || index == 0);
            let expected = expected.map_or(String::new(), |expected| format!("{expected}:"));
            let is_last = index + 1 == self.extents.len();
            writeln!(
                out,
                "{index:>4}: {logical:>8}..{:>8}: {physical:>10}..{:>10}: {length:>6}:{expected:>12}{}",
                logical.saturating_add(length).saturating_sub(1),
                physical.saturating_add(length).saturating_sub(1),
                self.flags(extent, is_last),
            )?;
            next = Some((logical.saturating_add(length), physical.saturating_add(length)));
        }
        out.write_all(&shown)?;
        writeln!(out, ": {} found", counted(pieces, "extent"))
    }

    fn flags(&self, extent: &FileExtent, is_last: bool) -> String {
        let mut flags = Vec::new();
        if is_last {
            flags.push("last");
        }
        if extent.unwritten {
            flags.push("unwritten");
        }
        if extent.shared {
            flags.push("shared");
        }
        if is_last && extent.offset_bytes.saturating_add(extent.length_bytes) >= self.size {
            flags.push("eof");
        }
        if flags.is_empty() { String::new() } else { format!(" {}", flags.join(",")) }
    }

    /// Returns the rows of the map: the extents, the holes between them, and a hole up to the end
    /// of the file.
    fn pieces(&self, fork: ForkKind) -> Vec<MapRow<'_>> {
        let mut pieces = Vec::new();
        let mut at = 0;
        for extent in &self.extents {
            let start = extent.offset_bytes / BASIC_BLOCK;
            let end = start.saturating_add(extent.length_bytes / BASIC_BLOCK);
            if start > at {
                pieces.push(MapRow::Hole { start: at, end: start });
            }
            pieces.push(MapRow::Extent { start, end, extent });
            at = end;
        }
        let block = u64::from(self.geometry().block_size);
        let end = self.size.div_ceil(block).saturating_mul(block / BASIC_BLOCK);
        if fork == ForkKind::Data && end > at {
            pieces.push(MapRow::Hole { start: at, end });
        }
        pieces
    }

    fn print_bmap(&self, fork: ForkKind, console: &mut Console) -> io::Result<()> {
        let style = console.name_style(false);
        let shown = style.show(self.target.path.as_os_str().as_bytes());
        let pieces = self.pieces(fork);
        let out = console.out();
        out.write_all(&shown)?;
        if self.extents.is_empty() {
            return out.write_all(b": no extents\n");
        }
        out.write_all(b":\n")?;
        let rows: Vec<[String; 6]> = pieces.iter().map(|piece| self.bmap_row(piece)).collect();
        let width = |column: usize, least: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(String::len).max().unwrap_or(0).max(least)
        };
        let (file, blocks, group) = (width(0, 16), width(1, 16), width(2, 2));
        let (inside, total) = (width(3, 16), width(4, 5));
        let names = if self.is_realtime() {
            ["RT-BLOCK-RANGE", "RG", "RG-OFFSET"]
        } else {
            ["BLOCK-RANGE", "AG", "AG-OFFSET"]
        };
        let [range, number, offset] = names;
        writeln!(
            out,
            " EXT: {:<file$} {range:<blocks$} {number:<group$} {offset:<inside$} {:>total$} FLAGS",
            "FILE-OFFSET", "TOTAL"
        )?;
        for (index, row) in rows.iter().enumerate() {
            let [range, block, ag, offset, length, flags] = row;
            let line = format!(
                "{index:>4}: {range:<file$} {block:<blocks$} {ag:>group$} {offset:<inside$} \
                 {length:>total$} {flags}"
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn bmap_row(&self, piece: &MapRow<'_>) -> [String; 6] {
        let (start, end, extent) = match *piece {
            MapRow::Hole { start, end } => (start, end, None),
            MapRow::Extent { start, end, extent } => (start, end, Some(extent)),
        };
        let range = format!("[{start}..{}]:", end.saturating_sub(1));
        let length = end.saturating_sub(start);
        let Some(extent) = extent else {
            let nothing = String::new;
            return [range, "hole".into(), nothing(), nothing(), length.to_string(), nothing()];
        };
        let first = extent.device_offset_bytes / BASIC_BLOCK;
        let last = first.saturating_add(length).saturating_sub(1);
        let (group, in_group) = self.in_group(extent, first);
        [
            range,
            format!("{first}..{last}"),
            group.to_string(),
            format!("({in_group}..{})", in_group.saturating_add(length).saturating_sub(1)),
            length.to_string(),
            format!("{:06o}", self.bmap_flags(extent, first, last)),
        ]
    }

    /// Returns whether the extents are in the realtime section.
    fn is_realtime(&self) -> bool {
        self.extents.first().is_some_and(|extent| extent.realtime)
    }

    /// Returns the group of an extent that starts at basic block `first` of its device, and the
    /// basic block inside the group. A realtime section without groups counts as one group.
    fn in_group(&self, extent: &FileExtent, first: u64) -> (u64, u64) {
        let geometry = self.geometry();
        let basic_blocks = u64::from(geometry.block_basic_blocks());
        if extent.realtime {
            let split = geometry.realtime.split_block(extent.block);
            return split.map_or((0, first), |split| {
                (split.group.into(), split.block.saturating_mul(basic_blocks))
            });
        }
        let group_length = u64::from(geometry.ag_blocks) * basic_blocks;
        let group = first.checked_div(group_length).unwrap_or(0);
        (group, first.saturating_sub(group.saturating_mul(group_length)))
    }

    /// Returns the flags that xfs_bmap(8) shows for an extent: shared, unwritten, and a start or an
    /// end that is not aligned to a stripe. The extent has the basic blocks `first` to `last` of
    /// its device.
    fn bmap_flags(&self, extent: &FileExtent, first: u64, last: u64) -> u32 {
        let superblock = self.target.volume.inner().superblock();
        let basic_blocks = u64::from(self.geometry().block_basic_blocks());
        let mut flags = 0;
        let mut set = |condition: bool, flag: u32| flags |= if condition { flag } else { 0 };
        set(extent.shared, 0o100_000);
        set(extent.unwritten, 0o010_000);
        let units = [
            (superblock.stripe_unit_blocks, 0o001_000, 0o000_100),
            (superblock.stripe_width_blocks, 0o000_010, 0o000_001),
        ];
        for (unit, begins_inside, ends_inside) in units {
            let unit = u64::from(unit) * basic_blocks;
            if unit != 0 {
                set(!first.is_multiple_of(unit), begins_inside);
                set(!(last + 1).is_multiple_of(unit), ends_inside);
            }
        }
        flags
    }
}
