//! A test of SQLite on a mount whose server is killed in the middle of transactions. The database
//! has synced all transactions that it acknowledged, so they must be there after the next mount.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use xfs_oracle::OracleError;
use xfs_oracle::harness::TrialError;

use crate::mounted::{Mounted, mounted, run};

/// The journal modes of SQLite, each with the number of transactions before the kill.
const TRIALS: [(&str, u64); 5] =
    [("delete", 7), ("truncate", 12), ("persist", 21), ("wal", 30), ("wal", 150)];
/// The number of transactions in the script of the client: more than are made before the kill.
const TRANSACTIONS: u64 = 20_000;
/// The number of rows that a transaction inserts.
const ROWS: u64 = 5;

pub(crate) fn database_keeps_what_it_acknowledged() -> Result<(), TrialError> {
    check("rw")
}

pub(crate) fn database_on_a_writeback_mount_keeps_what_it_acknowledged() -> Result<(), TrialError> {
    check("writeback_cache")
}

fn check(options: &str) -> Result<(), TrialError> {
    if Command::new("sqlite3").arg("--version").output().is_err() {
        return Err(OracleError::Unavailable("sqlite3 is not installed".to_owned()).into());
    }
    let mut volume = mounted(options)?;
    for (index, (journal, until)) in TRIALS.into_iter().enumerate() {
        let path = volume.at(&format!("database{index}"));
        let acknowledged = work_until_killed(&mut volume, &path, (journal, until));
        assert!(acknowledged >= until && acknowledged < TRANSACTIONS, "{acknowledged}");
        volume.mount(options);
        let ask = |query: &str| run(Command::new("sqlite3").arg(&path).arg(query));
        let about = format!("{journal}, {acknowledged} acknowledged");
        assert_eq!(ask("PRAGMA integrity_check").trim(), "ok", "{about}");
        // A transaction is whole or missing; the last one may exist without an acknowledgement.
        let whole = format!(
            "SELECT count(*) FROM (SELECT work FROM rows WHERE contents = hex(zeroblob(work % 700)) \
             GROUP BY work HAVING count(*) = {ROWS})"
        );
        let whole = ask(&whole).trim().parse::<u64>().unwrap();
        let last = ask("SELECT max(work) FROM rows").trim().parse::<u64>().unwrap();
        assert_eq!(whole, last, "{about}: a transaction is missing or torn");
        // With "delete" SQLite syncs the directory of the removed journal, if it can open it. It
        // treats a dead server there as success. Transactions before the kill were synced.
        let synced = if journal == "delete" { until } else { acknowledged };
        assert!(last >= synced, "{about}: {last} are left");
    }
    volume.check()
}

/// Makes transactions, and kills the server when `until` of them are acknowledged. Returns the
/// number of acknowledged transactions.
fn work_until_killed(volume: &mut Mounted, path: &Path, (journal, until): (&str, u64)) -> u64 {
    // stdbuf makes it print each line at once.
    let mut shell = Command::new("stdbuf");
    shell.args(["-oL", "sqlite3", "-bail"]).arg(path).stdin(Stdio::piped());
    let mut shell = shell.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = shell.stdin.take().unwrap();
    let mut script = format!(
        "PRAGMA journal_mode = {journal}; PRAGMA synchronous = EXTRA;\n\
         CREATE TABLE rows (work INTEGER, contents TEXT);\n"
    );
    for work in 1..=TRANSACTIONS {
        script.push_str("BEGIN;");
        for _ in 0..ROWS {
            let insert = "INSERT INTO rows VALUES";
            write!(script, "{insert}({work}, hex(zeroblob({work} % 700)));").unwrap();
        }
        writeln!(script, "COMMIT; SELECT 'made {work}';").unwrap();
    }
    // It ends before it has read everything.
    let feeder = thread::spawn(move || drop(input.write_all(script.as_bytes())));
    let mut acknowledged = 0;
    for line in BufReader::new(shell.stdout.take().unwrap()).lines() {
        let Ok(line) = line else { break };
        let Some(work) = line.strip_prefix("made ") else { continue };
        acknowledged = work.parse().unwrap();
        if acknowledged == until {
            volume.kill();
        }
    }
    shell.wait().unwrap();
    feeder.join().unwrap();
    acknowledged
}
