//! Waits until a server listens.

use std::path::Path;
use std::time::{Duration, Instant};

/// The flags in /proc/net/unix of a socket that accepts connections.
const ACCEPTS_CONNECTIONS: &str = "00010000";
/// The longest wait. A server takes a few milliseconds, on a busy machine seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until a program listens on a Unix socket. The file of the socket exists a moment earlier,
/// and a connection in between is refused.
///
/// # Panics
///
/// If no program listens after a minute.
pub fn wait_until_listening(socket: &Path) {
    let began = Instant::now();
    while !is_listening(socket) {
        assert!(began.elapsed() < PATIENCE, "no program listens on {}", socket.display());
        std::thread::sleep(PAUSE);
    }
}

fn is_listening(socket: &Path) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/unix").expect("Linux lists its sockets");
    sockets.lines().any(|line| {
        let mut fields = line.split_whitespace();
        fields.nth(3) == Some(ACCEPTS_CONNECTIONS) && fields.last() == socket.to_str()
    })
}
