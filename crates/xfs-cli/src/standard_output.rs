//! Standard output, and whether there is one.
//!
//! Where a program is started with its standard output closed (`>&-`), the runtime of Rust opens /dev/null in its
//! place before `main`, and takes an error of a closed descriptor (EBADF) for success: what a command has to
//! say would be gone, and it would end well. So it is looked at before.
//!
//! Owns: that writing fails then. A command that writes nothing does not mind. The same is known of standard input, of
//! which a closed descriptor would be an empty one.

#![allow(unsafe_code, reason = "a place in the list of what runs before main")]

use std::io::{self, Stdout, Write};
use std::sync::OnceLock;

use rustix::io::{Errno, fcntl_getfd};

static WAS_CLOSED: OnceLock<()> = OnceLock::new();
static INPUT_WAS_CLOSED: OnceLock<()> = OnceLock::new();

// SAFETY: The C library calls every function in this section once, before the runtime of Rust begins and while
// there is one thread. This one takes no arguments of those that it is given, makes two system calls, and sets
// cells that nothing else sets: it needs nothing of the runtime.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    if fcntl_getfd(rustix::stdio::stdout()) == Err(Errno::BADF) {
        // It is looked at once.
        let _ = WAS_CLOSED.set(());
    }
    if fcntl_getfd(rustix::stdio::stdin()) == Err(Errno::BADF) {
        let _ = INPUT_WAS_CLOSED.set(());
    }
}

/// Whether the program was started without standard output.
pub(crate) fn was_closed() -> bool {
    WAS_CLOSED.get().is_some()
}

/// Whether the program was started without standard input.
pub(crate) fn input_was_closed() -> bool {
    INPUT_WAS_CLOSED.get().is_some()
}

/// Standard output, where what is written to a closed one fails.
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
        // What was to be written has failed already.
        self.0.flush()
    }
}
