//! `label`: shows or sets the label of a volume.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::admin::Label;

use crate::cli::{GlobalOptions, LabelArguments};
use crate::failure::Failure;
use crate::image::Image;
use crate::json::{self, Object};
use crate::run::Run;
use crate::terminal::console::Console;

struct ShowLabel(Image);

struct SetLabel {
    image: Image,
    label: Label,
}

/// Opens the image and returns the command, ready to run. The image is opened for writing only if
/// the command line gives a new label.
pub(crate) fn open(
    arguments: &LabelArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let Some(label) = &arguments.label else {
        return Ok(Box::new(ShowLabel(Image::open_as_it_stands(&arguments.image, options)?)));
    };
    let label = parse(label)?;
    Ok(Box::new(SetLabel { image: Image::open_for_writing(&arguments.image, options)?, label }))
}

fn parse(label: &OsStr) -> Result<Label, Failure> {
    Label::new(label.as_bytes()).ok_or_else(|| {
        let count = label.len();
        Failure::usage(format!("label: a label has at most 12 bytes, and this one has {count}"))
    })
}

impl Run for ShowLabel {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let label = self.0.describe()?.superblock.label;
        if console.is_json() {
            return conclude(label.as_bytes(), console);
        }
        let shown = console.name_style(false).show(label.as_bytes()).into_owned();
        console.out().write_all(&[shown, b"\n".to_vec()].concat())?;
        Ok(())
    }
}

impl Run for SetLabel {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let volume = self.image.volume(console)?;
        let set = volume.inner().set_label(&self.label);
        let set = set.map_err(|error| volume.whole_failure(error));
        volume.close_after(set, console)?;
        conclude(self.label.as_bytes(), console)
    }
}

/// Prints the new label as JSON.
fn conclude(label: &[u8], console: &mut Console) -> Result<(), Failure> {
    let mut object = Object::new();
    json::insert_name(&mut object, "label", label);
    Ok(console.conclude_with(object)?)
}
