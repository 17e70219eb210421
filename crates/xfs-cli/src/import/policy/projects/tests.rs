use ferroxfs::attr::ExtendedFlags;

use super::Projects;
use crate::file::facts::Facts;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;

fn projects(texts: &[&str]) -> Projects {
    Projects::parse(&texts.iter().map(Into::into).collect::<Vec<_>>()).unwrap()
}

#[track_caller]
fn check(projects: &Projects, path: &str, mode: u32, expected: u32) {
    let facts = Facts { mode, ..Facts::default() };
    let Facts { project, xflags, .. } = projects.assign(path.as_bytes(), facts);
    assert_eq!(project, expected, "{path}");
    let inherits = ExtendedFlags::from_bits_truncate(xflags).contains(ExtendedFlags::PROJINHERIT);
    assert_eq!(inherits, mode == DIRECTORY && expected != 0, "{path}");
}

#[test]
fn innermost_tree_gives_the_project() {
    let projects = projects(&["/srv/web=42", "srv/web/logs/=43", "a=b=7"]);
    check(&projects, "/srv", DIRECTORY, 0);
    check(&projects, "/srv/web", DIRECTORY, 42);
    check(&projects, "srv//web/./index", FILE, 42);
    check(&projects, "/srv/website", FILE, 0);
    check(&projects, "/srv/web/logs", DIRECTORY, 43);
    check(&projects, "/srv/web/logs/today", FILE, 43);
    assert_eq!(projects.missing().count(), 1);
    check(&projects, "/a=b/x", FILE, 7);
    assert_eq!(projects.missing().count(), 0);
}

#[test]
fn root_is_the_tree_of_all_files() {
    let projects = projects(&["/=5"]);
    check(&projects, "/", DIRECTORY, 5);
    check(&projects, "/x/y", FILE, 5);
}

#[test]
fn invalid_trees_are_refused() {
    for text in ["", "5", "=5", "/x=", "/x=0", "/x=-1", "/x=4294967295", "/x/../y=5", "/x=none "] {
        assert!(Projects::parse(&[text.into()]).is_err(), "{text}");
    }
    assert!(Projects::parse(&["/x=1".into(), "x/=2".into()]).is_err());
}
