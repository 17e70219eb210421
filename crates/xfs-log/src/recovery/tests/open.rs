//! Tests of recovery with open intents. The log is opened for writing, and recovery appends to it
//! until the intents are finished.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_device::{BlockDevice, MemoryDevice, OverlayDevice, SharedDevice};
use xfs_format::Lsn;
use xfs_format::log_item::LoggedItem;
use xfs_format::log_record::block_cycle;

use super::{Bench, ORDER, intent, intent_done};
use crate::log::first_number;
use crate::recovery::{FreedInodes, Intent, IntentRecovery, Replayed, finish_intents, replay_all};
use crate::testing::LogImage;
use crate::{
    CheckpointEnd, InPlace, ItemState, Log, LogConfig, LogDevice, LogGeometry, LogItem, Pushed,
    RegionWriter, find_head_and_tail,
};

/// A log item of the tests: an intent, or the completion of one.
struct TestIntent {
    state: ItemState,
    regions: Vec<Vec<u8>>,
    /// The intent that this item completes. `None` if this item is an intent.
    intent: Option<Arc<TestIntent>>,
}

impl TestIntent {
    fn new(item: &LoggedItem<'_>, intent: Option<Arc<Self>>) -> Arc<Self> {
        Arc::new(Self { state: ItemState::new(), regions: item.encode(ORDER), intent })
    }
}

impl LogItem for TestIntent {
    fn state(&self) -> &ItemState {
        &self.state
    }

    fn format(&self, regions: &mut RegionWriter<'_>) {
        self.regions.iter().for_each(|region| regions.region(region));
    }

    fn finishes(&self) -> Option<&dyn LogItem> {
        self.intent.as_deref().map(|intent| intent as &dyn LogItem)
    }

    fn pin(&self) {}

    fn unpin(&self, _end: CheckpointEnd) {}

    fn committed(&self, start: Lsn, leaving: &mut Vec<Arc<dyn LogItem>>) -> Option<Lsn> {
        let Some(intent) = &self.intent else { return Some(start) };
        leaving.push(Arc::clone(intent) as Arc<dyn LogItem>);
        None
    }

    fn push(&self, _in_place: &mut InPlace) -> Pushed {
        Pushed::Pinned
    }
}

/// A volume in memory whose log can be replayed and opened many times.
struct TestVolume {
    bench: Bench,
    device: SharedDevice,
    geometry: LogGeometry,
}

impl TestVolume {
    fn new(bench: Bench) -> Self {
        let device = Arc::new(MemoryDevice::from_bytes(&bench.log.bytes).unwrap());
        let geometry = *bench.log.device().geometry();
        Self { bench, device, geometry }
    }

    fn log_device(&self, device: &SharedDevice) -> LogDevice {
        LogDevice::with_geometry(Arc::clone(device), self.geometry).unwrap()
    }

    fn replay(&self) -> Replayed {
        let log = self.log_device(&self.device);
        replay_all(self.bench.data.clone(), &log, &self.bench.superblock).unwrap()
    }

    fn open(&self, device: &SharedDevice, replayed: &Replayed) -> Log {
        let config = LogConfig { threads: 0, slots: 1, ..LogConfig::new(&self.geometry) };
        Log::open(self.log_device(device), None, replayed.log_state(), &config)
    }

    /// Appends a transaction that is never committed to the log.
    fn append_unfinished(&mut self, transaction: u32) {
        let state = find_head_and_tail(&self.log_device(&self.device)).unwrap();
        let mut bytes = vec![0; self.device.length_bytes() as usize];
        self.device.read_at(&mut bytes, 0).unwrap();
        let size = self.bench.log.size;
        let mut image = LogImage { bytes, head: state.head, tail: state.tail, size };
        image.append_unfinished(transaction);
        self.device = Arc::new(MemoryDevice::from_bytes(&image.bytes).unwrap());
    }

    fn open_ids(&self) -> Vec<u64> {
        self.replay().intents().iter().map(Intent::id).collect()
    }
}

/// An `IntentRecovery` that completes each intent by a commit, and forces that commit.
struct Completer<'a> {
    log: &'a Log,
    open: Vec<Arc<TestIntent>>,
    calls: Vec<String>,
    /// Number of intents that the recovery may still complete. When it is 0, the test stops the
    /// recovery, as if power had failed.
    patience: usize,
}

impl<'a> Completer<'a> {
    fn new(log: &'a Log, replayed: &Replayed, patience: usize) -> Self {
        let open: Vec<_> = replayed
            .intents()
            .iter()
            .map(|intent| TestIntent::new(&intent.item().unwrap(), None))
            .collect();
        let places = replayed.intents().iter().map(Intent::lsn);
        log.adopt(open.iter().map(|item| Arc::clone(item) as _).zip(places));
        Self { log, open, calls: Vec::new(), patience }
    }

    fn commit(&self, item: Arc<dyn LogItem>) -> Result<()> {
        let mut ticket = self.log.reserve(4096, 1)?;
        let committed = self.log.commit(&mut ticket, &[item])?;
        self.log.release(ticket);
        self.log.settle(committed)?;
        self.log.force(committed.sequence)
    }
}

impl IntentRecovery for Completer<'_> {
    fn recover(&mut self, intent: &Intent) -> Result<()> {
        self.calls.push(format!("{} {}", intent.kind().name(), intent.id()));
        let Some(patience) = self.patience.checked_sub(1) else {
            return Err(xfs_buffer::Error::Shutdown);
        };
        self.patience = patience;
        let open = self.open.remove(0);
        self.commit(TestIntent::new(&intent_done(intent.id()), Some(open)))
    }

    fn finish(&mut self) -> Result<()> {
        self.calls.push("finish".to_owned());
        Ok(())
    }

    fn free_unlinked(&mut self) -> Result<FreedInodes> {
        self.calls.push("unlinked".to_owned());
        Ok(FreedInodes { freed: 3, damaged: 1 })
    }

    fn free_copies(&mut self) -> Result<()> {
        self.calls.push("copies".to_owned());
        Ok(())
    }
}

/// Returns a volume whose log has three open intents. A change of an inode's mode lies between the
/// first of them and the other two.
fn three_open() -> TestVolume {
    let mut bench = Bench::new();
    bench.log.append_transaction(1, &[intent(9), intent(3)]);
    bench.append_mode(0o700);
    bench.log.append_transaction(3, &[intent(5), intent_done(3), intent(u64::MAX - 1)]);
    TestVolume::new(bench)
}

#[test]
fn open_work_is_finished_in_the_order_of_the_log() {
    let disk = three_open();
    let replayed = disk.replay();
    replayed.write_in_place(&disk.log_device(&disk.device)).unwrap();
    let log = disk.open(&disk.device, &replayed);
    let mut completer = Completer::new(&log, &replayed, 3);
    let summary = finish_intents(&replayed, &mut completer).unwrap();
    assert_eq!((summary.intents, summary.unlinked, summary.unlinked_damaged), (3, 3, 1));
    let last = format!("EFI {}", u64::MAX - 1);
    assert_eq!(completer.calls, ["EFI 9", "EFI 5", &last, "finish", "unlinked", "copies"]);
    assert!(log.ail().is_empty());
    log.unmount().unwrap();
    let again = disk.replay();
    assert!(again.log_state().clean && again.intents().is_empty());
    let core = disk.bench.decode_inode(&*disk.bench.data, disk.bench.root());
    assert_eq!(core.mode, 0o040_700);
}

#[test]
fn open_intent_holds_the_tail_until_it_is_finished() {
    let disk = three_open();
    let replayed = disk.replay();
    replayed.write_in_place(&disk.log_device(&disk.device)).unwrap();
    let log = disk.open(&disk.device, &replayed);
    let places: Vec<_> = replayed.intents().iter().map(Intent::lsn).collect();
    let mut completer = Completer::new(&log, &replayed, 1);
    assert_eq!(log.ail().tail(), places[0]);
    finish_intents(&replayed, &mut completer).unwrap_err();
    // Both others are in a later transaction.
    assert_eq!((log.ail().tail(), places[1]), (places[1], places[2]));
    drop(log);
    assert_eq!(find_head_and_tail(&disk.log_device(&disk.device)).unwrap().tail, places[0]);
    assert_eq!(disk.open_ids(), [5, u64::MAX - 1]);
}

#[test]
fn recovery_interrupted_at_any_intent_can_be_repeated() {
    let disk = three_open();
    for left in [2, 1, 0] {
        let replayed = disk.replay();
        replayed.write_in_place(&disk.log_device(&disk.device)).unwrap();
        let log = disk.open(&disk.device, &replayed);
        let mut completer = Completer::new(&log, &replayed, 1);
        let _ = finish_intents(&replayed, &mut completer);
        drop(log);
        assert_eq!(disk.open_ids().len(), left);
    }
    let core = disk.bench.decode_inode(&*disk.bench.data, disk.bench.root());
    assert_eq!(core.mode, 0o040_700);
}

#[test]
fn open_intents_with_the_same_id_are_each_ended_by_one_completion() {
    let mut bench = Bench::new();
    let places = |bench: &Bench| {
        let volume = TestVolume::new(Bench { log: bench.log.clone(), ..Bench::new() });
        volume.replay().intents().iter().map(|intent| (intent.id(), intent.lsn())).collect()
    };
    let first = bench.log.append_transaction(1, &[intent(7)]);
    let other = bench.log.append_transaction(2, &[intent(5)]);
    let second = bench.log.append_transaction(3, &[intent(7)]);
    let found: Vec<_> = places(&bench);
    assert_eq!(found, [(7, first), (5, other), (7, second)]);
    bench.log.append_transaction(4, &[intent_done(7)]);
    let found: Vec<_> = places(&bench);
    assert_eq!(found, [(5, other), (7, second)]);
    bench.log.append_transaction(5, &[intent_done(7), intent_done(5)]);
    let found: Vec<_> = places(&bench);
    assert_eq!(found, []);
}

/// Checks that a recovery finishes two intents with the same ID, and that it can be interrupted
/// after the first of them.
#[test]
fn recovery_of_two_intents_with_the_same_id_can_be_repeated() {
    let mut bench = Bench::new();
    bench.log.append_transaction(1, &[intent(7)]);
    bench.log.append_transaction(2, &[intent(7)]);
    let disk = TestVolume::new(bench);
    for left in [1, 0] {
        let replayed = disk.replay();
        replayed.write_in_place(&disk.log_device(&disk.device)).unwrap();
        let log = disk.open(&disk.device, &replayed);
        let _ = finish_intents(&replayed, &mut Completer::new(&log, &replayed, 1));
        drop(log);
        assert_eq!(disk.open_ids().len(), left);
    }
}

#[test]
fn log_without_open_work_releases_its_tail() {
    let mut bench = Bench::new();
    bench.append_mode(0o700);
    let disk = TestVolume::new(bench);
    let replayed = disk.replay();
    replayed.write_in_place(&disk.log_device(&disk.device)).unwrap();
    let log = disk.open(&disk.device, &replayed);
    assert!(log.space().used > 0);
    log.adopt([]);
    assert_eq!((log.space().used, log.ail().tail()), (0, replayed.log_state().head));
    log.unmount().unwrap();
    assert!(disk.replay().log_state().clean);
}

/// Checks I1 of `xfs_log::recovery` (no write before `write_back` or `write_in_place`): device and
/// log stay as they were.
#[test]
fn recovery_in_memory_writes_nothing_to_the_device() {
    let disk = three_open();
    let bytes = |device: &dyn BlockDevice| {
        let mut bytes = vec![0; device.length_bytes() as usize];
        device.read_at(&mut bytes, 0).unwrap();
        bytes
    };
    let before = (bytes(&*disk.device), bytes(&*disk.bench.data));
    let replayed = disk.replay();
    let overlay: SharedDevice = Arc::new(OverlayDevice::new(Arc::clone(&disk.device), 1 << 20));
    replayed.prepare_log(&disk.log_device(&overlay)).unwrap();
    let log = disk.open(&overlay, &replayed);
    finish_intents(&replayed, &mut Completer::new(&log, &replayed, 3)).unwrap();
    log.unmount().unwrap();
    assert!(find_head_and_tail(&disk.log_device(&overlay)).unwrap().clean);
    assert!(before == (bytes(&*disk.device), bytes(&*disk.bench.data)));
}

#[test]
fn write_back_with_open_work_panics() {
    let disk = three_open();
    let replayed = disk.replay();
    let log = disk.log_device(&disk.device);
    let marked =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| replayed.write_back(&log)));
    assert!(marked.is_err());
}

#[test]
fn first_intent_id_avoids_the_ids_of_open_intents() {
    let first = |ids: &[u64]| {
        let mut bench = Bench::new();
        let items: Vec<_> = ids.iter().map(|id| intent(*id)).collect();
        bench.log.append_transaction(1, &items);
        TestVolume::new(bench).replay().first_intent_id()
    };
    assert_eq!(first(&[intent_id_of_a_kernel()]), 1);
    assert_eq!(first(&[7, 2]), 8);
    assert_eq!(first(&[7, 1 << 39, intent_id_of_a_kernel()]), (1 << 39) + 1);
    assert_eq!(first(&[u64::MAX, 0]), 1);
}

/// Returns an intent ID as the kernel makes it, from the address of an object in memory.
const fn intent_id_of_a_kernel() -> u64 {
    0xffff_8881_0a2b_3c40
}

/// Checks that a dirty log keeps its buffer size. The kernel takes the length of all record headers
/// from the first record.
#[test]
fn dirty_log_keeps_its_buffer_size() {
    for buffer_bytes in [16 << 10, 32 << 10, 256 << 10] {
        let mut bench = Bench::new();
        bench.log.size = buffer_bytes;
        bench.log.append_transaction(1, &[intent(9)]);
        let disk = TestVolume::new(bench);
        let replayed = disk.replay();
        replayed.write_in_place(&disk.log_device(&disk.device)).unwrap();
        let log = disk.open(&disk.device, &replayed);
        let completer = Completer::new(&log, &replayed, 0);
        completer.commit(TestIntent::new(&intent(10), None)).unwrap();
        assert_eq!(disk.open_ids(), [9, 10]);
        let written = disk.log_device(&disk.device).read_header(replayed.log_state().head.block());
        assert_eq!(written.unwrap().size, buffer_bytes);
    }
}

/// Checks that preparing a clean log for writing clears a torn record after its head. Such a record
/// remains if power fails while the first record after the unmount record is written.
#[test]
fn prepare_clears_a_torn_record_ahead_of_a_clean_log() {
    let bench = Bench::new();
    let head = bench.log.head;
    let torn = (head.block() + 5) % bench.log.device().length_blocks();
    for (plant, expected) in [(head.cycle(), true), (head.cycle() - 1, false)] {
        let mut bench = Bench::new();
        bench.log.block_mut(torn)[..4].copy_from_slice(&plant.to_be_bytes());
        bench.log.block_mut(torn)[8] = 7;
        let disk = TestVolume::new(bench);
        let log = disk.log_device(&disk.device);
        let before = log.read_blocks(torn, 1).unwrap();
        let replayed = disk.replay();
        assert!(replayed.log_state().clean && replayed.log_state().head == head);
        replayed.write_in_place(&log).unwrap();
        let after = log.read_blocks(torn, 1).unwrap();
        assert_eq!(block_cycle(&after), head.cycle() - 1);
        assert_eq!(after != before, expected, "a valid log is not written");
        assert!(disk.replay().log_state().clean);
    }
}

/// Runs several sessions, each of which ends in a crash while it writes a transaction. Checks that
/// no later session uses the number of that transaction while an earlier intent is open.
#[test]
fn sessions_never_reuse_a_transaction_number() {
    let mut bench = Bench::new();
    bench.log.append_transaction(77, &[intent(9)]);
    let mut disk = TestVolume::new(bench);
    let mut id = 10;
    for commits in [3, 5] {
        let replayed = disk.replay();
        replayed.write_in_place(&disk.log_device(&disk.device)).unwrap();
        let log = disk.open(&disk.device, &replayed);
        let completer = Completer::new(&log, &replayed, 0);
        for _ in 0..commits {
            completer.commit(TestIntent::new(&intent(id), None)).unwrap();
            id += 1;
        }
        drop(log);
        // Power fails while the next checkpoint is written: its START stays.
        let head = replayed.log_state().head;
        let next = first_number(head, disk.geometry.length_blocks) + commits + 1;
        disk.append_unfinished(next);
    }
    assert_eq!(disk.open_ids(), (9..18).collect::<Vec<_>>());
}
