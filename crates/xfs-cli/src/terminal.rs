//! Standard output and standard error: escaping, names, colours, progress and summaries.

pub(crate) mod colour;
pub(crate) mod console;
pub(crate) mod escaping;
pub(crate) mod names;
pub(crate) mod plural;
pub(crate) mod progress;
pub(crate) mod screen;
pub(crate) mod standard_output;
pub(crate) mod tally;
