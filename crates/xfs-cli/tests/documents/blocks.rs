//! Finding the command blocks of a Markdown document.
//!
//! A block for a shell opens with `sh`. The words after `sh` state what the block needs: `root`,
//! `fuse`, `qemu`, a `checkout` of the project in place of an empty directory, or a dataset and the
//! program `ferroxfs-query` (`query`).

/// A fenced block that a reader types into a shell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line, in the document, of the block's first command, counted from 1.
    pub(crate) line: usize,
    pub(crate) needs: Needs,
    pub(crate) commands: String,
}

/// The requirements of a block on the machine and the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Whether only root can run the block.
    pub(crate) root: bool,
    /// Whether the block mounts a volume.
    pub(crate) fuse: bool,
    /// Whether the block runs qemu-img and qemu-nbd.
    pub(crate) qemu: bool,
    /// Whether the block runs in a checkout of the project, and not in an empty directory.
    pub(crate) checkout: bool,
    /// Whether the block runs `ferroxfs-query`, another program. `cargo xtask query` runs it.
    pub(crate) query: bool,
}

/// Finds the shell blocks of a document.
///
/// # Errors
///
/// Returns a message with the line of a fence that is never closed, or of one with unknown needs.
pub(crate) fn find(document: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut lines = document.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(information) = line.trim_start().strip_prefix("```") else { continue };
        let mut text = String::new();
        loop {
            let (_, line) = lines.next().ok_or(format!("line {}: no end of block", index + 1))?;
            if line.trim() == "```" {
                break;
            }
            text.push_str(line);
            text.push('\n');
        }
        let mut words = information.split_whitespace();
        if words.next() == Some("sh") {
            let needs = needs(words).map_err(|word| format!("line {}: {word}?", index + 1))?;
            blocks.push(Block { line: index + 2, needs, commands: text });
        }
    }
    Ok(blocks)
}

fn needs<'a>(words: impl Iterator<Item = &'a str>) -> Result<Needs, &'a str> {
    let mut needs = Needs::default();
    for word in words {
        match word {
            "root" => needs.root = true,
            "fuse" => needs.fuse = true,
            "qemu" => needs.qemu = true,
            "checkout" => needs.checkout = true,
            "query" => needs.query = true,
            _ => return Err(word),
        }
    }
    Ok(needs)
}

/// Checks that blocks are found with the right lines and needs, and that no block is skipped
/// silently.
pub(crate) fn blocks_are_found_with_their_needs() {
    let document = "# T\n```sh\na\nb\n```\n```text\nno\n```\n  ```sh root fuse\n  c\n  ```\n";
    let needs = Needs { root: true, fuse: true, ..Needs::default() };
    let expected = [
        Block { line: 3, needs: Needs::default(), commands: "a\nb\n".to_owned() },
        Block { line: 10, needs, commands: "  c\n".to_owned() },
    ];
    assert_eq!(find(document).as_deref(), Ok(expected.as_slice()));
    assert_eq!(find("```sh\na\n"), Err("line 1: no end of block".to_owned()));
    assert_eq!(find("```sh later\n```\n"), Err("line 1: later?".to_owned()));
}
