//! Standard output as commands write to it: on a terminal nothing that comes from an image controls it.
//!
//! Names and other text of an image may hold any byte. Commands quote what they know to be a name
//! ([`names`]); everything else that they print is escaped here, so that no command can forget it. Text
//! that a command means to control the terminal goes through [`Shown::raw`]: colours, frames, contents of files.
//!
//! A pipe or a file gets every byte as it is.

use std::io::{self, BufWriter, IsTerminal, Write};

use crate::names;
use crate::standard_output::StandardOutput;

const BUFFER_BYTES: usize = 64 << 10;

/// Output of which a part may go past the escaping.
pub(crate) trait TerminalWrite: Write {
    /// The same output, where each byte is written as it is.
    fn raw(&mut self) -> &mut dyn Write;
}

/// Standard output, buffered, and escaped if it is a terminal.
pub(crate) struct Shown {
    out: BufWriter<StandardOutput>,
    form: Form,
}

/// How text is changed on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Not at all.
    Raw,
    /// Bytes that a terminal must not see are written in octal.
    Text,
    /// Characters that a terminal must not see are written as JSON strings have them.
    Json,
}

impl Shown {
    /// Standard output for text.
    pub(crate) fn open() -> Self {
        Self::with_form(Form::Text)
    }

    /// Standard output for lines of JSON.
    pub(crate) fn for_json() -> Self {
        Self::with_form(Form::Json)
    }

    fn with_form(form: Form) -> Self {
        let out = BufWriter::with_capacity(BUFFER_BYTES, StandardOutput::open());
        Self { out, form: if io::stdout().is_terminal() { form } else { Form::Raw } }
    }

    /// Writes everything from now on as it is: for lists that end in NUL, which programs read.
    pub(crate) fn disarm(&mut self) {
        self.form = Form::Raw;
    }

    /// The same output for JSON, in whose strings characters are escaped as JSON has it.
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

impl Write for Shown {
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

impl TerminalWrite for Shown {
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

struct JsonText<'a>(&'a mut Shown);

impl Write for JsonText<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let form = if self.0.form == Form::Raw { Form::Raw } else { Form::Json };
        self.0.write_as(form, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
