//! Test helper: random changes of names on a volume that is mounted read-write, and a model of the
//! expected result. A seed determines the changes.
#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "what fails here fails the test"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_alloc::{InodePurpose, add_unlinked, allocate_inode, inode_blocks};
use xfs_buffer::{BufferCache, Result};
use xfs_dir::{
    Attributes, Directory, EntryType, Namespace, NewAttribute, NewEntry, ParentLink, ParentPath,
    Parents, SetMode, add_entry, add_entry_at, add_parent, attribute_blocks,
    attribute_removal_blocks, blocks_to_add, blocks_to_remove, first_parent, init_directory,
    parent_blocks, remove_attribute, remove_entry, remove_entry_at, remove_parent, replace_entry,
    replace_parent, seek_entry, set_attribute,
};
use xfs_format::inode::{FileType, InodeFlags, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_format::{Geometry, IncompatFeatures, InodeNumber};
use xfs_inode::{InitialInode, Inode, LiveInode, new_attribute_room};
use xfs_testkit::Prng;
use xfs_trans::{Journal, Transaction};

type Name = Vec<u8>;
type Attrs = BTreeMap<(Namespace, Name), Vec<u8>>;

/// A file or a directory of the model, with its inode on the volume.
struct Node {
    live: Arc<LiveInode>,
    is_directory: bool,
    entries: BTreeMap<Name, u64>,
    attributes: Attrs,
    /// For each link, the inode number of the directory and the name.
    links: Vec<(u64, Name)>,
}

/// A volume that is changed at random, and the model of its contents.
pub(crate) struct Names {
    journal: Arc<Journal>,
    model: Model,
    random: Prng,
    path: ParentPath,
    /// Whether `between_steps` is also called in chains of transactions that change attributes.
    /// Such a chain has no intent, so a crash in it may leave the old attribute.
    pub(crate) cuts_values: bool,
    /// A function that is called between two transactions of a chain. At that moment the intent of
    /// the chain is durable, but the deferred work is not done.
    pub(crate) between_steps: Option<Box<dyn FnMut()>>,
}

/// The expected contents of a volume.
pub(crate) struct Model {
    nodes: BTreeMap<u64, Node>,
    root: u64,
    has_parents: bool,
}

const NAMESPACES: [Namespace; 3] = [Namespace::User, Namespace::Trusted, Namespace::Security];

impl Names {
    /// Creates an empty model for the empty volume of `journal`.
    pub(crate) fn new(journal: &Arc<Journal>, seed: u64, path: ParentPath) -> Self {
        let root = journal.superblock().root_inode;
        let live = Arc::new(LiveInode::load(journal, root).unwrap());
        let node = Node {
            live,
            is_directory: true,
            entries: BTreeMap::new(),
            attributes: kept_attributes(journal, root),
            links: Vec::new(),
        };
        let nodes = BTreeMap::from([(root.0, node)]);
        let has_parents = journal.geometry().has_incompat(IncompatFeatures::PARENT);
        let model = Model { nodes, root: root.0, has_parents };
        Self {
            journal: Arc::clone(journal),
            model,
            random: Prng::new(seed),
            path,
            cuts_values: false,
            between_steps: None,
        }
    }

    /// Commits the transaction of a change of names. If `between_steps` is set, calls it before the
    /// deferred work is done.
    fn commit(&mut self, mut tx: Transaction<'_>) -> Result<()> {
        if let Some(between_steps) = &mut self.between_steps {
            tx.roll()?;
            self.journal.force_all()?;
            between_steps();
        }
        tx.commit().map(|_| ())
    }

    /// At random, rolls the transaction. This releases the blocks that an earlier search has read.
    fn may_roll(&mut self, tx: &mut Transaction<'_>) -> Result<()> {
        if self.random.within(0..8) == 0 { tx.roll() } else { Ok(()) }
    }

    fn has_parents(&self) -> bool {
        self.model.has_parents
    }

    fn pick(&mut self, directory: bool) -> Option<u64> {
        let all: Vec<u64> = self
            .model
            .nodes
            .iter()
            .filter(|(_, node)| node.is_directory == directory)
            .map(|(number, _)| *number)
            .collect();
        // Few directories are large.
        let index = match self.random.within(0..3) {
            0 => self.random.within(0..all.len().max(1)),
            _ => self.random.within(0..all.len().clamp(1, 3)),
        };
        all.get(index).copied()
    }

    fn name(&mut self) -> Name {
        let length = match self.random.within(0..8) {
            0 => self.random.within(150..256),
            1 | 2 => self.random.within(20..60),
            _ => self.random.within(2..14),
        };
        (0..length).map(|_| b'a' + self.random.within(0..26) as u8).collect()
    }

    fn link(&self, directory: u64, name: &[u8]) -> ParentLink {
        let live = &self.model.nodes[&directory].live;
        let generation = live.inode().core().generation;
        ParentLink { inode: live.number(), generation, name: name.into() }
    }

    /// Performs one random operation. `grows` chooses whether the volume fills or empties.
    pub(crate) fn step(&mut self, grows: bool) -> Result<()> {
        let more = if grows { 55 } else { 15 };
        let choice = self.random.within(0..100);
        if choice < more {
            return match self.random.within(0..12) {
                0 => self.create(true),
                1 => self.hard_link(),
                _ => self.create(false),
            };
        }
        match self.random.within(0..10) {
            0..=4 => self.unlink(),
            5 | 6 => self.rename(),
            7 | 8 => self.set(),
            _ => self.unset(),
        }
    }

    fn create(&mut self, directory: bool) -> Result<()> {
        let (parent, name) = (self.pick(true).unwrap(), self.name());
        if self.model.nodes[&parent].entries.contains_key(&name) {
            return Ok(());
        }
        let live = Arc::clone(&self.model.nodes[&parent].live);
        let journal = Arc::clone(&self.journal);
        let geometry = journal.geometry();
        let blocks =
            inode_blocks(geometry) + blocks_to_add(geometry) + parent_blocks(geometry, name.len());
        let mut tx = journal.begin(TransactionKind::Create, blocks)?;
        tx.join(live.log_item());
        let place = seek_entry(&mut tx, &live, &name)?;
        assert_eq!(place.meaning(), None);
        self.may_roll(&mut tx)?;
        let purpose = if directory { InodePurpose::Directory } else { InodePurpose::File };
        let made = match allocate_inode(&mut tx, live.number(), purpose) {
            Ok(made) => made,
            Err(error) => {
                // Only the free lists have changed at this point.
                self.commit(tx)?;
                return Err(error);
            }
        };
        let link = self.link(parent, &name);
        let first = self.first_parent(&link, directory, journal.geometry());
        let is_born_with_it = first.is_some();
        let mut new = new_inode(&made, directory, self.has_parents());
        new.attributes = first;
        let child = Arc::new(LiveInode::create(&mut tx, new)?);
        let entry_type = entry_type(directory);
        if directory {
            init_directory(&mut tx, &child, live.number())?;
            live.change(&mut tx, |core| core.nlink += 1);
        }
        add_entry_at(&mut tx, &live, place, made.number(), entry_type)?;
        if self.has_parents() && !is_born_with_it {
            add_parent(&mut tx, &child, &link, self.path)?;
        }
        self.commit(tx)?;
        self.model.nodes.get_mut(&parent).unwrap().entries.insert(name.clone(), made.number().0);
        let node = Node {
            live: child,
            is_directory: directory,
            entries: BTreeMap::new(),
            attributes: Attrs::new(),
            links: vec![(parent, name)],
        };
        self.model.nodes.insert(made.number().0, node);
        Ok(())
    }

    /// Returns the encoded parent pointer that a new file stores in its inode from the start. About
    /// half of the files, at random, get one. Returns `None` for the other files, and if the inode
    /// has no room.
    fn first_parent(
        &mut self,
        link: &ParentLink,
        directory: bool,
        geometry: &Geometry,
    ) -> Option<Arc<[u8]>> {
        let may =
            self.has_parents() && self.path == ParentPath::Direct && self.random.within(0..2) == 0;
        let file_type = if directory { FileType::Directory } else { FileType::Regular };
        let room = new_attribute_room(file_type, geometry);
        first_parent(link.inode, link.generation, &link.name, room).filter(|_| may)
    }

    fn hard_link(&mut self) -> Result<()> {
        let (Some(parent), Some(file), name) = (self.pick(true), self.pick(false), self.name())
        else {
            return Ok(());
        };
        if self.model.nodes[&parent].entries.contains_key(&name) {
            return Ok(());
        }
        let journal = Arc::clone(&self.journal);
        let (live, child) = (self.live(parent), self.live(file));
        let blocks =
            blocks_to_add(journal.geometry()) + parent_blocks(journal.geometry(), name.len());
        let mut tx = journal.begin(TransactionKind::Link, blocks)?;
        join(&mut tx, &[&live, &child]);
        let entry_type = EntryType::Regular;
        add_entry(&mut tx, &live, &NewEntry { name: &name, inode: child.number(), entry_type })?;
        child.change(&mut tx, |core| core.nlink += 1);
        if self.has_parents() {
            add_parent(&mut tx, &child, &self.link(parent, &name), self.path)?;
        }
        self.commit(tx)?;
        self.model.nodes.get_mut(&parent).unwrap().entries.insert(name.clone(), file);
        self.model.nodes.get_mut(&file).unwrap().links.push((parent, name));
        Ok(())
    }

    /// Returns a random link that may be removed: the directory, the name, and the inode that it
    /// names. Returns `None` if the directory that was chosen is empty.
    fn pick_link(&mut self) -> Option<(u64, Name, u64)> {
        let parent = self.pick(true)?;
        let entries = &self.model.nodes[&parent].entries;
        let index = self.random.within(0..entries.len().max(1));
        let (name, child) = entries.iter().nth(index)?;
        Some((parent, name.clone(), *child))
    }

    fn live(&self, number: u64) -> Arc<LiveInode> {
        Arc::clone(&self.model.nodes[&number].live)
    }

    fn unlink(&mut self) -> Result<()> {
        let Some((parent, name, child)) = self.pick_link() else { return Ok(()) };
        let is_directory = self.model.nodes[&child].is_directory;
        if !self.model.nodes[&child].entries.is_empty() {
            return Ok(());
        }
        let journal = Arc::clone(&self.journal);
        let (live, node) = (self.live(parent), self.live(child));
        let blocks =
            blocks_to_remove(journal.geometry()) + attribute_removal_blocks(journal.geometry());
        let mut tx = journal.begin(TransactionKind::Remove, blocks)?;
        join(&mut tx, &[&live, &node]);
        let place = seek_entry(&mut tx, &live, &name)?;
        let meaning = (node.number(), entry_type(is_directory));
        assert_eq!(place.meaning(), Some(meaning));
        self.may_roll(&mut tx)?;
        assert_eq!(remove_entry_at(&mut tx, &live, place)?, meaning);
        if is_directory {
            live.change(&mut tx, |core| core.nlink -= 1);
        }
        let gone = if is_directory { 2 } else { 1 };
        node.change(&mut tx, |core| core.nlink -= gone);
        let is_last = node.inode().core().nlink == 0;
        if is_last {
            add_unlinked(&mut tx, node.log_item())?;
        }
        if self.has_parents() {
            remove_parent(&mut tx, &node, &self.link(parent, &name), self.path)?;
        }
        self.commit(tx)?;
        self.model.nodes.get_mut(&parent).unwrap().entries.remove(&name);
        let links = &mut self.model.nodes.get_mut(&child).unwrap().links;
        links.retain(|link| *link != (parent, name.clone()));
        if is_last {
            self.model.nodes.remove(&child);
            node.inactivate(&journal)?;
        }
        Ok(())
    }

    fn rename(&mut self) -> Result<()> {
        let Some((from, name, child)) = self.pick_link() else { return Ok(()) };
        let (Some(to), new_name) = (self.pick(true), self.name()) else { return Ok(()) };
        let is_directory = self.model.nodes[&child].is_directory;
        // A directory is not moved into itself, and the target is free.
        if is_directory && self.is_below(to, child)
            || self.model.nodes[&to].entries.contains_key(&new_name)
        {
            return Ok(());
        }
        let journal = Arc::clone(&self.journal);
        let geometry = journal.geometry();
        let (source, target, node) = (self.live(from), self.live(to), self.live(child));
        let blocks = blocks_to_add(geometry)
            + blocks_to_remove(geometry)
            + parent_blocks(geometry, new_name.len());
        let mut tx = journal.begin(TransactionKind::Rename, blocks)?;
        join(&mut tx, &[&source, &target, &node]);
        let entry_type = entry_type(is_directory);
        let entry = NewEntry { name: &new_name, inode: node.number(), entry_type };
        add_entry(&mut tx, &target, &entry)?;
        remove_entry(&mut tx, &source, &name)?;
        if is_directory && from != to {
            let parent = NewEntry { name: b"..", inode: target.number(), entry_type };
            replace_entry(&mut tx, &node, &parent)?;
            source.change(&mut tx, |core| core.nlink -= 1);
            target.change(&mut tx, |core| core.nlink += 1);
        }
        if self.has_parents() {
            let (old, new) = (self.link(from, &name), self.link(to, &new_name));
            replace_parent(&mut tx, &node, &old, &new, self.path)?;
        }
        self.commit(tx)?;
        self.model.nodes.get_mut(&from).unwrap().entries.remove(&name);
        self.model.nodes.get_mut(&to).unwrap().entries.insert(new_name.clone(), child);
        let links = &mut self.model.nodes.get_mut(&child).unwrap().links;
        links.retain(|link| *link != (from, name.clone()));
        links.push((to, new_name));
        Ok(())
    }

    fn is_below(&self, mut directory: u64, ancestor: u64) -> bool {
        while directory != ancestor {
            match self.model.nodes[&directory].links.first() {
                Some((parent, _)) => directory = *parent,
                None => return false,
            }
        }
        true
    }

    fn set(&mut self) -> Result<()> {
        let directory = self.random.within(0..4) == 0;
        let Some(file) = self.pick(directory) else { return Ok(()) };
        let known: Vec<_> = self.model.nodes[&file].attributes.keys().cloned().collect();
        let (namespace, name) = match known.get(self.random.within(0..known.len() + 4)) {
            Some(known) => known.clone(),
            None => {
                // Linux has no attributes with names longer than 255 bytes, including their prefix.
                let mut name = self.name();
                name.truncate(246);
                (NAMESPACES[self.random.within(0..3)], name)
            }
        };
        let length = match self.random.within(0..10) {
            0 => self.random.within(0..65_537),
            1 | 2 => self.random.within(1000..6000),
            3 | 4 => self.random.within(100..1000),
            _ => self.random.within(0..60),
        };
        let value: Vec<u8> = (0..length).map(|index| (index * 7 + length) as u8).collect();
        self.set_value(file, (namespace, name), value)
    }

    /// Sets a new attribute with a value of 60,000 bytes on a random file.
    pub(crate) fn set_long(&mut self) -> Result<()> {
        let Some(file) = self.pick(false) else { return self.create(false) };
        let name = (0..16).map(|_| b'a' + self.random.within(0..26) as u8).collect();
        self.set_value(file, (Namespace::User, name), vec![b'v'; 60_000])
    }

    fn set_value(
        &mut self,
        file: u64,
        (namespace, name): (Namespace, Name),
        value: Vec<u8>,
    ) -> Result<()> {
        let journal = Arc::clone(&self.journal);
        let geometry = journal.geometry();
        let blocks = attribute_blocks(geometry, name.len(), value.len());
        let mut tx = journal.begin(TransactionKind::SetAttr, blocks)?;
        let live = self.live(file);
        tx.join(live.log_item());
        let attribute = NewAttribute { namespace, name: &name, value: &value };
        let known = &self.model.nodes[&file].attributes;
        let mode = match known.contains_key(&(namespace, name.clone())) {
            true => SetMode::Replace,
            false => SetMode::Create,
        };
        set_attribute(&mut tx, &live, &attribute, mode)?;
        if self.cuts_values {
            self.commit(tx)?;
        } else {
            tx.commit()?;
        }
        self.model.nodes.get_mut(&file).unwrap().attributes.insert((namespace, name), value);
        Ok(())
    }

    fn unset(&mut self) -> Result<()> {
        let Some(file) = self.pick(false) else { return Ok(()) };
        let attributes = &self.model.nodes[&file].attributes;
        let index = self.random.within(0..attributes.len().max(1));
        let Some((namespace, name)) = attributes.keys().nth(index).cloned() else {
            return Ok(());
        };
        let journal = Arc::clone(&self.journal);
        let blocks = attribute_removal_blocks(journal.geometry());
        let mut tx = journal.begin(TransactionKind::RemoveAttr, blocks)?;
        let live = self.live(file);
        tx.join(live.log_item());
        remove_attribute(&mut tx, &live, namespace, &name)?;
        tx.commit()?;
        self.model.nodes.get_mut(&file).unwrap().attributes.remove(&(namespace, name));
        Ok(())
    }

    /// Returns the expected contents of the volume.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the expected contents of the volume. Drops the references to the journal.
    pub(crate) fn into_model(self) -> Model {
        self.model
    }
}

impl Model {
    /// Compares a volume with the model: names, file types, attributes and links. Reads the
    /// volume's inodes through `cache`.
    pub(crate) fn check(&self, cache: &BufferCache) {
        for (number, node) in &self.nodes {
            self.check_node(cache, &Inode::read(cache, InodeNumber(*number)).unwrap(), node);
        }
    }

    /// Compares the mounted volume with the model. Uses the inodes in memory, which are newer than
    /// those on disk.
    pub(crate) fn check_open(&self, cache: &BufferCache) {
        for node in self.nodes.values() {
            self.check_node(cache, &node.live.inode(), node);
        }
    }

    fn check_node(&self, cache: &BufferCache, inode: &Inode, node: &Node) {
        if node.is_directory {
            self.check_directory(cache, inode, node);
        } else {
            assert_eq!(inode.core().nlink as usize, node.links.len());
        }
        self.check_attributes(cache, inode, node);
    }

    fn check_directory(&self, cache: &BufferCache, inode: &Inode, node: &Node) {
        let directory = Directory::new(cache, inode).unwrap();
        let mut found = BTreeMap::new();
        for entry in directory.entries_from(xfs_dir::Cookie::START) {
            let entry = entry.unwrap();
            if !matches!(&*entry.name, b"." | b"..") {
                found.insert(entry.name.to_vec(), entry.inode.0);
            }
        }
        let (read, kept) = (found.len(), node.entries.len());
        assert!(found == node.entries, "{}: {read} entries, not {kept}", inode.number());
        for (name, child) in node.entries.iter().step_by(1 + node.entries.len() / 50) {
            let expected = (InodeNumber(*child), entry_type(self.nodes[child].is_directory));
            assert_eq!(directory.lookup(name).unwrap(), expected);
        }
        let parent = node.links.first().map_or(self.root, |(parent, _)| *parent);
        assert_eq!(directory.parent().unwrap(), InodeNumber(parent));
        let below = node.entries.values().filter(|child| self.nodes[child].is_directory).count();
        assert_eq!(inode.core().nlink as usize, 2 + below);
    }

    fn check_attributes(&self, cache: &BufferCache, inode: &Inode, node: &Node) {
        let attributes = Attributes::new(cache, inode);
        let mut found = Attrs::new();
        for attribute in attributes.names() {
            let attribute = attribute.unwrap();
            let value = attributes.lookup(attribute.namespace, &attribute.name).unwrap();
            found.insert((attribute.namespace, attribute.name.to_vec()), value);
        }
        assert!(found == node.attributes, "{} and its attributes", inode.number());
        let mut links: Vec<_> = node.links.clone();
        links.sort();
        let mut parents: Vec<_> = Parents::new(cache, inode)
            .map(|parent| parent.map(|parent| (parent.inode.0, parent.name.to_vec())).unwrap())
            .collect();
        parents.sort();
        if self.has_parents {
            assert!(parents == links, "{} and its parents", inode.number());
        }
    }

    /// Returns the contents that another implementation, such as the kernel, must show: links,
    /// entries and attributes of each inode.
    #[allow(dead_code, reason = "one of two test programs asks others")]
    pub(crate) fn shown(&self) -> BTreeMap<u64, Shown> {
        let shown = |node: &Node| {
            let named = |((namespace, name), value): (&(Namespace, Name), &Vec<u8>)| {
                let prefix: &[u8] = match namespace {
                    Namespace::User => b"user.",
                    Namespace::Trusted => b"trusted.",
                    _ => b"security.",
                };
                ([prefix, name].concat(), value.clone())
            };
            Shown {
                links: if node.is_directory { 0 } else { node.links.len() },
                entries: node.entries.clone(),
                attributes: node.attributes.iter().map(named).collect(),
            }
        };
        self.nodes.iter().map(|(number, node)| (*number, shown(node))).collect()
    }
}

/// The parts of an inode that another implementation, such as the kernel, must show.
#[allow(dead_code, reason = "one of two test programs asks others")]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The link count of a file; 0 for a directory.
    pub(crate) links: usize,
    pub(crate) entries: BTreeMap<Name, u64>,
    pub(crate) attributes: BTreeMap<Name, Vec<u8>>,
}

fn kept_attributes(journal: &Journal, number: InodeNumber) -> Attrs {
    let inode = Inode::read(journal.cache(), number).unwrap();
    let attributes = Attributes::new(journal.cache(), &inode);
    let names = attributes.names().map(Result::unwrap);
    names
        .map(|name| {
            let value = attributes.lookup(name.namespace, &name.name).unwrap();
            ((name.namespace, name.name.to_vec()), value)
        })
        .collect()
}

/// Joins two or more inodes to the transaction, in the order of their inode numbers.
fn join(tx: &mut Transaction<'_>, files: &[&Arc<LiveInode>]) {
    let mut files = files.to_vec();
    files.sort_by_key(|file| file.number());
    for file in files {
        tx.join(file.log_item());
    }
}

fn entry_type(directory: bool) -> EntryType {
    if directory { EntryType::Directory } else { EntryType::Regular }
}

fn new_inode(made: &xfs_alloc::AllocatedInode, directory: bool, attr_room: bool) -> InitialInode {
    InitialInode {
        inode: made.clone(),
        mode: if directory { 0o040_755 } else { 0o100_644 },
        uid: 0,
        gid: 0,
        project_id: 0,
        nlink: if directory { 2 } else { 1 },
        now: Timestamp::new(1_700_000_000, 0).unwrap(),
        flags: InodeFlags::empty(),
        flags2: InodeFlags2::empty(),
        extent_size_hint_blocks: 0,
        cow_extent_size_hint_blocks: 0,
        rdev: None,
        attr_room,
        attributes: None,
    }
}
