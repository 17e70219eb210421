//! Measures the speed of commits to a log in memory, and prints it in tables.

use xfs_workload::{CommitLoad, Processors, time_force};

use crate::error::BenchError;

/// Arguments of the commit benchmark.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,64")]
    threads: Vec<usize>,
    /// Numbers of per-CPU slots of the log; with 1 all threads share a single list
    #[arg(long, value_delimiter = ',', default_value = "1,8")]
    slots: Vec<usize>,
    /// Number of commits per run, of all threads together
    #[arg(long, default_value_t = 2_000_000)]
    commits: u64,
    /// Number of inodes, and also of buffers, of all threads together
    #[arg(long, default_value_t = 262_144)]
    objects: u64,
    /// Size of the log, in MiB
    #[arg(long, default_value_t = 512)]
    log: u64,
    /// Number of runs of each measurement; the fastest counts
    #[arg(long, default_value_t = 3)]
    runs: u32,
}

/// Runs all measurements and prints a table.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let processors = Processors::available()?;
    println!("| objects | threads | slots | commits per second | volume-wide writes per commit |");
    println!("|---|---|---|---|---|");
    for shares in [false, true] {
        for threads in &arguments.threads {
            for slots in &arguments.slots {
                processors.confine(*threads)?;
                let load = CommitLoad {
                    threads: *threads,
                    slots: *slots,
                    commits: arguments.commits,
                    objects: arguments.objects,
                    log_bytes: arguments.log << 20,
                    shares,
                };
                let runs =
                    (0..arguments.runs).map(|_| load.run()).collect::<Result<Vec<_>, _>>()?;
                let best = runs.into_iter().min_by_key(|(performed, _)| performed.drained);
                let Some((best, counted)) = best else { continue };
                let rate = best.operations as f64 / best.drained.as_secs_f64();
                let writes = counted.shared.as_ref().map_or("-".to_owned(), |shared| {
                    let writes = shared.volume.total().max(1);
                    format!("1 in {:.0}", best.operations as f64 / writes as f64)
                });
                let objects = if shares { "mix" } else { "private" };
                println!("| {objects} | {threads} | {slots} | {rate:.0} | {writes} |");
            }
        }
    }
    println!("\n| commits in the checkpoint | a force takes |\n|---|---|");
    for count in [1, 1000, 50_000] {
        let best = time_force(arguments.log << 20, count, arguments.runs.max(5))?;
        println!("| {count} | {:.1} µs |", best.as_secs_f64() * 1e6);
    }
    Ok(())
}
