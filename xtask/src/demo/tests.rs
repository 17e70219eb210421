use std::time::Duration;

use super::{SceneResult, summary, verdict};

fn results() -> Vec<SceneResult> {
    let result = |scene, text: &str, took: Option<u64>| SceneResult {
        scene,
        text: text.to_owned(),
        took: took.map(Duration::from_millis),
    };
    vec![result("build", "an image", Some(1250)), result("mount", "left out: no FUSE", None)]
}

#[test]
fn summary_has_a_column_for_each_fact() {
    let expected = ["build  an image            1.2 s", "mount  left out: no FUSE"];
    assert_eq!(summary(&results()), expected);
}

#[test]
fn verdict_counts_what_was_shown_and_left_out() {
    let text = verdict(&results(), 2, Duration::from_secs(3));
    assert_eq!(text, "verdict: 1 of 2 scenes came out right in 3 s; 1 left out");
    let text = verdict(&results()[..1], 1, Duration::from_secs(3));
    assert_eq!(text, "verdict: 1 of 1 scenes came out right in 3 s");
}
