//! Every operation, each in a few variants, on a small tree.
//!
//! The tree is that of CrashMonkey's bounded workloads (ACE): files and directories at one or two
//! levels, existing and missing names.

use xfs_oracle::model::{
    Abilities, AllocationMode, Durable, Features, FileRanges, FileTarget, Model, NodeSettings,
    Operation, RenameMode, SetMode,
};
use xfs_oracle::{FileFlags, Time};

/// Paths of the files that have contents.
const FILES: [&str; 4] = ["foo", "bar", "A/foo", "B/foo"];
/// Paths that may exist before or after an operation.
const PATHS: [&str; 6] = ["foo", "bar", "new", "A/foo", "A/new", "B/foo"];
/// Directories that may exist before or after an operation. The first one is the root.
const FOLDERS: [&str; 4] = ["", "A", "B", "B/empty"];

const MODES: [AllocationMode; 8] = [
    AllocationMode::Allocate,
    AllocationMode::AllocateKeepSize,
    AllocationMode::PunchHole,
    AllocationMode::Zero,
    AllocationMode::ZeroKeepSize,
    AllocationMode::Collapse,
    AllocationMode::Insert,
    AllocationMode::Unshare,
];

/// Returns the operations that create the tree.
pub(crate) fn preparation(features: Features) -> Vec<Operation> {
    let folders = ["A", "B", "B/empty"].map(make_directory);
    let files = FILES.iter().zip(1..).flat_map(|(path, number)| {
        let length = 5 * features.block_bytes - 100;
        [create(path), write(path, (0, length), number)]
    });
    let links = [
        Operation::Link { from: "foo".to_owned(), to: "A/link".to_owned() },
        Operation::Symlink { target: b"foo".to_vec(), path: "symlink".to_owned() },
        attribute("bar", ("user.small", 20), SetMode::Either),
        attribute("bar", ("user.large", 3000), SetMode::Either),
    ];
    folders.into_iter().chain(files).chain(links).collect()
}

/// Returns the operations that create again all parts of the prepared tree that are missing in
/// `model`.
pub(crate) fn repair(model: &Model) -> Vec<Operation> {
    let paths = model.paths();
    let mut operations = preparation(model.features());
    operations.retain(|operation| {
        let path = match operation {
            Operation::Create { path, .. }
            | Operation::MakeDirectory { path, .. }
            | Operation::Symlink { path, .. }
            | Operation::Link { to: path, .. }
            | Operation::SetAttribute { path, .. }
            | Operation::Write { file: FileTarget::Path(path), .. } => path,
            _ => return false,
        };
        !paths.contains_key(path)
    });
    operations
}

/// Returns every operation in its variants. They can all be performed in sequence on the prepared
/// tree, or any of them alone.
pub(crate) fn operations(features: Features) -> Vec<Operation> {
    [names(), renames(), contents(features), shared(features), settings()].concat()
}

/// Returns every sync that makes a part of the tree durable, and `None`, which stands for no sync.
pub(crate) fn syncs(model: &Model) -> Vec<Option<Operation>> {
    let targets = PATHS.map(|path| FileTarget::Path(path.to_owned()));
    let is_file = |target: &FileTarget| model.file(target).is_ok();
    let files = targets.into_iter().filter(is_file);
    let of_files = files.flat_map(|file| [Durable::File(file.clone()), Durable::Contents(file)]);
    let paths = model.paths();
    let folders = FOLDERS.into_iter().filter(|path| {
        paths.get(*path).is_some_and(|id| model.node(*id).is_ok_and(|node| node.is_directory()))
    });
    let of_folders = folders.map(|path| Durable::Directory(path.to_owned()));
    let syncs = [Durable::Volume].into_iter().chain(of_files).chain(of_folders);
    syncs.map(|durable| Some(Operation::Sync(durable))).chain([None]).collect()
}

fn create(path: &str) -> Operation {
    Operation::Create { path: path.to_owned(), mode: 0o644 }
}

fn make_directory(path: &str) -> Operation {
    Operation::MakeDirectory { path: path.to_owned(), mode: 0o755 }
}

fn write(path: &str, (offset, length): (u64, u64), number: u64) -> Operation {
    Operation::Write { file: FileTarget::Path(path.to_owned()), offset, length, number }
}

fn attribute(path: &str, (name, length): (&str, usize), mode: SetMode) -> Operation {
    let (path, name) = (path.to_owned(), name.to_owned());
    Operation::SetAttribute { path, name, length, number: 77, mode }
}

fn names() -> Vec<Operation> {
    let made = ["new", "A/new"].into_iter().flat_map(|path| {
        [
            create(path),
            make_directory(path),
            Operation::MakeNode { path: path.to_owned(), mode: 0o010_600, device: (0, 0) },
            Operation::Symlink { target: b"foo".to_vec(), path: path.to_owned() },
            Operation::Symlink { target: vec![b'x'; 900], path: path.to_owned() },
            Operation::Link { from: "bar".to_owned(), to: path.to_owned() },
            Operation::Link { from: "A/foo".to_owned(), to: path.to_owned() },
        ]
    });
    let gone = ["foo", "bar", "A/foo", "A/link", "symlink"];
    let gone = gone.map(|path| Operation::Unlink { path: path.to_owned() });
    let folder = Operation::RemoveDirectory { path: "B/empty".to_owned() };
    let temporary = Operation::MakeTemporary { slot: 0, folder: "A".to_owned(), mode: 0o600 };
    made.chain(gone).chain([folder, temporary]).collect()
}

fn renames() -> Vec<Operation> {
    let rename = |from: &str, to: &str, mode| Operation::Rename {
        from: from.to_owned(),
        to: to.to_owned(),
        mode,
    };
    let replace = [
        ("foo", "new"),
        ("foo", "A/new"),
        ("A/foo", "new"),
        ("foo", "bar"),
        ("bar", "A/foo"),
        ("A/foo", "A/link"),
        ("A", "new"),
        ("A", "B/new"),
        ("A", "B/empty"),
        ("B/empty", "A/new"),
        ("symlink", "A/new"),
    ];
    let others = [
        rename("foo", "A/new", RenameMode::NoReplace),
        rename("bar", "A/foo", RenameMode::Exchange),
        rename("bar", "B", RenameMode::Exchange),
        rename("A/foo", "new", RenameMode::Whiteout),
        rename("foo", "bar", RenameMode::Whiteout),
    ];
    let replace = replace.into_iter().map(|(from, to)| rename(from, to, RenameMode::Replace));
    replace.chain(others).collect()
}

fn contents(features: Features) -> Vec<Operation> {
    let block = features.block_bytes;
    let size = 5 * block - 100;
    let writes = [(0, block), (block + 7, 600), (size, 2 * block), (8 * block, 300), (50, size)];
    let sizes = [0, block, 2 * block + 100, size + 3 * block];
    let ranges = [(block, 2 * block), (4 * block, 4 * block), (100, 3 * block)];
    let on = |path: &'static str| {
        let file = FileTarget::Path(path.to_owned());
        let writes = writes.into_iter().zip(100..);
        let writes = writes.map(move |(range, number)| write(path, range, number));
        let of = file.clone();
        let sizes = sizes.into_iter();
        let sizes = sizes.map(move |size| Operation::Truncate { file: of.clone(), size });
        let allocations = MODES.into_iter().flat_map(move |mode| {
            let file = file.clone();
            ranges.into_iter().map(move |(offset, length)| Operation::Allocate {
                file: file.clone(),
                mode,
                offset,
                length,
            })
        });
        writes.chain(sizes).chain(allocations)
    };
    ["foo", "A/foo"].into_iter().flat_map(on).collect()
}

fn shared(features: Features) -> Vec<Operation> {
    let block = features.block_bytes;
    let file = |path: &str| FileTarget::Path(path.to_owned());
    let ranges = |from: &str, to: &str, (from_offset, to_offset, length)| FileRanges {
        from: file(from),
        from_offset,
        to: file(to),
        to_offset,
        length,
    };
    let pairs = [("foo", "bar"), ("A/foo", "foo")];
    let mut all = Vec::new();
    for (from, to) in pairs {
        for range in [(0, 0, 2 * block), (block, 6 * block, 3 * block)] {
            all.push(Operation::Clone(ranges(from, to, range)));
        }
        all.push(Operation::Deduplicate(ranges(from, to, (0, 0, block))));
        if features.abilities.contains(Abilities::EXCHANGE) {
            all.push(Operation::Exchange(ranges(from, to, (block, 2 * block, 2 * block))));
        }
    }
    all
}

fn settings() -> Vec<Operation> {
    let time = Some(Time { seconds: 1_000_000_000, nanoseconds: 5 });
    let attributes = ["foo", "bar", "A"].into_iter().flat_map(|path| {
        [
            attribute(path, ("user.new", 10), SetMode::Either),
            attribute(path, ("user.new", 5000), SetMode::Either),
            attribute(path, ("user.large", 40_000), SetMode::Either),
        ]
    });
    let removed = ["user.small", "user.large"]
        .map(|name| Operation::RemoveAttribute { path: "bar".to_owned(), name: name.to_owned() });
    let nodes = ["foo", "A"].into_iter().flat_map(move |path| {
        let settings =
            NodeSettings { flags: FileFlags::NODUMP, project_id: 7, ..NodeSettings::default() };
        let path = || path.to_owned();
        [
            Operation::ChangeMode { path: path(), mode: 0o4711 },
            Operation::ChangeOwner { path: path(), uid: 5, gid: 6 },
            Operation::SetTimes { path: path(), accessed: time, modified: time },
            Operation::SetFlags { path: path(), settings },
        ]
    });
    attributes.chain(removed).chain(nodes).collect()
}
