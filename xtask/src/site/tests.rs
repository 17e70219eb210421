use super::{FIRST, LAST, Page, chapters, documents, page, pages, summary};
use crate::workspace_root;

/// Checks that every document is in exactly one chapter. A document in no chapter would be missing
/// on the site.
#[test]
fn every_document_is_a_page_once() {
    let root = workspace_root();
    let chapters = chapters(&root).unwrap();
    let mut listed: Vec<String> =
        chapters.into_iter().flat_map(|(_, pages)| pages).map(|page| page.path).collect();
    listed.extend(LAST.map(str::to_owned));
    listed.push(FIRST.to_owned());
    listed.sort();
    assert_eq!(listed, documents(&root).unwrap());
}

#[test]
fn page_has_the_title_of_its_document() {
    let page = page(&workspace_root(), "STYLE.md").unwrap();
    assert_eq!(page, Page { path: "STYLE.md".to_owned(), title: "Style".to_owned() });
}

#[test]
fn folder_stands_for_its_documents_in_order() {
    let pages = pages(&workspace_root(), &["docs/adr/"]).unwrap();
    assert!(pages.len() >= 8, "{} pages", pages.len());
    assert!(pages.is_sorted_by(|a, b| a.path < b.path));
}

#[test]
fn summary_lists_chapters_between_first_and_last() {
    let page = |path: &str| Page { path: path.to_owned(), title: path.to_uppercase() };
    let text = summary(&[("Guide", vec![page("a.md")])], &page("r.md"), &[page("z.md")]);
    let expected =
        "# Summary\n\n[R.MD](r.md)\n\n# Guide\n\n- [A.MD](a.md)\n\n---\n\n[Z.MD](z.md)\n";
    assert_eq!(text, expected);
}
