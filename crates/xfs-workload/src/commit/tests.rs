use super::CommitLoad;
use crate::WorkloadError;

#[test]
fn log_of_an_unsupported_size_is_refused() {
    for log_bytes in [0, 64 << 10, 4 << 30] {
        let load =
            CommitLoad { threads: 1, slots: 1, commits: 1, objects: 1, log_bytes, shares: false };
        assert!(matches!(load.run(), Err(WorkloadError::LogSize(bytes)) if bytes == log_bytes));
    }
}
