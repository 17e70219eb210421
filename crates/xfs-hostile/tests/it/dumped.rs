//! Dumps each hand-made attack to a metadata image. The dump must end within limits of time and
//! memory, and it must be possible to restore the dumped image.

use std::sync::Arc;
use std::time::{Duration, Instant};

use xfs_device::{SharedDevice, StreamSource};
use xfs_hostile::attacks::{Attack, all};
use xfs_metadump::{DumpOptions, DumpProgress, RestoreTarget, dump, restore};
use xfs_testkit::run_limited;

/// The longest time that the dump of one image may take.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Ignores the progress of a dump, and never stops the dump.
struct Silent;

impl DumpProgress for Silent {
    fn advance(&self, _done: u64, _total: u64) {}

    fn is_stopped(&self) -> bool {
        false
    }
}

/// The destination of a restore. It stores nothing, but checks that each write lies inside the
/// volume. The number is the length of the volume in bytes.
#[derive(Default)]
struct Nowhere(u64);

impl RestoreTarget for Nowhere {
    fn set_length(&mut self, length_bytes: u64) -> std::io::Result<()> {
        self.0 = length_bytes;
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        assert!(offset + bytes.len() as u64 <= self.0, "a write past the end of the volume");
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Dumps the image of an attack and restores the dump. Returns a description of the failure: the
/// dump takes too long or has too many bytes, or cannot be restored. Returns `None` if there is no
/// failure, or if the dump refuses the volume.
fn problem_with(attack: &Attack, obfuscates: bool) -> Option<String> {
    let device: SharedDevice = Arc::new(attack.image());
    let start = Instant::now();
    let mut out = Vec::new();
    let options = DumpOptions { obfuscates, keeps_dirty_log: true, ..DumpOptions::default() };
    let report = dump(&device, options, &Silent, &mut out);
    let elapsed = start.elapsed();
    if elapsed > TIME_LIMIT {
        return Some(format!("{}: {elapsed:?}", attack.name));
    }
    let Ok(report) = report else { return None };
    if report.written_bytes > device.length_bytes() {
        return Some(format!("{}: {} bytes", attack.name, report.written_bytes));
    }
    let restored = restore(StreamSource(&out[..]), &mut Nowhere::default(), &|| false);
    restored.err().map(|error| format!("{}: {error}", attack.name))
}

#[test]
fn metadump_of_each_attack_ends_and_restores() {
    run_limited("dumped::metadump_of_each_attack_ends_and_restores", crate::LIMITS, || {
        let groups = all();
        let attacks = groups.iter().flat_map(|(_, attacks)| *attacks);
        // Both kinds of dumps read the same blocks, so the attacks take turns.
        let dumps = attacks.zip([true, false].into_iter().cycle());
        let problems: Vec<String> =
            dumps.filter_map(|(attack, obfuscates)| problem_with(attack, obfuscates)).collect();
        assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    });
}
