//! `recover`: replays a dirty log onto the volume.

use std::io::{self, Write};

use ferroxfs::admin::RecoverySummary;

use crate::cli::{GlobalOptions, RecoverArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Image;
use crate::inspect::structures::{Fields, Value, fields_to_json};
use crate::json;
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::plural::counted;

struct Recover {
    image: Image,
    is_json: bool,
}

/// Opens the image for writing, with an exclusive lock, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &RecoverArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let image = Image::open_for_writing(&arguments.image, options)?;
    Ok(Box::new(Recover { image, is_json: arguments.json.json }))
}

impl Run for Recover {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        self.image.note_torn_log(console);
        let step = console.step("replaying the log");
        let summary = self.image.recover()?;
        drop(step);
        if self.is_json {
            let mut object = fields_to_json(&fields(summary.unwrap_or_default()));
            object.insert("was_clean".to_owned(), summary.is_none().into());
            return Ok(json::write_document(console.out(), object)?);
        }
        let mut nowhere = io::sink();
        let out: &mut dyn Write = if console.is_quiet() { &mut nowhere } else { console.out() };
        match summary {
            None => writeln!(out, "the log is clean, there is nothing to recover")?,
            Some(summary) => {
                let RecoverySummary { transactions, items, skipped, intents, unlinked, .. } =
                    summary;
                writeln!(
                    out,
                    "recovered: {} with {}, of which {skipped} {} in place already",
                    counted(transactions, "transaction"),
                    counted(items, "item"),
                    if skipped == 1 { "was" } else { "were" }
                )?;
                if intents > 0 {
                    let promises = counted(intents, "promise");
                    writeln!(out, "finished: {promises} of work that was under way")?;
                }
                if unlinked > 0 {
                    let inodes = counted(unlinked, "inode");
                    writeln!(out, "freed: {inodes} without a name")?;
                }
                if summary.unlinked_damaged > 0 {
                    let damaged = counted(summary.unlinked_damaged, "inode");
                    let message = format!("not freed, because damaged: {damaged} without a name");
                    let failure = self.image.failure(Failure::new(Exit::Corrupt, message));
                    console.report(&failure.hint("xfs_repair frees them"));
                }
            }
        }
        Ok(())
    }
}

fn fields(summary: RecoverySummary) -> Fields {
    vec![
        ("transactions", Value::number(summary.transactions)),
        ("items", Value::number(summary.items)),
        ("skipped", Value::number(summary.skipped)),
        ("intents", Value::number(summary.intents)),
        ("unlinked", Value::number(summary.unlinked)),
        ("unlinked_damaged", Value::number(summary.unlinked_damaged)),
    ]
}
