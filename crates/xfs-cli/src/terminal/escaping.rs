//! Escaped standard output: names and other text from an image never control the terminal.
//!
//! Names and other text of an image may hold any byte. Commands quote the values that they know to
//! be names ([`names`]). Any other text that commands print is escaped here, so that no command can
//! forget it. Two kinds of output go through [`EscapedOutput::raw`], unescaped: colours and frames
//! of the commands, and the contents of files, which the user asked for.
//!
//! In output to a pipe or a file, every byte is unchanged.

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::terminal::names;
use crate::terminal::standard_output::StandardOutput;

const BUFFER_BYTES: usize = 64 << 10;

/// Output that is escaped, with a way to write without escaping.
pub(crate) trait TerminalWrite: Write {
    /// Returns a writer that writes to the same output without escaping.
    fn raw(&mut self) -> &mut dyn Write;
}

/// Standard output, buffered, and escaped if it is a terminal.
pub(crate) struct EscapedOutput {
    out: BufWriter<StandardOutput>,
    form: Form,
}

/// The way in which the text of the output is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The text is not changed.
    Raw,
    /// Bytes that a terminal must not get are written in octal.
    Text,
    /// Characters that a terminal must not get are escaped as in JSON strings.
    Json,
}

impl EscapedOutput {
    /// Returns standard output for text, escaped as text on a terminal.
    pub(crate) fn open() -> Self {
        Self::with_form(Form::Text)
    }

    /// Returns standard output for lines of JSON, escaped as JSON on a terminal.
    pub(crate) fn for_json() -> Self {
        Self::with_form(Form::Json)
    }

    fn with_form(form: Form) -> Self {
        let out = BufWriter::with_capacity(BUFFER_BYTES, StandardOutput::open());
        Self { out, form: if io::stdout().is_terminal() { form } else { Form::Raw } }
    }

    /// Stops escaping from here on, for lists whose lines end with NUL: programs read such lists.
    pub(crate) fn disarm(&mut self) {
        self.form = Form::Raw;
    }

    /// Returns a writer to the same output for JSON, which is escaped as JSON on a terminal.
    pub(crate) fn json(&mut self) -> impl Write {
        JsonText(self)
    }

    fn write_as(&mut self, form: Form, bytes: &[u8]) -> io::Result<()> {
        match form {
            Form::Raw => self.out.write_all(bytes),
            Form::Text => self.out.write_all(&names::printable_bytes(bytes)),
            Form::Json => self.out.write_all(&names::printable_json(bytes)),
        }
    }
}

impl Write for EscapedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.form == Form::Raw {
            return self.out.write(bytes);
        }
        self.write_as(self.form, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl TerminalWrite for EscapedOutput {
    fn raw(&mut self) -> &mut dyn Write {
        &mut self.out
    }
}

impl TerminalWrite for io::Sink {
    fn raw(&mut self) -> &mut dyn Write {
        self
    }
}

impl TerminalWrite for Vec<u8> {
    fn raw(&mut self) -> &mut dyn Write {
        self
    }
}

struct JsonText<'a>(&'a mut EscapedOutput);

impl Write for JsonText<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let form = if self.0.form == Form::Raw { Form::Raw } else { Form::Json };
        self.0.write_as(form, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
