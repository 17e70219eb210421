//! The tables of a benchmark report: numbers of threads as rows, steps as columns, as in the
//! publications whose benchmarks are repeated.
//!
//! Owns: the selection of figures per table, and the format of numbers. Does **not** own: drawing a
//! table ([`mod@crate::text`], [`mod@crate::html`]).

use crate::counted::ScopeCount;
use crate::report::{Measurement, Report};
use crate::variant::Variant;

/// A table of text.
pub(crate) struct Table {
    /// The title of the table.
    pub(crate) title: String,
    /// The names of the columns.
    pub(crate) head: Vec<String>,
    /// The rows of the table, each as long as `head`.
    pub(crate) rows: Vec<Vec<String>>,
    /// Whether the table has details that most readers do not need at first.
    pub(crate) is_detail: bool,
}

/// The text of a cell without a figure.
const NOTHING: &str = "–";

/// Returns all tables of a section.
pub(crate) fn tables(report: &Report, section: &str) -> Vec<Table> {
    if report.of_section(section).any(|one| one.latency.is_some()) {
        return vec![latencies(report, section), details(report, section)];
    }
    let mut tables = vec![rates(report, section)];
    let variants = report.variants(section);
    if variants.contains(&Variant::Kernel) {
        tables.push(beside_kernel(report, section));
    }
    let before = variants.into_iter().filter(|variant| variant.is_before());
    tables.extend(before.map(|variant| before_and_after(report, section, variant)));
    tables.push(scaling(report, section));
    tables.push(details(report, section));
    if report.counts_writes {
        tables.push(shared(report, section));
    }
    tables.retain(|table| !table.rows.is_empty());
    tables
}

fn rates(report: &Report, section: &str) -> Table {
    let cell = |ours: &Measurement, _: &Measurement| rate(ours.rate());
    let table = by_threads(report, section, Variant::Ours, Variant::Ours, cell);
    Table { title: format!("{section}: ferroxfs, operations per second"), ..table }
}

fn beside_kernel(report: &Report, section: &str) -> Table {
    let cell = |ours: &Measurement, theirs: &Measurement| {
        let warm = if is_warm_beside(theirs, ours) { " warm" } else { "" };
        let (ours, theirs) = (ours.rate(), theirs.rate());
        format!("{} / {}{warm} = {:.2}", rate(ours), rate(theirs), ours / theirs)
    };
    let table = by_threads(report, section, Variant::Ours, Variant::Kernel, cell);
    let warm = report.of_section(section).any(|theirs| {
        let ours = report.find(section, &theirs.step, Variant::Ours, theirs.threads);
        theirs.variant == Variant::Kernel && ours.is_some_and(|ours| is_warm_beside(theirs, ours))
    });
    let warm = if warm { "; warm: started with warm caches, ferroxfs with cold ones" } else { "" };
    Table { title: format!("{section}: ferroxfs / kernel, operations per second{warm}"), ..table }
}

/// Returns whether `one` started with warm caches and `other` with cold ones, so that the ratio of
/// their figures means nothing.
pub(crate) fn is_warm_beside(one: &Measurement, other: &Measurement) -> bool {
    !one.is_cold && other.is_cold
}

fn before_and_after(report: &Report, section: &str, before: Variant) -> Table {
    let cell = |ours: &Measurement, before: &Measurement| {
        format!("{} / {}", rate(before.rate()), rate(ours.rate()))
    };
    let table = by_threads(report, section, Variant::Ours, before, cell);
    Table {
        title: format!("{section}: {} / ferroxfs, operations per second", before.name()),
        ..table
    }
}

/// Returns a table with a row for each number of threads, and a column for each step that both
/// `one` and `other` have run. `cell` formats the two measurements of a cell.
fn by_threads(
    report: &Report,
    section: &str,
    one: Variant,
    other: Variant,
    cell: impl Fn(&Measurement, &Measurement) -> String,
) -> Table {
    let both = |step: &str, threads: usize| {
        let find = |variant| report.find(section, step, variant, threads);
        find(one).zip(find(other))
    };
    let threads = report.threads(section);
    let mut steps = report.steps(section);
    steps.retain(|step| threads.iter().any(|threads| both(step, *threads).is_some()));
    let rows = threads.iter().map(|threads| {
        let cells = steps.iter().map(|step| {
            both(step, *threads).map_or(NOTHING.to_owned(), |(one, other)| cell(one, other))
        });
        std::iter::once(threads_on(report, *threads)).chain(cells).collect()
    });
    let rows = if steps.is_empty() { Vec::new() } else { rows.collect() };
    Table { title: String::new(), head: head("threads", &steps), rows, is_detail: false }
}

/// Returns the table of latencies, with steps as rows and variants as columns.
fn latencies(report: &Report, section: &str) -> Table {
    let variants = report.variants(section);
    let rows = report.steps(section).into_iter().map(|step| {
        let find = |variant| {
            report.of_section(section).find(|one| one.step == step && one.variant == variant)
        };
        let times = variants.iter().map(|variant| {
            let latency = find(*variant).and_then(|one| one.latency);
            latency.map_or(NOTHING.to_owned(), |latency| {
                format!(
                    "{} / {}",
                    microseconds(latency.median_seconds),
                    microseconds(latency.worst_seconds)
                )
            })
        });
        let pending = find(Variant::Ours).and_then(|one| one.pending);
        let number =
            |count: Option<u64>| count.map_or(NOTHING.to_owned(), |count| count.to_string());
        let changes = number(pending.map(|pending| pending.changes));
        let bytes = number(pending.and_then(|pending| pending.list_bytes));
        [step.to_owned(), changes, bytes].into_iter().chain(times).collect()
    });
    let mut names = vec!["other changes", "bytes in the list"];
    names.extend(variants.iter().map(|variant| variant.name()));
    let title = format!("{section}: median / worst, µs");
    Table { title, head: head("step", &names), rows: rows.collect(), is_detail: false }
}

fn microseconds(seconds: f64) -> String {
    let time = seconds * MICROSECONDS;
    let digits = if time < 100.0 { 1 } else { 0 };
    format!("{time:.digits$}")
}

/// Number of microseconds per second.
pub(crate) const MICROSECONDS: f64 = 1e6;

/// Returns the table of speedups: how much faster several threads are than one. A number of threads
/// above that of the processors is compared with one thread per processor instead.
fn scaling(report: &Report, section: &str) -> Table {
    let steps = report.steps(section);
    let mut rows = Vec::new();
    for variant in [Variant::Ours, Variant::Apart, Variant::Kernel] {
        for threads in report.threads(section) {
            let base =
                if threads > report.machine.processors { report.machine.processors } else { 1 };
            if base == threads {
                continue;
            }
            let find = |step: &str, variant, threads| report.find(section, step, variant, threads);
            // With one thread, the usual variant has a volume of its own.
            let alone = if variant == Variant::Apart { Variant::Ours } else { variant };
            let ratio = |step: &&str| {
                let (more, less) = find(step, variant, threads).zip(find(step, alone, base))?;
                Some(format!("{:.2}", more.rate() / less.rate()))
            };
            let cells: Vec<_> = steps.iter().map(ratio).collect();
            if cells.iter().any(Option::is_some) {
                let name = format!("{}: {threads} vs {base}", variant.name());
                let cells = cells.into_iter().map(|cell| cell.unwrap_or(NOTHING.to_owned()));
                rows.push(std::iter::once(name).chain(cells).collect());
            }
        }
    }
    let title = format!("{section}: speed-up with more threads");
    Table { title, head: head("threads", &steps), rows, is_detail: false }
}

fn details(report: &Report, section: &str) -> Table {
    let columns = [
        "variant",
        "threads",
        "operations",
        "per second",
        "seconds",
        "drained",
        "transactions per operation",
        "log bytes per operation",
        "inodes in",
        "inodes out",
        "bytes of inodes",
        "cold",
        "digest",
    ];
    let rows = report.of_section(section).map(|one| {
        let operations = one.operations.max(1) as f64;
        let each = |count: Option<u64>, digits: usize| {
            count.map_or(NOTHING.to_owned(), |count| {
                format!("{:.digits$}", count as f64 / operations)
            })
        };
        let count =
            |count: Option<u64>| count.map_or(NOTHING.to_owned(), |count| count.to_string());
        vec![
            one.step.clone(),
            one.variant.name().to_owned(),
            one.threads.to_string(),
            one.operations.to_string(),
            rate(one.rate()),
            format!("{:.4}", one.worked_seconds),
            format!("{:.4}", one.drained_seconds),
            each(one.counted.transactions, 2),
            each(one.counted.log_bytes, 0),
            count(one.counted.inodes_in),
            count(one.counted.inodes_out),
            count(one.inodes_bytes),
            if one.is_cold { "yes" } else { "no" }.to_owned(),
            one.digest.clone().unwrap_or(NOTHING.to_owned()),
        ]
    });
    let title = format!("{section}: times, transactions and digests");
    Table { title, head: head("step", &columns), rows: rows.collect(), is_detail: true }
}

/// Returns the table with the numbers of atomic writes and lock acquisitions per operation, by
/// scope.
fn shared(report: &Report, section: &str) -> Table {
    let columns = [
        "variant",
        "threads",
        "slot: writes, locks",
        "object: writes, locks",
        "group: writes, locks",
        "volume: writes, locks",
        "volume: 1 in",
    ];
    let rows = report.of_section(section).filter_map(|one| {
        let shared = one.counted.shared.as_ref()?;
        let operations = one.operations.max(1) as f64;
        let each = |count: ScopeCount| {
            let of = |number: u64| number as f64 / operations;
            format!("{:.2}, {:.2}", of(count.writes), of(count.locks))
        };
        let writes = shared.volume.total();
        Some(vec![
            one.step.clone(),
            one.variant.name().to_owned(),
            one.threads.to_string(),
            each(shared.slot),
            each(shared.object),
            each(shared.group),
            format!(
                "{:.4}, {:.4}",
                shared.volume.writes as f64 / operations,
                shared.volume.locks as f64 / operations
            ),
            if writes == 0 {
                "never".to_owned()
            } else {
                format!("{:.0}", operations / writes as f64)
            },
        ])
    });
    let title = format!("{section}: atomic writes and locks per operation, by scope");
    Table { title, head: head("step", &columns), rows: rows.collect(), is_detail: true }
}

fn head(first: &str, rest: &[&str]) -> Vec<String> {
    std::iter::once(&first).chain(rest).map(|name| (*name).to_owned()).collect()
}

/// Returns the number of threads as text. If the machine has fewer processors, adds their number to
/// the text.
pub(crate) fn threads_on(report: &Report, threads: usize) -> String {
    match report.machine.processors {
        processors if threads > processors => format!("{threads} on {processors}"),
        _ => threads.to_string(),
    }
}

/// Formats a number of operations per second, with three digits and a unit prefix.
pub(crate) fn rate(rate: f64) -> String {
    let (scaled, unit) = match rate {
        rate if rate >= 1e6 => (rate / 1e6, " M"),
        rate if rate >= 1e3 => (rate / 1e3, " k"),
        rate => (rate, ""),
    };
    let digits = match scaled {
        scaled if scaled < 10.0 => 2,
        scaled if scaled < 100.0 => 1,
        _ => 0,
    };
    format!("{scaled:.digits$}{unit}")
}

#[cfg(test)]
mod tests;
