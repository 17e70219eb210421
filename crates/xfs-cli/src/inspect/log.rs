//! `log`: shows head, tail and state of the log, and the changes in the log that a replay would
//! make.
//!
//! A dump is written while the log is read. So the memory for a dump grows with the size of the
//! transactions whose records overlap in the log, and not with the size of the log.

use std::io::{self, Write};

use ferroxfs::Error;
use ferroxfs::raw::format::Lsn;
use ferroxfs::raw::format::log_record::LogRecordHeader;
use ferroxfs::raw::log::{
    LogDevice, LogEntry, LogReader, LogState, LoggedTransaction, find_head_and_tail,
};

mod item;

use crate::cli::{GlobalOptions, LogArguments};
use crate::failure::Failure;
use crate::image::Image;
use crate::inspect::structures::{Fields, Value, fields_to_json};
use crate::json::{self, List, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::escaping::EscapedOutput;
use crate::terminal::tally::Work;

struct Log {
    image: Image,
    dumps: bool,
    is_json: bool,
}

/// Opens the image and returns the command, ready to run.
pub(crate) fn open(
    arguments: &LogArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let image = Image::open_as_it_stands(&arguments.image, options)?;
    Ok(Box::new(Log { image, dumps: arguments.dump, is_json: arguments.json.json }))
}

impl Run for Log {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        console.begin_rows(Work::step("reading the log"));
        let log = self.image.log()?;
        let state = find_head_and_tail(&log).map_err(|error| self.image.failure(error))?;
        let summary = summary(&log, &state);
        let shown = match (self.is_json, self.dumps) {
            (true, false) => Ok(json::write_document(console.out(), fields_to_json(&summary))?),
            (true, true) => self.dump(&mut JsonSink::begin(console.out(), summary)?, &log, &state),
            (false, dumps) => {
                for (name, value) in &summary {
                    writeln!(console.out(), "{name:<16}{value}{}", unit(name))?;
                }
                match dumps {
                    true => self.dump(&mut LineSink { out: console.out() }, &log, &state),
                    false => Ok(()),
                }
            }
        };
        console.end();
        shown
    }
}

impl Log {
    fn dump(&self, sink: &mut impl Sink, log: &LogDevice, state: &LogState) -> Result<(), Failure> {
        let outcome = self.dump_entries(sink, log, state);
        // The output so far is a complete document, whatever came after it.
        sink.end()?;
        outcome
    }

    fn dump_entries(
        &self,
        sink: &mut impl Sink,
        log: &LogDevice,
        state: &LogState,
    ) -> Result<(), Failure> {
        let failure = |error: Error| self.image.failure(error);
        let mut reader = LogReader::new(log, state);
        while let Some(entry) = reader.next_entry().map_err(failure)? {
            match entry {
                LogEntry::Record(header) => sink.write("record", 0, record(&header))?,
                LogEntry::Transaction(transaction) => {
                    sink.write("transaction", 1, described(&transaction))?;
                    for item in transaction.items().map_err(|error| failure(error.into()))? {
                        let item = item.map_err(|error| failure(error.into()))?;
                        sink.write(item.kind().name(), 2, item::describe(&item))?;
                    }
                }
            }
        }
        for transaction in reader.open_transactions() {
            sink.write("not committed", 1, described(transaction))?;
        }
        Ok(())
    }
}

/// The output for a dump of the log, as text or as JSON.
trait Sink {
    /// Writes an entry of the log. Text is indented by `level`: 0 for a record, 1 for a
    /// transaction, 2 for an item.
    fn write(&mut self, name: &str, level: usize, fields: Fields) -> io::Result<()>;

    /// Writes the end of the output.
    fn end(&mut self) -> io::Result<()>;
}

/// Output as text, with one line for each entry.
struct LineSink<'a, W: Write> {
    out: &'a mut W,
}

impl<W: Write> Sink for LineSink<'_, W> {
    fn write(&mut self, name: &str, level: usize, fields: Fields) -> io::Result<()> {
        write!(self.out, "{:1$}{name}", "", 2 * level)?;
        for (name, value) in &fields {
            write!(self.out, " {name}={value}")?;
        }
        writeln!(self.out)
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Output as JSON, with one object in a list for each entry.
struct JsonSink<'a> {
    out: &'a mut EscapedOutput,
    list: Option<List>,
}

impl<'a> JsonSink<'a> {
    /// Begins the JSON list of the entries of the log. The first entry, `log`, has the fields
    /// `summary`.
    fn begin(out: &'a mut EscapedOutput, summary: Fields) -> io::Result<Self> {
        let list = List::begin(out, "entries")?;
        let mut entries = Self { out, list: Some(list) };
        entries.write("log", 0, summary)?;
        Ok(entries)
    }
}

impl Sink for JsonSink<'_> {
    fn write(&mut self, name: &str, _level: usize, fields: Fields) -> io::Result<()> {
        let mut object = Object::new();
        object.insert("entry".to_owned(), name.replace(' ', "_").into());
        object.extend(fields_to_json(&fields));
        match &mut self.list {
            Some(list) => list.push(self.out, &object),
            None => Ok(()),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        match self.list.take() {
            Some(list) => list.end(self.out),
            None => Ok(()),
        }
    }
}

fn summary(log: &LogDevice, state: &LogState) -> Fields {
    let word = if state.clean { "clean" } else { "dirty" };
    let mut fields = vec![
        ("start", Value::number(log.geometry().start.0)),
        ("blocks", Value::number(log.length_blocks())),
        ("tail", lsn(state.tail)),
        ("head", lsn(state.head)),
        ("state", Value::Text(word.to_owned())),
    ];
    if let Some(block) = state.torn {
        fields.push(("torn_before", Value::number(block)));
    }
    fields
}

/// Returns the unit of the number that the summary shows as `name`; an empty text for a number
/// without a unit.
fn unit(name: &str) -> &'static str {
    match name {
        "start" => " (in units of 512 bytes, on the device of the log)",
        "blocks" => " of 512 bytes",
        _ => "",
    }
}

fn record(header: &LogRecordHeader) -> Fields {
    vec![
        ("lsn", lsn(header.lsn)),
        ("tail", lsn(header.tail)),
        ("bytes", Value::number(header.length)),
        ("operations", Value::number(header.operations)),
        ("buffer_bytes", Value::number(header.size)),
    ]
}

fn described(transaction: &LoggedTransaction) -> Fields {
    vec![
        ("tid", Value::Bits(transaction.id().into())),
        ("lsn", lsn(transaction.lsn())),
        ("regions", Value::number(transaction.region_count() as u64)),
    ]
}

fn lsn(lsn: Lsn) -> Value {
    Value::Lsn(lsn.0)
}
