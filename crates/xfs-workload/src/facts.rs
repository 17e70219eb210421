//! The conditions of a benchmark run (build, machine, plan) that readers of its figures need to
//! know.

use crate::report::{Report, VolumeShape};
use crate::variant::Variant;

const MEBIBYTE: u64 = 1 << 20;
const GIBIBYTE: f64 = (1 << 30) as f64;

/// Returns the conditions of a run (build, machine, plan) as pairs of name and value, in the order
/// of display.
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
        facts.push(("load average, 1 minute", load.clone()));
    }
    let names: Vec<_> = plan.workloads.iter().map(|workload| workload.name()).collect();
    facts.push(("workloads", names.join(", ")));
    let subdirectories = match plan.directories {
        0 => String::new(),
        count => format!(" in {count} subdirectories"),
    };
    facts.push(("files per thread", format!("{}{subdirectories}", plan.files)));
    facts.push(("runs (the best counts)", plan.runs.to_string()));
    let place = match &plan.folder {
        None => "memory".to_owned(),
        Some(folder) => folder.display().to_string(),
    };
    // The variant without parent pointers has that in its name.
    let parents = Variant::Ours.has_parents();
    let ours = VolumeShape { parents, groups: plan.groups, log_bytes: plan.log_bytes };
    facts.push(("volumes", format!("in {place}, {}", shape(ours))));
    if let Some(directory) = &plan.kernel {
        let directory = directory.display();
        let Some(theirs) = report.kernel_volume else {
            facts.push(("the kernel's XFS", directory.to_string()));
            return facts;
        };
        facts.push(("the kernel's XFS", format!("in {directory}, {}", shape(theirs))));
        let differences = differences(ours, theirs);
        if !differences.is_empty() {
            let differences = differences.join(", ");
            facts.push(("differences that affect the ratios", differences));
        }
    }
    facts
}

fn shape(volume: VolumeShape) -> String {
    let VolumeShape { parents, groups, log_bytes } = volume;
    let parents = if parents { "with" } else { "without" };
    format!("{groups} groups, log of {} MiB, {parents} parent pointers", log_bytes / MEBIBYTE)
}

fn differences(ours: VolumeShape, theirs: VolumeShape) -> Vec<&'static str> {
    let all = [
        ("groups", ours.groups != theirs.groups),
        ("log size", ours.log_bytes != theirs.log_bytes),
        ("parent pointers", ours.parents != theirs.parents),
    ];
    all.into_iter().filter_map(|(what, differs)| differs.then_some(what)).collect()
}

fn build(report: &Report) -> String {
    let mut build = report.version.clone();
    if !report.is_optimised {
        build.push_str(", not optimised: these figures are meaningless");
    }
    if report.counts_writes {
        build.push_str(", counting writes: these rates are meaningless");
    }
    build
}

#[cfg(test)]
mod tests;
