//! The server: its port, its connections, its end.
//!
//! Each connection has a thread, which answers its calls one after another, so that a client sees
//! its changes in their order. The number of connections is bounded.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use ferroxfs::Volume;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::call::{Call, NoCall, Unanswered};
use crate::nfs_program::{Export, NfsCall};
use crate::users::{ActAs, Views};
use crate::xdr::Encoder;
use crate::{mount_program, nfs_program, owner, record};

/// The most connections at a time. A client uses one, or a few.
const MOST_CONNECTIONS: usize = 64;

/// How a server shows its volume, and which users may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NfsOptions {
    /// The address and port at which the server listens. Port 0 lets the kernel choose one. The
    /// default is 127.0.0.1:2049.
    pub address: SocketAddr,
    /// Whether clients may only read. The default is `true`.
    pub read_only: bool,
    /// Whether replies to changes may precede their durability, as with the option `async` of
    /// exports(5). After a crash of the server, changes of the last seconds are then lost without
    /// an error for the client. The default is `false`.
    pub waits: bool,
    /// The user whose rights the calls have.
    pub act_as: ActAs,
    /// Whether any user of this machine may connect. Otherwise a connection from this machine is
    /// closed at once, unless it belongs to root or to the user of this process. The default is
    /// `false`. Connections from other machines have no known owner, and are never closed.
    pub any_user: bool,
}

impl Default for NfsOptions {
    fn default() -> Self {
        Self {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 2049)),
            read_only: true,
            waits: false,
            act_as: ActAs::Caller,
            any_user: false,
        }
    }
}

/// A server that listens, but has not answered a call yet.
#[derive(Debug)]
pub struct NfsServer {
    listener: TcpListener,
    export: Arc<Export>,
    options: NfsOptions,
    end: OwnedFd,
    stopper: Stopper,
}

/// Stops a server, from any thread and from a thread that handles signals.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<OwnedFd>);

impl Stopper {
    /// Lets [`NfsServer::run`] return when the calls that are being answered have been.
    pub fn stop(&self) {
        // The pipe is full only of earlier requests to stop.
        let _ = rustix::io::write(&*self.0, &[0]);
    }
}

/// A connection, and the thread that answers its calls.
struct Connection {
    stream: TcpStream,
    thread: JoinHandle<()>,
}

impl NfsServer {
    /// Listens at the address of the options. The volume must have the rights of root.
    ///
    /// # Errors
    ///
    /// - EADDRINUSE if another server has the port, EACCES for a port below 1024, and the other
    ///   errors of bind(2).
    /// - The error of the volume that has no UUID because its superblock cannot be read.
    pub fn bind(volume: Volume, options: NfsOptions) -> io::Result<Self> {
        let uuid = volume.uuid().map_err(io::Error::from)?;
        let (id, _) = uuid.as_bytes().split_first_chunk().expect("a UUID has 16 bytes");
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let run = (since.as_nanos() as u64).to_be_bytes();
        let NfsOptions { read_only, waits, .. } = options;
        let export = Arc::new(Export { volume, id: *id, run, read_only, waits });
        let listener = TcpListener::bind(options.address)?;
        listener.set_nonblocking(true)?;
        let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
        let (end, stop) = rustix::pipe::pipe_with(flags)?;
        let stopper = Stopper(Arc::new(stop));
        Ok(Self { listener, export, options, end, stopper })
    }

    /// Returns the address at which the server listens.
    ///
    /// # Errors
    ///
    /// Those of getsockname(2).
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the means to stop the server.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Answers calls until the server is stopped. Then closes all connections, and returns the
    /// volume, which nothing else uses any more.
    ///
    /// # Errors
    ///
    /// Those of accept(2) and poll(2) that do not concern a single connection.
    pub fn run(self) -> io::Result<Volume> {
        let mut connections = Vec::new();
        let accepted = self.accept_all(&mut connections);
        for Connection { stream, thread } in connections {
            // A connection that has ended by itself is no longer connected.
            let _ = stream.shutdown(Shutdown::Both);
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        let export = Arc::into_inner(self.export).expect("no connection outlives the server");
        accepted.map(|()| export.volume)
    }

    fn accept_all(&self, connections: &mut Vec<Connection>) -> io::Result<()> {
        loop {
            let (listener, end) = (self.listener.as_fd(), self.end.as_fd());
            let mut waits =
                [PollFd::new(&listener, PollFlags::IN), PollFd::new(&end, PollFlags::IN)];
            match poll(&mut waits, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            if waits.last().is_some_and(|end| !end.revents().is_empty()) {
                return Ok(());
            }
            connections.retain(|connection| !connection.thread.is_finished());
            match self.listener.accept() {
                Ok((stream, client)) => {
                    if let Some(connection) = self.start(stream, client, connections.len()) {
                        connections.push(connection);
                    }
                }
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Starts the thread of a connection. Returns `None`, and closes the connection, if it is not
    /// accepted.
    fn start(&self, stream: TcpStream, client: SocketAddr, count: usize) -> Option<Connection> {
        if count == MOST_CONNECTIONS {
            tracing::warn!(%client, "refused: there are {MOST_CONNECTIONS} connections");
            return None;
        }
        let server = stream.local_addr().ok()?;
        if !self.options.any_user && server.ip() == client.ip() {
            let us = rustix::process::geteuid().as_raw();
            let owner = owner::of_client(client, server);
            if !owner.is_some_and(|owner| owner == 0 || owner == us) {
                tracing::warn!(%client, ?owner, "refused: another user of this machine");
                return None;
            }
        }
        // Replies are single writes: to wait for more would only delay them.
        stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true)).ok()?;
        let own = stream.try_clone().ok()?;
        let (export, act_as) = (Arc::clone(&self.export), self.options.act_as);
        let name = "nfs".to_owned();
        let serve = move || {
            serve(&stream, &export, act_as);
            // The copy of the socket below would keep the connection open.
            let _ = stream.shutdown(Shutdown::Both);
        };
        match Builder::new().name(name).spawn(serve) {
            Ok(thread) => Some(Connection { stream: own, thread }),
            Err(error) => {
                tracing::warn!(%client, %error, "refused: no thread");
                None
            }
        }
    }
}

/// Returns whether an error of accept(2) concerns only the connection that was to be accepted, or
/// passes: accept(2) lists those of the network.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, HostUnreachable, Interrupted, NetworkDown, NetworkUnreachable,
        WouldBlock,
    };
    [ConnectionAborted, HostUnreachable, Interrupted, NetworkDown, NetworkUnreachable, WouldBlock]
        .contains(&error.kind())
}

/// Answers the calls of a connection until it ends.
fn serve(mut stream: &TcpStream, export: &Export, act_as: ActAs) {
    let mut views = Views::new(export.volume.clone());
    let mut bytes = Vec::new();
    loop {
        match record::read(&mut stream, &mut bytes) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::debug!(%error, "the connection ends");
                return;
            }
        }
        let reply = match Call::decode(&bytes) {
            Ok(call) => answer(&call, export, &mut views, act_as),
            Err(NoCall::Denied(reply)) => reply,
            Err(NoCall::NotRpc) => {
                tracing::debug!("the connection is closed: a record is no call");
                return;
            }
        };
        if let Err(error) = record::write(&mut stream, reply.as_slice()) {
            tracing::debug!(%error, "the connection ends");
            return;
        }
    }
}

/// Answers a call of either program.
fn answer(call: &Call<'_>, export: &Export, views: &mut Views, act_as: ActAs) -> Encoder {
    let version = match call.program {
        nfs_program::PROGRAM => nfs_program::VERSION,
        mount_program::PROGRAM => mount_program::VERSION,
        _ => return call.reply(|_| Err(Unanswered::NoProgram)),
    };
    if call.version != version {
        return call.reply(|_| Err(Unanswered::OtherVersion(version)));
    }
    let caller = call.caller.clone().acting_as(act_as);
    call.reply(|reply| match call.program {
        // A client mounts before any user has a right to a directory.
        mount_program::PROGRAM => mount_program::answer(call, &export.volume, export.id, reply),
        _ => NfsCall::new(export, views.of(&caller), caller.uid).answer(call, reply),
    })
}

#[cfg(test)]
mod tests;
