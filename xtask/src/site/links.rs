//! Checks the links inside the built site.
//!
//! Owns: finding each `href` and `src` of the HTML pages, and following it to a file and an
//! `id`. Does **not** own: links to other sites, which are not followed.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Pages that mdBook adds, and whose links are not checked. The first page repeats all other pages,
/// for printing. The second page is shown in place of any missing page, so its links start at the
/// root of a server.
const NOT_OURS: [&str; 2] = ["print.html", "404.html"];

/// Returns the links that lead nowhere, each with its page, in the order of the pages.
pub(super) fn check(book: &Path) -> Result<Vec<String>, Error> {
    let mut pages = HashMap::new();
    let mut folders = vec![book.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(Error::file(&folder))? {
            let path = entry.map_err(Error::file(&folder))?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "html") {
                let text = fs::read_to_string(&path).map_err(Error::file(&path))?;
                pages.insert(path, text);
            }
        }
    }
    let mut broken = Vec::new();
    let is_ours = |page: &Path| !NOT_OURS.iter().any(|name| page.ends_with(name));
    for (page, text) in pages.iter().filter(|(page, _)| is_ours(page)) {
        let shown = page.strip_prefix(book).unwrap_or(page).display();
        for link in links(text).filter(|link| !leads_somewhere(page, link, &pages)) {
            broken.push(format!("{shown}: link to nowhere: {link}"));
        }
    }
    broken.sort();
    Ok(broken)
}

/// Returns the values of all attributes `href` and `src`.
fn links(text: &str) -> impl Iterator<Item = String> {
    [" href=\"", " src=\""].into_iter().flat_map(|attribute| {
        let values = text.split(attribute).skip(1).filter_map(|rest| rest.split('"').next());
        values.map(|value| value.replace("&amp;", "&"))
    })
}

/// Returns whether a link leads to a file and, if it names one, to a section of a page.
fn leads_somewhere(page: &Path, link: &str, pages: &HashMap<PathBuf, String>) -> bool {
    let (path, section) = link.split_once('#').unwrap_or((link, ""));
    // An address of another site has a scheme.
    if path.split('/').next().is_some_and(|first| first.contains(':')) {
        return true;
    }
    let target = if path.is_empty() { page.to_path_buf() } else { resolve(page, path) };
    match pages.get(&target) {
        Some(text) => section.is_empty() || text.contains(&format!(" id=\"{section}\"")),
        None => target.is_file(),
    }
}

/// Returns the path to which a link leads, relative to the folder of the page that holds it.
fn resolve(page: &Path, link: &str) -> PathBuf {
    let mut target = page.parent().unwrap_or(page).to_path_buf();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(target.pop()),
            part => target.push(part),
        }
    }
    target
}

#[cfg(test)]
mod tests;
