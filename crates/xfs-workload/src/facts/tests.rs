use super::facts;
use crate::report::VolumeShape;
use crate::samples::report;

/// Returns the value of the fact with this name. Returns `None` if there is no such fact.
fn fact(kernel_volume: Option<VolumeShape>, name: &str) -> Option<String> {
    let mut report = report();
    report.plan.kernel = Some("/mnt".into());
    report.kernel_volume = kernel_volume;
    let found = facts(&report).into_iter().find(|(found, _)| *found == name);
    found.map(|(_, value)| value)
}

const DIFFER: &str = "differences that affect the ratios";

#[test]
fn facts_show_the_kernels_volume_and_ours() {
    let ours = "in memory, 4 groups, log of 256 MiB, with parent pointers";
    assert_eq!(fact(None, "volumes").unwrap(), ours);
    let name = "the kernel's XFS";
    assert_eq!(fact(None, name).unwrap(), "/mnt");
    let other = VolumeShape { parents: false, groups: 8, log_bytes: 64 << 20 };
    let told = "in /mnt, 8 groups, log of 64 MiB, without parent pointers";
    assert_eq!(fact(Some(other), name).unwrap(), told);
}

#[test]
fn facts_name_the_differences_of_the_volumes() {
    let same = VolumeShape { parents: true, groups: 4, log_bytes: 256 << 20 };
    assert_eq!((fact(None, DIFFER), fact(Some(same), DIFFER)), (None, None));
    for (other, expected) in [
        (VolumeShape { parents: false, ..same }, "parent pointers"),
        (VolumeShape { groups: 5, log_bytes: 1 << 20, ..same }, "groups, log size"),
    ] {
        assert_eq!(fact(Some(other), DIFFER).unwrap(), expected);
    }
}
