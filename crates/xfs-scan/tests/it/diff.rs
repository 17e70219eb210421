//! Compares two states of a volume after random histories of operations, and checks every change
//! against a walk of both states that shares no code with the scan.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use ferroxfs::attr::SetMode;
use ferroxfs::raw::format::inode::FileType;
use ferroxfs::{OpenOptions, SetAttributes, Volume};
use serde_json::Value;
use xfs_scan::{
    ByteList, ChangeKind, ContentsAnswer, ContentsReader, DiffError, DiffFormat, DiffInput,
    DiffOptions, DiffReport, DiffWriter, Field, Fields, Format, Header, Output, Row, RowPiece,
    RowView, RowWriter, ScanFile, ScanOptions, ScanSource, Spill, State, VolumeLabel, diff, scan,
};
use xfs_testkit::{CowDevice, Prng, golden};

/// The identity of an inode: its number and generation.
type Id = (u64, u32);

/// The properties of an inode, read with the operations of the library and not with a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Facts {
    kind: FileType,
    /// The directory and the name of each link.
    names: BTreeSet<(Id, OsString)>,
    paths: BTreeSet<PathBuf>,
    mode: u16,
    owner: (u32, u32),
    project: u32,
    nlink: u32,
    contents: Vec<u8>,
    attributes: BTreeMap<OsString, Vec<u8>>,
    modified: ferroxfs::Timestamp,
    changed: ferroxfs::Timestamp,
}

type Facts2<'a> = (&'a Facts, &'a Facts);
type Snapshot = BTreeMap<Id, Facts>;

/// Reads everything in the volume through the library.
fn snapshot(volume: &Volume) -> Snapshot {
    let mut all = Snapshot::new();
    add_node(&mut all, volume, PathBuf::from("/"), None);
    all
}

fn add_node(all: &mut Snapshot, volume: &Volume, path: PathBuf, link: Option<(Id, OsString)>) {
    let node = volume.lookup_no_follow(&path).unwrap();
    let metadata = node.metadata();
    let id = (metadata.number.0, metadata.generation);
    let kind = metadata.file_type;
    let facts = all.entry(id).or_insert_with(|| Facts {
        kind,
        names: BTreeSet::new(),
        paths: BTreeSet::new(),
        mode: metadata.mode,
        owner: (metadata.uid, metadata.gid),
        project: metadata.project_id,
        nlink: metadata.nlink,
        contents: match kind {
            FileType::Regular => volume.read(&path).unwrap(),
            _ => Vec::new(),
        },
        attributes: node
            .attributes()
            .into_iter()
            .map(|attribute| attribute.unwrap().name)
            .map(|name| (name.clone(), node.attribute(&name).unwrap()))
            .collect(),
        modified: metadata.modified,
        changed: metadata.changed,
    });
    facts.names.extend(link);
    facts.paths.insert(path.clone());
    if kind == FileType::Directory {
        for entry in volume.read_dir(&path).unwrap() {
            let name = entry.unwrap().name().to_owned();
            if name != "." && name != ".." {
                add_node(all, volume, path.join(&name), Some((id, name)));
            }
        }
    }
}

/// Random operations on the files and directories of a volume.
struct History {
    random: Prng,
    names: u32,
}

impl History {
    fn paths(volume: &Volume, wanted: fn(FileType) -> bool) -> Vec<PathBuf> {
        let all = volume.walk("/").unwrap().map(|entry| entry.unwrap());
        let wanted = all.filter(|entry| wanted(entry.node.file_type()));
        let mut paths: Vec<_> = wanted.map(|entry| entry.path.clone()).collect();
        paths.retain(|path| path.as_os_str().as_bytes() != b"/");
        paths
    }

    fn new_path(&mut self, volume: &Volume) -> PathBuf {
        let mut directories = Self::paths(volume, |kind| kind == FileType::Directory);
        directories.push(PathBuf::from("/"));
        self.names += 1;
        let name = format!("n{}", self.names);
        // Equal names in other directories: a rename keeps or changes the name.
        let name = if self.random.within(0..3) == 0 { "same".to_owned() } else { name };
        self.random.choose(&directories).unwrap().join(name)
    }

    /// Does one operation. An operation that the volume refuses, such as a rename of a directory
    /// into itself, changes nothing.
    fn step(&mut self, volume: &Volume) {
        let files = Self::paths(volume, |kind| kind == FileType::Regular);
        let all = Self::paths(volume, |_| true);
        let new = self.new_path(volume);
        let (Some(file), Some(any)) =
            (self.random.choose(&files).cloned(), self.random.choose(&all).cloned())
        else {
            return volume.write(&new, b"first").unwrap();
        };
        let number = self.random.number();
        match self.random.within(0..16) {
            0..3 => _ = volume.write(&new, number.to_string()),
            3 => _ = volume.create_dir(&new),
            4 => _ = volume.symlink("target", &new),
            5 | 6 => _ = volume.remove_file(&any),
            7 => _ = volume.remove_dir(&any),
            8 | 9 => _ = volume.rename(&any, &new),
            10 => _ = volume.hard_link(&file, &new),
            11 => _ = volume.write(&file, vec![number as u8; (number % 9000) as usize]),
            12 => {
                // The size stays.
                let mut contents = volume.read(&file).unwrap();
                contents.iter_mut().for_each(|byte| *byte ^= 1);
                _ = volume.open_file(&file).unwrap().write_at(&contents, 0);
            }
            13 => {
                let node = volume.lookup_no_follow(&any).unwrap();
                _ = node.set_attributes(&SetAttributes::new().mode((number & 0o777) as u16));
            }
            14 => {
                let node = volume.lookup_no_follow(&any).unwrap();
                let changes = SetAttributes::new().uid(number as u32 % 5);
                _ = node.set_attributes(&changes);
            }
            _ => {
                let node = volume.lookup_no_follow(&file).unwrap();
                let name = format!("user.{}", number % 3);
                _ = node.set_attribute(name, &number.to_be_bytes(), SetMode::Either);
            }
        }
    }
}

/// A volume before and after random operations.
struct States {
    devices: [Arc<CowDevice>; 2],
    snapshots: [Snapshot; 2],
}

impl States {
    fn make(seed: u64, options: &str, steps: usize) -> Self {
        let base = xfs_trans::testing::make_with(options);
        let first = Arc::new(CowDevice::new(base));
        let mut history = History { random: Prng::new(seed), names: 0 };
        let before = Self::run(&first, &mut history, 120);
        let second = Arc::new(first.fork());
        let after = Self::run(&second, &mut history, steps);
        Self { devices: [first, second], snapshots: [before, after] }
    }

    fn run(device: &Arc<CowDevice>, history: &mut History, steps: usize) -> Snapshot {
        let device: xfs_device::SharedDevice = Arc::clone(device) as _;
        let volume = OpenOptions::new().write(true).open_device(device).unwrap();
        (0..steps).for_each(|_| history.step(&volume));
        let taken = snapshot(&volume);
        volume.close().unwrap();
        taken
    }

    fn source(&self, state: usize) -> ScanSource {
        let device: xfs_device::SharedDevice = Arc::clone(&self.devices[state]) as _;
        let volume = OpenOptions::new().open_device(device).unwrap();
        ScanSource::from(&volume)
    }

    fn image(&self, state: usize) -> DiffInput {
        DiffInput::Image(Box::new(self.source(state)))
    }

    fn scanned(&self, state: usize) -> DiffInput {
        let file = scan_to_file(&[self.source(state)], Fields::for_comparing());
        DiffInput::Scan(Box::new(ScanFile::open(file).unwrap()))
    }
}

/// Scans volumes into a Parquet file without a name.
fn scan_to_file(sources: &[ScanSource], fields: Fields) -> std::fs::File {
    let mut bytes = Vec::new();
    let options = ScanOptions { fields, threads: 2, ..ScanOptions::default() };
    let header = Header { scan_time: 0 };
    let output = Output::begin(Format::Parquet, fields, header, Box::new(&mut bytes)).unwrap();
    scan(sources, &options, Some(output)).unwrap();
    unnamed_file(&bytes)
}

/// Returns a file without a name that holds these bytes.
fn unnamed_file(bytes: &[u8]) -> std::fs::File {
    let directory = std::env::temp_dir();
    let path = directory.join(format!("xfs-scan-{}-{:p}", std::process::id(), bytes));
    std::fs::write(&path, bytes).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

fn options() -> DiffOptions {
    DiffOptions {
        below_moved: false,
        any_volume: false,
        threads: 2,
        memory_bytes: 256 << 20,
        spill: [Spill::In(std::env::temp_dir()), Spill::In(std::env::temp_dir())],
        cancel: None,
    }
}

fn run<'c>(
    inputs: (DiffInput, DiffInput),
    options: &DiffOptions,
    contents: Option<&'c mut ContentsReader<'c>>,
) -> Result<(DiffReport, Vec<Value>), DiffError> {
    let mut bytes = Vec::new();
    let writer = DiffWriter::begin(DiffFormat::Ndjson, Box::new(&mut bytes)).unwrap();
    let (a, b) = inputs;
    let report = diff(a, b, options, contents, writer)?;
    let text = String::from_utf8(bytes).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.first().unwrap()["row"], "diff");
    assert_eq!(rows.last().unwrap()["row"], "end");
    Ok((report, rows))
}

/// An expected change: its kind, and the aspects that can be computed from the snapshots.
type Expected = (ChangeKind, BTreeSet<&'static str>);

/// Returns the changes between two snapshots. With `by_bytes`, contents are compared byte by byte,
/// and attributes by their values. Otherwise contents are compared by size and times, and
/// attributes by their names.
fn expected(before: &Snapshot, after: &Snapshot, by_bytes: bool) -> BTreeMap<(Id, bool), Expected> {
    let mut all = BTreeMap::new();
    for id in before.keys().filter(|id| !after.contains_key(id)) {
        all.insert((*id, false), (ChangeKind::Removed, BTreeSet::new()));
    }
    for (id, new) in after {
        let Some(old) = before.get(id) else {
            all.insert((*id, true), (ChangeKind::Created, BTreeSet::new()));
            continue;
        };
        let aspects = aspects((old, new), by_bytes);
        let gone = old.names.difference(&new.names).next().is_some();
        let added = new.names.difference(&old.names).next().is_some();
        let kind = match (gone, added) {
            (true, true) => ChangeKind::Renamed,
            (false, true) => ChangeKind::Linked,
            (true, false) => ChangeKind::Unlinked,
            (false, false) if aspects.is_empty() => continue,
            (false, false) => ChangeKind::Changed,
        };
        let only_times = aspects.len() == 1 && aspects.contains("times");
        let aspects = match kind {
            ChangeKind::Changed => aspects,
            _ if only_times => BTreeSet::new(),
            _ => aspects,
        };
        all.insert((*id, true), (kind, aspects));
    }
    all
}

fn aspects((old, new): Facts2<'_>, by_bytes: bool) -> BTreeSet<&'static str> {
    let mut aspects = BTreeSet::new();
    let mut set = |name: &'static str, differs: bool| {
        if differs {
            aspects.insert(name);
        }
    };
    let is_file = new.kind == FileType::Regular;
    let has_other_size = old.contents.len() != new.contents.len();
    set("size", is_file && has_other_size);
    let has_other_bytes = match by_bytes {
        true => old.contents != new.contents,
        false => has_other_size || old.modified != new.modified,
    };
    set("contents", is_file && has_other_bytes);
    set("owner", old.owner != new.owner);
    set("mode", old.mode != new.mode);
    set("project", old.project != new.project);
    set("links", new.kind != FileType::Directory && old.nlink != new.nlink);
    let has_other_attributes = match by_bytes {
        true => old.attributes != new.attributes,
        false => !old.attributes.keys().eq(new.attributes.keys()),
    };
    set("attributes", has_other_attributes);
    let times = match new.kind {
        FileType::Directory => old.changed != new.changed && old.modified == new.modified,
        _ => old.changed != new.changed || old.modified != new.modified,
    };
    if aspects.is_empty() && times {
        aspects.insert("times");
    }
    aspects
}

/// Returns the changes in rows of NDJSON.
fn found(rows: &[Value]) -> BTreeMap<(Id, bool), (String, BTreeSet<String>)> {
    let changes = rows.iter().filter(|row| row["row"] == "change");
    let mut all = BTreeMap::new();
    for row in changes {
        let id = (row["ino"].as_u64().unwrap(), row["generation"].as_u64().unwrap() as u32);
        let kind = row["change"].as_str().unwrap().to_owned();
        let aspects = row["aspects"].as_array().unwrap().iter();
        let aspects = aspects.map(|aspect| aspect.as_str().unwrap().to_owned()).collect();
        let before = all.insert((id, kind != "removed"), (kind, aspects));
        assert!(before.is_none(), "one row for each inode");
    }
    all
}

fn paths(row: &Value, key: &str) -> BTreeSet<PathBuf> {
    let all = row[key].as_array().into_iter().flatten();
    all.map(|path| PathBuf::from(path.as_str().unwrap())).collect()
}

#[track_caller]
fn check(states: &States, rows: &[Value], by_bytes: bool, about: &str) {
    let [before, after] = &states.snapshots;
    let expected: BTreeMap<_, (String, BTreeSet<String>)> = expected(before, after, by_bytes)
        .into_iter()
        .map(|(id, (kind, aspects))| {
            (id, (kind.name().to_owned(), aspects.into_iter().map(str::to_owned).collect()))
        })
        .collect();
    assert_eq!(found(rows), expected, "{about}");
    for row in rows.iter().filter(|row| row["row"] == "change") {
        let id = (row["ino"].as_u64().unwrap(), row["generation"].as_u64().unwrap() as u32);
        let facts = |all: &Snapshot| all.get(&id).map(|facts| facts.paths.clone());
        if row["change"] != "created" {
            assert_eq!(Some(paths(row, "old_paths")), facts(before), "{about}: {row}");
        }
        if row["change"] != "removed" {
            assert_eq!(Some(paths(row, "paths")), facts(after), "{about}: {row}");
        }
    }
}

/// Checks that a diff reports the same changes as a walk of both states. Also checks I1 (ascending
/// inode numbers) and I3 (reused inode numbers) of `xfs_scan::diff`.
#[test]
fn changes_of_random_histories_are_those_of_a_walk() {
    let mut kinds = BTreeSet::new();
    let mut reused = 0;
    for seed in 0..12 {
        let options = if seed % 3 == 0 { "-n parent=0" } else { "" };
        let steps = [0, 3, 40, 200][seed as usize % 4];
        let states = States::make(seed, options, steps);
        let about = format!("seed {seed}");
        let pairs = [
            (states.image(0), states.image(1)),
            (states.scanned(0), states.image(1)),
            (states.image(0), states.scanned(1)),
        ];
        let mut first: Option<Vec<Value>> = None;
        for (index, pair) in pairs.into_iter().enumerate() {
            let (report, rows) = run(pair, &self::options(), None).unwrap();
            assert_eq!(report.findings, 0, "{about}");
            if index == 0 {
                check(&states, &rows, false, &about);
                kinds.extend(
                    rows.iter().filter_map(|row| row["change"].as_str().map(str::to_owned)),
                );
                let [before, after] = &states.snapshots;
                let numbers: BTreeSet<u64> = before.keys().map(|(ino, _)| *ino).collect();
                let fresh = after.keys().filter(|id| !before.contains_key(id));
                reused += fresh.filter(|(ino, _)| numbers.contains(ino)).count();
            }
            // A scan has no names of attributes unless it is asked for them.
            let simple = |rows: &[Value]| -> Vec<Value> {
                let rows = rows.iter().filter(|row| row["row"] == "change");
                rows.map(|row| serde_json::json!([row["change"], row["ino"], row["paths"]]))
                    .collect()
            };
            match &first {
                None => first = Some(rows),
                Some(first) => assert_eq!(simple(first), simple(&rows), "{about}, pair {index}"),
            }
        }
    }
    for kind in ["created", "removed", "renamed", "linked", "unlinked", "changed"] {
        assert!(kinds.contains(kind), "no history has a change of the kind {kind}");
    }
    assert!(reused > 0, "no history uses an inode number again");
}

#[test]
fn compared_bytes_decide_what_evidence_cannot() {
    for seed in 100..104 {
        let states = States::make(seed, "", 80);
        let [before, after] = &states.snapshots;
        let mut asked = 0;
        let mut contents = |ino: u64| {
            asked += 1;
            let find = |all: &Snapshot| {
                let found = all.iter().find(|((number, _), _)| *number == ino);
                found.map(|(_, facts)| facts.clone()).unwrap()
            };
            let (old, new) = (find(before), find(after));
            Ok(ContentsAnswer {
                has_same_bytes: old.contents == new.contents,
                has_same_attributes: old.attributes == new.attributes,
            })
        };
        let pair = (states.image(0), states.image(1));
        let (_, rows) = run(pair, &options(), Some(&mut contents)).unwrap();
        check(&states, &rows, true, &format!("seed {seed}"));
        assert!(asked > 0);
    }
}

#[test]
fn files_below_a_moved_directory_are_shown_on_request() {
    let base = xfs_trans::testing::make_with("");
    let first = Arc::new(CowDevice::new(base));
    let open = |device: &Arc<CowDevice>| {
        let device: xfs_device::SharedDevice = Arc::clone(device) as _;
        OpenOptions::new().write(true).open_device(device).unwrap()
    };
    let volume = open(&first);
    volume.create_dir_all("/a/b").unwrap();
    volume.write("/a/b/file", b"x").unwrap();
    let before = snapshot(&volume);
    volume.close().unwrap();
    let second = Arc::new(first.fork());
    let volume = open(&second);
    volume.rename("/a", "/c").unwrap();
    let after = snapshot(&volume);
    volume.close().unwrap();
    let states = States { devices: [first, second], snapshots: [before, after] };
    let changes = |below_moved| {
        let options = DiffOptions { below_moved, ..options() };
        let (_, rows) = run((states.image(0), states.image(1)), &options, None).unwrap();
        let changes = rows.into_iter().filter(|row| row["row"] == "change");
        changes
            .map(|row| format!("{} {}", row["change"].as_str().unwrap(), row["paths"]))
            .collect::<BTreeSet<String>>()
    };
    assert_eq!(changes(false), BTreeSet::from([r#"renamed ["/c"]"#.to_owned()]));
    let all = [r#"renamed ["/c"]"#, r#"moved ["/c/b"]"#, r#"moved ["/c/b/file"]"#];
    assert_eq!(changes(true), all.map(str::to_owned).into());
}

#[test]
fn formats_have_the_same_changes() {
    let states = States::make(7, "", 60);
    let write = |format| {
        let mut bytes = Vec::new();
        let writer = DiffWriter::begin(format, Box::new(&mut bytes)).unwrap();
        let report = diff(states.image(0), states.image(1), &options(), None, writer).unwrap();
        (report.total() as usize, bytes)
    };
    let (count, text) = write(DiffFormat::Text);
    assert!(count > 10);
    assert_eq!(String::from_utf8(text).unwrap().lines().count(), count);
    let (_, json) = write(DiffFormat::Json);
    let document: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(document["rows"].as_array().unwrap().len(), count);
    let (_, parquet) = write(DiffFormat::Parquet);
    // The changes of a comparison are no state of a volume.
    let refused = ScanFile::open(unnamed_file(&parquet)).err().unwrap();
    let text = refused.of_state(State::A).to_string();
    assert_eq!(text, "it is not the Parquet file of a scan");
}

/// Returns a scan whose rows are not in the order of inode numbers.
fn unordered(states: &States) -> DiffInput {
    let mut bytes = Vec::new();
    let fields = Fields::for_comparing();
    let header = Header { scan_time: 0 };
    let output = Output::begin(Format::Parquet, fields, header, Box::new(&mut bytes)).unwrap();
    let uuid = states.image(0).uuid();
    let mut writer =
        RowWriter::begin(output, VolumeLabel { uuid, label: Vec::new(), log: None }).unwrap();
    let none = ByteList::default();
    let add = |piece: &mut RowPiece<'_>| {
        [130, 150, 140].into_iter().try_for_each(|ino| {
            let mut row = Row::default();
            row.ino = ino;
            let view = RowView {
                hash: None,
                row: &row,
                ag: 0,
                block_units_log: 3,
                paths: &none,
                parents: &[],
                is_orphan: true,
                symlink: None,
                xattrs: &none,
                realtime_fs_blocks: 0,
                names: None,
            };
            piece.row(&view)
        })
    };
    writer.piece(add).unwrap();
    writer.finish().unwrap();
    DiffInput::Scan(Box::new(ScanFile::open(unnamed_file(&bytes)).unwrap()))
}

#[track_caller]
fn check_refused(result: Result<(DiffReport, Vec<Value>), DiffError>, expected: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn states_that_cannot_be_compared_are_refused_by_name() {
    let states = States::make(3, "", 0);
    let open = |file| ScanFile::open(file).map_err(|error| error.of_state(State::B));
    let image = || DiffInput::Image(Box::new(crate::support::source(&golden())));
    check_refused(run((image(), states.image(1)), &options(), None), "these are two volumes");
    let any = DiffOptions { any_volume: true, ..options() };
    let (report, _) = run((image(), states.image(1)), &any, None).unwrap();
    assert!(report.total() > 700);
    let without = Fields::for_comparing().without(Field::Parents);
    let error = open(scan_to_file(&[states.source(0)], without)).err().unwrap();
    assert!(error.to_string().contains("no column parents"), "{error}");
    // I1 of `xfs_scan::diff`
    let error = run((image(), unordered(&states)), &any, None).unwrap_err().to_string();
    assert_eq!(error, "the rows are not in the order of inodes: inode 140 follows inode 150");
    let both = [states.source(0), crate::support::source(&golden())];
    let error = open(scan_to_file(&both, Fields::for_comparing())).err().unwrap();
    assert!(error.to_string().contains("2 volumes"), "{error}");
}
