//! `cargo xtask draw`: doc comments drawn at random, for a reader who rates whether they are clear.
//!
//! A seed always draws the same comments from the same files. Each comment is shown with the parts
//! that its page of `cargo doc` has too: the declaration, the item around it, and the first
//! paragraph of the module. The code itself is not shown.

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
    /// The first paragraph of the module's header. Empty for the header itself.
    module: String,
    /// The first line of the item around the documented item, such as its `impl` or `enum`. Empty
    /// at the level of the module.
    parent: String,
    /// The declaration below the comment, up to its body. Empty for a module's header.
    item: String,
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<(), Error> {
    let mut comments = Vec::new();
    for (path, text) in tidy::rust_files(root)? {
        comments.extend(doc_comments(&path, &text));
    }
    println!("{} doc comments; seed {}\n", comments.len(), options.seed);
    for (index, comment) in draw(comments, options).into_iter().enumerate() {
        let DocComment { path, line, text, module, parent, item } = comment;
        println!("{}. {path}:{line}", index + 1);
        for context in [module, parent].iter().filter(|context| !context.is_empty()) {
            println!("  in: {context}");
        }
        println!("{text}\n    {item}\n");
    }
    Ok(())
}

/// The most lines of a declaration that are shown.
const MOST_LINES: usize = 12;

/// Returns the doc comments of a file: runs of `///` lines and of `//!` lines.
fn doc_comments(path: &str, text: &str) -> Vec<DocComment> {
    let lines: Vec<&str> = text.lines().collect();
    let module = first_paragraph(&lines);
    let mut comments = Vec::new();
    let mut line = 0;
    for run in lines.chunk_by(|a, b| marker(a) == marker(b)) {
        let (first, after) = (line, line + run.len());
        line = after;
        let Some(marker) = run.first().and_then(|line| marker(line)) else { continue };
        let is_header = marker == "//!";
        let text: Vec<&str> = run.iter().map(|line| line.trim()).collect();
        let below = lines.get(after..).unwrap_or_default();
        comments.push(DocComment {
            path: path.to_owned(),
            line: first + 1,
            text: text.join("\n"),
            module: if is_header { String::new() } else { module.clone() },
            parent: if is_header { String::new() } else { parent(&lines, first) },
            item: if is_header { String::new() } else { declaration(below) },
        });
    }
    comments
}

/// Returns the marker with which a line of a doc comment begins, `///` or `//!`, or `None` for
/// another line.
fn marker(line: &str) -> Option<&'static str> {
    ["///", "//!"].into_iter().find(|marker| line.trim_start().starts_with(marker))
}

/// Returns the first paragraph of a module's header as one line.
fn first_paragraph(lines: &[&str]) -> String {
    let header = lines.iter().map_while(|line| line.strip_prefix("//!"));
    let paragraph: Vec<&str> = header.map(str::trim).take_while(|line| !line.is_empty()).collect();
    paragraph.join(" ")
}

/// Returns the first line of the item around line `at`: the nearest line above it that is indented
/// less and begins an item.
fn parent(lines: &[&str], at: usize) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let Some((below, above)) = lines.get(..=at).and_then(|lines| lines.split_last()) else {
        return String::new();
    };
    let mut outer = indent(below);
    for line in above.iter().rev().filter(|line| !line.trim().is_empty()) {
        if indent(line) >= outer {
            continue;
        }
        outer = indent(line);
        let code = line.trim();
        let words = ["struct ", "enum ", "trait ", "impl", "mod ", "union ", "fn "];
        if words
            .iter()
            .any(|word| code.split_once(word).is_some_and(|(before, _)| is_visibility(before)))
        {
            return code.trim_end_matches('{').trim().to_owned();
        }
    }
    String::new()
}

/// Returns whether the text before a keyword has only words that may precede the keyword of an
/// item, such as `pub` and `const`.
fn is_visibility(before: &str) -> bool {
    before.split_whitespace().all(|word| {
        word.starts_with("pub")
            || word.ends_with(')')
            || ["const", "unsafe", "async"].contains(&word)
    })
}

/// Returns the declaration at the start of these lines, without attributes. The declaration ends
/// with the first line that ends with a brace, a comma or a semicolon outside of all parentheses
/// and brackets.
fn declaration(lines: &[&str]) -> String {
    let mut depth = 0_i32;
    let mut in_attribute = false;
    let mut parts = Vec::new();
    for line in lines.iter().take(MOST_LINES).map(|line| line.trim()) {
        let opened = depth;
        for byte in line.bytes() {
            match byte {
                b'(' | b'[' => depth += 1,
                b')' | b']' => depth -= 1,
                _ => {}
            }
        }
        in_attribute |= opened == 0 && line.starts_with("#[");
        if in_attribute {
            in_attribute = depth > 0;
            continue;
        }
        parts.push(line);
        if depth <= 0 && line.ends_with(['{', '}', ',', ';']) {
            break;
        }
    }
    parts.join(" ").trim_end_matches('{').trim_end().to_owned()
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
