use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::io::Errno;

use super::{
    Answer, BAD_REQUEST, FiguresResult, Listener, MISDIRECTED, MOST_BYTES, MOST_CONNECTIONS,
    NOT_ALLOWED, NOT_FOUND, answer, is_final, read_head,
};
use crate::exit::Exit;
use crate::failure::Failure;

fn check(head: &str, expected: &Answer) {
    assert_eq!(&answer(head.as_bytes()), expected, "{head:?}");
}

#[test]
fn only_the_path_of_figures_is_answered() {
    check("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:9187\r\nAccept: */*", &Answer::Figures);
    check("GET /metrics?a=b HTTP/1.0", &Answer::Figures);
    check("GET /metrics HTTP/1.1\r\nContent-Length: 0", &Answer::Figures);
    check("HEAD /metrics HTTP/1.1", &Answer::Figures);
    check("HEAD / HTTP/1.1", &NOT_FOUND);
    check("GET / HTTP/1.1", &NOT_FOUND);
    check("GET /metrics/ HTTP/1.1", &NOT_FOUND);
    check("POST /metrics HTTP/1.1\r\nContent-Length: 5", &NOT_ALLOWED);
    for bad in [
        "",
        "GET",
        "GET /metrics",
        "GET /metrics HTTP/2",
        "GET  /metrics HTTP/1.1",
        "GET /metrics HTTP/1.1 more",
        "GET /metrics HTTP/1.1\r\nno colon",
        "GET /metrics HTTP/1.1\r\n: no name",
        "GET /metrics HTTP/1.1\r\nA : space",
        "GET /metrics HTTP/1.1\r\nA: b\r\n folded: c",
        "GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked",
        "GET /metrics HTTP/1.1\r\nContent-Length: 1",
    ] {
        check(bad, &BAD_REQUEST);
    }
    assert_eq!(answer(b"GET /\xff HTTP/1.1"), BAD_REQUEST);
}

/// A reader that returns these bytes, in reads of at most the given number of bytes.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let size = self.1.min(bytes.len());
        self.0.read(&mut bytes[..size])
    }
}

#[test]
fn request_ends_with_its_empty_line() {
    let request = b"GET / HTTP/1.1\r\nA: b\r\n\r\nmore";
    for size in 1..=request.len() {
        let head = read_head(&mut Pieces(request, size)).expect("a head");
        assert_eq!(head.as_deref(), Some(&b"GET / HTTP/1.1\r\nA: b"[..]), "{size}");
    }
    assert!(read_head(&mut Pieces(b"GET / HTTP/1.1\r\n", 7)).is_err(), "it ended early");
    let long = vec![b'a'; MOST_BYTES * 2];
    assert_eq!(read_head(&mut Pieces(&long, 1000)).expect("read"), None);
}

#[test]
fn address_of_another_machine_is_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let refused = Listener::bind(address.parse().expect("an address")).err();
        assert_eq!(refused.map(|failure| failure.exit()), Some(Exit::Refused), "{address}");
    }
}

/// Checks I2 of `xfs_cli::mount::stats::listen`: a request that names another host is refused. A
/// web page can make a browser use any host name that resolves to this machine.
#[test]
fn request_for_another_host_is_refused() {
    for host in ["localhost", "LocalHost:9187", "127.0.0.1", "127.1.2.3:1", "[::1]", "[::1]:9187"] {
        check(&format!("GET /metrics HTTP/1.1\r\nHost: {host}"), &Answer::Figures);
    }
    for host in ["", "example.org:9187", "localhost.example.org", "192.0.2.1", "[2001:db8::1]:80"] {
        check(&format!("GET /metrics HTTP/1.1\r\nhost: {host}"), &MISDIRECTED);
        let two = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nHost: localhost");
        check(&two, &MISDIRECTED);
    }
}

#[test]
fn lack_of_descriptors_is_not_final() {
    let is_over = |errno: Errno| is_final(&io::Error::from(errno));
    for errno in [Errno::CONNABORTED, Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS] {
        assert!(!is_over(errno), "{errno}");
    }
    assert!(is_over(Errno::BADF));
}

/// Starts a server on a free port that answers with the result of `figures`. Returns the address of
/// the server. `patience` limits the time for a request or its answer, and `late` the time for the
/// figures. The server runs until the tests end.
fn serve(
    patience: Duration,
    late: Duration,
    figures: impl Fn() -> FiguresResult + Send + 'static,
) -> SocketAddr {
    let address = "127.0.0.1:0".parse().expect("an address");
    let mut listener = Listener::bind(address).unwrap_or_else(|failure| panic!("{failure}"));
    (listener.patience, listener.late) = (patience, late);
    let address = listener.address().expect("a port");
    std::thread::spawn(move || listener.serve(figures));
    address
}

fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.write_all(request).expect("asked");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    text
}

const HOUR: Duration = Duration::from_secs(3600);
const METRICS: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn one_connection_after_the_other_is_answered() {
    let asked = AtomicUsize::new(0);
    let address = serve(HOUR, HOUR, move || match asked.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Ok(b"a 1\n".to_vec()),
        _ => Err(Failure::new(Exit::Failed, "the mount is gone")),
    });
    drop(TcpStream::connect(address).expect("connected"));
    let text = ask(address, METRICS);
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains("\r\nContent-Length: 4\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\na 1\n"), "{text}");
    let text = ask(address, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(text.contains("\r\nContent-Length: 4\r\n"), "{text}");
    assert!(text.ends_with("\r\n\r\n"), "{text}");
    let text = ask(address, METRICS);
    assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
    assert!(text.ends_with("the mount is gone\n"), "{text}");
    assert!(ask(address, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
}

#[test]
fn silent_client_does_not_block_others() {
    let address = serve(HOUR, HOUR, || Ok(b"a 1\n".to_vec()));
    let connect = |_| TcpStream::connect(address).expect("connected");
    let _idle: Vec<_> = (1..MOST_CONNECTIONS).map(connect).collect();
    assert!(ask(address, METRICS).ends_with("a 1\n"));
}

/// Checks I1 of `xfs_cli::mount::stats::listen`: while a mount hangs, only one thread waits for its
/// counters, however many clients ask for them.
#[test]
fn hanging_mount_is_asked_once() {
    let (release, released) = mpsc::channel::<()>();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let address = serve(HOUR, Duration::from_millis(10), move || {
        counted.fetch_add(1, Ordering::Relaxed);
        // Wait until the other end is gone.
        _ = released.recv();
        Ok(b"a 1\n".to_vec())
    });
    for _ in 0..MOST_CONNECTIONS * 2 {
        let text = ask(address, METRICS);
        assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
        assert!(text.ends_with("does not answer\n"), "{text}");
    }
    assert!(asked.load(Ordering::Relaxed) <= 1);
    drop(release);
    while !ask(address, METRICS).ends_with("a 1\n") {}
}
