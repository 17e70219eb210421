//! `stats --listen`: figures for whoever asks for them by HTTP.
//!
//! Owns: `GET /metrics` in HTTP/1.1 on an address of this machine alone, and its bounds: one request for
//! each connection, one connection at a time, so many bytes, so much time. Does **not** own: the figures.
//!
//! The few lines of the protocol that this takes stand here: small crates for HTTP servers (tiny_http) take
//! requests of any size for any time, and frameworks bring a runtime. What is asked for is an allegation as
//! well: it is compared, and never echoed.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::exit::Exit;
use crate::failure::Failure;

/// The most bytes of a request; Prometheus asks with some hundred.
const MOST_BYTES: usize = 8 << 10;
/// How long a connection may take. The next one waits so long at the most.
const PATIENCE: Duration = Duration::from_secs(2);
const END: &[u8] = b"\r\n\r\n";

/// What answers on an address.
pub(super) struct Listener(TcpListener);

/// What a request gets.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Figures,
    /// The status line behind the version.
    Refusal(&'static str),
}

const BAD_REQUEST: Answer = Answer::Refusal("400 Bad Request");
const NOT_FOUND: Answer = Answer::Refusal("404 Not Found");
const NOT_ALLOWED: Answer = Answer::Refusal("405 Method Not Allowed");
const TOO_LARGE: Answer = Answer::Refusal("431 Request Header Fields Too Large");
const UNAVAILABLE: &str = "503 Service Unavailable";

impl Listener {
    /// Takes an address of this machine that no other one reaches.
    pub(super) fn bind(address: SocketAddr) -> Result<Self, Failure> {
        if !address.ip().to_canonical().is_loopback() {
            let why = format!("--listen: {address} is not an address of this machine alone");
            return Err(Failure::new(Exit::Refused, why)
                .hint("listen on 127.0.0.1 or [::1], and have a proxy say who else may ask"));
        }
        TcpListener::bind(address).map(Self).map_err(|error| failed(address, &error))
    }

    /// Where it answers: the port that was taken, where any would do.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Answers with what `figures` returns, until the process is ended.
    pub(super) fn serve(&self, figures: impl Fn() -> Result<Vec<u8>, Failure>) -> io::Error {
        loop {
            match self.0.accept() {
                // Who asked has gone away, or is too slow: it is nobody else's trouble.
                Ok((stream, _)) => drop(converse(stream, &figures)),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => return error,
            }
        }
    }
}

pub(super) fn failed(address: SocketAddr, error: &io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("--listen: {address}: {error}"))
}

/// A connection that ends at a time, however often it sends or takes a byte.
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

fn converse(stream: TcpStream, figures: &impl Fn() -> Result<Vec<u8>, Failure>) -> io::Result<()> {
    let mut stream = Bounded { stream, end: Instant::now() + PATIENCE };
    let head = read_head(&mut stream)?;
    let (status, body) = match head.as_deref().map_or(TOO_LARGE, answer) {
        Answer::Refusal(status) => (status, Vec::new()),
        Answer::Figures => match figures() {
            Ok(body) => ("200 OK", body),
            // The mount is gone, and may come again.
            Err(failure) => (UNAVAILABLE, format!("{failure}\n").into_bytes()),
        },
    };
    stream.write_all(&message(status, &body))
}

/// A request up to its empty line; `None` if that does not come early enough.
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

/// What the head of a request asks for.
fn answer(head: &[u8]) -> Answer {
    let Ok(head) = str::from_utf8(head) else { return BAD_REQUEST };
    let mut lines = head.split("\r\n");
    let line: Vec<_> = lines.next().unwrap_or_default().split(' ').collect();
    let &[method, target, "HTTP/1.1" | "HTTP/1.0"] = line.as_slice() else { return BAD_REQUEST };
    let mut has_body = false;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { return BAD_REQUEST };
        if name.is_empty() || name.contains(char::is_whitespace) {
            return BAD_REQUEST;
        }
        has_body |= name.eq_ignore_ascii_case("transfer-encoding");
        has_body |= name.eq_ignore_ascii_case("content-length") && value.trim() != "0";
    }
    match (method, target.split('?').next()) {
        ("GET", _) if has_body => BAD_REQUEST,
        ("GET", Some("/metrics")) => Answer::Figures,
        ("GET", _) => NOT_FOUND,
        _ => NOT_ALLOWED,
    }
}

fn message(status: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut message = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nAllow: GET\r\nConnection: close\r\n\r\n"
    )
    .into_bytes();
    message.extend_from_slice(body);
    message
}

#[cfg(test)]
mod tests;
