use super::{Arena, ArenaPool, MIN_CHUNK_BYTES};
use crate::vector::Vector;

fn vector(bytes: &[u8]) -> Vector<'_> {
    Vector { bytes, regions: 1 }
}

#[test]
fn replaced_vector_stays_in_place_if_it_fits() {
    let pool = ArenaPool::new(1 << 20, 1);
    let mut arena = Arena::default();
    assert!(!arena.has_room(1));
    arena.add(pool.take(100));
    let first = arena.store(vector(&[1; 40]));
    let second = arena.store(vector(&[2; 8]));
    let shorter = arena.replace(first, vector(&[3; 12]));
    assert_eq!((shorter.offset, shorter.length, shorter.capacity), (0, 12, 40));
    assert_eq!(arena.bytes(shorter), [3; 12]);
    assert_eq!(arena.bytes(second), [2; 8]);
    assert_eq!(arena.replace(shorter, vector(&[4; 40])).offset, 0);
}

#[test]
fn vector_that_grows_and_shrinks_takes_bounded_memory() {
    let pool = ArenaPool::new(1 << 20, 1);
    let mut arena = Arena::default();
    arena.add(pool.take(100));
    let mut location = arena.store(vector(&[0; 4]));
    for round in 0..10_000 {
        let length = 4 + round % 200;
        location = arena.replace(location, vector(&vec![7; length]));
        assert_eq!(arena.bytes(location), vec![7; length]);
    }
    assert!(arena.chunks[0].len() < 4 * 204, "{} bytes", arena.chunks[0].len());
}

#[test]
fn recycled_chunks_are_reused_and_their_number_is_bounded() {
    let pool = ArenaPool::new(4 * MIN_CHUNK_BYTES, 4);
    let mut arena = Arena::default();
    for _ in 0..100 {
        arena.add(pool.take(1));
    }
    arena.store(vector(&[1; 8]));
    arena.add(pool.take(1 << 20));
    pool.recycle([arena]);
    assert_eq!(pool.chunks.lock().len(), 8);
    let again = pool.take(1);
    assert!(again.is_empty() && again.capacity() == MIN_CHUNK_BYTES as usize);
}

#[test]
fn empty_vector_takes_no_memory() {
    let mut arena = Arena::default();
    let location = arena.store(vector(&[]));
    assert_eq!((location.length, location.regions), (0, 0));
    assert!(arena.chunks.is_empty());
}

#[test]
#[should_panic(expected = "room")]
fn store_without_room_panics() {
    Arena::default().store(vector(&[1; 8]));
}
