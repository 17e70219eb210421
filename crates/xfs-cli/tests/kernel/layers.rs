//! Comparison of an import of container images with a model. The tree that the kernel shows must be
//! the same as the tree of the model, which applies the layers as the text of the specification
//! says.
//!
//! The model knows no order inside a layer: first the whiteouts remove files of lower layers, then
//! the layer's own entries are put on top.

#[path = "../it/layers/oci.rs"]
pub(crate) mod oci;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::{self, File};
use std::process::Command;

use oci::{Layout, Packing};
use tar::{Builder, EntryType, Header};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Image, ready};
use xfs_testkit::Prng;

const LAYERS: usize = 12;
const ENTRIES: usize = 60;
const SEEDS: u64 = 4;
const NAMES: [&str; 7] = ["a", "b", "c", "dir", "sub", "x", "long-name"];

/// A file of the model. Hard links share one inode.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    Directory { mode: u32, time: u64, note: Option<String> },
    File(usize),
    Symlink { target: String, time: u64 },
}

/// The properties of a regular file.
#[derive(Clone, Debug)]
struct Inode {
    mode: u32,
    owner: u64,
    time: u64,
    contents: Vec<u8>,
}

/// The tree after the layers that were applied so far, by path.
#[derive(Default)]
struct Model {
    tree: BTreeMap<String, Entry>,
    inodes: Vec<Inode>,
}

/// One layer: what it hides, and what it puts on top.
#[derive(Default)]
struct Layer {
    whiteouts: BTreeSet<String>,
    opaque: BTreeSet<String>,
    entries: BTreeMap<String, Entry>,
    /// Hard links: the path, and the target, which exists in a lower layer or in this one.
    links: BTreeMap<String, String>,
}

impl Layer {
    fn count(&self) -> usize {
        self.entries.len() + self.links.len() + self.whiteouts.len() + self.opaque.len()
    }
}

impl Model {
    fn remove(&mut self, path: &str) {
        let below = format!("{path}/");
        self.tree.retain(|other, _| other != path && !other.starts_with(&below));
    }

    fn apply(&mut self, layer: &Layer) {
        // A link to a lower file takes the file that the lower layers have.
        let lower = self.tree.clone();
        for path in &layer.opaque {
            let below = format!("{path}/");
            self.tree.retain(|other, _| !other.starts_with(&below));
        }
        for path in &layer.whiteouts {
            self.remove(path);
        }
        for (path, entry) in &layer.entries {
            let is_directory = matches!(entry, Entry::Directory { .. });
            let stays =
                is_directory && matches!(self.tree.get(path), Some(Entry::Directory { .. }));
            if !stays {
                self.remove(path);
            }
            self.tree.insert(path.clone(), entry.clone());
        }
        for (path, target) in &layer.links {
            let file = layer.entries.get(target).or_else(|| lower.get(target)).unwrap().clone();
            self.remove(path);
            self.tree.insert(path.clone(), file);
        }
    }

    /// Returns the tree as text, in the form in which `shown` prints it.
    fn text(&self) -> String {
        let mut text = String::new();
        for (path, entry) in &self.tree {
            let line = match entry {
                Entry::Directory { mode, time, .. } => format!("{path} d {mode:o} 0 {time} "),
                Entry::File(number) => {
                    let Inode { mode, owner, time, contents } = &self.inodes[*number];
                    let names = self.tree.values().filter(|other| *other == entry).count();
                    let size = contents.len();
                    format!("{path} f {mode:o} {owner} {time} {size} {names} ")
                }
                Entry::Symlink { target, time } => format!("{path} l 777 0 {time} {target}"),
            };
            writeln!(text, "{line}").unwrap();
        }
        for (path, entry) in &self.tree {
            if let Entry::File(number) = entry {
                let digest = oci::sha256(&self.inodes[*number].contents);
                writeln!(text, "{digest}  ./{path}").unwrap();
            }
        }
        for (path, entry) in &self.tree {
            if let Entry::Directory { note: Some(note), .. } = entry {
                writeln!(text, "{path} {note}").unwrap();
            }
        }
        text
    }

    /// Makes a random layer for the present tree.
    fn layer(&mut self, prng: &mut Prng) -> Layer {
        let mut layer = Layer::default();
        let time = |prng: &mut Prng| 1_000_000 + prng.within(0..1_000_000) as u64;
        for _ in 0..ENTRIES {
            let path = self.path(prng, &layer);
            let is_used = |path: &str| {
                let below = format!("{path}/");
                layer.entries.contains_key(path)
                    || layer.links.contains_key(path)
                    || layer.entries.keys().chain(layer.links.keys()).any(|o| o.starts_with(&below))
            };
            match prng.within(0..12) {
                0..=4 if !is_used(&path) => {
                    let contents = vec![b'a' + prng.within(0..26) as u8; prng.within(0..9000)];
                    let mode = 0o600 + prng.within(0..0o100) as u32;
                    let owner = prng.within(0..3000) as u64;
                    self.inodes.push(Inode { mode, owner, time: time(prng), contents });
                    layer.entries.insert(path, Entry::File(self.inodes.len() - 1));
                }
                5 | 6 if !layer.entries.contains_key(&path) && !layer.links.contains_key(&path) => {
                    let mode = 0o700 + prng.within(0..0o100) as u32;
                    let note = (prng.within(0..3) == 0).then(|| format!("n{}", prng.within(0..99)));
                    layer.entries.insert(path, Entry::Directory { mode, time: time(prng), note });
                }
                7 if !is_used(&path) => {
                    let target = format!("to/{}", prng.within(0..9));
                    layer.entries.insert(path, Entry::Symlink { target, time: time(prng) });
                }
                8 if !is_used(&path) => {
                    let files = self.tree.iter().filter(|(_, e)| matches!(e, Entry::File(_)));
                    let files: Vec<&String> = files.map(|(path, _)| path).collect();
                    let Some(target) = prng.choose(&files) else { continue };
                    layer.links.insert(path, (*target).clone());
                }
                9 | 10 => _ = layer.whiteouts.insert(path),
                11 if matches!(self.tree.get(&path), Some(Entry::Directory { .. })) => {
                    layer.opaque.insert(path);
                }
                _ => {}
            }
        }
        self.tidy(&mut layer);
        layer
    }

    /// Removes from a random layer the entries whose meaning the specification leaves open. They
    /// are links to files that the layer itself hides or replaces, and everything below a path that
    /// is not a directory once the layer is applied.
    fn tidy(&self, layer: &mut Layer) {
        let is_in = |path: &str, top: &str| path == top || path.starts_with(&format!("{top}/"));
        let entries = layer.entries.clone();
        let is_listed = |path: &str| matches!(entries.get(path), Some(Entry::Directory { .. }));
        let hidden: Vec<String> = layer.whiteouts.iter().chain(&layer.opaque).cloned().collect();
        let own: Vec<String> = entries.keys().chain(layer.links.keys()).cloned().collect();
        layer.links.retain(|_, target| {
            !hidden.iter().any(|other| is_in(target, other))
                && !own
                    .iter()
                    .any(|other| other == target || is_in(target, other) && !is_listed(other))
        });
        loop {
            let mut after = Self { tree: self.tree.clone(), inodes: Vec::new() };
            after.apply(layer);
            let is_directory =
                |path: &str| matches!(after.tree.get(path), Some(Entry::Directory { .. }));
            let has_parent =
                |path: &String| path.rsplit_once('/').is_none_or(|(above, _)| is_directory(above));
            let before = layer.count();
            layer.entries.retain(|path, _| has_parent(path));
            layer.links.retain(|path, _| has_parent(path));
            layer.whiteouts.retain(has_parent);
            layer.opaque.retain(|path| is_directory(path));
            if layer.count() == before {
                break;
            }
        }
    }

    /// Returns the path of a random name in a random directory of the tree or of the layer. It may
    /// exist already.
    fn path(&self, prng: &mut Prng, layer: &Layer) -> String {
        let all = self.tree.iter().chain(&layer.entries);
        let directories = all.filter(|(_, entry)| matches!(entry, Entry::Directory { .. }));
        let mut tops: Vec<String> = directories.map(|(path, _)| format!("{path}/")).collect();
        tops.push(String::new());
        let top = prng.choose(&tops).unwrap().clone();
        format!("{top}{}", prng.choose(&NAMES).unwrap())
    }

    /// Returns the archive of a layer. Whiteouts come first, last, or in between.
    fn archive(&self, layer: &Layer, prng: &mut Prng) -> Vec<u8> {
        let mut marks: Vec<String> = Vec::new();
        let at = |path: &str, name: &str| match path.rsplit_once('/') {
            Some((above, last)) => format!("{above}/{}", name.replace("NAME", last)),
            None => name.replace("NAME", path),
        };
        marks.extend(layer.whiteouts.iter().map(|path| at(path, ".wh.NAME")));
        marks.extend(layer.opaque.iter().map(|path| format!("{path}/.wh..wh..opq")));
        let mut builder = Builder::new(Vec::new());
        let mut put_marks = |builder: &mut Builder<Vec<u8>>, count: usize| {
            for path in marks.drain(..count.min(marks.len())) {
                let mut header = header(EntryType::Regular, 0o600, 0, 0);
                builder.append_data(&mut header, path, &b""[..]).unwrap();
            }
        };
        put_marks(&mut builder, prng.within(0..20));
        for (path, entry) in &layer.entries {
            put_marks(&mut builder, prng.within(0..2));
            match entry {
                Entry::Directory { mode, time, note } => {
                    if let Some(note) = note {
                        let records = [("SCHILY.xattr.user.note", note.as_bytes())];
                        builder.append_pax_extensions(records).unwrap();
                    }
                    let mut header = header(EntryType::Directory, *mode, 0, *time);
                    builder.append_data(&mut header, path, &b""[..]).unwrap();
                }
                Entry::File(number) => {
                    let Inode { mode, owner, time, contents } = &self.inodes[*number];
                    let mut header = header(EntryType::Regular, *mode, *owner, *time);
                    header.set_size(contents.len() as u64);
                    builder.append_data(&mut header, path, &contents[..]).unwrap();
                }
                Entry::Symlink { target, time } => {
                    let mut header = header(EntryType::Symlink, 0o777, 0, *time);
                    builder.append_link(&mut header, path, target).unwrap();
                }
            }
        }
        for (path, target) in &layer.links {
            let mut header = header(EntryType::Link, 0o644, 0, 0);
            builder.append_link(&mut header, path, target).unwrap();
        }
        put_marks(&mut builder, usize::MAX);
        builder.into_inner().unwrap()
    }
}

fn header(kind: EntryType, mode: u32, owner: u64, time: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner);
    header.set_gid(0);
    header.set_mtime(time);
    header.set_size(0);
    header
}

pub(crate) fn match_the_specification() -> Result<(), TrialError> {
    ready()?;
    for seed in 0..SEEDS {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut prng = Prng::new(0x1a7e + seed);
        let mut model = Model::default();
        let mut layers = Vec::new();
        for number in 0..LAYERS {
            let layer = model.layer(&mut prng);
            let archive = model.archive(&layer, &mut prng);
            model.apply(&layer);
            let packing = [Packing::Plain, Packing::Gzip, Packing::Zstd][number % 3];
            layers.push((packing, archive));
        }
        let directory = folder.path().join("layout");
        let mut layout = Layout::new(&directory);
        layout.add(layout.image(("linux", "amd64"), &layers));
        layout.finish();
        let (shown, said) = shown(&folder.path().join("volume"), &directory)?;
        let expected = model.text();
        assert!(shown.lines().count() > 30, "seed {seed}: {shown}");
        similar(&shown, &expected, seed);
        assert!(said.is_empty(), "seed {seed}: {said}");
    }
    Ok(())
}

/// Fails with the lines that differ.
fn similar(shown: &str, expected: &str, seed: u64) {
    let (shown, expected): (BTreeSet<&str>, BTreeSet<&str>) =
        (shown.lines().collect(), expected.lines().collect());
    let only: Vec<_> = shown.difference(&expected).collect();
    let missing: Vec<_> = expected.difference(&shown).collect();
    assert!(only.is_empty() && missing.is_empty(), "seed {seed}: {only:#?} for {missing:#?}");
}

/// Fills a volume from a layout, and mounts it with the kernel. Returns the tree that the kernel
/// shows, and the messages of the command.
fn shown(data: &std::path::Path, layout: &std::path::Path) -> Result<(String, String), TrialError> {
    File::create(data).unwrap().set_len(320 << 20).unwrap();
    let mut mkfs = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
    mkfs.args(["mkfs", "-q", "-f", "--from"]).arg(format!("oci:{}", layout.display())).arg(data);
    let output = mkfs.env("SOURCE_DATE_EPOCH", "1700000000").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{mkfs:?}: {said}");
    let image = Image { data: data.to_owned(), log: None, realtime: None };
    if let Some(findings) = image.findings()? {
        return Err(TrialError::Failed(findings));
    }
    let mount = image.mount(&["ro"])?;
    let script = "find . -mindepth 1 -type d -printf '%P d %m %U %Ts \\n'; \
                  find . -type f -printf '%P f %m %U %Ts %s %n \\n'; \
                  find . -type l -printf '%P l 777 %U %Ts %l\\n'; \
                  find . -type f -exec sha256sum {} +; \
                  find . -mindepth 1 -type d | while read -r d; do \
                  n=$(getfattr --only-values -n user.note \"$d\" 2>/dev/null) \
                  && echo \"${d#./} $n\"; done; true";
    let mut command = Command::new("sh");
    let output = command.args(["-c", script]).current_dir(mount.path()).output().unwrap();
    mount.unmount()?;
    fs::remove_file(data).unwrap();
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), said))
}
