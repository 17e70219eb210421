//! Tests that the commands in the documents work as printed.
//!
//! The shell blocks of each document run in order, in one shell and an empty directory, once as
//! root and once as an ordinary user. A block that this machine cannot run is reported as skipped,
//! with its document and line.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod blocks;
mod shell;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use xfs_oracle::OracleError;
use xfs_oracle::harness::{Trial, TrialError, run};

use crate::blocks::Block;
use crate::shell::{Shell, User, can_be, cannot_mount, cannot_serve};

/// Commands that a reader runs in a checkout of the project. With each command is the test that
/// runs it or builds its program, or the reason why no test does. These commands build the project,
/// so they do not run here.
const TRIED_ELSEWHERE: [(&str, &str); 24] = [
    ("cargo xtask demo", "a check of `cargo xtask test`"),
    ("cargo xtask test", "what runs this"),
    ("cargo xtask dist", "a part of `cargo xtask test`, with --quick"),
    ("install -D -t ~/.local/bin target/dist/ferroxfs", "would change the home directory"),
    ("export PATH=$PWD/target/quick:$PATH", "changes the reader's shell only"),
    ("dpkg -i target/dist/ferroxfs_0.1.0_amd64.deb", "`cargo xtask dist` does it in an empty root"),
    ("cargo install --path crates/xfs-cli", "`cargo xtask dist` builds the same package"),
    (
        "cargo run -q -p ferroxfs --example make -- disk.img",
        "`-p ferroxfs --test it examples` runs the example",
    ),
    (
        "cargo run -q -p ferroxfs --example read -- disk.img /etc /etc/hostname",
        "`-p ferroxfs --test it examples` runs the example, and checks this output",
    ),
    ("cargo xtask c --prefix /usr/local", "a part of `cargo xtask test --long`, with target/c"),
    (
        "cc crates/ferroxfs-c/examples/tour.c $(pkg-config --cflags --libs ferroxfs) -o tour",
        "`cargo xtask c` compiles it in this way",
    ),
    ("cargo xtask python --release", "a part of `cargo xtask test --long`, without --release"),
    (
        "pip install target/python/wheels/ferroxfs-*.whl",
        "`cargo xtask python` does it in a virtual environment",
    ),
    ("cargo install --path crates/ferroxfs-query", "`cargo xtask query` builds the same package"),
    ("./tour new.img", "`-p ferroxfs-c --test it` runs it, and checks this output"),
    ("cargo test -p xfs-hostile", "a part of `cargo xtask test`"),
    (
        "cargo test -p ferroxfs-cli --test mount -- database writeback postgres repository built_on rsync",
        "a part of `cargo xtask test`",
    ),
    (
        "cargo run --release -p xfs-hostile --example mutate 1 1000000",
        "takes hours; built by `cargo xtask test`",
    ),
    ("cargo run -p xfs-hostile --example seeds fuzz/corpus", "built by `cargo xtask test`"),
    (
        "cargo build --release -p ferroxfs-cli",
        "takes minutes; `cargo xtask dist` builds the same program",
    ),
    ("target/release/ferroxfs bench --html report.html", "takes minutes; `--test it` runs bench"),
    (
        "cargo build --release -p ferroxfs-cli -p xfs-bench && cargo xtask oracles",
        "takes minutes; built by `cargo xtask test`",
    ),
    (
        "FERROXFS_ORACLES=target/oracles target/release/xfs-bench scan",
        "takes minutes; built by `cargo xtask test`",
    ),
    (
        "cargo +nightly fuzz run inode fuzz/corpus/inode fuzz/seeds/inode -- -timeout=10",
        "needs cargo-fuzz, and has no end",
    ),
];

fn main() -> ExitCode {
    let shell = Arc::new(Shell::new(Path::new(env!("CARGO_BIN_EXE_ferroxfs"))));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut trials = vec![
        Trial::new("blocks_are_found_with_their_needs", || {
            blocks::blocks_are_found_with_their_needs();
            Ok(())
        }),
        failing_command_is_reported(&shell),
        demo_is_the_first_command(&root),
    ];
    for document in documents(&root) {
        trials.extend(document_trials(&root, &document, &shell));
    }
    run(trials)
}

/// Returns the paths of the documents for users, relative to the checkout.
fn documents(root: &Path) -> Vec<PathBuf> {
    let mut documents = vec![PathBuf::from("CONTRIBUTING.md"), PathBuf::from("README.md")];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).expect("a folder of documents") {
            let entry = entry.expect("an entry");
            let path = folder.join(entry.file_name());
            if entry.file_type().expect("a type").is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                documents.push(path);
            }
        }
    }
    documents.sort();
    documents
}

fn document_trials(root: &Path, document: &Path, shell: &Arc<Shell>) -> Vec<Trial> {
    let text = fs::read_to_string(root.join(document)).expect("a document");
    let name = document.to_string_lossy().replace('/', "_");
    let blocks = match blocks::find(&text) {
        Ok(blocks) => blocks,
        Err(place) => return vec![failing(name, place)],
    };
    let (checkout, blocks): (Vec<_>, Vec<_>) = blocks.into_iter().partition(|b| b.needs.checkout);
    // `cargo xtask query` runs those that need another program.
    let blocks: Vec<_> = blocks.into_iter().filter(|block| !block.needs.query).collect();
    let unknown = checkout.iter().flat_map(|block| block.commands.lines().filter(is_untried));
    let mut trials: Vec<_> =
        unknown.map(|line| failing(name.clone(), format!("no test tries `{line}`"))).collect();
    for user in [User::Root, User::Ordinary] {
        trials.extend(user_trials(&name, &blocks, user, shell));
    }
    trials
}

/// Returns one trial that runs all blocks that `user` can run, and for each other block a trial
/// that is reported as skipped.
fn user_trials(name: &str, blocks: &[Block], user: User, shell: &Arc<Shell>) -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut commands = String::new();
    for block in blocks.iter().filter(|block| user == User::Root || !block.needs.root) {
        let cannot = block.needs.fuse.then(|| cannot_mount(user)).flatten();
        match cannot.or_else(|| block.needs.qemu.then(cannot_serve).flatten()) {
            None => commands.push_str(&block.commands),
            Some(reason) => trials.push(skipped(name, block, user, reason)),
        }
    }
    if !commands.is_empty() {
        let (shell, name) = (Arc::clone(shell), format!("{name}_{}", user.name()));
        let trial = name.clone();
        trials.push(Trial::new(trial, move || shell.run(&name, &commands, user)));
    }
    trials
}

fn skipped(name: &str, block: &Block, user: User, reason: String) -> Trial {
    let name = format!("{name}_line_{}_{}", block.line, user.name());
    Trial::new(name, move || {
        can_be(user)?;
        Err(OracleError::Unavailable(reason.clone()).into())
    })
}

fn failing(name: String, reason: String) -> Trial {
    Trial::new(name, move || Err(TrialError::Failed(reason.clone())))
}

/// Returns whether a line is a command that `TRIED_ELSEWHERE` does not list. The line comes from a
/// block whose commands run in a checkout of the project.
fn is_untried(line: &&str) -> bool {
    let command = line.split("  #").next().unwrap_or_default().trim();
    !command.is_empty() && TRIED_ELSEWHERE.iter().all(|(tried, _)| *tried != command)
}

/// Checks that a command that fails in the middle of a block makes the block fail, and that the
/// message contains this command.
fn failing_command_is_reported(shell: &Arc<Shell>) -> Trial {
    let shell = Arc::clone(shell);
    Trial::new("failing_command_is_reported", move || {
        let commands = "echo first > file\nferroxfs ls no-such.img\necho second\n";
        match shell.run("failing", commands, User::Ordinary) {
            Err(TrialError::Failed(text)) if text.contains("+ ferroxfs ls no-such.img") => Ok(()),
            other => Err(TrialError::Failed(format!("a failing block gives {other:?}"))),
        }
    })
}

fn demo_is_the_first_command(root: &Path) -> Trial {
    let text = fs::read_to_string(root.join("README.md")).expect("a document");
    Trial::new("demo_is_the_first_command", move || {
        let blocks = blocks::find(&text)?;
        let first = blocks.first().and_then(|block| block.commands.lines().next());
        match first {
            Some(line) if line.starts_with("cargo xtask demo") => Ok(()),
            other => Err(TrialError::Failed(format!("README.md begins with {other:?}"))),
        }
    })
}
