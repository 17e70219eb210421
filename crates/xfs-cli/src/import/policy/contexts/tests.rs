//! Comparison with matchpathcon of libselinux 3.4 (Debian 12). Its answers were recorded with
//! `matchpathcon -N -n -m TYPE -f contexts PATH`.

use super::{FileContexts, PathExpression, literal_start};
use crate::file::facts::FileKind;

/// The file of contexts, without `system_u:object_r:` and `:s0` around the types.
const CONTEXTS: &str = r"
# A small policy with the features of the format.
/.*   default_t
/[^/]+  -- etc_runtime_t
/a?quota\.(user|group) -- quota_db_t
/  -d root_t
/bin(/.*)?  bin_t
/bin/bash  -- shell_exec_t
/usr/(.*/)?bin(/.*)?  bin_t
/usr/lib(64)?/.*\.so(\.[^/]*)* -- lib_t
/usr/lib/modules(/.*)?  modules_object_t
/usr/lib/modules/[^/]+/modules\..+ -- modules_dep_t
/var/run  -l <<none>>
/var/run(/.*)?  var_run_t
/var/run/.*\.*pid  <<none>>
/dev(/.*)?  device_t
/dev/.*mouse.*  -c mouse_device_t
/dev/[shmxv]d[^/]* -b fixed_disk_device_t
/dev/xvd[^/]*  -b second_disk_device_t
/dev/log  -s devlog_t
/dev/initctl  -p initctl_t
/etc(/.*)?  etc_t
/etc/exact  exact_t
/etc/ex.ct  late_regex_t
/etc/shadow.*  -- shadow_t
/etc/x\.y  escaped_t
/opt/(a|b)/c  alternative_t
/opt/ab?c*  repeated_t
/opt/[[:digit:]]{2,3}  digits_t
/opt/tab tab_t
/home/[^/]+(/.*)?  user_home_t
/home/a+b\+c  plus_t
";

const HOMEDIRS: &str = r"
/home/[^/]+/\.ssh(/.*)? ssh_home_t
";

const LOCAL: &str = r"
/opt/local(/.*)? local_t
/etc/shadow-local local_shadow_t
";

const SUBSTITUTIONS: &str = "
/run /var/run
/lib /usr/lib
/usr/local/lib32 /usr/lib
";

/// The type of a file as a letter, its path, and the answer of matchpathcon.
const ANSWERS: &str = r"
d / => root_t
f /file => etc_runtime_t
d /directory => default_t
f /quota.user => quota_db_t
f /aquota.group => quota_db_t
d /aquota.group => default_t
d /bin => bin_t
f /bin/bash => shell_exec_t
l /bin/bash => bin_t
f /bin/x => bin_t
f /usr/bin/x => bin_t
f /usr/share/deep/bin/x => bin_t
f /usr/binx => default_t
f /usr/lib/libc.so => lib_t
f /usr/lib64/libc.so.6.1 => lib_t
l /usr/lib64/libc.so.6 => default_t
f /usr/lib/modules/6.1/modules.dep => modules_dep_t
f /usr/lib/modules/6.1/kernel/x.ko => modules_object_t
f /lib/modules/6.1/modules.dep => modules_dep_t
f /lib/libm.so => lib_t
f /usr/local/lib32/libz.so => lib_t
l /var/run => <<none>>
d /var/run => var_run_t
f /var/run/x => var_run_t
f /var/run/x.pid => <<none>>
f /run/x => var_run_t
f /run => var_run_t
c /dev/mouse0 => mouse_device_t
f /dev/mouse0 => device_t
b /dev/sda => fixed_disk_device_t
b /dev/xvda1 => second_disk_device_t
c /dev/sda => device_t
s /dev/log => devlog_t
c /dev/log => device_t
p /dev/initctl => initctl_t
f /etc/exact => exact_t
f /etc/exbct => late_regex_t
f /etc/shadow => shadow_t
d /etc/shadow => etc_t
f /etc/shadow- => shadow_t
f /etc/shadow-local => local_shadow_t
f /etc/x.y => escaped_t
f /etc/xzy => etc_t
f /opt/a/c => alternative_t
f /opt/a => repeated_t
f /opt/ac => repeated_t
f /opt/abcc => repeated_t
f /opt/12 => digits_t
f /opt/1234 => default_t
f /opt/tab => tab_t
f /opt/local/deep/x => local_t
f /opt/localx => default_t
f /home/u => user_home_t
f /home/u/.ssh/id => ssh_home_t
f /home/aab+c => plus_t
d /home => default_t
f /nothing here => etc_runtime_t
";

/// Writes the files into a directory and reads them.
fn contexts() -> FileContexts {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("contexts");
    std::fs::write(&path, CONTEXTS).unwrap();
    std::fs::write(place.path().join("contexts.homedirs"), HOMEDIRS).unwrap();
    std::fs::write(place.path().join("contexts.local"), LOCAL).unwrap();
    std::fs::write(place.path().join("contexts.subs_dist"), SUBSTITUTIONS).unwrap();
    FileContexts::open(&path).unwrap()
}

#[test]
fn contexts_are_those_of_matchpathcon() {
    let contexts = contexts();
    let mut count = 0;
    for line in ANSWERS.lines().filter(|line| !line.is_empty()) {
        let (file, answer) = line.split_once(" => ").unwrap();
        let (letter, path) = file.split_once(' ').unwrap();
        let kind = match letter {
            "f" => FileKind::Regular,
            "d" => FileKind::Directory,
            "l" => FileKind::Symlink,
            "c" => FileKind::CharDevice,
            "b" => FileKind::BlockDevice,
            "s" => FileKind::Socket,
            _ => FileKind::Fifo,
        };
        let found = contexts.find(path.as_bytes(), kind);
        assert_eq!(found.unwrap_or(b"<<none>>"), answer.as_bytes(), "{file}");
        count += 1;
    }
    assert_eq!(count, 57);
}

#[test]
fn start_of_an_expression_is_part_of_every_match() {
    for (expression, start) in [
        ("/usr/lib(64)?/x", "/usr/lib"),
        ("/usr/lib64?/x", "/usr/lib6"),
        ("/usr/é?", "/usr/"),
        ("/a+b", "/a"),
        ("/a{2}", "/"),
        ("/a\\.b.", "/a"),
        ("/a|/b", ""),
        ("/a[(]|/b", ""),
        ("/a[^/]*b", "/a"),
        ("/(a|b)", "/"),
        (".*", ""),
        ("?", ""),
    ] {
        assert_eq!(literal_start(expression), start.as_bytes(), "{expression}");
    }
}

#[test]
fn expressions_of_trees_need_no_regex() {
    let kind = |text| PathExpression::parse(text).unwrap();
    assert!(matches!(kind("/usr/x"), PathExpression::Exact(_)));
    assert!(matches!(kind("/usr/x\\.y"), PathExpression::Exact(_)));
    assert!(matches!(kind("/usr/x(/.*)?"), PathExpression::Below(_)));
    assert!(matches!(kind("/usr/x\\d"), PathExpression::Regex { .. }));
    assert!(matches!(kind("/usr/x.*"), PathExpression::Regex { .. }));
}
