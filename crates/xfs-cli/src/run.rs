//! The interface through which a command runs after it has opened its files.

use crate::failure::Failure;
use crate::sandbox::Reach;
use crate::terminal::console::Console;

/// A command that has opened everything it needs.
pub(crate) trait Run {
    /// Returns the rights on the host that the command still needs. Most commands need only the
    /// files that are open already.
    fn reach(&self) -> Reach<'_> {
        Reach::Nothing
    }

    /// Does the work of the command.
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure>;
}
