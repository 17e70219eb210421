//! What is judged: something that performs operations.

mod kernel;

use rustix::io::Errno;

use crate::model::{Operation, Outcome};

pub use kernel::Kernel;

/// A filesystem that can be asked for operations.
pub trait Subject {
    /// Performs an operation.
    ///
    /// # Errors
    ///
    /// The errno that the kernel's XFS gives.
    fn perform(&mut self, operation: &Operation) -> Result<Outcome, Errno>;
}
