//! `repair`: plans a repair, applies it, undoes it, or finishes one that was interrupted.
//!
//! Owns: the files that the command opens, the order in which they become durable, and the exit
//! code. Does **not** own: the choice of changes and the order of writes to the volume
//! (`xfs-repair`), or the printed form of a plan ([`report`]).
//!
//! A signal before the first write to the volume leaves no file, and at most the empty directory of
//! the quarantine. After the first write, a signal no longer stops the repair.

mod log;
mod quarantine;
mod report;
mod undo_place;
mod wording;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfs_device::SharedDevice;
use xfs_repair::{JoinedDevice, Plan, PlanOptions, PlanText, Rehearsal, RepairError, UndoFile};

use self::log::Recovery;
use self::quarantine::Quarantine;
use self::undo_place::UndoPlace;
use self::wording::{WithLoss, Wording};
use crate::cli::{GlobalOptions, RepairArguments};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Image;
use crate::inspect::check::Bar;
use crate::interrupt;
use crate::json::{self, Object};
use crate::output::{self, Output};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::tally::Work;

/// The name and version of the JSON output, under its key `schema`. Plans have the same name.
const SCHEMA: &str = "ferroxfs.repair/1";
/// The size limit, in bytes, of a plan that is read.
const MOST_PLAN_BYTES: u64 = 1 << 30;

struct Repair {
    image: Image,
    mode: Mode,
    /// Temporary files for changes that do not fit in memory while a repair is rehearsed in an
    /// overlay. The first file is for the repair itself, the second for the rehearsal in
    /// [`with_loss`](Job::with_loss).
    spills: [File; 2],
    wording: Wording,
    is_json: bool,
}

/// The work of the command, with the files that it needs.
enum Mode {
    Plan { output: Option<Output>, allow_loss: bool },
    Apply(Apply),
    Undo(File),
    Resume(File),
}

/// The files and options with which a plan is applied.
struct Apply {
    /// The text of the user's plan (`--apply`), which the plan made now must equal; `None` with
    /// `--yes`.
    plan: Option<String>,
    undo: UndoPlace,
    allow_loss: bool,
    /// Whether a plan that leaves damage is applied too.
    is_partial_allowed: bool,
    quarantine: Option<Quarantine>,
}

/// Opens the image and the files that the options name, and returns the command, ready to run.
pub(crate) fn open(
    arguments: RepairArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    if options.log_device.is_some() {
        let message = "repair: a volume with an external log is not repaired yet";
        return Err(Failure::new(Exit::Refused, message));
    }
    let is_json = arguments.json.json;
    let image = Image::open_for_repair(&arguments.image, options, !arguments.plan)?;
    interrupt::arm()?;
    let spill = || {
        let file = tempfile::tempfile();
        file.map_err(|error| Failure::host(std::env::temp_dir().as_os_str(), &error))
    };
    let spills = [spill()?, spill()?];
    let wording = Wording::new(&arguments, options);
    let mode = mode(arguments, image.path())?;
    Ok(Box::new(Repair { image, mode, spills, wording, is_json }))
}

fn mode(arguments: RepairArguments, image: &Path) -> Result<Mode, Failure> {
    let RepairArguments { plan, apply, undo, resume, output, undo_file, .. } = arguments;
    let RepairArguments { allow_loss, partial, quarantine, .. } = arguments;
    if plan {
        let output = output::unless_stdout(output);
        let output = output.map(|path| Output::open(&path, [image])).transpose()?;
        return Ok(Mode::Plan { output, allow_loss });
    }
    let open =
        |path: &Path| File::open(path).map_err(|error| Failure::host(path.as_os_str(), &error));
    if let Some(path) = undo {
        return Ok(Mode::Undo(open(&path)?));
    }
    if let Some(path) = resume {
        return Ok(Mode::Resume(open(&path)?));
    }
    if allow_loss && quarantine.is_none() {
        return Err(Failure::usage("repair: --allow-loss needs --quarantine DIR")
            .hint("the directory gets a copy of everything that goes"));
    }
    let plan = apply.map(|path| read_plan(&path)).transpose()?;
    let undo = UndoPlace::open(undo_file.as_deref(), image)?;
    // Its directory may be new and stays, so it comes after everything that can be refused.
    let quarantine = quarantine.map(|path| Quarantine::open(&path)).transpose()?;
    Ok(Mode::Apply(Apply { plan, undo, allow_loss, is_partial_allowed: partial, quarantine }))
}

/// Reads the text of a plan.
fn read_plan(path: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| Failure::host(path.as_os_str(), &error);
    // The length of a pipe is not known before it is read.
    let file = File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(MOST_PLAN_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MOST_PLAN_BYTES {
        return Err(failed(io::Error::other("is too long for a plan")));
    }
    Ok(text)
}

impl Run for Repair {
    fn reach(&self) -> Reach<'_> {
        match &self.mode {
            Mode::Plan { output: Some(output), .. } => output.reach(),
            Mode::Apply(Apply { undo, quarantine: Some(quarantine), .. }) => {
                Reach::NamesBeneath([undo.folder(), quarantine.folder()])
            }
            Mode::Apply(apply) => apply.undo.reach(),
            Mode::Plan { output: None, .. } | Mode::Undo(_) | Mode::Resume(_) => Reach::Nothing,
        }
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { image, mode, spills: [spill, second_spill], wording, is_json } = *self;
        let job = Job { image: &image, wording: &wording, is_json };
        if matches!(mode, Mode::Plan { .. } | Mode::Apply(_)) {
            image.note_torn_log(console);
        }
        match mode {
            Mode::Plan { output, allow_loss } => {
                let rehearsal = job.rehearse(spill, allow_loss, console)?;
                let with_loss = job.with_loss(rehearsal.plan(), second_spill, console)?;
                job.show_plan(&rehearsal, with_loss, output, console)
            }
            Mode::Apply(apply) => {
                let given = job.given_plan(&apply)?;
                // The rehearsal must be the one of the plan, whatever may be lost now.
                let allow_loss = given.as_ref().map_or(apply.allow_loss, PlanText::allow_loss);
                let rehearsal = job.rehearse(spill, allow_loss, console)?;
                job.check_plan(rehearsal.plan(), given.as_ref())?;
                let with_loss = job.with_loss(rehearsal.plan(), second_spill, console)?;
                job.apply(&rehearsal, with_loss, apply, console)
            }
            Mode::Undo(file) => {
                let undo = UndoFile::open(file).map_err(|error| job.failure(error))?;
                let step = console.step("taking the repair back");
                xfs_repair::undo(&undo, &*job.device(), &())
                    .map_err(|error| job.interrupted(error))?;
                drop(step);
                job.say(&undo, "is as before the repair", console)
            }
            Mode::Resume(file) => {
                let undo = UndoFile::open(file).map_err(|error| job.failure(error))?;
                let step = console.step("finishing the repair");
                xfs_repair::resume(&undo, &*job.device(), &())
                    .map_err(|error| job.interrupted(error))?;
                drop(step);
                job.say(&undo, "is as after the repair", console)?;
                let exit = if undo.leaves_clean() { Exit::Repaired } else { Exit::Corrupt };
                Err(Failure::silent(exit))
            }
        }
    }
}

/// The image of a run, and the form of its output.
struct Job<'a> {
    image: &'a Image,
    wording: &'a Wording,
    is_json: bool,
}

impl Job<'_> {
    /// Returns the device whose bytes plans and undo files name: the device of the volume, and
    /// after it the realtime device, if one was named.
    fn device(&self) -> SharedDevice {
        let data = self.image.device().clone();
        match self.image.devices().realtime() {
            Some(realtime) => Arc::new(JoinedDevice::new(data, realtime.clone())),
            None => data,
        }
    }

    fn failure(&self, error: RepairError) -> Failure {
        let exit = match &error {
            RepairError::Unsupported(_)
            | RepairError::NoRealtimeDevice
            | RepairError::ExternalLog
            | RepairError::NoSuperblock
            | RepairError::OnlyGroupHeaders
            | RepairError::DoubtfulSuperblock(_) => Exit::Refused,
            RepairError::Log(_) => Exit::LogDirty,
            RepairError::NoSpace { .. } => Exit::Corrupt,
            _ => Exit::Failed,
        };
        let failure = self.image.failure(Failure::new(exit, error.to_string()));
        match error {
            RepairError::Stopped => interrupt::check().err().unwrap_or(failure),
            RepairError::Log(_) => failure.hint(self.wording.at_log()),
            RepairError::NoRealtimeDevice => failure.hint("name the device with --rt-device"),
            _ => failure,
        }
    }

    /// Returns the failure of an apply or an undo that may already have written to the volume.
    fn interrupted(&self, error: RepairError) -> Failure {
        let is_refused = matches!(error, RepairError::Refused(_));
        let failure = self.failure(error);
        if is_refused {
            return failure;
        }
        failure.hint(
            "the volume may be half repaired, and is marked so: run --resume or --undo with the \
             undo file",
        )
    }

    fn rehearse(
        &self,
        spill: File,
        allow_loss: bool,
        console: &mut Console,
    ) -> Result<Rehearsal, Failure> {
        let tally = console.begin(Work::check());
        let mut options = PlanOptions::new(&Recovery);
        options.allow_loss = allow_loss;
        options.spill = Some(spill);
        options.realtime = self.image.devices().realtime().cloned();
        let rehearsal = xfs_repair::plan_repair(self.image.device().clone(), options, &Bar(&tally));
        console.end();
        interrupt::check()?;
        rehearsal.map_err(|error| self.failure(error))
    }

    /// Makes another plan, with `--allow-loss`, and returns how much of the damage that `plan`
    /// leaves this plan repairs. Returns `None` if the answer is not needed: `plan` leaves no
    /// damage or already allows losses, sectors cannot be read, or no text is printed.
    fn with_loss(
        &self,
        plan: &Plan,
        spill: File,
        console: &mut Console,
    ) -> Result<Option<WithLoss>, Failure> {
        let is_needless = plan.leaves_clean() || plan.allow_loss || !plan.unreadable.is_empty();
        if self.is_json || console.is_quiet() || is_needless {
            return Ok(None);
        }
        let rehearsal = self.rehearse(spill, true, console);
        interrupt::check()?;
        let lossy = rehearsal.as_ref().ok().map(Rehearsal::plan);
        Ok(Some(match lossy {
            Some(lossy) if lossy.leaves_clean() => WithLoss::All,
            Some(lossy) if lossy.left.len() < plan.left.len() => WithLoss::More,
            _ => WithLoss::NoMore,
        }))
    }

    fn shown(&self) -> String {
        names::in_message(self.image.path().as_os_str().as_bytes()).into_owned()
    }

    fn show_plan(
        &self,
        rehearsal: &Rehearsal,
        with_loss: Option<WithLoss>,
        output: Option<Output>,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let plan = rehearsal.plan();
        if let Some(output) = output {
            let written = output.writer()?.write_all(plan.text().as_bytes());
            written.map_err(|error| output.failure(&error))?;
            output.commit()?;
        }
        if self.is_json {
            json::write_document(console.out(), plan.document())?;
        } else {
            report::print_plan(plan, self.wording, with_loss, console)?;
        }
        match plan.is_damaged() {
            true => Err(Failure::silent(Exit::Corrupt)),
            false => Ok(()),
        }
    }

    fn apply(
        &self,
        rehearsal: &Rehearsal,
        with_loss: Option<WithLoss>,
        apply: Apply,
        console: &mut Console,
    ) -> Result<(), Failure> {
        let plan = rehearsal.plan();
        let mut undo_file = None;
        let is_refused = !plan.leaves_clean() && !apply.is_partial_allowed;
        if !plan.is_empty() && !is_refused {
            undo_file = Some(self.write(rehearsal, apply, console)?);
        }
        if self.is_json {
            let mut object = plan.document();
            object.insert("applied".to_owned(), undo_file.is_some().into());
            if let Some(path) = &undo_file {
                json::insert_name(&mut object, "undo_file", path.as_os_str().as_bytes());
            }
            json::write_document(console.out(), object)?;
        } else if let Some(path) = &undo_file {
            let file = names::in_message(path.as_os_str().as_bytes()).into_owned();
            report::print_applied(plan, self.wording, &file, console)?;
        } else {
            report::print_nothing_applied(plan, self.wording, with_loss, console)?;
        }
        match (plan.leaves_clean(), plan.is_empty()) {
            (false, _) => Err(Failure::silent(Exit::Corrupt)),
            (true, true) => Ok(()),
            (true, false) => Err(Failure::silent(Exit::Repaired)),
        }
    }

    /// Parses the plan that the user gave with `--apply`; `None` with `--yes`.
    fn given_plan(&self, apply: &Apply) -> Result<Option<PlanText>, Failure> {
        let Some(text) = &apply.plan else { return Ok(None) };
        let given = PlanText::parse(text).and_then(|given| {
            if given.allow_loss() && !apply.allow_loss {
                let why = "the plan was made with --allow-loss, which --apply needs too";
                return Err(RepairError::Refused(why.to_owned()));
            }
            Ok(given)
        });
        given.map(Some).map_err(|error| self.failure(error))
    }

    /// Checks that `plan` is the same as the plan that the user gave, and that all of the device
    /// can be read.
    fn check_plan(&self, plan: &Plan, given: Option<&PlanText>) -> Result<(), Failure> {
        if let Some(given) = given {
            given.require(plan).map_err(|error| self.failure(error))?;
        }
        let Some((range, error)) = plan.unreadable.first() else { return Ok(()) };
        let message = format!(
            "{} ranges cannot be read, the first at byte {}: {error}",
            plan.unreadable.len(),
            range.start
        );
        Err(self.image.failure(Failure::new(Exit::Failed, message).hint(
            "copy the device with ddrescue first, and repair the copy; --plan lists the ranges",
        )))
    }

    /// Writes the repair to the volume, after the quarantine and the undo file are durable. Returns
    /// the path of the undo file. These files get their names just before the first write to the
    /// volume, so that an earlier signal leaves none of them.
    fn write(
        &self,
        rehearsal: &Rehearsal,
        apply: Apply,
        console: &Console,
    ) -> Result<PathBuf, Failure> {
        let Apply { undo, quarantine, .. } = apply;
        let step = console.step("writing the undo file");
        let quarantine = quarantine.map(|quarantine| quarantine.fill(rehearsal)).transpose();
        let quarantine = quarantine.map_err(|error| self.failure(error))?;
        let file = undo.file()?;
        let undo_file = rehearsal.write_undo(file).map_err(|error| self.failure(error))?;
        interrupt::check()?;
        if let Some(quarantine) = quarantine {
            quarantine.publish().map_err(|error| self.failure(error))?;
        }
        let path = undo.publish()?;
        drop(step);
        let step = console.step("writing the repair");
        xfs_repair::resume(&undo_file, &*self.device(), &())
            .map_err(|error| self.interrupted(error))?;
        drop(step);
        Ok(path)
    }

    /// Prints the result of an undo or a resume: `state`, a word such as "undone", and the number
    /// of bytes that were written.
    fn say(&self, undo: &UndoFile, state: &str, console: &mut Console) -> Result<(), Failure> {
        if self.is_json {
            let mut object = Object::new();
            object.insert("schema".to_owned(), SCHEMA.into());
            object.insert("state".to_owned(), state.into());
            object.insert("runs".to_owned(), undo.run_count().into());
            object.insert("bytes".to_owned(), undo.changed_bytes().into());
            return Ok(json::write_document(console.out(), object)?);
        }
        if console.is_quiet() {
            return Ok(());
        }
        let (shown, bytes) = (self.shown(), undo.changed_bytes());
        writeln!(console.out(), "{shown}: {state}: {bytes} bytes written")?;
        Ok(())
    }
}
