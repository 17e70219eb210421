//! `info`: shows the geometry, features and state of a volume.

use std::fmt::Write as _;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ferroxfs::Space;
use ferroxfs::raw::Description;
use ferroxfs::raw::Superblock;

use crate::cli::{GlobalOptions, InfoArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Image;
use crate::json::{self, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::text::size::human;

pub(crate) mod features;
mod mountable;
pub(crate) mod xfs_info;

struct Info {
    arguments: InfoArguments,
    image: Image,
    log_device: Option<PathBuf>,
}

/// Opens the image and returns the command, ready to run.
pub(crate) fn open(
    arguments: InfoArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let image = Image::open_as_it_stands(&arguments.image, options)?;
    let log_device = options.log_device.clone();
    Ok(Box::new(Info { arguments, image, log_device }))
}

impl Run for Info {
    /// Shows the facts of any volume whose superblock can be read. If ferroxfs refuses to read the
    /// files of the volume, the output and the exit code say so.
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let description = self.image.describe()?;
        self.image.note_torn_log(console);
        if self.arguments.xfs_info {
            let name = self.image.path().as_os_str().as_bytes();
            let style = console.name_style(false);
            let name = style.show(name).into_owned();
            let log = self.log_device.as_ref().map(|log| style.show(log.as_os_str().as_bytes()));
            let superblock = &description.superblock;
            xfs_info::print(console.out(), &name, log.as_deref(), superblock)?;
            return Ok(());
        }
        if self.arguments.mountable_by {
            let superblock = &description.superblock;
            if self.arguments.json.json {
                json::write_document(console.out(), mountable::object(superblock))?;
            } else {
                console.out().write_all(mountable::text(superblock).as_bytes())?;
            }
            return Ok(());
        }
        let space = self.space(&description, console);
        if self.arguments.json.json {
            let object = describe(&description, space.as_ref());
            json::write_document(console.out(), object)?;
        } else {
            let text = self.text(&description, space.as_ref());
            console.out().write_all(text.as_bytes())?;
        }
        if let Some(reason) = &description.refusal {
            let path = names::in_message(self.image.path().as_os_str().as_bytes()).into_owned();
            let message = format!("its files cannot be read: {reason}");
            console.report(&Failure::new(Exit::Refused, message).about(&path));
        }
        Ok(())
    }
}

impl Info {
    /// Counts the free space of the allocation groups. Returns `None` if ferroxfs refuses to read
    /// the files of the volume, or if the count fails. Reports a failure of the count.
    fn space(&self, description: &Description, console: &mut Console) -> Option<Space> {
        if description.refusal.is_some() {
            return None;
        }
        let volume = match self.image.read() {
            Ok(volume) => volume,
            Err(failure) => {
                console.report(&failure);
                return None;
            }
        };
        match volume.inner().space() {
            Ok(space) => Some(space),
            Err(error) => {
                console.report(&volume.whole_failure(error));
                None
            }
        }
    }

    fn text(&self, description: &Description, space: Option<&Space>) -> String {
        let superblock = &description.superblock;
        let geometry = &superblock.geometry;
        let mut text = String::new();
        let mut line = |key: &str, value: String| {
            // Writing to a String does not fail.
            _ = writeln!(text, "{key:<16}{value}");
        };
        let image = names::in_message(self.image.path().as_os_str().as_bytes()).into_owned();
        line("image", image);
        line("format", format!("XFS version {}", geometry.version.number()));
        if description.start != 0 {
            line("starts at byte", description.start.to_string());
        }
        line("label", label_text(superblock));
        line("UUID", superblock.uuid.to_string());
        if superblock.geometry.meta_uuid != superblock.uuid {
            line("metadata UUID", superblock.geometry.meta_uuid.to_string());
        }
        line(
            "size",
            format!("{} in {} blocks", human(geometry.data_bytes()), geometry.data_blocks),
        );
        if let Some(space) = space {
            let bytes = |blocks: u64| human(blocks.saturating_mul(u64::from(space.block_size)));
            line("free", format!("{} in {} blocks", bytes(space.free_blocks), space.free_blocks));
            let used = space.inodes.saturating_sub(space.free_inodes);
            line("inodes", format!("{used} used, {} allocated", space.inodes));
        }
        line("groups", format!("{} of {} blocks", geometry.ag_count, geometry.ag_blocks));
        line(
            "sizes",
            format!(
                "block {}, sector {}, inode {}, directory block {}",
                geometry.block_size,
                geometry.sector_size,
                geometry.inode_size,
                geometry.directory_block_size()
            ),
        );
        if superblock.stripe_unit_blocks != 0 {
            let (unit, width) = (superblock.stripe_unit_blocks, superblock.stripe_width_blocks);
            line("stripe", format!("unit {unit}, width {width} blocks"));
        }
        line("features", features::names(superblock).join(" "));
        line("log", log_text(description));
        if superblock.has_realtime() {
            let free = space.and_then(|space| space.realtime);
            let free = free.map_or(String::new(), |realtime| format!(", {} free", realtime.free));
            line("realtime", format!("{} blocks{free}", superblock.realtime_blocks));
        }
        text
    }
}

fn label_text(superblock: &Superblock) -> String {
    match superblock.label.as_bytes() {
        b"" => "none".to_owned(),
        label => names::in_message(label).into_owned(),
    }
}

fn log_text(description: &Description) -> String {
    let superblock = &description.superblock;
    let place = if superblock.has_external_log() { "external" } else { "internal" };
    let bytes = u64::from(superblock.log_blocks) << superblock.geometry.block_log;
    let state = match &description.log {
        None => "its device was not given (--log-device)".to_owned(),
        Some(Ok(state)) if state.clean => "clean".to_owned(),
        Some(Ok(state)) => format!("dirty, from {} to {}", state.tail, state.head),
        Some(Err(error)) => format!("its state is not known: {error}"),
    };
    format!("{place}, {}, {state}", human(bytes))
}

/// Returns the facts of a superblock that `info` and `mkfs` print as JSON.
pub(crate) fn geometry_object(superblock: &Superblock) -> Object {
    let geometry = &superblock.geometry;
    let mut object = Object::new();
    let mut insert = |key: &str, value: serde_json::Value| object.insert(key.to_owned(), value);
    insert("format", format!("xfs-v{}", geometry.version.number()).into());
    insert("uuid", superblock.uuid.to_string().into());
    insert("block_size", geometry.block_size.into());
    insert("sector_size", geometry.sector_size.into());
    insert("inode_size", geometry.inode_size.into());
    insert("directory_block_size", geometry.directory_block_size().into());
    insert("ag_count", geometry.ag_count.into());
    insert("ag_blocks", geometry.ag_blocks.into());
    insert("data_blocks", geometry.data_blocks.into());
    insert("inode_max_percent", superblock.inode_max_percent.into());
    insert("stripe_unit_blocks", superblock.stripe_unit_blocks.into());
    insert("stripe_width_blocks", superblock.stripe_width_blocks.into());
    insert("features", features::names(superblock).into());
    object
}

fn describe(description: &Description, space: Option<&Space>) -> Object {
    let superblock = &description.superblock;
    let mut object = geometry_object(superblock);
    let mut insert = |key: &str, value: serde_json::Value| object.insert(key.to_owned(), value);
    insert("start_bytes", description.start.into());
    insert("meta_uuid", superblock.geometry.meta_uuid.to_string().into());
    insert("realtime_blocks", superblock.realtime_blocks.into());
    insert("log", log_object(description).into());
    if let Some(space) = space {
        insert("free_blocks", space.free_blocks.into());
        insert("inodes_allocated", space.inodes.into());
        insert("inodes_free", space.free_inodes.into());
        if let Some(realtime) = space.realtime {
            insert("free_realtime_blocks", realtime.free.into());
        }
    }
    if let Some(reason) = &description.refusal {
        insert("refused", reason.to_string().into());
    }
    json::insert_name(&mut object, "label", superblock.label.as_bytes());
    object
}

fn log_object(description: &Description) -> Object {
    let superblock: &Superblock = &description.superblock;
    let mut object = Object::new();
    let mut insert = |key: &str, value: serde_json::Value| object.insert(key.to_owned(), value);
    insert("external", superblock.has_external_log().into());
    insert("blocks", superblock.log_blocks.into());
    let state = match &description.log {
        None => "device_not_given",
        Some(Err(_)) => "unknown",
        Some(Ok(state)) if state.clean => "clean",
        Some(Ok(_)) => "dirty",
    };
    insert("state", state.into());
    if let Some(Ok(state)) = &description.log {
        let text = |lsn: ferroxfs::raw::format::Lsn| format!("{}:{}", lsn.cycle(), lsn.block());
        insert("head", text(state.head).into());
        insert("tail", text(state.tail).into());
    }
    object
}
