//! The named reports: their SQL, and the literals that replace their parameters.
//!
//! The SQL of a report is a file in `reports/`. DuckDB, ClickHouse and Spark run it too, so it uses
//! only functions that all of them have. Its first comment is the title, and the second one names
//! the parameters. A parameter stands in the SQL as `{name}`, and is replaced by a literal.
//!
//! I1: Every literal comes from a parsed value: a date, a number or a UUID. No text of the user
//! becomes SQL.

use jiff::civil::Date;

use crate::cli::Choices;
use crate::dataset::Dataset;
use crate::failure::Failure;

/// A named report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) name: &'static str,
    text: &'static str,
}

macro_rules! reports {
    ($($name:literal),* $(,)?) => {
        [$(Report { name: $name, text: include_str!(concat!("../reports/", $name, ".sql")) }),*]
    };
}

/// All reports, in the order in which `--list` shows them.
pub(crate) const REPORTS: [Report; 10] = reports![
    "volumes",
    "usage-by-owner",
    "usage-by-directory",
    "growth",
    "changes",
    "change-totals",
    "largest",
    "oldest",
    "duplicates",
    "small-files",
];

/// The name of the page with charts, which runs several reports.
pub(crate) const OVERVIEW: &str = "overview";

const DEPTH: u8 = 2;
const LIMIT: u32 = 50;
const MINIMUM: u64 = 1 << 20;
const SMALL: u64 = 64 << 10;

/// The literals for the parameters of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Literals {
    pub(crate) date: Date,
    pub(crate) since: Date,
    pub(crate) volume: Option<String>,
    pub(crate) depth: u8,
    pub(crate) limit: u32,
    pub(crate) minimum: u64,
    pub(crate) small: u64,
}

impl Report {
    /// Returns the report with this name.
    pub(crate) fn find(name: &str) -> Result<Self, Failure> {
        REPORTS.into_iter().find(|report| report.name == name).ok_or_else(|| {
            Failure::usage(format!("there is no report \"{name}\""))
                .hint("`ferroxfs-query --list` names the reports")
        })
    }

    /// Returns the sentence that describes the report.
    pub(crate) fn title(self) -> &'static str {
        self.text.lines().next().and_then(|line| line.strip_prefix("-- ")).unwrap_or(self.name)
    }

    /// Returns the names of the parameters.
    pub(crate) fn parameters(self) -> impl Iterator<Item = &'static str> {
        let line = self.text.lines().nth(1);
        let names = line.and_then(|line| line.strip_prefix("-- parameters:"));
        names.unwrap_or_default().split_whitespace()
    }

    /// Returns whether the report has a parameter.
    pub(crate) fn takes(self, parameter: &str) -> bool {
        self.parameters().any(|name| name == parameter)
    }

    /// Returns the SQL with literals in the places of the parameters.
    pub(crate) fn sql(self, literals: &Literals) -> String {
        let mut sql = self.text.trim_end().to_owned();
        for name in self.parameters() {
            let literal = literals.get(name).expect("I1: a test reads the parameters of each file");
            sql = sql.replace(&format!("{{{name}}}"), &literal);
        }
        sql
    }

    /// Returns the literals for this report: the choices of the user, and defaults that depend on
    /// the dates of the dataset.
    pub(crate) fn literals(self, choices: &Choices, set: &Dataset) -> Result<Literals, Failure> {
        for (name, _) in choices.given() {
            if !self.takes(name) {
                let names: Vec<_> = self.parameters().map(|name| format!("--{name}")).collect();
                return Err(Failure::usage(format!("{}: has no --{name}", self.name))
                    .hint(format!("its parameters are {}", names.join(", "))));
            }
        }
        let literals = Literals::new(choices, set, self.name == "growth")?;
        if self.takes("since") && self.name != "growth" && literals.since >= literals.date {
            return Err(Failure::usage(format!(
                "{}: needs two dates, and there is no scan before {}",
                self.name, literals.date
            )));
        }
        Ok(literals)
    }
}

impl Choices {
    /// Returns the parameters that the user gave, by name.
    fn given(&self) -> impl Iterator<Item = (&'static str, bool)> {
        let all = [
            ("date", self.date.is_some()),
            ("since", self.since.is_some()),
            ("volume", self.volume.is_some()),
            ("depth", self.depth.is_some()),
            ("limit", self.limit.is_some()),
            ("minimum", self.minimum.is_some()),
            ("small", self.small.is_some()),
        ];
        all.into_iter().filter(|(_, is_given)| *is_given)
    }

    /// Returns whether the user gave any parameter.
    pub(crate) fn is_empty(&self) -> bool {
        self.given().next().is_none()
    }
}

impl Literals {
    /// Resolves the choices. `from_oldest` makes the oldest date the default of `since`.
    pub(crate) fn new(
        choices: &Choices,
        set: &Dataset,
        from_oldest: bool,
    ) -> Result<Self, Failure> {
        let date = match choices.date {
            Some(date) => set.require(date)?,
            None => set.newest()?,
        };
        let before = |before: Date| set.dates().rev().find(|date| *date < before);
        let since = match choices.since {
            Some(since) => set.require(since)?,
            None if from_oldest => set.dates().next().unwrap_or(date),
            None => before(date).unwrap_or(date),
        };
        let volume = choices.volume.as_deref().map(|text| set.volume(text)).transpose()?;
        Ok(Self {
            date,
            since,
            volume,
            depth: choices.depth.unwrap_or(DEPTH),
            limit: choices.limit.unwrap_or(LIMIT),
            minimum: choices.minimum.unwrap_or(MINIMUM),
            small: choices.small.unwrap_or(SMALL),
        })
    }

    fn get(&self, name: &str) -> Option<String> {
        Some(match name {
            "date" => self.date.to_string(),
            "since" => self.since.to_string(),
            "volume" => self.volume.clone().unwrap_or_else(|| "%".to_owned()),
            "depth" => self.depth.to_string(),
            "limit" => self.limit.to_string(),
            "minimum" => self.minimum.to_string(),
            "small" => self.small.to_string(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
