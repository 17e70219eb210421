//! `cargo xtask draw`: doc comments drawn at random, for a reader who rates whether they are clear.
//!
//! A seed always draws the same comments from the same files.

use std::path::Path;

use crate::error::Error;
use crate::tidy;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Draw with this seed; the same seed gives the same draw
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw this many doc comments
    #[arg(long, default_value_t = 100)]
    count: usize,
}

/// A doc comment, with its file and line.
#[derive(Debug, PartialEq, Eq)]
struct DocComment {
    path: String,
    line: usize,
    text: String,
    /// The line of code below the comment, which names the documented item. Empty for a module's
    /// header.
    item: String,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<(), Error> {
    let mut comments = Vec::new();
    for (path, text) in tidy::rust_files(root)? {
        comments.extend(doc_comments(&path, &text));
    }
    println!("{} doc comments; seed {}\n", comments.len(), options.seed);
    for (index, comment) in draw(comments, options).into_iter().enumerate() {
        let DocComment { path, line, text, item } = comment;
        println!("{}. {path}:{line}\n{text}\n    {item}\n", index + 1);
    }
    Ok(())
}

/// Returns the doc comments of a file: runs of `///` lines and of `//!` lines.
fn doc_comments(path: &str, text: &str) -> Vec<DocComment> {
    let mut comments: Vec<DocComment> = Vec::new();
    let mut marker = "";
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        let here = if trimmed.starts_with("///") { "///" } else { "" };
        let here = if trimmed.starts_with("//!") { "//!" } else { here };
        match comments.last_mut() {
            Some(comment) if here == marker && !here.is_empty() => {
                comment.text.push('\n');
                comment.text.push_str(trimmed);
            }
            Some(comment) if marker == "///" && here.is_empty() => {
                trimmed.clone_into(&mut comment.item);
            }
            _ => {}
        }
        if here != marker && !here.is_empty() {
            let path = path.to_owned();
            let (text, item) = (trimmed.to_owned(), String::new());
            comments.push(DocComment { path, line: index + 1, text, item });
        }
        marker = here;
    }
    comments
}

/// Draws `count` comments at random, each at most once.
fn draw(mut comments: Vec<DocComment>, options: &Options) -> Vec<DocComment> {
    let mut state = options.seed;
    let mut drawn = Vec::new();
    while drawn.len() < options.count && !comments.is_empty() {
        let index = usize::try_from(random(&mut state) % comments.len() as u64);
        drawn.push(comments.swap_remove(index.expect("an index of a list fits usize")));
    }
    drawn
}

/// Returns the next number of the generator SplitMix64 and advances `state`.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests;
