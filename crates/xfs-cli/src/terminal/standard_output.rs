//! Standard output, and the check whether the program was started with standard output open.
//!
//! If a program is started with standard output closed (`>&-`), the runtime of Rust opens /dev/null
//! in its place before `main`, and treats EBADF as success. The output of a command would be lost
//! and the exit code would be 0. So a function that runs before the runtime checks the descriptor.
//!
//! Owns: the rule that writing to a closed standard output fails, while a command that writes
//! nothing succeeds. Standard input is checked as well, because a closed descriptor would look like
//! empty input.

#![allow(unsafe_code, reason = "a place in the list of what runs before main")]

use std::io::{self, Stdout, Write};
use std::sync::OnceLock;

use rustix::io::{Errno, fcntl_getfd};

static WAS_CLOSED: OnceLock<()> = OnceLock::new();
static INPUT_WAS_CLOSED: OnceLock<()> = OnceLock::new();

// SAFETY: The C library calls every function in this section once, before the runtime of Rust
// starts and while there is one thread. This function ignores the arguments that it is given, makes
// two system calls, and sets cells that nothing else sets. It needs nothing of the runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = inspect_descriptors;

extern "C" fn inspect_descriptors() {
    if fcntl_getfd(rustix::stdio::stdout()) == Err(Errno::BADF) {
        // The function runs once, so the cell is empty.
        let _ = WAS_CLOSED.set(());
    }
    if fcntl_getfd(rustix::stdio::stdin()) == Err(Errno::BADF) {
        let _ = INPUT_WAS_CLOSED.set(());
    }
}

/// Returns whether standard output was closed when the program started.
pub(crate) fn was_closed() -> bool {
    WAS_CLOSED.get().is_some()
}

/// Returns whether standard input was closed when the program started.
pub(crate) fn input_was_closed() -> bool {
    INPUT_WAS_CLOSED.get().is_some()
}

/// Standard output. Writing to it fails if it was closed when the program started.
pub(crate) struct StandardOutput(Stdout);

impl StandardOutput {
    pub(crate) fn open() -> Self {
        Self(io::stdout())
    }

    fn check(&self) -> io::Result<()> {
        match WAS_CLOSED.get() {
            Some(()) => Err(Errno::BADF.into()),
            None => Ok(()),
        }
    }
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        // If standard output was closed, the write has already failed.
        self.0.flush()
    }
}
