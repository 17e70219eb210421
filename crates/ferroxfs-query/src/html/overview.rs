//! The page `overview`: the map of space, growth, owners, and the tables of several reports.

use std::collections::BTreeMap;

use super::growth::{self, Sample};
use super::table::table;
use super::treemap::{self, Node};
use super::{Escaped, page as page_of};
use crate::dataset::Dataset;
use crate::engine::Session;
use crate::failure::Failure;
use crate::report::{Literals, Report};
use crate::rows::Rows;
use crate::size;

/// The number of directories that the map and its table have.
const DIRECTORIES: u32 = 400;
/// The depth of the map, unless the user chose one.
const DEPTH: u8 = 3;
/// The number of rows of the other tables.
const ROWS: u32 = 15;
/// The number of volumes in the totals.
const VOLUMES: u32 = 1_000_000;

/// Runs the reports and returns the page.
pub(crate) async fn page(
    session: &Session<'_>,
    set: &Dataset,
    literals: &Literals,
) -> Result<String, Failure> {
    let few = Literals { limit: ROWS, ..literals.clone() };
    let mut body = String::new();
    let volumes = Literals { limit: VOLUMES, ..few.clone() };
    let volumes = run(session, "volumes", &volumes).await?;
    let oldest = set.dates().next().unwrap_or(literals.date);
    let growth = Literals { since: oldest, ..few.clone() };
    let growth = run(session, "growth", &growth).await?;
    body.push_str(&gaps(set, literals));
    body.push_str(&totals(&volumes, &growth));
    let directories =
        Literals { limit: DIRECTORIES, depth: literals.depth.max(DEPTH), ..few.clone() };
    let directories = run(session, "usage-by-directory", &directories).await?;
    body.push_str(&space(&volumes, &directories));
    body.push_str(&growth_section(&growth));
    for (id, title, name) in [
        ("owners", "Top owners", "usage-by-owner"),
        ("largest", "Largest files", "largest"),
        ("oldest", "Files not modified for longest", "oldest"),
        ("duplicates", "Candidates for duplicates", "duplicates"),
        ("small", "Directories with the most small files", "small-files"),
    ] {
        let rows = run(session, name, &few).await?;
        body.push_str(&section(id, title, name, &rows));
    }
    if literals.since < literals.date {
        let rows = run(session, "change-totals", &few).await?;
        let title = format!("Changes since {}", literals.since);
        body.push_str(&section("changes", &title, "change-totals", &rows));
    }
    body.push_str(&volume_section(volumes));
    Ok(page_of(&format!("Space on {}", literals.date), &lead(set, literals), &body))
}

async fn run(session: &Session<'_>, name: &str, literals: &Literals) -> Result<Rows, Failure> {
    let answer = session.query(&Report::find(name)?.sql(literals)).await?;
    Rows::read(answer, usize::MAX).await
}

/// Returns the lines below the title.
fn lead(set: &Dataset, literals: &Literals) -> String {
    let links = [
        ("space", "Directories"),
        ("growth", "Growth"),
        ("owners", "Owners"),
        ("largest", "Largest"),
        ("oldest", "Oldest"),
        ("duplicates", "Duplicates"),
        ("small", "Small files"),
        ("volumes", "Volumes"),
    ];
    let links = links.map(|(id, text)| format!("<li><a href=#{id}>{text}</a></li>")).concat();
    let of_volume = literals.volume.as_ref().map_or(String::new(), |it| format!(", volume {it}"));
    format!(
        "<p class=quiet>Dataset {}{of_volume}</p><nav aria-label=Sections><ul>{links}</ul></nav>",
        Escaped(&set.directory().to_string_lossy())
    )
}

fn gaps(set: &Dataset, literals: &Literals) -> String {
    let note = |gap: &String| format!("<p class=note>{}</p>", Escaped(gap));
    set.gaps(literals.date).iter().map(note).collect()
}

/// Returns the tiles with totals.
fn totals(volumes: &Rows, growth: &Rows) -> String {
    let sum = |column: &str| volumes.numbers(column).iter().sum::<i128>();
    let change = growth.numbers("used_bytes_change").last().copied().unwrap_or_default();
    let sign = if change > 0 { "+" } else { "" };
    let errors = sum("scan_errors");
    let tiles = [
        ("used", size::human(sum("used_bytes"))),
        ("sum of sizes", size::human(sum("size_bytes"))),
        ("inodes", size::grouped(sum("inodes_found"))),
        ("volumes", size::grouped(volumes.rows.len() as i128)),
        ("since the date before", format!("{sign}{}", size::human(change))),
        ("errors of scans", size::grouped(errors)),
    ];
    let tiles = tiles.map(|(name, value)| format!("<li><b>{value}</b>{name}</li>")).concat();
    format!("<ul class=tiles>{tiles}</ul>")
}

/// Returns the map of space, with the table of its directories.
fn space(volumes: &Rows, directories: &Rows) -> String {
    let root = tree(volumes, directories);
    let map = match root.bytes > 0 {
        true => treemap::map(&root, "directory", "about-tile"),
        false => "<p class=quiet>No space is used.</p>".to_owned(),
    };
    let details = table("Space by directory", directories, Some("directory"));
    format!(
        "<section id=space><h2>Space by directory</h2>\
         <p class=quiet>The area of a box is the space that it uses, with everything below it. \
         A box links to its row in the table.</p>\
         <output id=about-tile>Point at a box, or go there with the Tab key.</output>{map}\
         <details><summary>All {} directories of the map</summary>{details}</details></section>",
        directories.rows.len()
    )
}

/// Returns the tree of directories. With one volume, its root directory is the root.
fn tree(volumes: &Rows, directories: &Rows) -> Node {
    let uuids = volumes.texts("volume_uuid");
    let labels = volumes.texts("label");
    let used = volumes.numbers("used_bytes");
    let mut found: BTreeMap<(String, String), Node> = BTreeMap::new();
    let rows = directories.texts("volume_uuid").into_iter().zip(directories.texts("directory"));
    for (row, ((uuid, path), bytes)) in rows.zip(directories.numbers("used_bytes")).enumerate() {
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let node = Node { name, path: path.clone(), bytes, row: Some(row), ..Node::default() };
        found.insert((uuid, path), node);
    }
    let mut roots = Vec::new();
    for ((uuid, label), bytes) in uuids.iter().zip(labels).zip(used) {
        let short = uuid.split('-').next().unwrap_or_default();
        let name = if label.is_empty() { short.to_owned() } else { label };
        let mut root = gather(uuid, "/", &mut found).unwrap_or_default();
        root.path = name.clone();
        root.name = name;
        root.bytes = bytes;
        roots.push(root);
    }
    match roots.len() {
        1 => roots.remove(0),
        _ => {
            let bytes = roots.iter().map(|root| root.bytes).sum();
            Node { path: "all volumes".to_owned(), bytes, children: roots, ..Node::default() }
        }
    }
}

/// Takes a directory and those below it out of what was found. The depth is that of the report.
fn gather(uuid: &str, path: &str, found: &mut BTreeMap<(String, String), Node>) -> Option<Node> {
    let mut node = found.remove(&(uuid.to_owned(), path.to_owned()))?;
    let prefix = if path == "/" { "/".to_owned() } else { format!("{path}/") };
    let below = found.range((uuid.to_owned(), prefix.clone())..);
    let is_below = |key: &(String, String)| key.0 == uuid && key.1.starts_with(&prefix);
    let children: Vec<String> = below
        .map(|(key, _)| key)
        .take_while(|key| is_below(key))
        .filter(|key| key.1.strip_prefix(&prefix).is_some_and(|rest| !rest.contains('/')))
        .map(|key| key.1.clone())
        .collect();
    node.children = children.iter().filter_map(|child| gather(uuid, child, found)).collect();
    Some(node)
}

fn growth_section(growth: &Rows) -> String {
    let bytes = growth.numbers("used_bytes");
    let dates = growth.texts("scan_date");
    let samples: Vec<Sample> =
        dates.into_iter().zip(bytes).map(|(date, bytes)| Sample { date, bytes }).collect();
    let chart = match samples.len() {
        0 | 1 => "<p class=quiet>A second date will show growth.</p>".to_owned(),
        _ => growth::chart(&samples),
    };
    let mut counts = growth.numbers("volumes");
    counts.dedup();
    let note = match counts.len() > 1 {
        true => "<p class=note>The number of volumes differs between dates: see the table.</p>",
        false => "",
    };
    let details = table("Growth", growth, None);
    format!(
        "<section id=growth><h2>Growth</h2>{note}{chart}\
         <details><summary>All dates</summary>{details}</details></section>"
    )
}

fn section(id: &str, title: &str, name: &str, rows: &Rows) -> String {
    let text = Report::find(name).map(Report::title).unwrap_or_default();
    format!(
        "<section id={id}><h2>{}</h2><p class=quiet>{}. <code>--report {name}</code></p>{}</section>",
        Escaped(title),
        Escaped(text),
        table(title, rows, None)
    )
}

/// Returns the table of volumes, the largest first.
fn volume_section(mut volumes: Rows) -> String {
    let all = volumes.rows.len();
    volumes.rows.truncate(500);
    let note = match all > volumes.rows.len() {
        true => format!("<p class=note>The largest 500 of {all} volumes.</p>"),
        false => String::new(),
    };
    note + &section("volumes", "Volumes", "volumes", &volumes)
}

#[cfg(test)]
mod tests;
