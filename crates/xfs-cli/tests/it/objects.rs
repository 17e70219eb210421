//! Tests of images on a web server and on an S3 server. The server is in the test.

use std::fs::File;
use std::process::{Command, Output};

use xfs_testkit::{RangeServer, WebAnswer, WebRequest};

use crate::{GoldenDir, transcript};

/// Serves the file `name` of the directory.
fn serve(place: &GoldenDir, name: &str) -> RangeServer {
    let file = File::open(place.path().join(name)).unwrap();
    RangeServer::start(file, |_| WebAnswer::Range).unwrap()
}

/// Runs the program without the variables that name a proxy, servers and credentials.
fn run_with(place: &GoldenDir, variables: &[(&str, &str)], arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
    command.args(arguments).current_dir(place.path()).env("TZ", "UTC");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_ascii_uppercase();
        if text.ends_with("_PROXY") || text.starts_with("AWS_") || text == "SSL_CERT_FILE" {
            command.env_remove(name);
        }
    }
    command.envs(variables.iter().copied()).output().unwrap()
}

fn run(place: &GoldenDir, arguments: &[&str]) -> Output {
    run_with(place, &[], arguments)
}

fn received(server: &RangeServer) -> u64 {
    server.requests().iter().map(WebRequest::length).sum()
}

/// Checks the listing of a volume of 1 GiB in a bucket: it is that of the local file, less than 2 %
/// of the bytes are transferred, and the log shows each request. Most of the transferred bytes are
/// parts of the log of 64 MiB, whose end must be found.
#[test]
fn image_in_a_bucket_is_listed_with_few_of_its_bytes() {
    let place = GoldenDir::new();
    std::fs::create_dir_all(place.path().join("tree/deep/er")).unwrap();
    for number in 0..300_u32 {
        let name = format!("tree/deep/er/file-{number}");
        std::fs::write(place.path().join(name), number.to_string().repeat(3000)).unwrap();
    }
    let made = ["mkfs", "-q", "-d", "size=1g", "--from", "tree", "big"];
    assert_eq!(transcript(&place.run(&made)), "");
    let server = serve(&place, "big");
    let endpoint = format!("http://{}", server.address());
    let variables = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let list = ["ls", "-laR", "--sandbox=always", "--log-requests", "s3://bucket/big.img"];
    let remote = run_with(&place, &variables, &list);
    let errors = String::from_utf8(remote.stderr).unwrap();
    let local = place.run(&["ls", "-laR", "big"]);
    assert!(remote.stdout == local.stdout, "{errors}");
    assert!(local.stdout.len() > 10_000);
    let (total, requests) = (received(&server), server.requests());
    assert!(total < (1 << 30) / 50, "{total} bytes: {errors}");
    for request in &requests {
        let (first, _) = request.range().unwrap();
        let line =
            format!("/bucket/big.img offset {first} length {}: status 206", request.length());
        assert!(errors.contains(&line), "{line}: {errors}");
    }
    let sum = format!("ferroxfs: {} requests, {total} bytes received", requests.len());
    assert!(errors.lines().last() == Some(sum.as_str()), "{sum}: {errors}");
}

/// Checks that commands print the same for an image on a web server as for a local file. The server
/// has the golden volume as a raw image, and then inside of a qcow2 image.
#[test]
fn image_on_a_web_server_is_read_like_the_file() {
    let place = GoldenDir::new();
    let commands = [&["ls", "-laR"][..], &["du"], &["tree"]];
    let check = |server: &RangeServer| {
        let address = format!("http://{}/disk", server.address());
        for command in commands {
            let remote = run(&place, &[command, &["--sandbox=always", &address]].concat());
            let local = place.run(&[command, &["image"]].concat());
            let (remote, local) = (transcript(&remote), transcript(&local));
            assert_eq!(remote.replace(&address, "image"), local, "{command:?}");
        }
    };
    check(&serve(&place, "image"));
    let convert = ["convert", "-f", "raw", "-O", "qcow2", "-c", "image", "disk.qcow2"];
    match Command::new("qemu-img").current_dir(place.path()).args(convert).output() {
        Ok(output) => {
            assert!(output.status.success());
            check(&serve(&place, "disk.qcow2"));
        }
        Err(error) => eprintln!("skipped: qemu-img cannot be run ({error})"),
    }
}

#[test]
fn refusals_name_the_address_without_its_credentials() {
    let place = GoldenDir::new();
    let server = serve(&place, "image");
    let address = format!("http://user:word@{}/disk?sig=hidden", server.address());
    let shown = format!("http://{}/disk?...", server.address());
    let whole = RangeServer::start(File::open(place.path().join("image")).unwrap(), |_| {
        WebAnswer::status("200 OK", "all of it")
    });
    let whole = format!("http://{}/disk", whole.unwrap().address());
    for (arguments, message, exit) in [
        (&["mkdir", &format!("{address}:/new")][..], "which ferroxfs does not write", 3),
        (&["ls", &whole], "the server does not serve ranges of the object", 3),
        (&["ls", "gs://bucket/key"], "use the https:// address", 3),
        (&["stat", &format!("{address}:/nowhere")], "/nowhere", 1),
    ] {
        let output = run(&place, arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains(message), "{arguments:?}: {errors}");
        assert!(!errors.contains("hidden") && !errors.contains("word"), "{errors}");
        assert_eq!(output.status.code(), Some(exit), "{errors}");
        assert!(!arguments[1].starts_with(&address) || errors.contains(&shown), "{errors}");
    }
}
