//! `stat`: shows everything in an inode.

use std::io::{self, Write};

use ferroxfs::{Metadata, Node};

use crate::cli::{GlobalOptions, StatArguments};
use crate::failure::Failure;
use crate::file::facts::FileKind;
use crate::file::node;
use crate::image::{ImagePath, ImagePaths};
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::text::time::Clock;

struct Stat {
    arguments: StatArguments,
    targets: ImagePaths,
    clock: Clock,
}

/// Opens the images and returns the command, ready to run.
pub(crate) fn open(
    arguments: StatArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let targets = ImagePaths::open(&arguments.addresses, options)?;
    Ok(Box::new(Stat { arguments, targets, clock: Clock::open() }))
}

impl Run for Stat {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let mut list = match self.arguments.json.json {
            true => Some(List::begin(console.out(), "files")?),
            false => None,
        };
        for target in self.targets.read(console) {
            match target.node(self.arguments.dereference) {
                Err(failure) => console.report(&failure),
                Ok(node) => match &mut list {
                    Some(list) => {
                        let object = describe(&target, &node, console);
                        list.push(console.out(), &object)?;
                    }
                    None => print(&target, &node, &self.clock, console)?,
                },
            }
        }
        match list {
            Some(list) => Ok(list.end(console.out())?),
            None => Ok(()),
        }
    }
}

fn link_target(target: &ImagePath, node: &Node, console: &mut Console) -> Option<Vec<u8>> {
    match node::target(node) {
        Ok(link) => link,
        Err(failure) => {
            console.report(&target.failure(failure));
            None
        }
    }
}

fn describe(target: &ImagePath, node: &Node, console: &mut Console) -> Object {
    let mut object = Object::new();
    json::insert_name(&mut object, "path", &target.shown());
    object.extend(json::facts(&node::facts(node)));
    let metadata = node.metadata();
    object.insert("generation".to_owned(), metadata.generation.into());
    object.insert("extents".to_owned(), metadata.extents.into());
    object.insert("attr_extents".to_owned(), metadata.attr_extents.into());
    if let Some(link) = link_target(target, node, console) {
        json::insert_name(&mut object, "target", &link);
    }
    object
}

fn print(target: &ImagePath, node: &Node, clock: &Clock, console: &mut Console) -> io::Result<()> {
    let style = console.name_style(false);
    let link = link_target(target, node, console);
    let (facts, metadata) = (node::facts(node), node.metadata());
    let block_size = target.volume.inner().geometry().block_size;
    let out = console.out();
    out.write_all(b"  File: ")?;
    out.write_all(&style.show(&target.shown()))?;
    if let Some(link) = link {
        out.write_all(b" -> ")?;
        out.write_all(&style.show(&link))?;
    }
    let kind = match facts.kind() {
        FileKind::Regular if facts.size == 0 => "regular empty file",
        kind => kind.name(),
    };
    writeln!(
        out,
        "\n  Size: {:<10}\tBlocks: {:<10} IO Block: {block_size:<6} {kind}",
        facts.size, facts.blocks
    )?;
    write!(
        out,
        "Volume: {}\tInode: {:<11} Links: {}",
        target.volume.inner().superblock().uuid,
        facts.inode,
        facts.links
    )?;
    if let Some(device) = metadata.device {
        write!(out, "     Device type: {},{}", device.major, device.minor)?;
    }
    writeln!(
        out,
        "\nAccess: ({:04o}/{})  Uid: {:>5}   Gid: {:>5}   Project: {}",
        facts.mode & 0o7777,
        facts.mode_text(),
        facts.uid,
        facts.gid,
        facts.project
    )?;
    for (name, time) in [
        ("Access", facts.accessed),
        ("Modify", facts.modified),
        ("Change", facts.changed),
        (" Birth", facts.born),
    ] {
        writeln!(out, "{name}: {}", clock.format_full(time))?;
    }
    print_own(out, &metadata)
}

/// Prints those facts of an inode that stat(1) does not show, because only XFS has them.
fn print_own(out: &mut impl Write, metadata: &Metadata) -> io::Result<()> {
    writeln!(
        out,
        "Extents: {:<7}\tAttribute extents: {}\tGeneration: {}\tFlags: {}",
        metadata.extents,
        metadata.attr_extents,
        metadata.generation,
        flags_text(metadata.xflags.bits())
    )
}

/// Returns the flags that are set, with the letters of `xfs_io -c lsattr`.
fn flags_text(xflags: u32) -> String {
    const FLAGS: [(u32, char); 16] = [
        (1 << 0, 'r'),
        (1 << 1, 'p'),
        (1 << 3, 'i'),
        (1 << 4, 'a'),
        (1 << 5, 's'),
        (1 << 6, 'A'),
        (1 << 7, 'd'),
        (1 << 8, 't'),
        (1 << 9, 'P'),
        (1 << 10, 'n'),
        (1 << 11, 'e'),
        (1 << 12, 'E'),
        (1 << 13, 'f'),
        (1 << 14, 'S'),
        (1 << 15, 'x'),
        (1 << 16, 'C'),
    ];
    let set = FLAGS.iter().filter(|(bit, _)| xflags & bit != 0);
    let text: String = set.map(|(_, letter)| *letter).collect();
    if text.is_empty() { "none".to_owned() } else { text }
}
