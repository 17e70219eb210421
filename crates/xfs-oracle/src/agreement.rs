//! Performs the operations of a history on a model and on a subject (a filesystem under test), and
//! checks that model and subject give the same answer to each operation.
//!
//! Owns: running histories, and reporting the shortest one that fails. Does **not** own: comparing
//! the resulting volume ([`Model::differences`]).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::model::{Features, Generator, Model, Operation, SLOTS, shrink};
use crate::subject::Subject;

/// The largest number of operations that the search for a shorter failing history performs.
const TRIED_OPERATIONS: usize = 1_000_000;

/// A history whose last operation the model and the subject answer differently.
#[derive(Debug)]
pub struct Disagreement {
    /// The operations of the history. The last one is the operation with different answers.
    pub history: Vec<Operation>,
    what: String,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, after", self.what)?;
        for operation in &self.history {
            writeln!(f, "    {operation:?}")?;
        }
        Ok(())
    }
}

/// A run of one history on a model and a subject.
#[derive(Debug)]
pub struct AgreementRun {
    model: Model,
    generator: Generator,
    history: Vec<Operation>,
}

impl AgreementRun {
    /// Creates the run of the history of `seed`, on an empty volume or in an empty folder of a
    /// volume.
    pub fn new(seed: u64, features: Features) -> Self {
        Self::with(Generator::new(seed, features), features)
    }

    /// Creates the run of the history that `generator` produces.
    pub fn with(generator: Generator, features: Features) -> Self {
        Self { model: Model::new(features), generator, history: Vec::new() }
    }

    /// Returns the model: the expected state of the subject.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the model, after the end of the history.
    pub fn into_model(self) -> Model {
        self.model
    }

    /// Returns the operations performed up to now.
    pub fn history(&self) -> &[Operation] {
        &self.history
    }

    /// Performs the next `operations` operations of the history on the model and the subject.
    ///
    /// # Errors
    ///
    /// The first operation that the model and the subject answer differently.
    pub fn perform(
        &mut self,
        operations: usize,
        subject: &mut impl Subject,
    ) -> Result<(), Box<Disagreement>> {
        for _ in 0..operations {
            let operation = self.generator.next(&self.model);
            self.history.push(operation.clone());
            if let Err(what) = step(&mut self.model, subject, &operation) {
                return Err(Box::new(Disagreement { history: self.history.clone(), what }));
            }
        }
        Ok(())
    }

    /// Closes all files, so that the volume can be closed.
    ///
    /// # Errors
    ///
    /// The first close that the model and the subject answer differently.
    pub fn close(&mut self, subject: &mut impl Subject) -> Result<(), Box<Disagreement>> {
        for slot in 0..SLOTS {
            let operation = Operation::Close { slot };
            self.history.push(operation.clone());
            if let Err(what) = step(&mut self.model, subject, &operation) {
                return Err(Box::new(Disagreement { history: self.history.clone(), what }));
            }
        }
        Ok(())
    }
}

fn step(model: &mut Model, subject: &mut impl Subject, done: &Operation) -> Result<(), String> {
    let expected = model.perform(done);
    let found = guarded(|| subject.perform(done)).map_err(|words| format!("panicked: {words}"))?;
    if expected == found {
        return Ok(());
    }
    Err(format!("expected {expected:?}, found {found:?}"))
}

/// Runs a closure and turns its panic into an error.
///
/// # Errors
///
/// The message of the panic.
pub fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|cause| {
        let words = cause.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| cause.downcast_ref::<&str>().copied());
        words.unwrap_or("the message is not text").to_owned()
    })
}

/// Performs a history on a subject with an empty volume. Returns the model after the history.
///
/// # Errors
///
/// The first operation that the model and the subject answer differently.
pub fn replay(
    history: &[Operation],
    features: Features,
    subject: &mut impl Subject,
) -> Result<Model, Box<Disagreement>> {
    let mut model = Model::new(features);
    for (index, operation) in history.iter().enumerate() {
        step(&mut model, subject, operation).map_err(|what| {
            let history = history.iter().take(index + 1).cloned().collect();
            Box::new(Disagreement { history, what })
        })?;
    }
    Ok(model)
}

impl Disagreement {
    /// Creates the disagreement for a history after which the tree of the volume differs from the
    /// model. `what` describes the difference.
    pub fn of_trees(history: &[Operation], what: String) -> Self {
        Self { history: history.to_vec(), what }
    }

    /// Searches for a shorter history that still fails and ends with the same operation. Returns
    /// the disagreement of the shortest one found. `trial` runs a history on an empty volume, and
    /// returns the description of the difference, or `None` if there is none.
    pub fn shortened(self, mut trial: impl FnMut(&[Operation]) -> Option<String>) -> Self {
        let Some((last, rest)) = self.history.split_last() else { return self };
        let whole = |rest: &[Operation]| -> Vec<_> { rest.iter().chain([last]).cloned().collect() };
        let trials = (TRIED_OPERATIONS / self.history.len()).min(400);
        let history = whole(&shrink(rest, trials, |rest| trial(&whole(rest)).is_some()));
        // The shorter history may have a smaller difference.
        let what = trial(&history).unwrap_or(self.what);
        Self { history, what }
    }

    /// Returns the description of the difference between the answers, without the history.
    pub fn what(&self) -> &str {
        &self.what
    }
}
