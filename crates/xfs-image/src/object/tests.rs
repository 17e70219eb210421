//! Tests of objects as devices. Each test runs its own web server, which can be slow, wrong, or
//! replace the object.

mod tls;

use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use xfs_device::{BlockDevice, Durability, FileOptions};
use xfs_testkit::{RangeServer, WebAnswer, WebRequest};

use super::read_ahead::BLOCK_BYTES;
use super::{ObjectDevice, ObjectError, ObjectObserver, ObjectOptions, ObjectRequest};
use super::{RequestFailure, client::MAX_REQUESTS};

/// The length of the object in bytes: not a multiple of the block size.
const LENGTH: u64 = (12 << 20) + 777;

/// Returns the byte of the object at `offset`.
const fn byte_at(offset: u64) -> u8 {
    (offset / 509 % 251) as u8
}

/// Returns the bytes of the object.
fn contents() -> &'static [u8] {
    static CONTENTS: OnceLock<Vec<u8>> = OnceLock::new();
    CONTENTS.get_or_init(|| (0..LENGTH).map(byte_at).collect())
}

fn serve(
    length: u64,
    answer: impl Fn(&WebRequest) -> WebAnswer + Send + Sync + 'static,
) -> RangeServer {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&contents()[..length as usize], 0).unwrap();
    RangeServer::start(file, answer).unwrap()
}

/// Returns options that do not depend on the environment of the test.
fn options() -> ObjectOptions {
    ObjectOptions::new()
        .environment::<String, String>([])
        .timeout(Duration::from_secs(10))
        .attempts(3)
}

fn open_with(server: &RangeServer, options: &ObjectOptions) -> Result<ObjectDevice, ObjectError> {
    let address = format!("http://{}/disk.img?sig=hidden", server.address());
    ObjectDevice::open(&address, FileOptions::read_only(), options)
}

fn open(server: &RangeServer) -> ObjectDevice {
    open_with(server, &options()).unwrap()
}

/// Reads a range and compares every byte with that of the object.
#[track_caller]
fn check_read(device: &ObjectDevice, offset: u64, length: usize) {
    let mut bytes = vec![0; length];
    device.read_at(&mut bytes, offset).unwrap();
    assert!(bytes == contents()[offset as usize..][..length], "{length} bytes at {offset}");
}

/// Opens an object whose server gives this answer to every request, and returns the failure and
/// the number of requests.
#[track_caller]
fn failure_of(answer: WebAnswer) -> (RequestFailure, usize) {
    let server = serve(1 << 20, move |_| answer.clone());
    let options = options().attempts(2).timeout(Duration::from_millis(300));
    let error = open_with(&server, &options).err().expect("the object is refused");
    let text = error.to_string();
    assert!(text.starts_with(&format!("GET http://{}/disk.img", server.address())), "{text}");
    assert!(text.contains("(bytes 0-65535)") && !text.contains("hidden"), "{text}");
    let ObjectError::Request { failure, .. } = error else { panic!("{text}") };
    (failure, server.requests().len())
}

#[test]
fn object_is_read_by_ranges() {
    let server = serve(LENGTH, |_| WebAnswer::Range);
    let device = open(&server);
    assert_eq!((device.length_bytes(), device.is_read_only()), (LENGTH, true));
    check_read(&device, 0, 512);
    assert_eq!(server.requests().len(), 1, "the first block came with the first request");
    check_read(&device, 5 << 20, 512);
    check_read(&device, (5 << 20) + 4096, 4096);
    assert_eq!(server.requests().len(), 2);
    check_read(&device, LENGTH - 3, 3);
    check_read(&device, (9 << 20) - 100, 200);
    let asked: u64 = server.requests().iter().map(WebRequest::length).sum();
    assert_eq!(asked, 4 * BLOCK_BYTES + 777, "each block was asked for once");
    for request in server.requests().iter().skip(1) {
        assert_eq!(request.header("if-match"), Some(RangeServer::TAG), "I1 of `xfs_image::object`");
    }
    let mut past = [0; 4];
    assert!(device.read_at(&mut past, LENGTH - 3).is_err());
    assert!(device.write_at(&past, 0, Durability::Cached).is_err());
}

#[test]
fn long_read_is_split_into_requests_at_the_same_time() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let highest = Arc::clone(&most);
    let server = serve(LENGTH, move |request| {
        if request.index > 0 {
            highest.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // Other requests arrive while this one waits.
            std::thread::sleep(Duration::from_millis(20));
            running.fetch_sub(1, Ordering::SeqCst);
        }
        WebAnswer::Range
    });
    let device = open(&server);
    check_read(&device, 0, LENGTH as usize);
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.length() <= 1 << 20));
    let asked: u64 = requests.iter().map(WebRequest::length).sum();
    assert_eq!(asked, LENGTH);
    let most = most.load(Ordering::SeqCst);
    assert!((2..=MAX_REQUESTS).contains(&most), "{most}");
}

#[test]
fn sequential_reader_needs_few_requests() {
    let server = serve(LENGTH, |_| WebAnswer::Range);
    let device = open(&server);
    for offset in (0..LENGTH - 4096).step_by(4096) {
        check_read(&device, offset, 4096);
    }
    check_read(&device, LENGTH - 777, 777);
    let requests = server.requests();
    assert!(requests.len() < 30, "{} requests for 193 blocks", requests.len());
    let asked: u64 = requests.iter().map(WebRequest::length).sum();
    assert_eq!(asked, LENGTH, "no block was fetched twice");
}

#[test]
fn threads_that_read_the_same_block_share_its_request() {
    let server = serve(LENGTH, |_| WebAnswer::Range);
    let device = open(&server);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let device = &device;
            scope.spawn(move || {
                for round in 0..20_u64 {
                    check_read(device, (round * 13 % 20) * BLOCK_BYTES + thread * 100, 3000);
                }
            });
        }
    });
    let mut asked: Vec<u64> = Vec::new();
    for (first, last) in server.requests().iter().filter_map(WebRequest::range) {
        asked.extend(first / BLOCK_BYTES..=last / BLOCK_BYTES);
    }
    let count = asked.len();
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked.len(), count, "a block was asked for twice");
}

/// Replaces an open object, for each way in which the server can show the replacement. Checks that
/// the next request reports a changed object, and that blocks read before are still those of the
/// first version.
#[test]
fn changed_object_is_an_error_by_name() {
    let tag = |tag: &str| WebAnswer::RangeWith(vec![("ETag", tag.to_owned())]);
    let longer = format!("bytes 1048576-1114111/{}", LENGTH + 1);
    for later in [
        WebAnswer::status("412 Precondition Failed", ""),
        tag("\"second\""),
        WebAnswer::RangeWith(vec![("Content-Range", longer)]),
    ] {
        let server = serve(LENGTH, move |request| match request.index {
            0 => WebAnswer::Range,
            _ => later.clone(),
        });
        let device = open(&server);
        let error = device.read_at(&mut [0; 512], 1 << 20).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StaleNetworkFileHandle);
        assert!(error.to_string().contains("has changed since it was opened"), "{error}");
        // The blocks that were read before are still those of the first version.
        check_read(&device, 100, 100);
    }
}

#[test]
fn time_of_the_last_change_stands_in_for_a_missing_tag() {
    let time = "Wed, 21 Oct 2015 07:28:00 GMT";
    let dated = move |time: &str| {
        WebAnswer::RangeWith(vec![("ETag", String::new()), ("Last-Modified", time.to_owned())])
    };
    let later = "Wed, 21 Oct 2015 07:28:01 GMT";
    let server = serve(LENGTH, move |request| match request.index {
        0 | 1 => dated(time),
        _ => dated(later),
    });
    let device = open(&server);
    check_read(&device, 1 << 20, 10);
    assert_eq!(server.requests()[1].header("if-unmodified-since"), Some(time));
    let error = device.read_at(&mut [0; 512], 2 << 20).unwrap_err();
    assert!(error.to_string().contains("has changed"), "{error}");
}

#[test]
fn failures_that_pass_are_retried() {
    let reset = WebAnswer::Bytes(Vec::new());
    for answer in [WebAnswer::status("503 Slow Down", ""), WebAnswer::Half, reset] {
        let server = serve(LENGTH, move |request| match request.index {
            0 | 2 => answer.clone(),
            _ => WebAnswer::Range,
        });
        let device = open(&server);
        check_read(&device, 3 << 20, 1000);
        assert_eq!(server.requests().len(), 4);
    }
}

#[test]
fn failures_that_stay_are_reported_with_their_reason() {
    let with = |name, value: &str| WebAnswer::RangeWith(vec![(name, value.to_owned())]);
    let body = "<Error><Code>AccessDenied</Code></Error>";
    let status = |code| RequestFailure::Status { code, detail: None };
    let denied = RequestFailure::Status { code: 403, detail: Some("AccessDenied".to_owned()) };
    let retried = |failure| (failure, 2);
    let once = |failure| (failure, 1);
    for (answer, expected) in [
        (WebAnswer::status("200 OK", "whole"), once(RequestFailure::NoRanges)),
        (WebAnswer::status("404 Not Found", ""), once(status(404))),
        (WebAnswer::status("416 Range Not Satisfiable", ""), once(status(416))),
        (WebAnswer::status("403 Forbidden", body), once(denied)),
        (WebAnswer::status("500 Oops", ""), retried(status(500))),
        (with("ETag", ""), once(RequestFailure::NoVersion)),
        (with("ETag", "W/\"weak\""), once(RequestFailure::NoVersion)),
        (WebAnswer::Silence, retried(RequestFailure::TimedOut)),
    ] {
        assert_eq!(failure_of(answer.clone()), expected, "{answer:?}");
    }
    for wrong in [
        with("Content-Range", ""),
        with("Content-Range", "bytes 1-65536/1048576"),
        with("Content-Range", "bytes 0-99/1048576"),
        with("Content-Encoding", "gzip"),
        WebAnswer::Bytes(b"SSH-2.0-OpenSSH_9.2 and more\r\n\r\n".to_vec()),
        WebAnswer::Bytes([b"HTTP/1.1 206 Partial\r\nX: ".to_vec(), vec![b'x'; 1 << 20]].concat()),
    ] {
        let (failure, requests) = failure_of(wrong.clone());
        assert!(matches!(failure, RequestFailure::WrongAnswer(_)), "{failure:?}");
        assert_eq!(requests, 1);
    }
}

/// Starts a server that claims an object length of 2^64 - 1 bytes. Checks that reads past the real
/// end give errors, and that the client allocates no memory according to the claimed length.
#[test]
fn lengths_of_the_server_are_not_trusted() {
    let huge = "bytes 0-65535/18446744073709551615".to_owned();
    let server =
        serve(1 << 20, move |_| WebAnswer::RangeWith(vec![("Content-Range", huge.clone())]));
    let device = open(&server);
    assert_eq!(device.length_bytes(), u64::MAX);
    let error = device.read_at(&mut [0; 512], 1 << 60).unwrap_err();
    assert!(error.to_string().contains("HTTP status 416"), "{error}");
    assert!(device.read_at(&mut [0; 512], u64::MAX - 512).is_err());
}

#[test]
fn redirection_is_followed_once_and_without_the_password() {
    // Another port of the same host is another server too.
    for host in ["localhost", "127.0.0.1"] {
        check_redirection(host);
    }
}

fn check_redirection(host: &str) {
    let target = serve(LENGTH, |_| WebAnswer::Range);
    let to = format!("http://{host}:{}/moved", target.address().port());
    let server = serve(LENGTH, move |_| {
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        WebAnswer::Bytes(head.into_bytes())
    });
    let address = format!("http://user:word@{}/disk.img", server.address());
    let device = ObjectDevice::open(&address, FileOptions::read_only(), &options()).unwrap();
    check_read(&device, 7 << 20, 5000);
    assert!(server.requests()[0].header("authorization").is_some());
    assert_eq!(server.requests().len(), 1);
    for request in target.requests() {
        assert_eq!(request.header("authorization"), None);
        assert_eq!(request.target, "/moved");
    }
}

#[test]
fn object_of_a_bucket_is_asked_for_with_a_signature() {
    let server = serve(LENGTH, |_| WebAnswer::Range);
    let endpoint = format!("http://{}", server.address());
    let variables = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "hidden"),
    ];
    let signing = options().environment(variables);
    let device = ObjectDevice::open("s3://b/k 1", FileOptions::read_only(), &signing).unwrap();
    check_read(&device, 7 << 20, 5000);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(request.target, "/b/k%201");
        let signature = request.header("authorization").unwrap();
        assert!(signature.starts_with("AWS4-HMAC-SHA256 Credential=id/"), "{signature}");
        assert!(request.header("x-amz-date").is_some());
        assert_eq!(request.header("host"), Some(server.address().to_string().as_str()));
    }
    let refused = ObjectDevice::open("s3://b/k", FileOptions::read_write(), &signing).err();
    assert!(matches!(refused, Some(ObjectError::ReadOnly)));
}

/// A request that was observed: its offset and length, the bytes received, the number of the
/// attempt, and the status.
type Observed = (u64, u64, u64, u32, Option<u16>);

/// The requests and the ports that were observed.
#[derive(Debug, Default)]
struct Log(Mutex<Vec<Observed>>, Mutex<Vec<u16>>);

impl ObjectObserver for Log {
    fn request(&self, request: &ObjectRequest<'_>) {
        assert!(!request.url.contains("hidden"), "I5 of `xfs_image::object`: {}", request.url);
        let ObjectRequest { offset, length, received, attempt, status, .. } = *request;
        self.0.lock().unwrap().push((offset, length, received, attempt, status));
    }

    fn resolved(&self, addresses: &[std::net::SocketAddr]) {
        self.1.lock().unwrap().extend(addresses.iter().map(std::net::SocketAddr::port));
    }
}

#[test]
fn observer_gets_every_attempt_and_the_port_once() {
    let server = serve(LENGTH, |request| match request.index {
        1 => WebAnswer::status("503 Slow Down", ""),
        _ => WebAnswer::Range,
    });
    let log = Arc::new(Log::default());
    let device = open_with(&server, &options().observer(log.clone())).unwrap();
    check_read(&device, 1 << 20, 100);
    let block = BLOCK_BYTES;
    let expected = [
        (0, block, block, 1, Some(206)),
        (1 << 20, block, 0, 1, Some(503)),
        (1 << 20, block, block, 2, Some(206)),
    ];
    assert_eq!(*log.0.lock().unwrap(), expected);
    // I4 of `xfs_image::object`
    assert_eq!(*log.1.lock().unwrap(), [server.address().port()]);
}

#[test]
fn certificate_files_that_cannot_be_used_are_named() {
    let key = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key.path(), "no certificate").unwrap();
    for path in [key.path().to_str().unwrap(), "/nowhere/bundle.pem"] {
        let options = options().environment([("AWS_CA_BUNDLE", path)]);
        let error = ObjectDevice::open("https://h/a", FileOptions::read_only(), &options).err();
        let error = error.expect("the file is refused").to_string();
        assert!(error.contains("AWS_CA_BUNDLE names a file"), "{error}");
    }
}
