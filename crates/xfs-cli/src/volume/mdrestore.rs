//! `mdrestore`: restores a metadata image to an image file or a device.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use xfs_device::StreamSource;
use xfs_metadump::{RestoreError, RestoreTarget};

use crate::cli::{GlobalOptions, MdrestoreArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::exit_of_metadump;
use crate::input;
use crate::interrupt;
use crate::json::Object;
use crate::output::space::lengthen;
use crate::output::{Output, check_no_image};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::tally::{Measure, Tally, Work};
use crate::volume::occupied::check_restore_target;

const BUFFER_BYTES: usize = 1 << 20;

struct Mdrestore {
    source: File,
    shown: String,
    output: Output,
}

/// Opens the metadata image and the output, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &MdrestoreArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    if options.names_a_part() || options.offset.is_some() || options.image.is_some() {
        return Err(Failure::usage("mdrestore restores to a whole file or device"));
    }
    if arguments.target.as_os_str() == "-" {
        return Err(Failure::usage("-: a volume cannot be restored to standard output")
            .hint("name a file; ./- is a file of that name"));
    }
    let (source, shown) = if arguments.file == Path::new("-") {
        let failed = |error: io::Error| Failure::new(Exit::Failed, format!("stdin: {error}"));
        (input::open().map_err(failed)?, "standard input".to_owned())
    } else {
        let name = arguments.file.as_os_str();
        let source = File::open(&arguments.file).map_err(|error| Failure::host(name, &error))?;
        (source, names::in_message(name.as_encoded_bytes()).into_owned())
    };
    check_no_image(&arguments.target, [arguments.file.as_path()])?;
    if !arguments.force {
        check_restore_target(&arguments.file, &arguments.target)?;
    }
    let output = Output::open(&arguments.target, [arguments.file.as_path()])?;
    interrupt::arm()?;
    Ok(Box::new(Mdrestore { source, shown, output }))
}

/// The file or device that gets the volume.
struct TargetFile<'a> {
    file: &'a File,
    tally: &'a Tally,
}

impl RestoreTarget for TargetFile<'_> {
    fn set_length(&mut self, length_bytes: u64) -> io::Result<()> {
        let kind = self.file.metadata()?.file_type();
        if kind.is_file() {
            return lengthen(self.file, length_bytes);
        }
        if !kind.is_block_device() {
            let message = "is neither an image file nor a block device";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut file = self.file;
        let found = file.seek(SeekFrom::End(0))?;
        if found < length_bytes {
            let message = format!("the volume has {length_bytes} bytes, the device {found}");
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)?;
        self.tally.add_bytes(bytes.len() as u64);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.sync_all()
    }
}

impl Run for Mdrestore {
    fn reach(&self) -> Reach<'_> {
        self.output.reach()
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { source, shown, output } = *self;
        let tally = console.begin(Work::bytes("restoring", "restored", Measure::Unknown));
        let source = StreamSource(BufReader::with_capacity(BUFFER_BYTES, source));
        let mut target = TargetFile { file: output.file(), tally: &tally };
        let restored = xfs_metadump::restore(source, &mut target, &|| interrupt::check().is_err());
        let restored = restored.map_err(|error| match error {
            RestoreError::Target(error) => output.failure(&error),
            RestoreError::Stopped => {
                let failed = || Failure::new(Exit::Failed, error.to_string());
                interrupt::check().err().unwrap_or_else(failed)
            }
            RestoreError::Image(ref image) => {
                Failure::new(exit_of_metadump(image), error.to_string()).about(&shown)
            }
            error => Failure::new(Exit::Failed, error.to_string()).about(&shown),
        })?;
        output.commit()?;
        let mut object = Object::new();
        object.insert("length_bytes".to_owned(), restored.length_bytes.into());
        object.insert("written_bytes".to_owned(), restored.written_bytes.into());
        object.insert("is_obfuscated".to_owned(), restored.header.is_obfuscated.into());
        object.insert("has_dirty_log".to_owned(), restored.header.has_dirty_log.into());
        Ok(console.conclude_with(object)?)
    }
}
