//! The requests of a connection, any number of them in flight.
//!
//! ```text
//! request: u32 0x25609513  u16 flags  u16 kind  u64 cookie  u64 offset  u32 length  payload
//! reply:   u32 0x67446698  u32 error  u64 cookie  payload
//! ```
//!
//! There is no thread for replies. One of the waiting callers takes the role of the receiver: it
//! receives the next reply, for itself or for another caller. Then the role is free again:
//!
//! ```text
//! submit --> waiting --(role is free)--> receive --> reply of another: note it, wake all --+
//!               ^                            |                                             |
//!               |                            +--> own reply: done                          |
//!               +--------------------------------------------------------------------------+
//! ```
//!
//! While a caller sends a request, it does not have the role of the receiver. Each reply that is
//! due then belongs to another caller, and that caller receives it. So a server that is blocked
//! because it sends a reply does not block both sides.
//!
//! Lock order: `sending`, then `state`. Neither is held while a reply is received.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use xfs_sync::{Condvar, Mutex, Volume};

use super::address::Server;
use super::error::NbdError;
use crate::bytes::big;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u64 = 0x6744_6698;
/// The longest time that the server may take for a reply.
const PATIENCE: Duration = Duration::from_secs(120);
/// The error numbers of the protocol, which are those of Linux. Any other number counts as EIO.
const KNOWN_ERRORS: [i32; 8] = [1, 5, 12, 22, 28, 75, 95, 108];
const EIO: i32 = 5;

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read = 0,
    Write = 1,
    Disconnect = 2,
    Flush = 3,
    Trim = 4,
    WriteZeroes = 6,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) kind: Kind,
    /// Whether the server must make the change durable before it replies.
    pub(super) is_durable: bool,
    pub(super) offset: u64,
    pub(super) length: u32,
}

/// The number of a request that was sent.
#[derive(Debug)]
pub(super) struct Cookie(u64);

/// A connected socket.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The state of a request.
enum Pending {
    /// The reply has not arrived. If the reply reports no error, it has a payload of this length in
    /// bytes.
    Sent {
        payload: usize,
    },
    Done(io::Result<Vec<u8>>),
}

struct State {
    next_cookie: u64,
    pending: HashMap<u64, Pending>,
    /// Whether a caller is receiving a reply now. Only one caller does so at a time.
    is_receiving: bool,
    /// The failure of the connection, which every request gets from then on (I1). `None` while the
    /// connection works.
    failure: Option<Failure>,
}

/// The failure of a connection, of which every caller gets a copy.
#[derive(Clone)]
struct Failure {
    kind: io::ErrorKind,
    text: String,
}

/// A connection after its handshake.
pub(super) struct Connection {
    stream: Stream,
    sending: Mutex<(), Volume>,
    state: Mutex<State, Volume>,
    arrived: Condvar<Volume>,
}

impl Stream {
    /// Connects to a server.
    pub(super) fn connect(server: &Server) -> Result<Self, NbdError> {
        let connected = match server {
            Server::Tcp { host, port } => TcpStream::connect((host.as_str(), *port)).map(Self::Tcp),
            Server::Unix(path) => UnixStream::connect(path).map(Self::Unix),
        };
        let stream = connected.map_err(NbdError::Connect)?;
        match &stream {
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
            }
        }
        Ok(stream)
    }
}

impl Read for &Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).read(bytes),
            Stream::Unix(stream) => (&*stream).read(bytes),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&*stream).write(bytes),
            Stream::Unix(stream) => (&*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Request {
    fn encode(&self, cookie: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(28);
        bytes.extend_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes.extend_from_slice(&u16::from(self.is_durable).to_be_bytes());
        bytes.extend_from_slice(&(self.kind as u16).to_be_bytes());
        bytes.extend_from_slice(&cookie.to_be_bytes());
        bytes.extend_from_slice(&self.offset.to_be_bytes());
        bytes.extend_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        let state =
            State { next_cookie: 1, pending: HashMap::new(), is_receiving: false, failure: None };
        Self { stream, sending: Mutex::new(()), state: Mutex::new(state), arrived: Condvar::new() }
    }

    /// Sends a request. The caller must then call [`finish`](Self::finish) with the returned
    /// number.
    pub(super) fn submit(&self, request: &Request, payload: &[u8]) -> io::Result<Cookie> {
        let sending = self.sending.lock();
        let cookie = {
            let mut state = self.state.lock();
            state.check()?;
            let cookie = state.next_cookie;
            state.next_cookie += 1;
            let payload = match request.kind {
                Kind::Read => request.length as usize,
                _ => 0,
            };
            state.pending.insert(cookie, Pending::Sent { payload });
            cookie
        };
        let mut stream = &self.stream;
        let head = request.encode(cookie);
        let sent = stream.write_all(&head).and_then(|()| stream.write_all(payload));
        drop(sending);
        if let Err(error) = sent {
            let mut state = self.state.lock();
            state.pending.remove(&cookie);
            return Err(self.fail(&mut state, &error));
        }
        Ok(Cookie(cookie))
    }

    /// Waits for the reply to a request. Returns the payload of the reply.
    pub(super) fn finish(&self, cookie: &Cookie) -> io::Result<Vec<u8>> {
        let mut state = self.state.lock();
        loop {
            match state.pending.remove(&cookie.0) {
                Some(Pending::Done(reply)) => return reply,
                Some(sent) => {
                    state.check()?;
                    state.pending.insert(cookie.0, sent);
                }
                None => return Err(io::ErrorKind::InvalidInput.into()),
            }
            if state.is_receiving {
                self.arrived.wait(&mut state);
                continue;
            }
            state.is_receiving = true;
            drop(state);
            let received = self.receive();
            state = self.state.lock();
            state.is_receiving = false;
            if let Err(error) = received {
                let _ = self.fail(&mut state, &error);
            }
            self.arrived.notify_all();
        }
    }

    /// Sends a request and waits for its reply.
    pub(super) fn call(&self, request: &Request, payload: &[u8]) -> io::Result<Vec<u8>> {
        let cookie = self.submit(request, payload)?;
        self.finish(&cookie)
    }

    /// Tells the server that no request follows.
    pub(super) fn disconnect(&self) {
        let request = Request { kind: Kind::Disconnect, is_durable: false, offset: 0, length: 0 };
        // The connection is closed next, so a failure changes nothing.
        let _ = (&self.stream).write_all(&request.encode(0));
    }

    /// Receives one reply and stores it for the caller that waits for it.
    fn receive(&self) -> io::Result<()> {
        let mut stream = &self.stream;
        let mut head = [0; 16];
        stream.read_exact(&mut head)?;
        let bad = |text| io::Error::new(io::ErrorKind::InvalidData, text);
        if big(&head, 0, 4) != REPLY_MAGIC {
            return Err(bad("the reply of the NBD server is not one"));
        }
        let (error, cookie) = (big(&head, 4, 4), big(&head, 8, 8));
        let payload = match self.state.lock().pending.get(&cookie) {
            Some(Pending::Sent { payload }) => *payload,
            _ => return Err(bad("the NBD server replies to no request")),
        };
        let reply = if error == 0 {
            let mut bytes = vec![0; payload];
            stream.read_exact(&mut bytes)?;
            Ok(bytes)
        } else {
            let known = KNOWN_ERRORS.into_iter().find(|known| known.unsigned_abs() == error as u32);
            Err(io::Error::from_raw_os_error(known.unwrap_or(EIO)))
        };
        self.state.lock().pending.insert(cookie, Pending::Done(reply));
        Ok(())
    }

    /// Stores the failure of the connection for all later requests, and returns it as an error.
    fn fail(&self, state: &mut State, error: &io::Error) -> io::Error {
        let (kind, reason) = match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                (io::ErrorKind::ConnectionAborted, "it closed the connection".to_owned())
            }
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let seconds = PATIENCE.as_secs();
                (io::ErrorKind::TimedOut, format!("it did not answer for {seconds} seconds"))
            }
            kind => (kind, error.to_string()),
        };
        let text = format!("the connection to the NBD server failed: {reason}");
        let failure = state.failure.get_or_insert(Failure { kind, text }).clone();
        self.arrived.notify_all();
        io::Error::new(failure.kind, failure.text)
    }
}

impl State {
    /// Returns an error if the connection has failed (I1: it stays failed).
    fn check(&self) -> io::Result<()> {
        // I1 of `xfs_image::nbd`
        match &self.failure {
            Some(failure) => Err(io::Error::new(failure.kind, failure.text.clone())),
            None => Ok(()),
        }
    }
}
