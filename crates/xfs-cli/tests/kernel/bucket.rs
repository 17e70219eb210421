//! An image in a bucket of s3s-fs, an S3 server of other authors, which checks the signature of
//! each request.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use xfs_oracle::OracleError;
use xfs_oracle::harness::TrialError;

use crate::PATIENCE_SECONDS;

const SECRET: &str = "secret of the test";
/// Size of the volume in bytes. The server adds up a checksum of the whole file for each request.
const SIZE: u64 = 384 << 20;
/// The longest time that the server may take to listen.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// A running server, which ends when this is dropped.
struct S3Server {
    process: Child,
    endpoint: String,
}

impl S3Server {
    /// Starts the server with the folders of `root` as its buckets.
    fn start(program: &Path, root: &Path) -> Self {
        // The port is free now. No other test listens on a chosen port.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new(program)
            .args(["--host", "127.0.0.1", "--access-key", "id", "--secret-key", SECRET])
            .args(["--port", &port.to_string()])
            .arg(root)
            .env("RUST_LOG", "error")
            .spawn()
            .unwrap();
        let server = Self { process, endpoint: format!("http://127.0.0.1:{port}") };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < START_PATIENCE, "the server does not listen");
            sleep(Duration::from_millis(50));
        }
        server
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program() -> Result<PathBuf, TrialError> {
    let folder = std::env::var_os("FERROXFS_ORACLES").map(PathBuf::from);
    let program = folder.map(|folder| folder.join("s3s-fs/bin/s3s-fs"));
    program.filter(|program| program.is_file()).ok_or_else(|| {
        let reason = "needs s3s-fs: run `cargo xtask oracles --s3`".to_owned();
        OracleError::Unavailable(reason).into()
    })
}

fn ferroxfs(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("timeout");
    command.args([PATIENCE_SECONDS, env!("CARGO_BIN_EXE_ferroxfs")]).args(arguments);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_ascii_uppercase();
        if text.ends_with("_PROXY") || text.starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command.current_dir(folder).env("TZ", "UTC").envs(variables.iter().copied());
    command.output().expect("the program runs")
}

/// Lists a volume of 384 MiB in a bucket. The listing is that of the local file, and less than 2 %
/// of the bytes are transferred, as the log of requests says. With a wrong secret nothing is read.
pub(crate) fn image_is_listed_with_few_of_its_bytes() -> Result<(), TrialError> {
    let program = program()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let tree = folder.path().join("tree/deep/er");
    fs::create_dir_all(&tree).unwrap();
    fs::create_dir_all(folder.path().join("root/bucket")).unwrap();
    for number in 0..300_u32 {
        fs::write(tree.join(format!("file-{number}")), number.to_string().repeat(3000)).unwrap();
    }
    let image = "root/bucket/big.img";
    let size = format!("size={SIZE}");
    let made = ferroxfs(folder.path(), &["mkfs", "-q", "-d", &size, "--from", "tree", image], &[]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let server = S3Server::start(&program, &folder.path().join("root"));
    let list = |secret| {
        let variables = [
            ("AWS_ENDPOINT_URL", server.endpoint.as_str()),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", secret),
        ];
        let arguments = ["ls", "-laR", "--log-requests", "s3://bucket/big.img"];
        ferroxfs(folder.path(), &arguments, &variables)
    };
    let remote = list(SECRET);
    let errors = String::from_utf8(remote.stderr).unwrap();
    assert!(remote.status.success(), "{errors}");
    let local = ferroxfs(folder.path(), &["ls", "-laR", image], &[]);
    assert!(remote.stdout == local.stdout && local.stdout.len() > 10_000, "{errors}");
    let sum = errors.lines().last().unwrap();
    let bytes = sum.strip_suffix(" bytes received").and_then(|sum| sum.rsplit(' ').next());
    let bytes: u64 = bytes.and_then(|bytes| bytes.parse().ok()).expect(sum);
    assert!((1..SIZE / 50).contains(&bytes), "{sum}");
    let refused = list("another secret");
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{errors}");
    assert!(errors.contains("403"), "{errors}");
    Ok(())
}
