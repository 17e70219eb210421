//! Runs the checker on each hand-made attack. The checker must end within limits of time and
//! memory, and have a finding, or refuse the volume by a reason that names the superblock's field
//! or feature.

use std::time::{Duration, Instant};

use xfs_check::{Area, CheckOptions, Code, Finding, Place, Report, check};
use xfs_device::BlockDevice;
use xfs_evidence::find_superblock;
use xfs_format::superblock::SuperblockError;
use xfs_format::{DiskAddr, Geometry, StructureAddress, Superblock};
use xfs_hostile::attacks::{Attack, Outcome, all};
use xfs_testkit::{Image, run_limited};

/// The longest time that the checker may take for one image.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Returns the finding about the first superblock, as `ferroxfs check` reports it.
fn finding_of(error: &SuperblockError, geometry: &Geometry) -> Finding {
    match error {
        SuperblockError::Corrupt(corruption) => Finding::of(corruption, geometry),
        SuperblockError::Unsupported(reason) => {
            let place = Place::of_address(DiskAddr(0), geometry);
            Finding::new(Code::SbField, place, reason.to_string())
        }
    }
}

/// Runs the checker on an image. If the first superblock does not decode, a copy of it takes its
/// place, and the damage is a finding. Returns the reason if the volume is refused.
fn checked(image: &Image) -> Result<Report, String> {
    let mut sector = vec![0; 4096.min(image.length_bytes())];
    image.read_at(&mut sector, 0).expect("an image has a first sector");
    let options = CheckOptions::default();
    let first = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)));
    let error = match first {
        Ok(superblock) => {
            return check(image, &superblock, &options, &()).map_err(|refusal| refusal.to_string());
        }
        Err(error) => error,
    };
    let Ok(Some(copy)) = find_superblock(image) else { return Err(error.to_string()) };
    let options = options.earlier_finding(finding_of(&error, &copy.superblock.geometry));
    check(image, &copy.superblock, &options, &()).map_err(|refusal| refusal.to_string())
}

/// Runs the checker on the image of an attack. Returns a description of the failure if the checker
/// takes too long, or reports neither a finding nor a reason for an attack that requires one of
/// them. Otherwise returns `None`.
fn problem_with(attack: &Attack) -> Option<String> {
    println!("{}", attack.name);
    let image = attack.image();
    let start = Instant::now();
    let result = checked(&image);
    let elapsed = start.elapsed();
    if elapsed > TIME_LIMIT {
        return Some(format!("{}: {elapsed:?}", attack.name));
    }
    let is_in_superblock = |finding: &Finding| finding.code.area() == Area::Superblock;
    let is_met = match (&result, attack.outcome) {
        (_, Outcome::Harmless) => true,
        // Readers refuse the volume by its superblock, so that is where the damage is.
        (Ok(report), Outcome::Refused) => {
            !report.is_clean() && report.findings.iter().any(is_in_superblock)
        }
        (Err(reason), Outcome::Refused) => !reason.is_empty(),
        (Ok(report), Outcome::Corrupt(_) | Outcome::Failed) => !report.is_clean(),
        // Readers open the volume, so the checker does not refuse it.
        (Err(_), Outcome::Corrupt(_) | Outcome::Failed) => false,
    };
    let found = || match &result {
        Ok(report) => format!("{:?}", report.findings.iter().take(4).collect::<Vec<_>>()),
        Err(refusal) => format!("refused: {refusal}"),
    };
    (!is_met).then(|| format!("{}: expected {:?}, found {}", attack.name, attack.outcome, found()))
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
