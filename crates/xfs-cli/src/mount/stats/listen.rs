//! `stats --listen`: serves the figures of a mount by HTTP.
//!
//! Owns: `GET /metrics` in HTTP/1.1 on a loopback address, with one request per connection, and the
//! limits on connections, bytes and time. Does **not** own: the figures.
//!
//! The few lines of the protocol are written here. Small crates for HTTP servers (tiny_http) limit
//! neither the size nor the duration of a request, and frameworks need a runtime. A request is not
//! trusted: it is compared with known text, and never echoed.
//!
//! # Invariants
//!
//! - **I1** Only one thread requests figures from the mount. If the mount does not answer, only
//!   that thread waits, and clients get an error that says so.
//! - **I2** A request that names another host is refused. Otherwise a web page could read the
//!   figures: if the host name of the page resolves to this machine, a browser on this machine
//!   would pass the answer to the page.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::exit::Exit;
use crate::failure::Failure;

/// The limit on the size of a request, in bytes. Prometheus sends a few hundred.
const MOST_BYTES: usize = 8 << 10;
/// The number of connections that are served in parallel. Further connections wait.
const MOST_CONNECTIONS: usize = 8;
/// The time limit for receiving a request, and for sending its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time limit for the mount to deliver the figures.
const LATE: Duration = Duration::from_secs(1);
/// The pause before the next attempt when the system has no resources for another connection.
const PAUSE: Duration = Duration::from_millis(100);
const END: &[u8] = b"\r\n\r\n";

/// An HTTP server that is bound to an address.
pub(super) struct Listener {
    socket: TcpListener,
    patience: Duration,
    late: Duration,
}

/// The figures as text, or the reason why there are none.
type FiguresResult = Result<Vec<u8>, Failure>;

/// The thread that asks the mount for the figures, for all connections (I1).
struct FiguresThread(SyncSender<SyncSender<FiguresResult>>);

/// The kind of answer to a request.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Figures,
    /// An error; the text is the status code and its phrase.
    Refusal(&'static str),
}

const BAD_REQUEST: Answer = Answer::Refusal("400 Bad Request");
const NOT_FOUND: Answer = Answer::Refusal("404 Not Found");
const NOT_ALLOWED: Answer = Answer::Refusal("405 Method Not Allowed");
const MISDIRECTED: Answer = Answer::Refusal("421 Misdirected Request");
const TOO_LARGE: Answer = Answer::Refusal("431 Request Header Fields Too Large");
const UNAVAILABLE: &str = "503 Service Unavailable";

impl Listener {
    /// Creates a server that is bound to a loopback address.
    pub(super) fn bind(address: SocketAddr) -> Result<Self, Failure> {
        if !address.ip().to_canonical().is_loopback() {
            let why = format!("--listen: {address} is not a loopback address");
            return Err(Failure::new(Exit::Refused, why)
                .hint("listen on 127.0.0.1 or [::1], and let a proxy admit other machines"));
        }
        let socket = TcpListener::bind(address).map_err(|error| failed(address, &error))?;
        Ok(Self { socket, patience: PATIENCE, late: LATE })
    }

    /// Returns the bound address. If port 0 was asked for, it has the port that the system chose.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Answers requests with the result of `figures`. Returns only after an error that ends the
    /// service, such as that no further connection can be accepted.
    pub(super) fn serve(&self, figures: impl Fn() -> FiguresResult + Send + 'static) -> io::Error {
        let teller = match FiguresThread::start(figures) {
            Ok(teller) => teller,
            Err(error) => return error,
        };
        thread::scope(|scope| {
            for _ in 1..MOST_CONNECTIONS {
                let answering = || drop(self.answer_each(&teller));
                if thread::Builder::new().spawn_scoped(scope, answering).is_err() {
                    // The existing threads continue.
                    break;
                }
            }
            self.answer_each(&teller)
        })
    }

    fn answer_each(&self, teller: &FiguresThread) -> io::Error {
        loop {
            match self.socket.accept() {
                // The client has gone away or is too slow. No other client is affected.
                Ok((stream, _)) => drop(self.converse(stream, teller)),
                Err(error) if is_final(&error) => return error,
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn converse(&self, stream: TcpStream, teller: &FiguresThread) -> io::Result<()> {
        let mut stream = Bounded { stream, end: Instant::now() + self.patience };
        let head = read_head(&mut stream)?;
        let (status, body) = match head.as_deref().map_or(TOO_LARGE, answer) {
            Answer::Refusal(status) => (status, Vec::new()),
            Answer::Figures => match teller.ask(self.late) {
                Ok(body) => ("200 OK", body),
                // The mount is gone or hangs, and may come back.
                Err(failure) => (UNAVAILABLE, format!("{failure}\n").into_bytes()),
            },
        };
        let mut message = message_head(status, body.len());
        if !head.is_some_and(|head| head.starts_with(b"HEAD ")) {
            message.extend_from_slice(&body);
        }
        stream.end = Instant::now() + self.patience;
        stream.write_all(&message)
    }
}

/// Returns whether the error means that no connection will ever be accepted again. Any other error
/// is temporary: the client has gone, or the system has no files or memory left.
fn is_final(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::BADF | Errno::INVAL | Errno::NOTSOCK))
}

impl FiguresThread {
    fn start(figures: impl Fn() -> FiguresResult + Send + 'static) -> io::Result<Self> {
        let (questions, asked) = mpsc::sync_channel::<SyncSender<FiguresResult>>(MOST_CONNECTIONS);
        // Nothing waits for the end of this thread: it may ask a mount that never answers.
        thread::Builder::new().spawn(move || {
            for asking in asked {
                // The client may not wait any more.
                drop(asking.try_send(figures()));
            }
        })?;
        Ok(Self(questions))
    }

    fn ask(&self, late: Duration) -> FiguresResult {
        let (asking, told) = mpsc::sync_channel(1);
        let told = self.0.try_send(asking).ok().and_then(|()| told.recv_timeout(late).ok());
        told.unwrap_or_else(|| Err(Failure::new(Exit::Failed, "the mount does not answer")))
    }
}

pub(super) fn failed(address: SocketAddr, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("--listen: {address}: {error}"))
}

/// A connection with a deadline for a whole request or answer. Single bytes that arrive do not
/// extend the deadline.
struct Bounded {
    stream: TcpStream,
    end: Instant,
}

impl Bounded {
    fn rest(&self) -> io::Result<Option<Duration>> {
        let rest = self.end.saturating_duration_since(Instant::now());
        if rest.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(rest)) }
    }
}

impl Read for Bounded {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.rest()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.rest()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Reads a request up to the empty line at the end of its head. Returns the head; `None` if the
/// head is longer than `MOST_BYTES`.
fn read_head(stream: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut piece = [0; 1 << 10];
    while head.len() < MOST_BYTES {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let new = head.len().saturating_sub(END.len());
        head.extend_from_slice(piece.get(..read).unwrap_or_default());
        let mut ends = head.get(new..).unwrap_or_default().windows(END.len());
        if let Some(end) = ends.position(|bytes| bytes == END) {
            head.truncate(new + end);
            return Ok(Some(head));
        }
    }
    Ok(None)
}

/// Returns the answer to a request with this head.
fn answer(head: &[u8]) -> Answer {
    let Ok(head) = str::from_utf8(head) else { return BAD_REQUEST };
    let mut lines = head.split("\r\n");
    let line: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
    let &[method, target, "HTTP/1.1" | "HTTP/1.0"] = line.as_slice() else { return BAD_REQUEST };
    let (mut has_body, mut is_for_us) = (false, true);
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { return BAD_REQUEST };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return BAD_REQUEST;
        }
        has_body |= name.eq_ignore_ascii_case("transfer-encoding");
        has_body |= name.eq_ignore_ascii_case("content-length") && value.trim() != "0";
        is_for_us &= !name.eq_ignore_ascii_case("host") || is_this_machine(value.trim());
    }
    if !is_for_us {
        return MISDIRECTED;
    }
    match (method, target.split('?').next()) {
        ("GET" | "HEAD", _) if has_body => BAD_REQUEST,
        ("GET" | "HEAD", Some("/metrics")) => Answer::Figures,
        ("GET" | "HEAD", _) => NOT_FOUND,
        _ => NOT_ALLOWED,
    }
}

/// Returns whether a host, with or without a port, is `localhost` or a loopback address (I2).
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn message_head(status: &str, length: usize) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nAllow: GET, HEAD\r\nConnection: close\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests;
