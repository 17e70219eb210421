//! Volumes that are read in spite of damage: for `salvage`, and for commands with `--damaged`.
//!
//! Owns: opening such a volume ([`volume`]), its survey, its files as sources of copies
//! ([`source`]), and the messages about files that are not whole ([`shortfalls`]). Does **not**
//! own: reading the damaged structures (`xfs-salvage`), or the output of a command.

pub(crate) mod shortfalls;
pub(crate) mod source;
pub(crate) mod volume;

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;

use xfs_salvage::{NameTree, Node, Salvage, SalvageOptions, Stopped, SurveyProgress};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::terminal::console::Console;
use crate::terminal::tally::{Tally, Work};
use shortfalls::Shortfalls;
use volume::DamagedVolume;

/// Shows the progress of the survey of a damaged volume, and stops the survey after a signal.
struct Bar<'a>(&'a Tally);

impl SurveyProgress for Bar<'_> {
    fn step(&self, _what: &'static str, done: u64, all: u64) -> ControlFlow<()> {
        self.0.set(done, all);
        if interrupt::check().is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Surveys a volume, and prints the parts that the survey could not examine. `shown` is the name of
/// the image in messages.
pub(crate) fn survey<'a>(
    volume: &'a DamagedVolume,
    options: SalvageOptions,
    shown: &str,
    console: &mut Console,
) -> Result<Salvage<'a>, Failure> {
    let tally = console.begin(Work::survey());
    let survey = Salvage::survey(&*volume.device, &volume.superblock, options, &Bar(&tally));
    console.end();
    interrupt::check()?;
    let survey = survey.map_err(|stopped| stopped_failure(&stopped))?;
    for note in survey.notes() {
        console.note(format!("{shown}: {note}"));
    }
    Ok(survey)
}

/// Reads all names of a surveyed volume, and collects the reports on files that are not whole.
pub(crate) fn name_tree(
    survey: &Salvage<'_>,
    shown: &str,
    console: &mut Console,
) -> Result<(NameTree, Shortfalls), Failure> {
    let shortfalls: Rc<RefCell<Shortfalls>> = Rc::default();
    let sink = Rc::clone(&shortfalls);
    survey.report_to(move |report| sink.borrow_mut().take(report));
    let tally = console.begin(Work::survey());
    let tree = survey.name_tree(&Bar(&tally));
    console.end();
    interrupt::check()?;
    let tree = tree.map_err(|stopped| stopped_failure(&stopped))?;
    if tree.dropped() > 0 {
        let message = format!("{} names were left out: there are too many", tree.dropped());
        console.report(&Failure::new(Exit::Corrupt, message).about(shown));
    }
    Ok((tree, shortfalls.take()))
}

/// Finds the file at a path in a surveyed volume; `None` if no name leads to a file.
pub(crate) fn find<'a>(
    survey: &'a Salvage<'_>,
    path: &[u8],
    console: &mut Console,
) -> Result<Option<Node<'a>>, Failure> {
    let tally = console.begin(Work::survey());
    let found = survey.find(path, &Bar(&tally));
    console.end();
    interrupt::check()?;
    found.map_err(|stopped| stopped_failure(&stopped))
}

fn stopped_failure(stopped: &Stopped) -> Failure {
    Failure::new(Exit::Failed, stopped.to_string())
}
