//! A web server for tests that serves byte ranges of one object, such as an image.
//!
//! Owns: HTTP as far as clients of ranges use it, a record of all requests, and answers that
//! servers with faults give. Does **not** own TLS and signatures.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// The most bytes of the head of a request.
const MAX_HEAD_BYTES: u64 = 64 << 10;
/// The most bytes that are sent at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// A request that the server has received.
#[derive(Clone, Debug)]
pub struct WebRequest {
    /// The number of the request, from 0.
    pub index: usize,
    /// The method.
    pub method: String,
    /// The path and the query.
    pub target: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
}

/// An answer to a request.
#[derive(Clone, Debug)]
pub enum WebAnswer {
    /// The requested range of the object, if the condition `If-Match` of the request holds.
    Range,
    /// The requested range, with these headers in place of those with the same names. A header with
    /// an empty value is left out.
    RangeWith(Vec<(&'static str, String)>),
    /// The answer for the requested range, cut off after half of the bytes of the range.
    Half,
    /// Exactly these bytes, which include the head of the answer.
    Bytes(Vec<u8>),
    /// No answer, until the client closes the connection.
    Silence,
}

/// A server at a port of this machine. It serves until the process ends.
pub struct RangeServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<WebRequest>>>,
}

/// The served object, and the requests that the server has received.
struct Served {
    file: File,
    length: u64,
    answer: Box<dyn Fn(&WebRequest) -> WebAnswer + Send + Sync>,
    requests: Arc<Mutex<Vec<WebRequest>>>,
}

impl WebRequest {
    /// Returns the value of the header `name`, or `None` if the request has no such header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the first and the last byte that the request asks for, or `None` if it asks for no
    /// range.
    #[must_use]
    pub fn range(&self) -> Option<(u64, u64)> {
        let (first, last) = self.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }

    /// Returns the number of bytes in the range that the request asks for. Returns 0 if it asks for
    /// no range.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.range().map_or(0, |(first, last)| last + 1 - first)
    }
}

impl WebAnswer {
    /// Returns an answer with a status and a body.
    #[must_use]
    pub fn status(status: &str, body: &str) -> Self {
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}");
        let text = format!("{head}\r\n\r\n{body}");
        Self::Bytes(text.into_bytes())
    }
}

impl RangeServer {
    /// The ETag of the object.
    pub const TAG: &'static str = "\"first-version\"";

    /// Starts a server whose object is the contents of `file`. `answer` chooses the answer to each
    /// request.
    ///
    /// # Errors
    ///
    /// The error of the operating system if the server cannot be started.
    pub fn start(
        file: File,
        answer: impl Fn(&WebRequest) -> WebAnswer + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let requests = Arc::new(Mutex::new(Vec::new()));
        let length = file.metadata()?.len();
        let answer = Box::new(answer);
        let served = Arc::new(Served { file, length, answer, requests: Arc::clone(&requests) });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = Arc::clone(&served);
                // The client can close the connection at any time.
                std::thread::spawn(move || _ = served.serve(stream));
            }
        });
        Ok(Self { address, requests })
    }

    /// Returns the host and the port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the requests so far, in the order of their arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<WebRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The method, the target and the headers of a request.
pub(crate) type RequestHead = (String, String, Vec<(String, String)>);

/// Receives the head of a request. Returns `None` at the end of the connection.
pub(crate) fn receive_head(reader: &mut impl BufRead) -> std::io::Result<Option<RequestHead>> {
    let mut reader = reader.take(MAX_HEAD_BYTES);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
    Ok(Some((method, target, headers)))
}

impl Served {
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(request) = self.receive(&mut reader)? {
            match (self.answer)(&request) {
                WebAnswer::Range => self.send(&stream, &request, &[], 1)?,
                WebAnswer::RangeWith(headers) => self.send(&stream, &request, &headers, 1)?,
                WebAnswer::Half => return self.send(&stream, &request, &[], 2),
                WebAnswer::Bytes(bytes) => return (&stream).write_all(&bytes),
                WebAnswer::Silence => {
                    reader.read_to_end(&mut Vec::new())?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Receives a request and records it. Returns `None` at the end of the connection.
    fn receive(&self, reader: &mut impl BufRead) -> std::io::Result<Option<WebRequest>> {
        let Some((method, target, headers)) = receive_head(reader)? else { return Ok(None) };
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let request = WebRequest { index: requests.len(), method, target, headers };
        requests.push(request.clone());
        Ok(Some(request))
    }

    /// Sends the head of the answer for the requested range, and then the first `1 / parts` of the
    /// bytes of the range. `other` are headers to send in place of those with the same names.
    fn send(
        &self,
        mut stream: &TcpStream,
        request: &WebRequest,
        other: &[(&'static str, String)],
        parts: u64,
    ) -> std::io::Result<()> {
        let (first, last) = request.range().unwrap_or((0, self.length.saturating_sub(1)));
        let last = last.min(self.length.saturating_sub(1));
        if first > last {
            return stream.write_all(b"HTTP/1.1 416 Past the end\r\nContent-Length: 0\r\n\r\n");
        }
        let tag = other.iter().find(|(name, _)| *name == "ETag").map(|(_, tag)| tag.as_str());
        let condition = request.header("if-match");
        if condition.is_some_and(|asked| asked != tag.unwrap_or(RangeServer::TAG)) {
            return stream.write_all(b"HTTP/1.1 412 Failed\r\nContent-Length: 0\r\n\r\n");
        }
        let length = last + 1 - first;
        let mut headers = vec![
            ("Content-Length", length.to_string()),
            ("Content-Range", format!("bytes {first}-{last}/{}", self.length)),
            ("ETag", RangeServer::TAG.to_owned()),
        ];
        headers.retain(|(name, _)| other.iter().all(|(replaced, _)| replaced != name));
        headers.extend(other.iter().filter(|(_, value)| !value.is_empty()).cloned());
        let mut head = "HTTP/1.1 206 Partial Content\r\n".to_owned();
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        let (mut at, end) = (first, first + length / parts);
        let mut chunk = vec![0; CHUNK_BYTES];
        while at < end {
            let length = CHUNK_BYTES.min((end - at) as usize);
            let piece = chunk.get_mut(..length).expect("a piece is no longer than the chunk");
            self.file.read_exact_at(piece, at)?;
            stream.write_all(piece)?;
            at += length as u64;
        }
        Ok(())
    }
}
