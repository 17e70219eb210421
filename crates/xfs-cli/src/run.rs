//! The interface of a command.

use crate::failure::Failure;
use crate::sandbox::Reach;
use crate::terminal::console::Console;

/// A command with everything open.
pub(crate) trait Run {
    /// Returns the rights on the host that the command still needs. Most commands need only what is
    /// open.
    fn reach(&self) -> Reach<'_> {
        Reach::Nothing
    }

    /// Does the work.
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure>;
}
