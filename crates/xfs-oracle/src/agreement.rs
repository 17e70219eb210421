//! A model and a subject side by side: do both answer every operation of a history alike?
//!
//! Owns: running histories and telling the shortest one that fails. Does **not** own: looking at what
//! a volume holds afterwards ([`Model::differences`]).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::model::{Features, Generator, Model, Operation, SLOTS, shrink};
use crate::subject::Subject;

/// Operations that are performed at most to make a history shorter.
const TRIED_OPERATIONS: usize = 1_000_000;

/// The first operation that a model and a subject answered differently.
#[derive(Debug)]
pub struct Disagreement {
    /// The operations up to and with that one.
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

/// A model and a generator of what comes next.
#[derive(Debug)]
pub struct AgreementRun {
    model: Model,
    generator: Generator,
    history: Vec<Operation>,
}

impl AgreementRun {
    /// The history of a seed on an empty volume, or an empty folder of one.
    pub fn new(seed: u64, features: Features) -> Self {
        Self::with(Generator::new(seed, features), features)
    }

    /// The history that a generator makes.
    pub fn with(generator: Generator, features: Features) -> Self {
        Self { model: Model::new(features), generator, history: Vec::new() }
    }

    /// What should be there by now.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The same, when the history is over.
    pub fn into_model(self) -> Model {
        self.model
    }

    /// What was done so far.
    pub fn history(&self) -> &[Operation] {
        &self.history
    }

    /// Performs so many further operations on both.
    ///
    /// # Errors
    ///
    /// The first one that they answer differently.
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
    /// As [`perform`](Self::perform).
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

/// Runs what may panic, which is one more way to be wrong.
///
/// # Errors
///
/// What the panic said.
pub fn guarded<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|cause| {
        let words = cause.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| cause.downcast_ref::<&str>().copied());
        words.unwrap_or("in other words than text").to_owned()
    })
}

/// Performs a history on an empty volume.
///
/// # Errors
///
/// The first operation that both answer differently.
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
    /// What a volume holds is not what it should after this history.
    pub fn of_trees(history: &[Operation], what: String) -> Self {
        Self { history: history.to_vec(), what }
    }

    /// The same with a shorter history that ends with the same operation. `trial` runs a history on
    /// an empty volume and says what is wrong then.
    pub fn shortened(self, mut trial: impl FnMut(&[Operation]) -> Option<String>) -> Self {
        let Some((last, rest)) = self.history.split_last() else { return self };
        let whole = |rest: &[Operation]| -> Vec<_> { rest.iter().chain([last]).cloned().collect() };
        let trials = (TRIED_OPERATIONS / self.history.len()).min(400);
        let history = whole(&shrink(rest, trials, |rest| trial(&whole(rest)).is_some()));
        // What stays wrong may be less than what was.
        let what = trial(&history).unwrap_or(self.what);
        Self { history, what }
    }

    /// What is wrong, without the history.
    pub fn what(&self) -> &str {
        &self.what
    }
}
