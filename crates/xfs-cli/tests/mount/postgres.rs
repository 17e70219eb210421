//! A test of PostgreSQL on a mount whose server is killed under load. The database has synced all
//! rows that it acknowledged, so they must be there after the next mount. The accounts of pgbench
//! must stay in balance.
//!
//! PostgreSQL runs as an ordinary user, because it refuses to run as root.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use xfs_oracle::OracleError;
use xfs_oracle::harness::TrialError;

use crate::mounted::{Mounted, is_long, roomy, run};

/// The id of Debian's user and group `nobody`.
const NOBODY: u32 = 65534;
/// The numbers of rows that are acknowledged before the server is killed, one for each round.
const ROWS: [u64; 4] = [40, 150, 9, 400];
/// The number of rows that the client's script would insert: more than are inserted before the
/// kill.
const MOST_ROWS: u64 = 100_000;
/// How long the database may take to recover.
const PATIENCE: Duration = Duration::from_secs(120);

/// The folders of the database's programs, data and socket.
struct Cluster {
    programs: PathBuf,
    data: PathBuf,
    sockets: PathBuf,
}

pub(crate) fn postgres_keeps_what_it_acknowledged() -> Result<(), TrialError> {
    let mut volume = roomy()?;
    let programs = programs()?;
    let cluster = Cluster { programs, data: volume.at("data"), sockets: volume.outside("sockets") };
    volume.mount("allow_other");
    for folder in [&cluster.data, &cluster.sockets] {
        fs::create_dir(folder).unwrap();
        chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // Checksums detect a torn page.
    let data = cluster.data.clone();
    run(cluster.program("initdb").args(["-k", "-A", "trust", "-U", "postgres", "-D"]).arg(&data));
    let mut database = cluster.start();
    run(cluster.client("pgbench").args(["-q", "-i", "-s", "1", "postgres"]));
    cluster.ask("CREATE TABLE rows (round int, number int, PRIMARY KEY (round, number))");
    let count = if is_long() { ROWS.len() } else { 1 };
    for (round, until) in ROWS.into_iter().take(count).enumerate() {
        let acknowledged = work_until_killed(&cluster, &mut volume, round, until);
        // It notices that its files are gone, but not in each of its processes.
        let _ = database.kill();
        database.wait().unwrap();
        volume.mount("allow_other");
        database = cluster.start();
        let query =
            format!("SELECT count(*) FROM rows WHERE round = {round} AND number <= {acknowledged}");
        assert_eq!(cluster.ask(&query), acknowledged.to_string(), "round {round}");
        let sums = "SELECT count(DISTINCT sum) FROM (SELECT sum(abalance) FROM pgbench_accounts
            UNION ALL SELECT sum(bbalance) FROM pgbench_branches
            UNION ALL SELECT sum(tbalance) FROM pgbench_tellers
            UNION ALL SELECT coalesce(sum(delta), 0) FROM pgbench_history) sums";
        assert_eq!(cluster.ask(sums), "1", "round {round}: accounts are out of balance");
    }
    assert_ne!(cluster.ask("SELECT count(*) FROM pgbench_history"), "0");
    run(cluster.program("pg_ctl").args(["stop", "-w", "-m", "fast", "-D"]).arg(&data));
    database.wait().unwrap();
    run(cluster.program("pg_checksums").args(["--check", "-D"]).arg(&data));
    volume.check()
}

/// Adds rows one by one, while pgbench runs, and kills the server when at least `until` of them are
/// acknowledged, and a transaction of pgbench is. Returns the number of acknowledged rows.
fn work_until_killed(cluster: &Cluster, volume: &mut Mounted, round: usize, until: u64) -> u64 {
    let mut bench = cluster.client("pgbench");
    bench.args(["-n", "-c", "4", "-j", "2", "-T", "600", "postgres"]);
    let mut bench = bench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut client = cluster.client("psql");
    client.args(["-qAtX", "-v", "ON_ERROR_STOP=1", "postgres"]).stdin(Stdio::piped());
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut script = String::new();
    for number in 1..=MOST_ROWS {
        writeln!(script, "INSERT INTO rows VALUES ({round}, {number}) RETURNING number;").unwrap();
    }
    let mut input = client.stdin.take().unwrap();
    // It ends before it has read everything.
    let feeder = thread::spawn(move || drop(input.write_all(script.as_bytes())));
    let (mut acknowledged, mut is_killed) = (0, false);
    for line in BufReader::new(client.stdout.take().unwrap()).lines() {
        let Ok(number) = line.unwrap().parse() else { continue };
        acknowledged = number;
        // On a busy machine pgbench may begin late.
        let has_worked = || cluster.ask("SELECT count(*) FROM pgbench_history") != "0";
        if !is_killed && acknowledged >= until && has_worked() {
            volume.kill();
            is_killed = true;
        }
    }
    client.wait().unwrap();
    feeder.join().unwrap();
    let _ = bench.kill();
    bench.wait().unwrap();
    assert!(acknowledged >= until && acknowledged < MOST_ROWS, "{acknowledged} rows");
    acknowledged
}

impl Cluster {
    /// Returns a command that runs a program of the database as the user `nobody`.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new("setpriv");
        let id = NOBODY.to_string();
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]);
        command.arg(self.programs.join(name)).current_dir(&self.sockets).env("LC_ALL", "C");
        command
    }

    /// Returns a command that runs a client of the database as the user `nobody`.
    fn client(&self, name: &str) -> Command {
        let mut command = self.program(name);
        command.arg("-h").arg(&self.sockets).args(["-U", "postgres"]);
        command
    }

    fn ask(&self, query: &str) -> String {
        run(self.client("psql").args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-c", query, "postgres"]))
            .trim()
            .to_owned()
    }

    /// Starts the database and waits until it answers. It does not start while processes of the
    /// previous database are alive, so the start is repeated.
    fn start(&self) -> Child {
        let end = Instant::now() + PATIENCE;
        let spawn = || {
            let mut command = self.program("postgres");
            command.arg("-D").arg(&self.data).arg("-k").arg(&self.sockets);
            command.args(["-c", "listen_addresses=", "-c", "fsync=on"]);
            command.args(["-c", "full_page_writes=on", "-c", "synchronous_commit=on"]);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let mut database = spawn();
        while Instant::now() < end {
            if self.client("pg_isready").arg("-q").status().unwrap().success() {
                return database;
            }
            if database.try_wait().unwrap().is_some() {
                database = spawn();
            }
            thread::sleep(Duration::from_millis(100));
        }
        let _ = database.kill();
        let _ = database.wait();
        panic!("the database does not start");
    }
}

/// Returns the folder of PostgreSQL's newest programs. Debian has one folder for each version.
fn programs() -> Result<PathBuf, OracleError> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    folders.retain(|folder| folder.join("initdb").exists() && has_pgbench(folder));
    folders.sort();
    let missing = || OracleError::Unavailable("postgresql is not installed".to_owned());
    folders.pop().ok_or_else(missing)
}

fn has_pgbench(folder: &Path) -> bool {
    folder.join("pgbench").exists()
}
