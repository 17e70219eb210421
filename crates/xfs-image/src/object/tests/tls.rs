//! Tests of `https://`. The test terminates TLS, and passes requests on to the web server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use xfs_device::{BlockDevice, FileOptions};
use xfs_testkit::WebAnswer;

use super::{LENGTH, check_read, options, serve};
use crate::object::{ObjectDevice, ObjectError, RequestFailure};

const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tls/authority.pem");
const CERTIFICATE: &[u8] = include_bytes!("../../../../../testdata/tls/server.pem");
const KEY: &[u8] = include_bytes!("../../../../../testdata/tls/server.key");

/// Starts a TLS server that passes requests on to the web server at `to`. Returns its port.
fn terminate_tls(to: SocketAddr) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = config.unwrap().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let client = StreamOwned::new(connection, stream.unwrap());
            // The client can refuse the certificate, and ends the connection.
            std::thread::spawn(move || _ = pass_on(client, to));
        }
    });
    port
}

/// Passes the requests of a client on to the web server at `to`, and passes the answers back to the
/// client.
fn pass_on(
    client: StreamOwned<ServerConnection, TcpStream>,
    to: SocketAddr,
) -> std::io::Result<()> {
    let mut client = BufReader::new(client);
    let mut server = BufReader::new(TcpStream::connect(to)?);
    loop {
        let (request, _) = head(&mut client)?;
        server.get_mut().write_all(&request)?;
        let (answer, length) = head(&mut server)?;
        client.get_mut().write_all(&answer)?;
        let mut body = vec![0; length];
        server.read_exact(&mut body)?;
        client.get_mut().write_all(&body)?;
        client.get_mut().flush()?;
    }
}

/// Reads the head of a request or an answer. Returns the head, and the length of the body.
fn head(from: &mut impl BufRead) -> std::io::Result<(Vec<u8>, usize)> {
    let (mut bytes, mut length) = (Vec::new(), 0);
    loop {
        let start = bytes.len();
        if from.read_until(b'\n', &mut bytes)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = String::from_utf8_lossy(&bytes[start..]).to_ascii_lowercase();
        match line.split_once(':') {
            Some(("content-length", value)) => length = value.trim().parse().unwrap(),
            Some(_) => {}
            None if line.trim().is_empty() => return Ok((bytes, length)),
            None => {}
        }
    }
}

#[test]
fn object_behind_tls_is_read_if_its_certificate_is_trusted() {
    let server = serve(LENGTH, |_| WebAnswer::Range);
    let port = terminate_tls(server.address());
    let open = |host: &str, variables: &[(&str, &str)]| {
        let address = format!("https://{host}:{port}/disk.img");
        let options = options().environment(variables.iter().copied());
        ObjectDevice::open(&address, FileOptions::read_only(), &options)
    };
    let trusting = [("AWS_CA_BUNDLE", AUTHORITY)];
    let device = open("localhost", &trusting).unwrap();
    assert_eq!(device.length_bytes(), LENGTH);
    check_read(&device, 0, LENGTH as usize);
    let requests = server.requests().len();
    // The certificate is for another name, or of an authority that is not known.
    for refused in [open("127.0.0.1", &trusting), open("localhost", &[])] {
        let error = refused.err().expect("the certificate is refused");
        let ObjectError::Request { failure: RequestFailure::Tls(text), attempts, .. } = &error
        else {
            panic!("{error}");
        };
        assert!(text.contains("certificate"), "{text}");
        assert_eq!(*attempts, 1);
    }
    assert_eq!(server.requests().len(), requests, "no request was sent to a server in doubt");
}

#[test]
fn redirection_away_from_tls_is_refused() {
    let target = serve(LENGTH, |_| WebAnswer::Range);
    let to = format!("http://localhost:{}/moved", target.address().port());
    let server = serve(LENGTH, move |_| {
        let head = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        WebAnswer::Bytes(head.into_bytes())
    });
    let address =
        format!("https://user:word@localhost:{}/disk.img", terminate_tls(server.address()));
    let trusting = options().environment([("AWS_CA_BUNDLE", AUTHORITY)]);
    let error = ObjectDevice::open(&address, FileOptions::read_only(), &trusting).err().unwrap();
    let ObjectError::Request { failure: RequestFailure::WrongAnswer(text), .. } = &error else {
        panic!("{error}");
    };
    assert!(text.contains("without encryption"), "{text}");
    assert!(!error.to_string().contains("word"), "{error}");
    assert!(target.requests().is_empty());
}
