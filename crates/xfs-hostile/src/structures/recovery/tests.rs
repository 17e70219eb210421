//! Checks that recovery replays the fuzzer's seeds. A target whose seeds are all refused would test
//! nothing.

use xfs_log::{RecoveryError, Refusal};

use super::{inputs, replay_input};

#[test]
fn most_seeds_are_replayed() {
    let outcomes: Vec<_> = inputs().iter().filter_map(|input| replay_input(input)).collect();
    for outcome in &outcomes {
        match outcome {
            Ok(replayed) => assert!(replayed.summary().items > 0),
            Err(RecoveryError::Refused(Refusal::UnfinishedIntents { count: 1, .. })) => {}
            Err(error) => println!("{error}"),
        }
    }
    let replayed = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!(replayed >= 5, "{replayed} of {}", outcomes.len());
}
