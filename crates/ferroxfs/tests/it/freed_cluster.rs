//! Tests the freeing of a cluster of inodes while an older checkpoint, which logs some of these
//! inodes, is being written.
//!
//! The cluster was never written in place, and only the first checkpoint records how its inodes
//! were created. So the tail of the log must not pass that checkpoint before the freeing of the
//! cluster is durable. Otherwise recovery would replay later changes onto blocks that were never
//! written.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ferroxfs::admin::Upkeep;
use ferroxfs::device::{BlockDevice, SharedDevice};
use ferroxfs::{CreateOptions, NewKind, Node, OpenOptions};
use xfs_device::{Durability, MemoryDevice};
use xfs_trans::testing::make_sized;

const CREATION: CreateOptions = CreateOptions::new(0o700);
/// Number of files that the test frees. With the three inodes of a new volume they fill sixteen
/// chunks of 64 inodes, so that no remaining file has its inode in these chunks: such an inode
/// would itself hold the tail of the log. A directory block that only the first checkpoint has
/// logged would also hold the tail. The names are short enough that there is no such block.
const FREED: usize = 1021;
const KEPT: usize = 1000;
const PATIENCE: Duration = Duration::from_secs(60);

/// The state of a `Gated` device: whether it holds back durable writes, such as that of a COMMIT
/// record, and whether it must copy its contents before the next durable write.
#[derive(Default)]
struct Gate {
    is_closed: bool,
    has_come: bool,
    shoots: bool,
    shot: Option<Vec<u8>>,
}

/// A device that can hold back durable writes, and can copy its contents before a durable write.
struct Gated {
    inner: SharedDevice,
    gate: Mutex<Gate>,
    changed: Condvar,
}

impl BlockDevice for Gated {
    xfs_testkit::delegate_device!(
        inner: length_bytes, sector_size, is_read_only, read_at, flush, discard
    );

    fn write_at(&self, bytes: &[u8], offset: u64, durability: Durability) -> io::Result<()> {
        if durability == Durability::Durable {
            let mut gate = self.gate.lock().unwrap();
            if std::mem::take(&mut gate.shoots) {
                let mut image = vec![0; self.inner.length_bytes() as usize];
                self.inner.read_at(&mut image, 0)?;
                gate.shot = Some(image);
            }
            gate.has_come = true;
            self.changed.notify_all();
            let _open = self.changed.wait_while(gate, |gate| gate.is_closed).unwrap();
        }
        self.inner.write_at(bytes, offset, durability)
    }
}

impl Gated {
    /// Runs `commit` in a thread and holds back its durable writes. Once one has arrived, calls
    /// `act`, and then lets all writes through.
    fn during_a_commit(&self, commit: impl FnOnce() + Send, act: impl FnOnce()) {
        let mut gate = self.gate.lock().unwrap();
        (gate.is_closed, gate.has_come) = (true, false);
        drop(gate);
        std::thread::scope(|scope| {
            scope.spawn(commit);
            let gate = self.gate.lock().unwrap();
            let waited = self.changed.wait_timeout_while(gate, PATIENCE, |gate| !gate.has_come);
            assert!(!waited.unwrap().1.timed_out(), "no commit");
            act();
            self.gate.lock().unwrap().is_closed = false;
            self.changed.notify_all();
        });
    }
}

fn fill(root: &Node, prefix: &str, count: usize) {
    for number in 0..count {
        root.create(format!("{prefix}{number}"), &NewKind::Regular, &CREATION).unwrap();
    }
}

#[test]
fn freed_cluster_holds_the_tail_until_durable() {
    let inner = make_sized(512 << 20, "-l size=64m -d agcount=1");
    let gated = Arc::new(Gated { inner, gate: Mutex::default(), changed: Condvar::new() });
    let device: SharedDevice = Arc::<Gated>::clone(&gated);
    // Nothing else forces the log, so the last changes are not durable yet.
    let options =
        OpenOptions::new().write(true).upkeep(Upkeep::new(Upkeep::LONGEST, Upkeep::LONGEST));
    let volume = options.open_device(device).unwrap();
    let root = volume.root().unwrap();
    fill(&root, "a", FREED);
    root.sync().unwrap();
    let detach = |number| root.detach_file(format!("a{number}")).unwrap();
    let nodes: Vec<Node> = (0..FREED).map(detach).collect();
    fill(&root, "b", KEPT);
    gated.during_a_commit(|| root.sync().unwrap(), || nodes.into_iter().for_each(Node::finish));
    fill(&root, "c", KEPT);
    gated.gate.lock().unwrap().shoots = true;
    root.sync().unwrap();
    let shot = gated.gate.lock().unwrap().shot.take().unwrap();
    drop(root);
    volume.close().unwrap();

    let crashed: SharedDevice = Arc::new(MemoryDevice::from_bytes(&shot).unwrap());
    let volume = options.open_device(crashed).unwrap();
    let root = volume.root().unwrap();
    let found: Vec<Node> =
        root.entries().unwrap().map(|entry| entry.unwrap().node().unwrap()).collect();
    assert_eq!(found.len(), KEPT);
    drop(found);
    drop(root);
    volume.close().unwrap();
}
