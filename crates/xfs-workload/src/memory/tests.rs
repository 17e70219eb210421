use std::path::PathBuf;

use super::{CgroupVersion, MemoryGroup, places};

fn check_places(groups: &str, mounts: &[&str], expected: &[(CgroupVersion, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(version, path)| (*version, PathBuf::from(path))).collect();
    assert_eq!(places(groups, &mounts.join("\n")), expected);
}

const DISK: &str = "21 1 252:0 / / rw,relatime - ext4 /dev/vda rw";
const TWO: &str = "30 21 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
const UNIFIED: &str = "30 21 0:26 / /sys/fs/cgroup/unified rw - cgroup2 none rw";
const MEMORY: &str = "31 21 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory";
const PROCESSORS: &str = "32 21 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu";

#[test]
fn version_2_tries_ancestors_in_turn() {
    let expected = [
        (CgroupVersion::Two, "/sys/fs/cgroup/user.slice/session-1.scope"),
        (CgroupVersion::Two, "/sys/fs/cgroup/user.slice"),
        (CgroupVersion::Two, "/sys/fs/cgroup"),
    ];
    check_places("0::/user.slice/session-1.scope\n", &[DISK, TWO], &expected);
}

#[test]
fn both_versions_are_found() {
    let groups = "3:cpu:/\n2:memory,hugetlb:/jobs/one\n0::/\n";
    let expected = [
        (CgroupVersion::One, "/sys/fs/cgroup/memory/jobs/one"),
        (CgroupVersion::Two, "/sys/fs/cgroup/unified"),
    ];
    check_places(groups, &[PROCESSORS, MEMORY, DISK, UNIFIED], &expected);
}

#[test]
fn partly_mounted_hierarchy_is_handled() {
    let mount = MEMORY.replace("0:27 /", "0:27 /jobs");
    let expected = [(CgroupVersion::One, "/sys/fs/cgroup/memory/one")];
    check_places("2:memory:/jobs/one\n", &[&mount], &expected);
    for elsewhere in ["2:memory:/other\n", "2:memory:/../other\n"] {
        check_places(elsewhere, &[&mount], &[(CgroupVersion::One, "/sys/fs/cgroup/memory")]);
        check_places(
            elsewhere,
            &[MEMORY],
            &match elsewhere.contains("..") {
                true => [(CgroupVersion::One, "/sys/fs/cgroup/memory")],
                false => [(CgroupVersion::One, "/sys/fs/cgroup/memory/other")],
            },
        );
    }
}

#[test]
fn missing_cgroups_yield_no_places() {
    check_places("0::/\n", &[DISK], &[]);
    check_places("3:cpu:/\n", &[PROCESSORS, MEMORY], &[]);
    check_places("", &[TWO], &[]);
}

/// Checks that creating a group in a directory that is not a cgroup fails and leaves no directory:
/// for both versions, and with and without a memory limit for children.
#[test]
fn directory_that_is_not_a_cgroup_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for version in [CgroupVersion::One, CgroupVersion::Two] {
        for controllers in ["cpu pids", "cpu memory pids"] {
            std::fs::write(folder.path().join("cgroup.subtree_control"), controllers).unwrap();
            MemoryGroup::create_in(version, folder.path(), "group").unwrap_err();
            assert!(!folder.path().join("group").exists());
        }
    }
}

#[test]
fn both_versions_are_read_and_limited() {
    let folder = tempfile::tempdir().unwrap();
    let one = [("memory.usage_in_bytes", "900\n"), ("memory.kmem.usage_in_bytes", "700\n")];
    let two = [
        ("memory.current", "900\n"),
        ("memory.stat", "anon 5\nslab_unreclaimable 3\nslab_reclaimable 700\nslab 703\n"),
    ];
    for (version, files, limit) in [
        (CgroupVersion::One, one, "memory.limit_in_bytes"),
        (CgroupVersion::Two, two, "memory.high"),
    ] {
        let path = folder.path().join(limit);
        std::fs::create_dir(&path).unwrap();
        for (name, text) in files {
            std::fs::write(path.join(name), text).unwrap();
        }
        let group = MemoryGroup { path: path.clone(), version };
        let found = group.memory_use().unwrap();
        assert_eq!((found.total_bytes, found.objects_bytes), (900, 700));
        group.limit(12345).unwrap();
        assert_eq!(std::fs::read_to_string(path.join(limit)).unwrap(), "12345");
        let is_ended = !path.join("memory.oom_control").exists();
        assert_eq!(is_ended, version == CgroupVersion::Two);
    }
}
