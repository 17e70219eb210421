//! The pages in a browser. Skipped by name on a machine without Chromium.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::fixture::{A, B, DAYS, Dataset, Inode, directory, file};

/// The widths of a telephone and of a screen.
const WIDTHS: [u32; 2] = [390, 1280];

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let folders = std::env::split_paths(&path);
    folders.flat_map(|folder| names.map(|name| folder.join(name))).find(|path| path.is_file())
}

/// Puts the page into frames of several widths, and returns what a script sees there.
fn look(page: &str, set: &Dataset) -> Option<String> {
    let Some(chromium) = chromium() else {
        eprintln!("skipped: no Chromium in PATH (Debian package chromium)");
        return None;
    };
    let source = page.replace('&', "&amp;").replace('"', "&quot;");
    let frames = WIDTHS.map(|width| {
        format!("<iframe id=w{width} style=\"width:{width}px;height:800px\" srcdoc=\"{source}\"></iframe>")
    });
    let script = "
      addEventListener('load', () => {
        const lines = [];
        for (const frame of document.querySelectorAll('iframe')) {
          const page = frame.contentDocument, root = page.documentElement;
          const wide = [...page.querySelectorAll('body *')].filter((it) =>
            it.getBoundingClientRect().right > root.clientWidth + 1 && !it.closest('.scroll, svg, .skip'));
          lines.push(`${frame.id}: overflow ${root.scrollWidth - root.clientWidth} ${wide.map((it) => it.className)}`);
          const link = page.querySelector('.map a');
          if (link) {
            link.focus();
            lines.push(`${frame.id}: focus ${page.activeElement === link}, line ${page.querySelector('output').textContent}`);
            lines.push(`${frame.id}: target ${page.querySelector(link.getAttribute('href'))?.tagName}`);
          }
          const button = page.querySelector('#largest th.number button');
          if (button) {
            button.click();
            lines.push(`${frame.id}: sorted ${button.closest('th').getAttribute('aria-sort')}`);
          }
        }
        document.body.replaceChildren();
        document.body.append('BEGIN\\n' + lines.join('\\n') + '\\nEND');
      });";
    let path = set.folder.path().join("frames.html");
    fs::write(&path, format!("<!DOCTYPE html><body>{}<script>{script}</script>", frames.concat()))
        .unwrap();
    let profile = set.folder.path().join("profile");
    let output = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .args(["--window-size=1400,1000", "--virtual-time-budget=10000"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", path.display()))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let console: Vec<&str> = errors.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert_eq!(console, Vec::<&str>::new(), "the console has messages");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text.split_once("BEGIN\n").and_then(|(_, rest)| rest.split_once("\nEND"));
    Some(found.map(|(lines, _)| lines.to_owned()).unwrap_or_else(|| panic!("{text}\n{errors}")))
}

#[test]
fn overview_fits_each_screen_and_works_with_the_keyboard() {
    let set = Dataset::small();
    let long = "/home/a-very-long-name-without-any-space-that-no-narrow-screen-can-hold-in-one-line-at-all.dat";
    let mut rows = vec![directory(128, "/"), directory(131, "/home")];
    rows.extend((200..260).map(|ino| file(ino, ino * 100_000, long)));
    rows.push(Inode { uid: u32::MAX, ..file(300, 1 << 40, "/home/<script>alert(1)</script>") });
    set.add(DAYS[1], A, &rows);
    set.add(DAYS[1], B, &[directory(128, "/"), file(129, u64::from(u32::MAX) << 20, "/x")]);
    set.ok(&["--report", "overview", "-o", "page.html"]);
    let page = fs::read_to_string(set.folder.path().join("page.html")).unwrap();
    for id in ["space", "growth", "owners", "largest", "oldest", "duplicates", "small", "volumes"] {
        assert!(page.contains(&format!("id={id}>")), "{id}");
    }
    assert!(
        page.contains("id=changes>") && page.contains("class=chart") && page.contains("class=map")
    );
    assert!(!page.contains("<script>alert"), "a path became markup");
    let Some(seen) = look(&page, &set) else { return };
    for width in WIDTHS {
        let line = |what: &str| {
            let start = format!("w{width}: {what} ");
            let line = seen.lines().find_map(|line| line.strip_prefix(&start));
            line.unwrap_or_else(|| panic!("{what} at {width}: {seen}")).to_owned()
        };
        assert_eq!(line("overflow").trim(), "0", "{seen}");
        assert!(line("focus").starts_with("true, line "), "{seen}");
        assert!(line("focus").contains('%'), "{seen}");
        assert_eq!(line("target"), "TR", "{seen}");
        assert_eq!(line("sorted"), "descending", "{seen}");
    }
}

#[test]
fn page_of_a_report_fits_each_screen() {
    let set = Dataset::small();
    let page = set.ok(&["--report", "largest", "--format", "html"]);
    assert!(page.contains("/large &lt;i&gt;"), "{page}");
    let Some(seen) = look(&page, &set) else { return };
    assert_eq!(seen.matches("overflow 0").count(), WIDTHS.len(), "{seen}");
}
