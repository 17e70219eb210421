//! What one has to know of a run to read its figures.

use crate::report::Report;

const MEBIBYTE: u64 = 1 << 20;
const GIBIBYTE: f64 = (1 << 30) as f64;

/// Names and values, in the order in which they are shown.
pub(crate) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let machine = &report.machine;
    let plan = &report.plan;
    let processor = machine.processor.as_deref().unwrap_or(&machine.architecture);
    let mut facts = vec![
        ("ferroxfs", build(report)),
        ("processors", format!("{} x {processor}", machine.processors)),
    ];
    if let Some(bytes) = machine.memory_bytes {
        facts.push(("memory", format!("{:.1} GiB", bytes as f64 / GIBIBYTE)));
    }
    facts.push(("system", machine.kernel.clone()));
    if let Some(load) = &machine.load {
        facts.push(("load in the minute before", load.clone()));
    }
    let names: Vec<_> = plan.workloads.iter().map(|workload| workload.name()).collect();
    facts.push(("workloads", names.join(", ")));
    let subdirectories = match plan.directories {
        0 => String::new(),
        count => format!(" in {count} subdirectories"),
    };
    facts.push(("files of each thread", format!("{}{subdirectories}", plan.files)));
    facts.push(("runs, of which the best counts", plan.runs.to_string()));
    let place = match &plan.folder {
        None => "memory".to_owned(),
        Some(folder) => folder.display().to_string(),
    };
    let (groups, log) = (plan.groups, plan.log_bytes / MEBIBYTE);
    facts.push(("volumes", format!("in {place}, {groups} groups, log of {log} MiB")));
    if let Some(directory) = &plan.kernel {
        facts.push(("the kernel's XFS", directory.display().to_string()));
    }
    facts
}

fn build(report: &Report) -> String {
    let mut build = report.version.clone();
    if !report.is_optimised {
        build.push_str(", not optimised: these figures say nothing");
    }
    if report.counts_writes {
        build.push_str(", counting: these rates say nothing");
    }
    build
}
