//! The owner of the program at the other end of a connection from this machine.
//!
//! The kernel lists the sockets of TCP with their owners in `/proc/net/tcp` and `/proc/net/tcp6`.
//! The line of the client's socket has our address as its remote one. The NFS client of the kernel
//! owns its sockets as root.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// Returns the user ID of the owner of the socket at `client` that is connected to `server`. `None`
/// if the kernel lists no such socket.
pub(crate) fn of_client(client: SocketAddr, server: SocketAddr) -> Option<u32> {
    let list = match client.ip() {
        IpAddr::V4(_) => "/proc/net/tcp",
        IpAddr::V6(_) => "/proc/net/tcp6",
    };
    find(&fs::read_to_string(list).ok()?, client, server)
}

/// Finds the owner in a list with the columns `sl`, `local_address`, `rem_address`, `st`, two
/// queues in one column each, `retrnsmt`, `uid`.
fn find(list: &str, client: SocketAddr, server: SocketAddr) -> Option<u32> {
    let (client, server) = (shown(client), shown(server));
    list.lines().find_map(|line| {
        let mut columns = line.split_ascii_whitespace().skip(1);
        let is_it = columns.next()? == client && columns.next()? == server;
        // State, both queues, timer, retransmissions.
        let owner = columns.nth(4)?.parse().ok();
        owner.filter(|_| is_it)
    })
}

/// Returns an address as the kernel prints it: the words of the IP address in the byte order of the
/// machine.
fn shown(address: SocketAddr) -> String {
    let word = |bytes: &[u8; 4]| {
        let mut bytes = *bytes;
        if cfg!(target_endian = "little") {
            bytes.reverse();
        }
        format!("{:08X}", u32::from_be_bytes(bytes))
    };
    let ip = match address.ip() {
        IpAddr::V4(ip) => word(&ip.octets()),
        IpAddr::V6(ip) => ip.octets().as_chunks().0.iter().map(word).collect(),
    };
    format!("{ip}:{:04X}", address.port())
}

#[cfg(test)]
mod tests;
