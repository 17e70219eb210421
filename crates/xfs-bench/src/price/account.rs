//! Counts the instructions of each operation of the library, by kind of work and by layer, and
//! compares several builds of this program.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use xfs_workload::{Caches, OperationAccount, account, kind, layer};

use crate::error::BenchError;

/// Arguments for counting the instructions of each operation.
#[derive(clap::Args)]
pub(crate) struct AccountArguments {
    /// Count the instructions of each operation instead, with this many files
    #[arg(long, value_name = "FILES")]
    operations: Option<u64>,
    /// Builds of this program, in the order of columns; without one, this build
    #[arg(long, requires = "operations")]
    program: Vec<PathBuf>,
    /// Also print the functions with at least this many instructions for each operation
    #[arg(long, requires = "operations", value_name = "INSTRUCTIONS")]
    functions: Option<u64>,
}

/// Arguments of the run that valgrind observes.
#[derive(clap::Args)]
pub(crate) struct OperationsArguments {
    #[arg(long)]
    files: u64,
}

/// Counts the instructions of each operation and prints them in tables, if the arguments ask for
/// it. Returns whether they do.
pub(super) fn run(arguments: &AccountArguments) -> Result<bool, BenchError> {
    let Some(files) = arguments.operations else { return Ok(false) };
    let programs = match arguments.program.is_empty() {
        true => {
            let own = std::env::current_exe();
            vec![own.map_err(BenchError::file("xfs-bench".as_ref()))?]
        }
        false => arguments.program.clone(),
    };
    let mut columns = Vec::new();
    for program in &programs {
        let folder = tempfile::tempdir().map_err(BenchError::file(program))?;
        let mut command = Command::new(program);
        command.args(["operations-run", "--files", &files.to_string()]);
        columns.push(account(&command, folder.path(), Caches::Ignored)?);
    }
    totals(&columns);
    let Some(newest) = columns.last() else { return Ok(true) };
    println!();
    table(newest, kind);
    println!();
    table(newest, layer);
    if let Some(least) = arguments.functions {
        functions(newest, least);
    }
    Ok(true)
}

/// Prints the instructions of each operation, one column for each program.
fn totals(columns: &[Vec<OperationAccount>]) {
    let programs: Vec<_> = (1..=columns.len()).map(|number| format!("program {number}")).collect();
    println!("| operation | {} | of the first | allocations |", programs.join(" | "));
    println!("|---|{}---:|---:|", "---:|".repeat(columns.len()));
    let (Some(first), Some(last)) = (columns.first(), columns.last()) else { return };
    for (index, (first, last)) in first.iter().zip(last).enumerate() {
        let counts = columns.iter().filter_map(|column| column.get(index));
        let counts: Vec<_> = counts.map(|one| one.instructions().to_string()).collect();
        let ratio = last.instructions() as f64 / first.instructions().max(1) as f64;
        println!(
            "| {} | {} | {ratio:.3} | {:.1} |",
            last.operation.name(),
            counts.join(" | "),
            last.allocations()
        );
    }
}

/// Prints a table of the instructions of each operation. `group` returns the group of a function's
/// name, and each group is a column.
fn table(accounts: &[OperationAccount], group: fn(&str) -> &str) {
    let groups: BTreeSet<String> =
        accounts.iter().flat_map(|account| account.by(group).into_keys()).collect();
    let names: Vec<_> = groups.iter().map(String::as_str).collect();
    println!("| operation | {} |", names.join(" | "));
    println!("|---|{}", "---:|".repeat(names.len()));
    for account in accounts {
        let counts = account.by(group);
        let cells = groups.iter().map(|group| counts.get(group).unwrap_or(&0).to_string());
        println!("| {} | {} |", account.operation.name(), cells.collect::<Vec<_>>().join(" | "));
    }
}

fn functions(accounts: &[OperationAccount], least: u64) {
    for account in accounts {
        println!("\n{}:", account.operation.name());
        let mut functions: Vec<_> = account.by(|name| name).into_iter().collect();
        functions.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (name, count) in functions.into_iter().take_while(|(_, count)| *count >= least) {
            println!("{count:>8} {name}");
        }
    }
}

/// Performs all operations without counting, for valgrind.
pub(crate) fn run_once(arguments: &OperationsArguments) -> Result<(), BenchError> {
    for count in xfs_workload::run_operations(arguments.files)? {
        println!("{count}");
    }
    Ok(())
}
