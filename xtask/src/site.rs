//! `cargo xtask site`: the documents as a site, built by mdBook.
//!
//! The pages are Markdown files of the project. They are copied with their folders, so that
//! relative links between them still work. mdBook is installed under target/ if it is not in the
//! path. After the build each link inside the site is followed ([`links`]).

mod links;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::error::Error;

/// Version of mdBook that is installed if this machine has none.
const MDBOOK: &str = "0.4.52";

/// Chapters of the site: a title, and its pages. A page that ends with `/` stands for all documents
/// of that folder that are not listed before it.
const CHAPTERS: [(&str, &[&str]); 7] = [
    (
        "Guide",
        &[
            "docs/install.md",
            "docs/guide/build-an-image.md",
            "docs/guide/recipes.md",
            "docs/guide/look-into-an-image.md",
            "docs/guide/open-any-container.md",
            "docs/guide/inventory.md",
            "docs/guide/queries.md",
            "docs/guide/outgrown.md",
            "docs/guide/mount.md",
            "docs/guide/recover.md",
            "docs/guide/check-and-repair.md",
            "docs/guide/salvage.md",
            "docs/guide/quota.md",
            "docs/guide/embed-the-library.md",
            "docs/guide/embed-from-c.md",
            "docs/guide/python.md",
        ],
    ),
    (
        "Reference",
        &[
            "docs/command-line.md",
            "docs/exit-codes.md",
            "docs/scan-schema.md",
            "docs/check-schema.md",
            "docs/diff-schema.md",
            "docs/limits.md",
            "docs/matrix.md",
            "docs/mount-differences.md",
        ],
    ),
    ("Commands", &["docs/reference/ferroxfs.md", "docs/reference/"]),
    ("Results", &["docs/benchmarks.md", "docs/conformance.md"]),
    (
        "Contributing",
        &["CONTRIBUTING.md", "docs/ARCHITECTURE.md", "STYLE.md", "SECURITY.md", "docs/unsafe.md"],
    ),
    ("Internals", &["docs/internals/"]),
    ("Decisions", &["docs/adr/"]),
];

/// Files to which pages link, but that are not pages of the site.
const ATTACHMENTS: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// The page that comes before all chapters. The pages in `LAST` come after them.
const FIRST: &str = "README.md";
const LAST: [&str; 1] = ["CHANGELOG.md"];

const SETTINGS: &str = "\
[book]
title = \"ferroxfs\"
src = \"src\"

[output.html]
no-section-label = true
";

/// A page of the site: a Markdown file of the project.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    /// The path of the file, relative to the project.
    path: String,
    title: String,
}

/// Builds the site in target/site/book.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let site = root.join("target/site");
    stage(root, &site)?;
    let mdbook = find_or_install(root)?;
    command::run(Command::new(mdbook).arg("build").arg(&site))?;
    let broken = links::check(&site.join("book"))?;
    for link in &broken {
        println!("{link}");
    }
    if !broken.is_empty() {
        return Err(Error::BrokenLinks(broken.len()));
    }
    println!("the site is target/site/book/index.html");
    Ok(())
}

/// Copies every document and writes the table of contents.
fn stage(root: &Path, site: &Path) -> Result<(), Error> {
    let source = site.join("src");
    if source.exists() {
        fs::remove_dir_all(&source).map_err(Error::file(&source))?;
    }
    let attachments = ATTACHMENTS.map(str::to_owned);
    for path in documents(root)?.into_iter().chain(attachments) {
        let (from, to) = (root.join(&path), source.join(&path));
        let folder = to.parent().unwrap_or(&source);
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
        fs::copy(&from, &to).map_err(Error::file(&from))?;
    }
    let summary = summary(&chapters(root)?, &page(root, FIRST)?, &pages(root, &LAST)?);
    let (settings, contents) = (site.join("book.toml"), source.join("SUMMARY.md"));
    fs::write(&contents, summary).map_err(Error::file(&contents))?;
    fs::write(&settings, SETTINGS).map_err(Error::file(&settings))
}

/// Returns the table of contents for mdBook.
fn summary(chapters: &[(&str, Vec<Page>)], first: &Page, last: &[Page]) -> String {
    let mut text = format!("# Summary\n\n[{}]({})\n", first.title, first.path);
    for (title, pages) in chapters {
        text.push_str(&format!("\n# {title}\n\n"));
        for Page { path, title } in pages {
            text.push_str(&format!("- [{title}]({path})\n"));
        }
    }
    text.push_str("\n---\n\n");
    for Page { path, title } in last {
        text.push_str(&format!("[{title}]({path})\n"));
    }
    text
}

fn chapters(root: &Path) -> Result<Vec<(&'static str, Vec<Page>)>, Error> {
    CHAPTERS.iter().map(|(title, paths)| Ok((*title, pages(root, paths)?))).collect()
}

fn pages(root: &Path, paths: &[&str]) -> Result<Vec<Page>, Error> {
    let mut pages = Vec::new();
    for path in paths {
        if path.ends_with('/') {
            let inside = documents(root)?.into_iter().filter(|document| document.starts_with(path));
            for document in inside.filter(|document| !paths.contains(&document.as_str())) {
                pages.push(page(root, &document)?);
            }
        } else {
            pages.push(page(root, path)?);
        }
    }
    Ok(pages)
}

/// Reads a page of the site. The title of the page is its first heading.
fn page(root: &Path, path: &str) -> Result<Page, Error> {
    let file = root.join(path);
    let text = fs::read_to_string(&file).map_err(Error::file(&file))?;
    let title = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(path);
    Ok(Page { path: path.to_owned(), title: title.to_owned() })
}

/// Returns the Markdown files of the root and of docs/, relative to the project, in order.
fn documents(root: &Path) -> Result<Vec<String>, Error> {
    let mut documents = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let absolute = root.join(&folder);
        for entry in fs::read_dir(&absolute).map_err(Error::file(&absolute))? {
            let path = folder.join(entry.map_err(Error::file(&absolute))?.file_name());
            let is_folder = root.join(&path).is_dir();
            if is_folder && path.starts_with("docs") {
                folders.push(path);
            } else if !is_folder && path.extension().is_some_and(|kind| kind == "md") {
                documents.push(path.to_string_lossy().into_owned());
            }
        }
    }
    documents.sort();
    Ok(documents)
}

/// Returns the path of mdBook, which is installed under target/ if this machine has none.
fn find_or_install(root: &Path) -> Result<PathBuf, Error> {
    if command::is_in_path("mdbook") {
        return Ok(PathBuf::from("mdbook"));
    }
    let tools = root.join("target/tools");
    let mdbook = tools.join("bin/mdbook");
    if !mdbook.exists() {
        let mut install = command::cargo();
        install.args([
            "install",
            "mdbook",
            "--locked",
            "--no-default-features",
            "--version",
            MDBOOK,
        ]);
        command::run(install.arg("--root").arg(&tools))?;
    }
    Ok(mdbook)
}

#[cfg(test)]
mod tests;
