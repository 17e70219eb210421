//! Tests of `serve nfs` with the clients of libnfs, which need no mount and no kernel. If they are
//! not installed, a test prints that it is skipped.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::changing::VolumeDir;

/// A running server. It is killed when the test fails.
struct Server {
    child: Child,
    port: String,
}

impl Server {
    /// Starts a server for the image `image` at a free port.
    fn start(place: &VolumeDir, options: &[&str]) -> Self {
        let arguments = [&["serve", "nfs", "--listen", "127.0.0.1:0"], options, &["image"]];
        let mut command = place.command(&arguments.concat());
        let mut child =
            command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let port = said.trim_end().trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
        assert!(said.contains("serving nfs://127.0.0.1:"), "{said}");
        Self { child, port }
    }

    fn url(&self, path: &str) -> String {
        format!("nfs://127.0.0.1{path}?nfsport={0}&mountport={0}", self.port)
    }

    /// Runs a client of libnfs, for a minute at most. Returns its exit code and its output.
    fn client(&self, program: &str, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new("timeout");
        let output = command.arg("60").arg(program).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &said)
    }

    /// Stops the server. It must end well.
    fn stop(mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already, unless the test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns whether the clients are installed; prints that the test is skipped if they are not.
fn has_clients() -> bool {
    let found = Command::new("nfs-ls").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if let Err(error) = &found {
        eprintln!("skipped: nfs-ls cannot be run ({error})");
    }
    found.is_ok()
}

/// Fills a volume with a tree.
fn filled() -> VolumeDir {
    let place = VolumeDir::new();
    fs::create_dir_all(place.path("tree/directory/deep")).unwrap();
    fs::write(place.path("tree/directory/text"), "some text\n").unwrap();
    let noise: Vec<u8> = (0..5_000_011_u32).map(|at| (at.wrapping_mul(at) >> 9) as u8).collect();
    fs::write(place.path("tree/directory/noise"), noise).unwrap();
    for number in 0..700 {
        fs::write(place.path(&format!("tree/directory/deep/{number}")), [b'x'; 9]).unwrap();
    }
    place.check(&["import", "-q", "tree", "image"]);
    place
}

#[test]
fn client_reads_what_is_on_the_volume() {
    if !has_clients() {
        return;
    }
    let place = filled();
    let server = Server::start(&place, &[]);
    let (code, said) = server.client("nfs-cat", &[&server.url("/directory/text")]);
    assert_eq!((code, said.as_str()), (Some(0), "some text\n"));
    let copy = place.path("copy");
    let arguments = [&server.url("/directory/noise"), copy.to_str().unwrap()];
    let (code, said) = server.client("nfs-cp", &arguments.map(AsRef::as_ref));
    assert_eq!(code, Some(0), "{said}");
    let noise = fs::read(place.path("tree/directory/noise")).unwrap();
    assert!(fs::read(copy).unwrap() == noise);
    let (code, said) = server.client("nfs-ls", &[&server.url("/directory/deep")]);
    assert_eq!((code, said.lines().count()), (Some(0), 700), "{said}");
    assert!(said.lines().all(|line| line.starts_with("-rw") && line.contains(" 9 ")), "{said}");
    server.stop();
}

#[test]
fn client_writes_only_if_the_server_was_asked_to() {
    if !has_clients() {
        return;
    }
    let place = filled();
    let noise = place.path("tree/directory/noise");
    let copy_in = |server: &Server| {
        let arguments = [noise.to_str().unwrap(), &server.url("/directory/copy")];
        server.client("nfs-cp", &arguments).0
    };
    let server = Server::start(&place, &[]);
    assert_ne!(copy_in(&server), Some(0));
    server.stop();
    place.check_failure(&["stat", "image:/directory/copy"], 1, "no such");

    // The clients run as the user of this test, who need not be root.
    let server = Server::start(&place, &["--write", "--act-as", "0:0"]);
    assert_eq!(copy_in(&server), Some(0));
    server.stop();
    place.check(&["check", "-q", "image"]);
    let copied = place.run(&["cat", "image:/directory/copy"]).stdout;
    assert!(copied == fs::read(&noise).unwrap());
    // The server has closed the volume: nothing is left for a recovery.
    assert!(place.check(&["log", "image"]).contains("clean"));
}

#[test]
fn image_is_locked_while_it_is_served_for_writing() {
    let place = VolumeDir::new();
    let server = Server::start(&place, &["--write"]);
    place.check_failure(&["mkdir", "image:/new"], 1, "another program has it open");
    server.stop();
    place.check(&["mkdir", "image:/new"]);
}

#[test]
fn port_in_use_is_refused_by_name() {
    let place = VolumeDir::new();
    let server = Server::start(&place, &[]);
    let address = format!("127.0.0.1:{}", server.port);
    let arguments = ["serve", "nfs", "--listen", &address, "image"];
    place.check_failure(&arguments, 1, "--listen: 127.0.0.1:");
    server.stop();
}

#[test]
fn client_that_speaks_no_rpc_is_disconnected() {
    let place = VolumeDir::new();
    let server = Server::start(&place, &[]);
    let port: u16 = server.port.parse().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    std::io::Write::write_all(&mut stream, b"GET / HTTP/1.0\r\n\r\n").unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
    server.stop();
}
