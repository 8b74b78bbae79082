//! `diagport convert`: a recording in another form.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use diagport_nettrace::json::JsonDump;
use diagport_nettrace::text::TextDump;
use diagport_nettrace::{Completion, Reader, Record};

use crate::console;
use crate::exit::{Exit, Failure};

const READ_BYTES: usize = 256 * 1024;

/// Print a recording as text, one line for each object, or as JSON, one object a line
///
/// Every whole object of a recording that was cut is printed; the exit code is 7 then.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConvertCommand {
    /// The recording, a .nettrace file
    file: PathBuf,
    /// The form
    #[arg(long, value_enum, value_name = "FORM")]
    to: Form,
    /// File to write instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
}

/// The two forms behind one face.
enum Dump {
    Text(TextDump),
    Json(JsonDump),
}

impl Dump {
    fn record(&mut self, record: &Record, out: &mut String) {
        match self {
            Self::Text(dump) => dump.record(record, out),
            Self::Json(dump) => dump.record(record, out),
        }
    }

    fn end(&self, completion: Completion, out: &mut String) {
        match self {
            Self::Text(dump) => dump.end(completion, out),
            Self::Json(dump) => dump.end(completion, out),
        }
    }
}

/// What ends a conversion early.
enum Interruption {
    /// Whoever reads our output has seen enough (`| head`).
    ReaderGone,
    Failed(Failure),
}

impl From<Failure> for Interruption {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl ConvertCommand {
    // spec: CLI-CONVERT-1
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let source = File::open(&self.file).map_err(|error| cannot_read(&self.file, &error))?;
        let outcome = match &self.output {
            Some(path) => {
                let file = self.open_output(path, &source)?;
                self.convert(source, BufWriter::new(file))
            }
            None => self.convert(source, BufWriter::new(io::stdout().lock())),
        };
        match outcome {
            Ok(Completion::Complete) | Err(Interruption::ReaderGone) => Ok(()),
            Ok(Completion::Truncated { at_byte }) => Err(Failure::new(
                Exit::Truncated,
                format!(
                    "{} is truncated at byte {at_byte}; what is whole before it has been converted",
                    self.file.display()
                ),
            )),
            Err(Interruption::Failed(failure)) => Err(failure),
        }
    }

    /// Opens the output, which must not be what we read: emptying it would destroy the recording.
    // spec: CLI-CONVERT-2
    fn open_output(&self, path: &Path, source: &File) -> Result<File, Failure> {
        let cannot_write = |error: io::Error| {
            Failure::new(Exit::Failed, format!("cannot write {}: {error}", path.display()))
        };
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(cannot_write)?;
        let (from, to) = (source.metadata().map_err(cannot_write)?, file.metadata().map_err(cannot_write)?);
        if !to.is_file() {
            return Ok(file);
        }
        if (from.dev(), from.ino()) == (to.dev(), to.ino()) {
            let message = format!("{} is the recording itself: it would be destroyed", path.display());
            return Err(Failure::new(Exit::Usage, message));
        }
        file.set_len(0).map_err(cannot_write)?;
        Ok(file)
    }

    fn convert(&self, mut source: File, mut target: impl Write) -> Result<Completion, Interruption> {
        let mut dump = match self.to {
            Form::Text => Dump::Text(TextDump::new()),
            Form::Json => Dump::Json(JsonDump::new()),
        };
        let mut reader = Reader::new();
        let mut buffer = vec![0; READ_BYTES];
        let mut text = String::new();
        loop {
            let count = match source.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(cannot_read(&self.file, &error).into()),
            };
            reader.feed(&buffer[..count]);
            let fault = loop {
                match reader.next_record() {
                    Ok(Some(record)) => dump.record(&record, &mut text),
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
            };
            if count == 0 && fault.is_none() {
                dump.end(reader.finish(), &mut text);
            }
            self.write(&mut target, &mut text)?;
            if let Some(error) = fault {
                let message = format!("{} cannot be read: {error}", self.file.display());
                return Err(Failure::new(Exit::Failed, message).into());
            }
            if count == 0 {
                self.warn(&reader);
                return Ok(reader.finish());
            }
        }
    }

    fn write(&self, target: &mut impl Write, text: &mut String) -> Result<(), Interruption> {
        target.write_all(text.as_bytes()).and_then(|()| target.flush()).map_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                return Interruption::ReaderGone;
            }
            let what = self.output.as_deref().unwrap_or_else(|| Path::new("standard output")).display();
            Failure::new(Exit::Failed, format!("cannot write {what}: {error}")).into()
        })?;
        text.clear();
        Ok(())
    }

    fn warn(&self, reader: &Reader) {
        for warning in reader.warnings() {
            console::note(&format!("warning: {}: {warning}", self.file.display()));
        }
        let kept = reader.warnings().len() as u64;
        if reader.warning_count() > kept {
            console::note(&format!("warning: {} more", reader.warning_count() - kept));
        }
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    let exit = if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
    Failure::new(exit, format!("cannot read {}: {error}", path.display()))
}
