//! Runs the checker on each hand-made attack. It must end within limits of time and memory, and
//! have a finding.

use std::time::{Duration, Instant};

use xfs_check::{CheckOptions, check};
use xfs_device::BlockDevice;
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_hostile::attacks::{Attack, Outcome, all};
use xfs_testkit::run_limited;

/// Time limit for one image.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Runs the checker on the image of an attack. Returns a description of the failure if the checker
/// takes too long, or has no finding although it must have one. Otherwise returns `None`.
fn problem_with(attack: &Attack) -> Option<String> {
    println!("{}", attack.name);
    let image = attack.image();
    let mut sector = vec![0; 4096.min(image.length_bytes())];
    image.read_at(&mut sector, 0).expect("an image has a first sector");
    let start = Instant::now();
    let Ok(superblock) = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))) else {
        return None;
    };
    let report = check(&image, &superblock, &CheckOptions::default(), &());
    let elapsed = start.elapsed();
    let Ok(report) = report else { return None };
    if elapsed > TIME_LIMIT {
        return Some(format!("{}: {elapsed:?}", attack.name));
    }
    let must_find = !matches!(attack.outcome, Outcome::Harmless | Outcome::Refused);
    (must_find && report.is_clean()).then(|| format!("{}: no finding", attack.name))
}

#[test]
fn checker_has_a_finding_for_each_attack() {
    run_limited("checked::checker_has_a_finding_for_each_attack", crate::LIMITS, || {
        let groups = all();
        let attacks = groups.iter().flat_map(|(_, attacks)| *attacks);
        let problems: Vec<String> = attacks.filter_map(problem_with).collect();
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    });
}
