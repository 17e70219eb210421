use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use super::{Evaluation, ExaminedFile, Parser, Program, is_expression_start};
use crate::failure::Failure;
use crate::file::facts::{Facts, Time};
use crate::terminal::names::NameStyle;
use crate::text::time::Clock;

/// A file of the host, so that results can be compared with those of find(1). Its path starts with
/// `.`, as in the output of find(1).
struct HostEntry {
    shown: PathBuf,
    on_host: PathBuf,
    depth: usize,
    facts: Facts,
}

fn host_facts(path: &Path) -> io::Result<Facts> {
    let metadata = fs::symlink_metadata(path)?;
    let time = |seconds, nanoseconds: i64| Time { seconds, nanoseconds: nanoseconds as u32 };
    Ok(Facts {
        inode: metadata.ino(),
        mode: metadata.mode(),
        links: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        size: metadata.size(),
        blocks: metadata.blocks(),
        accessed: time(metadata.atime(), metadata.atime_nsec()),
        modified: time(metadata.mtime(), metadata.mtime_nsec()),
        changed: time(metadata.ctime(), metadata.ctime_nsec()),
        ..Facts::default()
    })
}

impl ExaminedFile for HostEntry {
    fn path(&self) -> &[u8] {
        self.shown.as_os_str().as_bytes()
    }
    fn path_below_start(&self) -> &[u8] {
        self.shown.strip_prefix(".").expect("starts at .").as_os_str().as_bytes()
    }
    fn depth(&self) -> usize {
        self.depth
    }
    fn facts(&self) -> &Facts {
        &self.facts
    }
    fn attribute(&self, _name: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        Ok(None)
    }
    fn target(&self) -> Result<Option<Vec<u8>>, Failure> {
        Ok(fs::read_link(&self.on_host).ok().map(|target| target.as_os_str().as_bytes().to_vec()))
    }
    fn is_empty_directory(&self) -> Result<bool, Failure> {
        Ok(fs::read_dir(&self.on_host)?.next().is_none())
    }
}

/// A walk of a tree on the host. Like find(1), it visits files in the order in which the host lists
/// a directory, so that `-quit` ends both walks at the same file.
struct Walk<'a> {
    program: &'a Program,
    clock: &'a Clock,
    root: &'a Path,
    references: &'a [Time],
    out: Vec<u8>,
    has_quit: bool,
}

impl Walk<'_> {
    fn visit(&mut self, shown: &Path, depth: usize) {
        let on_host = self.root.join(shown);
        let facts = host_facts(&on_host).expect("a file");
        let entry = HostEntry { shown: shown.to_owned(), on_host, depth, facts };
        let is_depth_first = self.program.is_depth_first;
        let is_pruned = !is_depth_first && self.evaluate(&entry);
        let is_directory = facts.mode & 0o170_000 == 0o040_000;
        if is_directory && depth < self.program.max_depth && !is_pruned && !self.has_quit {
            for child in fs::read_dir(&entry.on_host).expect("a directory") {
                self.visit(&shown.join(child.expect("an entry").file_name()), depth + 1);
            }
        }
        if is_depth_first {
            self.evaluate(&entry);
        }
    }

    fn evaluate(&mut self, entry: &HostEntry) -> bool {
        if entry.depth < self.program.min_depth || self.has_quit {
            return false;
        }
        let mut evaluation = Evaluation::new(&mut self.out, NameStyle::Raw, self.clock);
        evaluation.references = self.references;
        evaluation.run(&self.program.expression, entry).expect("evaluates");
        self.has_quit = evaluation.has_quit;
        evaluation.is_pruned
    }
}

/// Makes a tree that has a file for each kind of test.
fn make_tree(root: &Path) {
    for directory in ["a", "a/b", "a/b/c", "empty", "odd", "src"] {
        fs::create_dir(root.join(directory)).expect("a directory");
    }
    for (name, size, mode, seconds) in [
        ("a/zero", 0, 0o644, 1_000_000_000_i64),
        ("a/one", 1, 0o600, 86_400),
        ("a/block", 512, 0o755, -86_400),
        ("a/b/kilo", 1025, 0o4755, 1_700_000_000),
        ("a/b/c/mega", (1 << 20) + 1, 0o444, 1_720_000_000),
        ("src/main.rs", 300, 0o664, 1_720_000_001),
        ("src/Main.RS", 301, 0o2775, 1_720_000_002),
        ("src/.hidden", 7, 0o1777, 1_720_000_003),
        ("odd/two words", 3, 0, 4_102_444_800),
    ] {
        let path = root.join(name);
        fs::write(&path, vec![b'x'; size]).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        let file = fs::File::open(&path);
        if let Ok(file) = file {
            let time = std::time::SystemTime::UNIX_EPOCH;
            let time = match u64::try_from(seconds) {
                Ok(seconds) => time + std::time::Duration::new(seconds, 123_456_789),
                Err(_) => time - std::time::Duration::from_secs(86_400),
            };
            file.set_times(fs::FileTimes::new().set_modified(time).set_accessed(time))
                .expect("times");
        }
    }
    fs::write(root.join(OsStr::from_bytes(b"odd/\xff\n")), b"").expect("a file");
    fs::hard_link(root.join("a/one"), root.join("a/b/one again")).expect("a link");
    symlink("../a/one", root.join("src/link")).expect("a link");
    symlink("nowhere", root.join("dangling")).expect("a link");
}

/// Evaluates an expression for all files below `root` with this module and with find(1), and checks
/// that both print the same.
#[track_caller]
fn check_like_find(root: &Path, expression: &[&str]) {
    let words: Vec<OsString> = expression.iter().map(OsString::from).collect();
    let clock = Clock::open();
    let program = Parser::new(&words, &clock).parse().expect("parses");
    let references = program.references.iter().map(|reference| {
        reference.stamp.of(&host_facts(&root.join(&reference.address)).expect("a reference"))
    });
    let references: Vec<Time> = references.collect();
    let references = references.as_slice();
    let mut walk = Walk {
        program: &program,
        clock: &clock,
        root,
        references,
        out: Vec::new(),
        has_quit: false,
    };
    walk.visit(Path::new("."), 0);
    let theirs = Command::new("find")
        .arg(".")
        .args(expression)
        .current_dir(root)
        .env("LC_ALL", "C")
        .output()
        .expect("find(1) runs");
    assert!(theirs.status.success(), "{expression:?}: {theirs:?}");
    assert_eq!(
        String::from_utf8_lossy(&walk.out),
        String::from_utf8_lossy(&theirs.stdout),
        "{expression:?}"
    );
}

#[test]
fn expressions_match_as_in_find() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    make_tree(root);
    for expression in [
        "",
        "-name *.rs",
        "-iname *.rs",
        "-path */b/*",
        "-ipath */B/*",
        "-type d",
        "-type f,l",
        "-lname *one",
        "-empty",
        "-size 0",
        "-size 1",
        "-size +1k",
        "-size -2M",
        "-size 301c",
        "-size +0w",
        "-size -1M",
        "-links 2",
        "-links +1 -type f",
        "-links -2",
        "-perm 644",
        "-perm -111",
        "-perm /7000",
        "-perm /000",
        "-perm -u+s",
        "-perm u=rw,g=r,o=r",
        "-perm /u+w,g+w",
        "-perm -o+t",
        "-perm g=u",
        "-perm u=rw,g=u-w,o=g",
        "-perm /u+t,g=x+w",
        "-perm -a+X",
        "-perm -g+sX",
        "-perm -0022",
        "-perm =02775",
        "-mtime +30",
        "-mtime -1",
        "-mtime 0",
        "-mmin +60",
        "-mmin -60",
        "-newer a/b/c/mega",
        "-newermt 2024-01-01",
        "! -newermt @1720000001",
        "-newerma a/one",
        "-uid 0",
        "-user root",
        "-gid 0 -name a",
        "-maxdepth 1",
        "-mindepth 2 -maxdepth 3",
        "-depth",
        "-name b -prune -o -print",
        "-name b -prune -o -name one",
        "-name b -prune",
        "-depth -name b -prune -o -print",
        "( -name a -o -name src ) -type d",
        "! ( -name a -o -name src )",
        "-not -name a -a -type d",
        "! ! -name a",
        "-name a , -name src",
        "-name a -print -o -name src -print0",
        "-type f -quit",
        "-name c -print -quit",
        "-false -o -true",
        "-print0",
        "-xdev -name one",
    ] {
        let words: Vec<&str> = expression.split_whitespace().collect();
        check_like_find(root, &words);
    }
}

#[test]
fn formats_print_as_in_find() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path();
    make_tree(root);
    for format in [
        "%p\\n",
        "%P|%f|%h|%H|%d\\n",
        "%s %k %b %m %M %n %i %U %G %y\\0",
        "%#m|%#8m|%-#8m|%#08m|%#0m|%08m\\n",
        "%l\\n",
        "%t\\n",
        "%T@ %A@\\n",
        "%TY-%Tm-%Td %TH:%TM:%TS\\n",
        "%T+ %TT %TF %Tj\\n",
        "[%10s][%-10s][%.3f][%010i]\\n",
        "100%%\\t\\\\\\101\\n",
        "stop\\chere",
        "%f %S\\n",
    ] {
        check_like_find(root, &["-printf", format]);
    }
}

#[track_caller]
fn check_refused(expression: &[&str], message: &str) {
    let words: Vec<OsString> = expression.iter().map(OsString::from).collect();
    let clock = Clock::open();
    let failure = Parser::new(&words, &clock).parse().expect_err("refused");
    assert!(failure.to_string().contains(message), "{failure}");
}

#[test]
fn invalid_expressions_are_explained() {
    check_refused(&["-nmae", "x"], "-nmae");
    check_refused(&["-name"], "needs an argument");
    check_refused(&["(", "-name", "x"], "without");
    check_refused(&["-name", "x", ")"], "unexpected");
    check_refused(&["-o", "-name", "x"], "-o");
    check_refused(&["-size", "1X"], "1X");
    check_refused(&["-perm", "u+q"], "u+q");
    check_refused(&["-perm", "+022"], "+022");
    check_refused(&["-delete"], "xargs");
    check_refused(&["-printf", "%q"], "directive %q");
    for (format, directive) in [
        ("%D\\n", "%D"),
        ("%p %-5D %p", "%-5D"),
        ("%TQx", "%TQ"),
        ("%.3T", "%.3T"),
        ("%5", "%5"),
        ("%", "%"),
    ] {
        let parsed = Parser::new(&["-printf", format].map(OsString::from), &Clock::open()).parse();
        let said = parsed.expect_err("refused").to_string();
        assert!(said.ends_with(&format!(" the directive {directive}")), "{said}");
    }
    check_refused(&["-type", "x"], "-type");
    check_refused(&["("; 1000], "too deeply");
}

#[test]
fn addresses_end_where_the_expression_starts() {
    for word in ["-name", "(", "!", "-print"] {
        assert!(is_expression_start(OsStr::new(word)), "{word}");
    }
    for word in ["disk.img", "disk.img:/a", "-", "!x"] {
        assert!(!is_expression_start(OsStr::new(word)), "{word}");
    }
}
