//! Seeded histories: the operations that a user, a program or a malicious test might perform next.
//!
//! For a given model, a seed always gives the same history. The seed also determines which
//! operations are frequent in the history and which are missing, and how many names a directory
//! gets. Such histories find errors that need many operations of one kind in a row, which an equal
//! mix would not find.

mod files;
mod lists;
mod names;
mod settings;

use super::operation::{Features, Operation};
use super::{Body, Model, NodeId, ROOT};
use crate::populate::Random;

/// A function that returns one operation of some kind, or `None` if the model allows none at
/// present.
type OperationMaker = fn(&mut Generator, &Model) -> Option<Operation>;

/// The functions that make operations, each with its weight before the seed changes the weights.
const MAKERS: [(u64, OperationMaker); 31] = [
    (12, Generator::create),
    (6, Generator::make_directory),
    (3, Generator::make_node),
    (4, Generator::symlink),
    (6, Generator::link),
    (10, Generator::unlink),
    (4, Generator::remove_directory),
    (12, Generator::rename),
    (3, Generator::make_temporary),
    (3, Generator::link_slot),
    (4, Generator::open),
    (3, Generator::close),
    (20, Generator::write),
    (5, Generator::read),
    (6, Generator::write_pieces),
    (3, Generator::read_pieces),
    (3, Generator::scan),
    (6, Generator::truncate),
    (14, Generator::allocate),
    (8, Generator::clone_range),
    (4, Generator::deduplicate),
    (4, Generator::exchange),
    (14, Generator::set_attribute),
    (6, Generator::remove_attribute),
    (6, Generator::set_list),
    (4, Generator::change_mode),
    (4, Generator::change_owner),
    (4, Generator::set_times),
    (4, Generator::set_flags),
    (2, Generator::list),
    (4, Generator::sync),
];

/// The kind of node to which a path for an operation should lead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WantedNode {
    Anything,
    File,
    Directory,
    /// A node that an open either opens or refuses at once. An open of a pipe, for example, could
    /// wait for another process.
    Openable,
}

/// Generates the operations of a history, one by one.
#[derive(Debug, Clone)]
pub struct Generator {
    random: Random,
    weights: [u64; MAKERS.len()],
    /// The largest number of different names in a directory.
    names: u64,
    /// The number that determines the bytes of the next write (see `pattern`).
    number: u64,
    has_default_lists: bool,
}

impl Generator {
    /// Creates the generator of a seed's history.
    pub fn new(seed: u64, features: Features) -> Self {
        let mut random = Random::new(seed ^ features.block_bytes << 32);
        let names = [8, 40, 40, 300].get(random.below(4) as usize).copied().unwrap_or(8);
        let weights = MAKERS.map(|(weight, _)| match random.below(6) {
            0 => weight / 4,
            1 => weight * 4,
            _ => weight,
        });
        Self { random, weights, names, number: seed << 20, has_default_lists: true }
    }

    /// Returns the generator with a change: it makes no default access control lists from now on.
    /// After a crash, a file may lack a long access control list that it should have inherited.
    #[must_use]
    pub fn without_default_lists(mut self) -> Self {
        self.has_default_lists = false;
        self
    }

    /// Creates the generator of a history about contents only: a few files are written, read,
    /// truncated, moved and shared.
    pub fn of_contents(seed: u64, features: Features) -> Self {
        let mut generator = Self::new(seed, features);
        generator.names = 4;
        let kept: [OperationMaker; 13] = [
            Self::create,
            Self::open,
            Self::close,
            Self::write,
            Self::read,
            Self::write_pieces,
            Self::read_pieces,
            Self::scan,
            Self::truncate,
            Self::allocate,
            Self::clone_range,
            Self::deduplicate,
            Self::exchange,
        ];
        for (weight, (_, make)) in generator.weights.iter_mut().zip(MAKERS) {
            if !kept.iter().any(|kept| std::ptr::fn_addr_eq(*kept, make)) {
                *weight = 0;
            }
        }
        generator
    }

    /// Returns the next operation of the history. `model` has the state before this operation.
    pub fn next(&mut self, model: &Model) -> Operation {
        loop {
            let mut left = self.random.below(self.weights.iter().sum());
            for (weight, (_, make)) in self.weights.into_iter().zip(MAKERS) {
                if left < weight {
                    if let Some(operation) = make(self, model) {
                        return operation;
                    }
                    break;
                }
                left -= weight;
            }
        }
    }

    fn chance(&mut self, of: u64) -> bool {
        self.random.below(of) == 0
    }

    fn choose<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.random.below(from.len() as u64) as usize).copied()
    }

    fn number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Returns a path to an existing node of the kind `want`, found by walking down from the root
    /// at random. `None` if the walk ends at no such node.
    fn existing(&mut self, model: &Model, want: WantedNode) -> Option<String> {
        const ATTEMPTS: usize = 12;
        (0..ATTEMPTS).find_map(|_| {
            let (path, id) = self.descend(model);
            let node = model.node(id).ok()?;
            let fits = match want {
                WantedNode::Anything => id != ROOT,
                WantedNode::File => matches!(node.body, Body::File(_)),
                WantedNode::Directory => node.is_directory(),
                WantedNode::Openable => id != ROOT && !matches!(node.body, Body::Special),
            };
            fits.then_some(path)
        })
    }

    fn descend(&mut self, model: &Model) -> (String, NodeId) {
        let (mut path, mut at) = (String::new(), ROOT);
        while let Ok(node) = model.node(at)
            && let Body::Directory { entries, .. } = &node.body
            && !entries.is_empty()
            && !self.chance(5)
        {
            let index = self.random.below(entries.len() as u64) as usize;
            let Some((name, id)) = entries.iter().nth(index) else { break };
            if !path.is_empty() {
                path.push('/');
            }
            path.push_str(name);
            at = *id;
        }
        (path, at)
    }

    /// Returns the target of an operation on a file: a path, or sometimes a slot in which a file is
    /// open. `None` if no suitable file is found.
    fn target(&mut self, model: &Model) -> Option<super::FileTarget> {
        use super::{FileTarget, SLOTS};
        if self.chance(5) {
            let slot = self.random.below(SLOTS as u64) as usize;
            return model.slot(slot).map(|_| FileTarget::Slot(slot));
        }
        let want = if self.chance(40) { WantedNode::Openable } else { WantedNode::File };
        self.existing(model, want).map(FileTarget::Path)
    }

    /// Returns a path for a new node. In a few cases the path exists already, or its parent is
    /// missing. `None` if no existing node is found for the parent.
    fn vacant(&mut self, model: &Model) -> Option<String> {
        let want = if self.chance(60) { WantedNode::Openable } else { WantedNode::Directory };
        let folder = self.existing(model, want)?;
        let depth = folder.split('/').count();
        let folder = if depth > 6 || self.chance(3) { String::new() } else { folder };
        let name = self.name();
        let missing = if self.chance(100) { "missing/" } else { "" };
        let slash = if folder.is_empty() { "" } else { "/" };
        Some(format!("{folder}{slash}{missing}{name}"))
    }

    fn name(&mut self) -> String {
        let number = self.random.below(self.names);
        match self.random.below(24) {
            0 => format!("{number}-{}", "long".repeat(self.random.below(62) as usize)),
            1 => format!("{number}-náme–ñ"),
            2 if self.chance(10) => "x".repeat(250 + self.random.below(8) as usize),
            _ => format!("n{number}"),
        }
    }
}
