//! The system log, for a process whose standard error has no reader.
//!
//! Owns: one datagram for each message, in the form of syslog(3) (RFC 3164), sent to `/dev/log`. If
//! no log daemon listens, root writes a line to the kernel log (`/dev/kmsg`). Does **not** own: the
//! choice of messages.
//!
//! The crates for syslog bring clocks, host names and transports of their own, so this module uses
//! none of them. The socket is connected before the process enters the sandbox, in which the
//! process cannot open a socket.

use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixDatagram;

use jiff::Zoned;

/// The path of the socket of the log daemon.
const SOCKET: &str = "/dev/log";
const KERNEL: &str = "/dev/kmsg";
/// The priority of all messages: facility daemon (3), severity error (3).
const PRIORITY: u32 = 3 << 3 | 3;

/// A connection to the log daemon, or to the kernel log if there is no daemon.
pub(crate) struct SystemLog {
    socket: Option<UnixDatagram>,
    kernel: Option<File>,
}

impl SystemLog {
    /// Connects to the log daemon, or opens the kernel log.
    pub(crate) fn open() -> Self {
        let socket = connect();
        let kernel = socket.is_none().then(|| File::options().write(true).open(KERNEL).ok());
        Self { socket, kernel: kernel.flatten() }
    }

    /// Sends a message to the log.
    pub(crate) fn report(&self, message: impl std::fmt::Display) {
        let process = std::process::id();
        let message = message.to_string().replace('\n', "; ");
        // The prefix of messages on standard error.
        let message = message.strip_prefix("ferroxfs: ").unwrap_or(&message);
        let text = format!("ferroxfs[{process}]: {message}");
        let time = Zoned::now().strftime("%b %e %H:%M:%S");
        let datagram = format!("<{PRIORITY}>{time} {text}");
        let send = |socket: &UnixDatagram| socket.send(datagram.as_bytes()).is_ok();
        // The log daemon may have been restarted since.
        if self.socket.as_ref().is_some_and(send) || connect().as_ref().is_some_and(send) {
            return;
        }
        if let Some(mut kernel) = self.kernel.as_ref() {
            // If this fails too, there is no other place to report to.
            let _ = kernel.write_all(format!("<{PRIORITY}>{text}\n").as_bytes());
        }
    }
}

fn connect() -> Option<UnixDatagram> {
    let socket = UnixDatagram::unbound().ok()?;
    // A server must not wait for a log daemon that hangs.
    socket.set_nonblocking(true).ok()?;
    socket.connect(SOCKET).ok()?;
    Some(socket)
}
