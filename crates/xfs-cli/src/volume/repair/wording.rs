//! The commands that messages of `repair` suggest, with all options that matter.
//!
//! Owns: the words of these commands. Does **not** own: where they are printed ([`super::report`]).

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::cli::{GlobalOptions, RepairArguments};
use crate::terminal::names;

/// The effect of `--allow-loss` on damage that a plan without it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithLoss {
    /// Rules that lose something would repair all of it.
    All,
    /// Rules that lose something would repair more of it.
    More,
    /// Rules that lose something would repair no more.
    NoMore,
}

/// The image and the options of a run, as words of a command line.
pub(super) struct Wording {
    /// The name of the image.
    pub(super) image: String,
    /// The options that say where in the image the volume is.
    place: String,
    allow_loss: bool,
    quarantine: String,
    /// The option `--undo-file`, if the user gave it.
    undo_file: String,
}

impl Wording {
    pub(super) fn new(arguments: &RepairArguments, options: &GlobalOptions) -> Self {
        let shown = |path: &Path| names::in_message(path.as_os_str().as_bytes()).into_owned();
        let undo_file = arguments.undo_file.as_deref();
        Self {
            image: shown(&arguments.image),
            place: options.place_words(),
            allow_loss: arguments.allow_loss,
            quarantine: arguments.quarantine.as_deref().map_or("DIR".to_owned(), shown),
            undo_file: undo_file
                .map_or(String::new(), |path| format!(" --undo-file {}", shown(path))),
        }
    }

    /// Returns the command that makes the repair of the plan.
    pub(super) fn apply(&self, is_partial: bool) -> String {
        let Self { image, place, quarantine, undo_file, .. } = self;
        let partial = if is_partial { " --partial" } else { "" };
        let loss = match self.allow_loss {
            true => format!(" --allow-loss --quarantine {quarantine}"),
            false => String::new(),
        };
        format!("'ferroxfs repair --yes{partial}{loss}{undo_file}{place} {image}'")
    }

    /// Returns the command that takes the repair back.
    pub(super) fn undo(&self, file: &str) -> String {
        let Self { image, place, .. } = self;
        format!("'ferroxfs repair --undo {file}{place} {image}'")
    }

    /// Returns the command that shows a plan with the rules that lose something.
    pub(super) fn lossy_plan(&self) -> String {
        let Self { image, place, .. } = self;
        format!("'ferroxfs repair --plan --allow-loss{place} {image}'")
    }

    /// Returns the command that copies the files from the damaged volume.
    pub(super) fn salvage(&self) -> String {
        let Self { image, place, .. } = self;
        format!("'ferroxfs salvage{place} {image} DIR'")
    }

    /// Returns the hint for a log that cannot be replayed.
    pub(super) fn at_log(&self) -> String {
        let salvage = self.salvage();
        match self.allow_loss {
            true => format!("nothing was written; {salvage} copies the files"),
            false => format!(
                "nothing was written; {salvage} copies the files, and {} shows a repair that gives \
                 the log up",
                self.lossy_plan()
            ),
        }
    }
}
