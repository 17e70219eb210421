use std::sync::mpsc::channel;
use std::thread;

use super::Turnstile;

#[test]
fn who_leaves_lets_the_next_in() {
    let turnstile = Turnstile::new(2);
    let (first, second) = (turnstile.enter(), turnstile.enter());
    let (entered, entries) = channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            let entered = entered.clone();
            let turnstile = &turnstile;
            scope.spawn(move || {
                let _place = turnstile.enter();
                entered.send(()).unwrap();
            });
        }
        assert!(entries.try_recv().is_err());
        drop(first);
        // The one that was let in leaves, and so lets the other in.
        entries.recv().unwrap();
        entries.recv().unwrap();
    });
    drop(second);
    drop((turnstile.enter(), turnstile.enter()));
}
