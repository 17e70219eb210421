//! The log of the system, for a process that nobody looks at any more.
//!
//! Owns: one datagram for each message, in the form that syslog(3) gives it (RFC 3164), sent to `/dev/log`; where
//! no log listens, a line in the kernel's (`/dev/kmsg`), which takes root. Does **not** own: what is worth being said.
//!
//! It is some lines, and so no dependency: the crates for it bring clocks, host names and transports
//! of their own. The socket is connected while this process may still open one.

use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixDatagram;

use jiff::Zoned;

/// Where the log listens.
const SOCKET: &str = "/dev/log";
const KERNEL: &str = "/dev/kmsg";
/// A daemon's (3) errors (3).
const PRIORITY: u32 = 3 << 3 | 3;

/// A way to the log.
pub(crate) struct SystemLog {
    socket: Option<UnixDatagram>,
    kernel: Option<File>,
}

impl SystemLog {
    /// Finds where the log is.
    pub(crate) fn open() -> Self {
        let socket = connect();
        let kernel = socket.is_none().then(|| File::options().write(true).open(KERNEL).ok());
        Self { socket, kernel: kernel.flatten() }
    }

    /// Says that something has failed.
    pub(crate) fn report(&self, message: impl std::fmt::Display) {
        let process = std::process::id();
        let message = message.to_string().replace('\n', "; ");
        // As the program begins what it says elsewhere.
        let message = message.strip_prefix("ferroxfs: ").unwrap_or(&message);
        let text = format!("ferroxfs[{process}]: {message}");
        let time = Zoned::now().strftime("%b %e %H:%M:%S");
        let datagram = format!("<{PRIORITY}>{time} {text}");
        let send = |socket: &UnixDatagram| socket.send(datagram.as_bytes()).is_ok();
        // The log may have been started anew since.
        if self.socket.as_ref().is_some_and(send) || connect().as_ref().is_some_and(send) {
            return;
        }
        if let Some(mut kernel) = self.kernel.as_ref() {
            // There is nobody left to tell.
            let _ = kernel.write_all(format!("<{PRIORITY}>{text}\n").as_bytes());
        }
    }
}

fn connect() -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    // Who serves a mount must not wait for a log that stands still.
    socket.set_nonblocking(true).ok()?;
    socket.connect(SOCKET).ok()?;
    Some(socket)
}
