//! The arguments of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::text::owners;

/// Serve a volume to other programs through a network protocol, until interrupted
#[derive(Args, Debug)]
pub(crate) struct ServeArguments {
    #[command(subcommand)]
    pub(crate) protocol: ServeProtocol,
}

/// The protocols of `serve`.
#[derive(Debug, Subcommand)]
pub(crate) enum ServeProtocol {
    Nfs(NfsArguments),
}

/// The IDs of a user and a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserAndGroup {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Parses a user and a group, each by its name on this host or its number.
fn parse_owner(text: &str) -> Result<UserAndGroup, String> {
    let (user, group) = text.split_once(':').ok_or("expected USER:GROUP")?;
    Ok(UserAndGroup {
        uid: owners::user(user.as_bytes()).ok_or_else(|| format!("no user {user}"))?,
        gid: owners::group(group.as_bytes()).ok_or_else(|| format!("no group {group}"))?,
    })
}

/// Serve a volume through NFS version 3, for machines and containers without FUSE
///
/// Clients may read; with --write they may also change the volume. The server has no port mapper
/// and no lock manager: a client names the port, and keeps locks to itself. On Linux: mount -t nfs
/// -o vers=3,proto=tcp,port=2049,mountport=2049,mountproto=tcp,nolock 127.0.0.1:/ DIR
///
/// NFS version 3 has no authentication. From this machine only root and the user who runs the
/// server may connect, and they act as the user that their client names. A client on
/// another machine that reaches the port may act as any user, root included.
#[derive(Args, Debug)]
pub(crate) struct NfsArguments {
    /// The image or device
    pub(crate) image: PathBuf,
    /// Let clients change the volume
    #[arg(short, long)]
    pub(crate) write: bool,
    /// The address and port at which the server listens; port 0 lets the kernel choose one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:2049")]
    pub(crate) listen: SocketAddr,
    /// Act as this user and group for every client, not as the user that it names
    #[arg(long, value_name = "USER:GROUP", value_parser = parse_owner)]
    pub(crate) act_as: Option<UserAndGroup>,
    /// Let every user of this machine connect
    #[arg(long)]
    pub(crate) any_user: bool,
    /// Answer changes before they are durable; a crash of the server loses those of the last five
    /// seconds without an error
    #[arg(long = "async", requires = "write")]
    pub(crate) waits: bool,
}
