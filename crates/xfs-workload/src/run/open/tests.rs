use super::{CANDIDATES, PLACES, SPAN_BYTES, files_at_places};
use crate::run::fill;
use crate::target::WorkTarget;
use crate::target::library::Library;
use crate::variant::Variant;
use crate::work::Work;
use crate::{NewVolume, Store};

/// Checks I1 of `xfs_workload::run::open`: the inode of each measured file has the address that the
/// name of the figure says, before and after the file was opened.
#[test]
fn inodes_lie_at_the_stated_positions() {
    let work = Work::new(1, CANDIDATES);
    let volume = NewVolume { files: CANDIDATES, groups: 4, log_bytes: 64 << 20, parents: true };
    let store = Store::in_memory(&volume).unwrap();
    let mut library = Library::open(store, Variant::Ours.options()).unwrap();
    fill(&mut library, &work).unwrap();
    library.cool().unwrap();
    let volume = library.volume();
    for ((place, step), file) in PLACES.into_iter().zip(files_at_places(volume, &work).unwrap()) {
        let (node, path) = file.expect(step);
        drop(volume.open_file_read_only(&path).unwrap());
        let again = volume.lookup(&path).unwrap();
        assert_eq!(again.number(), node.number());
        assert_eq!(again.memory_address().unwrap() % SPAN_BYTES, place, "{step}");
    }
    let mut places = PLACES.map(|(place, _)| place).to_vec();
    places.dedup();
    assert_eq!(places.len(), 3);
}
