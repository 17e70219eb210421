//! A web server for tests that stores objects: PUT of S3 and WebDAV, and MKCOL.
//!
//! Owns: HTTP as far as clients that store objects use it, the stored objects, and a record of all
//! requests. Does **not** own TLS and signatures.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use crate::range_server::{WebRequest, receive_head};

/// The decision of a server about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreAnswer {
    /// Do what the request asks for.
    Obey,
    /// Read the body, store nothing, and answer with this status.
    Refuse(u16),
    /// Close the connection in the middle of the body.
    HangUp,
}

/// Whether a folder must be made before objects are stored in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folders {
    /// They are parts of names, as on S3.
    Implied,
    /// They are made by MKCOL, as on WebDAV.
    Made,
}

/// A server at a port of this machine. It serves until the process ends.
pub struct StoreServer {
    address: SocketAddr,
    stored: Arc<Stored>,
}

struct Stored {
    folders: Folders,
    answer: Box<dyn Fn(&WebRequest) -> StoreAnswer + Send + Sync>,
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    made: Mutex<BTreeSet<String>>,
    requests: Mutex<Vec<WebRequest>>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StoreServer {
    /// Starts a server without objects. `answer` decides about each request, before its body is
    /// read.
    ///
    /// # Errors
    ///
    /// The error of the operating system if the server cannot be started.
    pub fn start(
        folders: Folders,
        answer: impl Fn(&WebRequest) -> StoreAnswer + Send + Sync + 'static,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let stored = Arc::new(Stored {
            folders,
            answer: Box::new(answer),
            objects: Mutex::default(),
            made: Mutex::new(BTreeSet::from(["/".to_owned()])),
            requests: Mutex::default(),
        });
        let serving = Arc::clone(&stored);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let stored = Arc::clone(&serving);
                // The client can close the connection at any time.
                std::thread::spawn(move || _ = stored.serve(&stream));
            }
        });
        Ok(Self { address, stored })
    }

    /// Returns the host and the port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the stored objects, by path and query.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        locked(&self.stored.objects).clone()
    }

    /// Returns the requests so far, in the order of their arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<WebRequest> {
        locked(&self.stored.requests).clone()
    }
}

impl Stored {
    fn serve(&self, mut stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some((method, target, headers)) = receive_head(&mut reader)? {
            let request = {
                let mut requests = locked(&self.requests);
                let index = requests.len();
                requests.push(WebRequest { index, method, target, headers });
                requests.last().cloned().expect("it was added")
            };
            let length = request.header("content-length").and_then(|text| text.parse().ok());
            let length: u64 = length.unwrap_or(0);
            let answer = (self.answer)(&request);
            if answer == StoreAnswer::HangUp {
                reader.take(length / 2).read_to_end(&mut Vec::new())?;
                return Ok(());
            }
            let mut body = Vec::new();
            (&mut reader).take(length).read_to_end(&mut body)?;
            if body.len() as u64 != length {
                return Ok(());
            }
            let status = match answer {
                StoreAnswer::Refuse(status) => status,
                _ => self.obey(&request, body),
            };
            write!(stream, "HTTP/1.1 {status} Answer\r\nContent-Length: 0\r\n\r\n")?;
        }
        Ok(())
    }

    /// Does what a request asks for. Returns the status.
    fn obey(&self, request: &WebRequest, body: Vec<u8>) -> u16 {
        let path = request.target.split('?').next().unwrap_or_default();
        let parent = path.trim_end_matches('/').rsplit_once('/').map_or("", |(parent, _)| parent);
        let has_parent =
            self.folders == Folders::Implied || locked(&self.made).contains(&format!("{parent}/"));
        match request.method.as_str() {
            _ if !has_parent => 409,
            "PUT" => {
                locked(&self.objects).insert(request.target.clone(), body);
                201
            }
            "MKCOL" if locked(&self.made).insert(path.to_owned()) => 201,
            _ => 405,
        }
    }
}
