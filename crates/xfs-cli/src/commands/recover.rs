//! `recover`: replays a dirty log onto the volume.

use std::io::Write;

use ferroxfs::log::Summary;

use super::Run;
use crate::cli::{GlobalOptions, RecoverArguments};
use crate::console::Console;
use crate::dump::{Fields, Value, fields_to_json};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Image;
use crate::json;

struct Recover {
    image: Image,
    is_json: bool,
}

/// Opens the image for writing, alone.
pub(super) fn open(
    arguments: &RecoverArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let image = Image::open_for_writing(&arguments.image, options)?;
    Ok(Box::new(Recover { image, is_json: arguments.json.json }))
}

impl Run for Recover {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let summary = self.image.recover()?;
        let out = console.out();
        match (self.is_json, summary) {
            (true, summary) => {
                let mut object = fields_to_json(&fields(summary.unwrap_or_default()));
                object.insert("was_clean".to_owned(), summary.is_none().into());
                json::write_document(out, object)?;
            }
            (false, None) => writeln!(out, "the log is clean, there is nothing to recover")?,
            (false, Some(summary)) => {
                let Summary { transactions, items, skipped, intents, unlinked, .. } = summary;
                writeln!(
                    out,
                    "recovered: {transactions} transactions with {items} items, of which {skipped} \
                     were in place already"
                )?;
                if intents > 0 {
                    writeln!(out, "finished: {intents} promises of work that was under way")?;
                }
                if unlinked > 0 {
                    writeln!(out, "freed: {unlinked} inodes that had no name any more")?;
                }
                if summary.unlinked_damaged > 0 {
                    let damaged = summary.unlinked_damaged;
                    let message = format!(
                        "{damaged} inodes that had no name any more are damaged, and were not freed"
                    );
                    let failure = self.image.failure(Failure::new(Exit::Corrupt, message));
                    console.report(&failure.hint("xfs_repair frees them"));
                }
            }
        }
        Ok(())
    }
}

fn fields(summary: Summary) -> Fields {
    vec![
        ("transactions", Value::number(summary.transactions)),
        ("items", Value::number(summary.items)),
        ("skipped", Value::number(summary.skipped)),
        ("intents", Value::number(summary.intents)),
        ("unlinked", Value::number(summary.unlinked)),
        ("unlinked_damaged", Value::number(summary.unlinked_damaged)),
    ]
}
