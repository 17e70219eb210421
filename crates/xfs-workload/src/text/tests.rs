use expect_test::expect;

use super::text;
use crate::samples::report;

#[test]
fn report_is_rendered_as_text() {
    expect![[r#"
        ferroxfs: 0.0.0
        processors: 4 x A <fast> one
        memory: 8.0 GiB
        system: Linux 6.18
        load average, 1 minute: 0.10
        workloads: create, walk, chmod, bulkstat, unlink, open, commit, fsmark, pressure, stream, fsync
        files per thread: 5000
        runs (the best counts): 2
        volumes: in memory, 4 groups, log of 256 MiB, with parent pointers

        files: ferroxfs, operations per second

        | threads | create |  walk |
        |---------|-------:|------:|
        | 1       |  100 k | 100 k |
        | 2       |  200 k | 200 k |
        | 4       |  400 k | 400 k |
        | 64 on 4 |  400 k | 400 k |

        files: ferroxfs / kernel, operations per second

        | threads |                create |                  walk |
        |---------|----------------------:|----------------------:|
        | 1       | 100 k / 25.0 k = 4.00 | 100 k / 25.0 k = 4.00 |
        | 2       | 200 k / 50.0 k = 4.00 | 200 k / 50.0 k = 4.00 |
        | 4       |  400 k / 100 k = 4.00 |  400 k / 100 k = 4.00 |
        | 64 on 4 |  400 k / 100 k = 4.00 |  400 k / 100 k = 4.00 |

        files: one list of inodes / ferroxfs, operations per second

        | threads |         create |           walk |
        |---------|---------------:|---------------:|
        | 1       | 66.7 k / 100 k | 66.7 k / 100 k |
        | 2       |  133 k / 200 k |  133 k / 200 k |
        | 4       |  267 k / 400 k |  267 k / 400 k |
        | 64 on 4 |  267 k / 400 k |  267 k / 400 k |

        files: speed-up with more threads

        | threads           | create | walk |
        |-------------------|-------:|-----:|
        | ferroxfs: 2 vs 1  |   2.00 | 2.00 |
        | ferroxfs: 4 vs 1  |   4.00 | 4.00 |
        | ferroxfs: 64 vs 4 |   1.00 | 1.00 |
        | kernel: 2 vs 1    |   2.00 | 2.00 |
        | kernel: 4 vs 1    |   4.00 | 4.00 |
        | kernel: 64 vs 4   |   1.00 | 1.00 |

        Not measured:

        - bulkstat of the kernel: only root may
    "#]]
    .assert_eq(&text(&report(), false));
}

#[test]
fn details_show_every_measurement() {
    let report = report();
    let rows = |text: &str| text.matches("00c0ffee00c0ffee").count();
    assert_eq!(rows(&text(&report, true)), report.measurements.len());
    assert_eq!(rows(&text(&report, false)), 0);
}
