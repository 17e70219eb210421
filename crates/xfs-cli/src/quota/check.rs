//! `quota check`: compares the recorded usage of each owner with a count over all inodes.

use std::io::{self, Write};
use std::ops::ControlFlow;

use ferroxfs::quota::{CountedUsage, QuotaState, QuotaType, UsageCounts};
use serde_json::Value;

use super::{OwnerNames, chosen};
use crate::cli::{GlobalOptions, QuotaCheckArguments, QuotaTypeOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{Image, ImageVolume};
use crate::interrupt;
use crate::json::{List, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::plural::counted;
use crate::terminal::tally::{Measure, Work};

struct Check {
    types: QuotaTypeOptions,
    image: Image,
    names: OwnerNames,
}

/// Opens the image, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &QuotaCheckArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    if options.live || options.no_recovery {
        return Err(Failure::usage(
            "quota check: takes neither --live nor --no-recovery: counts without the changes in \
             the log look wrong",
        ));
    }
    let image = Image::open(&arguments.image, options)?;
    interrupt::arm()?;
    let names = OwnerNames::open(arguments.numeric);
    Ok(Box::new(Check { types: arguments.types, image, names }))
}

/// An owner whose recorded usage differs from the counted one.
struct Difference {
    kind: QuotaType,
    id: u32,
    recorded: CountedUsage,
    counted: CountedUsage,
}

impl Run for Check {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let volume = self.image.volume(console)?;
        let state = volume.inner().quota().state();
        let state = state.map_err(|error| volume.whole_failure(error))?;
        let kinds = self.compared(&state, console);
        let mut list = match console.is_json() {
            true => Some(List::begin(console.out(), "differences")?),
            false => None,
        };
        let (mut owners, mut differences) = (0, 0);
        if !kinds.is_empty() {
            let mut counts = count(&volume, console)?;
            for kind in &kinds {
                let mut show = |difference: &Difference, console: &mut Console| {
                    differences += 1;
                    self.show(difference, list.as_mut(), console)
                };
                owners += compare(&volume, *kind, &mut counts, &mut show, console)?;
            }
        }
        if let Some(list) = list {
            list.end(console.out())?;
        } else if !kinds.is_empty() {
            let (owners, wrong) = (counted(owners, "owner"), counted(differences, "difference"));
            writeln!(console.out(), "{}: {owners} compared, {wrong}", self.shown())?;
        }
        if differences > 0 { Err(Failure::silent(Exit::Failed)) } else { Ok(()) }
    }
}

impl Check {
    fn shown(&self) -> String {
        names::in_message(self.image.path().as_os_str().as_encoded_bytes()).into_owned()
    }

    /// Returns the chosen types whose counts are marked as right, and prints a note about the
    /// others.
    fn compared(&self, state: &QuotaState, console: &mut Console) -> Vec<QuotaType> {
        let shown = self.shown();
        let is_compared = |kind: &QuotaType| {
            if !state.is_checked(*kind) {
                let name = kind.name();
                let reason = match state.is_accounted(*kind) {
                    true => "its counts are not marked as right, and the next mount counts again",
                    false => "it is not accounted",
                };
                console.note(format!("{shown}: {name} quota is not compared: {reason}"));
            }
            state.is_checked(*kind)
        };
        chosen(self.types).filter(is_compared).collect()
    }

    fn show(
        &self,
        difference: &Difference,
        list: Option<&mut List>,
        console: &mut Console,
    ) -> io::Result<()> {
        let Difference { kind, id, recorded, counted } = difference;
        if let Some(list) = list {
            let mut object = Object::new();
            self.names.describe(*kind, *id, &mut object);
            object.insert("recorded".to_owned(), describe(recorded));
            object.insert("counted".to_owned(), describe(counted));
            return list.push(console.out(), &object);
        }
        let name = console.name_style(false).show(&self.names.show(*kind, *id)).to_vec();
        let kind = kind.name();
        let (recorded, counted) = (text(recorded), text(counted));
        let out = console.out();
        write!(out, "{kind} ")?;
        out.write_all(&name)?;
        writeln!(out, ": {recorded} recorded; {counted} counted")
    }
}

/// Reads all inodes of the volume, and returns the usage of all owners. A damaged inode is reported
/// and not counted.
fn count(volume: &ImageVolume, console: &mut Console) -> Result<UsageCounts, Failure> {
    let measure = Measure::files_of_volume(volume.inner());
    let expected = measure.expected();
    let tally = console.begin(Work::reading("counting", measure));
    let counts = volume.inner().quota().count(|step| {
        match step {
            Ok(inodes) => tally.set(inodes, expected),
            Err(error) => console.report(&volume.whole_failure(error)),
        }
        match interrupt::check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    console.end();
    interrupt::check()?;
    counts.map_err(|error| volume.whole_failure(error))
}

/// Compares all dquots of a type with the counts, and shows the differences. Returns the number of
/// owners that have a dquot or a count.
fn compare(
    volume: &ImageVolume,
    kind: QuotaType,
    counts: &mut UsageCounts,
    show: &mut dyn FnMut(&Difference, &mut Console) -> io::Result<()>,
    console: &mut Console,
) -> Result<u64, Failure> {
    let mut owners = 0;
    let all = volume.inner().quota().iter(kind).map_err(|error| volume.whole_failure(error))?;
    for quota in all {
        let quota = match quota {
            Ok(quota) => quota,
            Err(error) => {
                console.report(&volume.whole_failure(error));
                continue;
            }
        };
        owners += 1;
        let (id, recorded) = (quota.id, quota.used());
        let counted = counts.take(kind, id);
        if recorded != counted {
            show(&Difference { kind, id, recorded, counted }, console)?;
        }
    }
    // The rest has no dquot.
    for (id, counted) in counts.take_all(kind) {
        owners += 1;
        let recorded = CountedUsage::default();
        show(&Difference { kind, id, recorded, counted }, console)?;
    }
    Ok(owners)
}

fn describe(usage: &CountedUsage) -> Value {
    let CountedUsage { blocks, inodes, rt_blocks, .. } = *usage;
    let pairs = [("blocks", blocks), ("inodes", inodes), ("realtime_blocks", rt_blocks)];
    Value::from(Object::from_iter(pairs.map(|(key, value)| (key.to_owned(), value.into()))))
}

fn text(usage: &CountedUsage) -> String {
    let CountedUsage { blocks, inodes, rt_blocks, .. } = *usage;
    let realtime = match rt_blocks {
        0 => String::new(),
        blocks => format!(", {}", counted(blocks, "realtime block")),
    };
    format!("{}, {}{realtime}", counted(blocks, "block"), counted(inodes, "inode"))
}
