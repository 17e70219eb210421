//! The states that a device may have after a power failure: the crash model of
//! docs/internals/crash-model.md.
//!
//! Owns: the states that a recording may leave, and a number for each of them. Does **not** own:
//! the promises of a program under test, such as an acknowledged write. A test notes
//! [`RecordingDevice::position`](crate::RecordingDevice::position) with each promise. After a cut,
//! the test checks the promises whose position is not greater than the cut's point. A successful
//! mount alone says nothing about lost data.
//!
//! # The model
//!
//! At a point *n* the first *n* requests have returned and the next one is in flight.
//!
//! - **I1** Every write that a flush among those *n* covers survives, and so does every durable
//!   write among them.
//! - **I2** Of the other writes since that flush, and of the write in flight, any subset survives.
//!   Of each of these writes, any subset of its units survives ([`Atomicity`]).
//! - **I3** Surviving writes are applied in order. The order matters only where writes overlap:
//!   there an older write is visible only if the newer one is lost.
//! - **I4** A range whose discard may or may not have happened holds its old contents, zeros or
//!   random bytes.
//! - **I5** Where two devices are recorded as one
//!   ([`RecordingDevice::split`](crate::RecordingDevice::split)), a flush covers the writes to the
//!   flushed device, and a durable write covers itself.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use xfs_device::{BlockDevice, Durability};

use crate::atomicity::Atomicity;
use crate::cow::CowDevice;
use crate::prng::Prng;
use crate::recording::{Recording, Request};

/// The largest number of unflushed writes, or of their units, for which the cuts at a point include
/// every subset.
pub const MAX_ENUMERATED: usize = 12;

/// A bit in the part of a cut's number that says which requests survive. If the bit is set, the
/// other bits are the number of a random sample. Otherwise they are the subset that survives.
const SAMPLED: u32 = 1 << 31;

/// One power cut: after how many requests it happens, and which unflushed requests survive.
///
/// A cut is one number. A failing test prints it, and parsing it reproduces the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cut(u64);

impl Cut {
    fn new(point: usize, choice: u32) -> Self {
        let point = u32::try_from(point).expect("a recording has fewer than 2^32 requests");
        Self(u64::from(point) << 32 | u64::from(choice))
    }

    /// Returns the number of requests that had returned before the cut.
    #[must_use]
    pub const fn point(self) -> usize {
        (self.0 >> 32) as usize
    }

    const fn choice(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl FromStr for Cut {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text.trim_start_matches("0x"), 16).map(Self)
    }
}

/// The states in which a power cut may leave a device.
pub struct PowerCuts<'a> {
    recording: &'a Recording,
    atomicity: Atomicity,
    /// A number *n*, and the device after the first *n* requests, all of which took full effect.
    /// The pair is kept for the next cut, because cuts are mostly examined in order.
    durable: Mutex<(usize, CowDevice)>,
}

impl<'a> PowerCuts<'a> {
    /// Creates the set of the power cuts that can happen during a recording.
    #[must_use]
    pub fn new(recording: &'a Recording, atomicity: Atomicity) -> Self {
        Self { recording, atomicity, durable: Mutex::new((0, recording.replay(0))) }
    }

    /// Returns cuts at every point of the recording: those that [`at`](Self::at) returns for the
    /// point.
    pub fn all(&self, samples: u32) -> impl Iterator<Item = Cut> {
        (0..=self.requests().len()).flat_map(move |point| self.at(point, samples))
    }

    /// Returns the cuts at one point.
    ///
    /// - With few unflushed units: every subset of them.
    /// - With few unflushed writes: every subset of them, and `samples` cuts with torn writes.
    /// - Otherwise: `samples` cuts. The first loses every write and the second keeps every write.
    pub fn at(&self, point: usize, samples: u32) -> impl Iterator<Item = Cut> + use<> {
        let window = self.window(point);
        let (subsets, samples) = match window.subset_basis() {
            SubsetBasis::Units(count) => (1 << count, 0..0),
            SubsetBasis::Writes(count) => (1 << count, SAMPLED + 2..SAMPLED + 2 + samples),
            SubsetBasis::None => (0, SAMPLED..SAMPLED + samples),
        };
        (0..subsets).chain(samples).map(move |choice| Cut::new(point, choice))
    }

    /// Returns a random cut for a seed: any point, and any state that the point may leave.
    #[must_use]
    pub fn sample(&self, seed: u64) -> Cut {
        let mut prng = Prng::new(seed);
        let point = prng.within(0..self.requests().len() + 1);
        Cut::new(point, SAMPLED | prng.number() as u32)
    }

    /// Returns the device after a cut.
    ///
    /// # Panics
    ///
    /// Panics if the device below the recording cannot be read.
    #[must_use]
    pub fn after(&self, cut: Cut) -> CowDevice {
        let window = self.window(cut.point());
        let device = self.durable(window.start);
        let mut prng = Prng::new(cut.0);
        let survivors = window.survivors(cut.choice(), &mut prng);
        for (write, survives) in window.writes.iter().zip(survivors) {
            write.apply(&device, &survives, &mut prng);
        }
        device
    }

    fn requests(&self) -> &'a [Request] {
        self.recording.requests()
    }

    /// Returns the device after the first `count` requests, all of which took full effect.
    fn durable(&self, count: usize) -> CowDevice {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.0 > count {
            *durable = (0, self.recording.replay(0));
        }
        let (done, device) = &mut *durable;
        for request in self.requests().get(*done..count).unwrap_or_default() {
            request.apply(device).expect("a request that succeeded succeeds again");
        }
        *done = count;
        device.fork()
    }

    /// Returns the requests that have returned or are in flight at `point`, and that no flush
    /// covers. A cut at this point may lose them.
    fn window(&self, point: usize) -> UnflushedWindow<'a> {
        let done = self.requests().get(..point).unwrap_or(self.requests());
        let Flushed { start, parts } = Flushed::of(done);
        let since = self.requests().iter().enumerate().skip(start).take(point + 1 - start);
        let writes = since.filter_map(|(index, request)| {
            let units = match request {
                Request::Write { offset, bytes, .. } => self.atomicity.units(*offset, bytes),
                Request::Discard { .. } => vec![Range::default()],
                Request::Flush | Request::FlushPart(_) => return None,
            };
            let durable = matches!(request, Request::Write { durability: Durability::Durable, .. });
            let covers = |(part, at): &(Range<u64>, usize)| index < *at && request.lies_in(part);
            let certain = durable && index < point || parts.iter().any(covers);
            Some(UnflushedRequest { request, units, certain })
        });
        UnflushedWindow { start, writes: writes.collect() }
    }
}

/// The requests that are durable at a cut because of flushes.
struct Flushed {
    /// Index of a request. Every request before it is durable.
    start: usize,
    /// The parts of a split device that were flushed after `start`, each with the index of its last
    /// flush.
    parts: Vec<(Range<u64>, usize)>,
}

impl Flushed {
    fn of(done: &[Request]) -> Self {
        let (mut start, mut parts) = (done.len(), Vec::<(Range<u64>, usize)>::new());
        for (index, request) in done.iter().enumerate().rev() {
            match request {
                Request::Flush => break,
                Request::FlushPart(part) if parts.iter().any(|(known, _)| known == part) => {}
                Request::FlushPart(part) => parts.push((part.clone(), index)),
                other if parts.iter().any(|(part, _)| other.lies_in(part)) => {}
                _ => start = index,
            }
        }
        Self { start, parts }
    }
}

/// The requests that a power cut may lose: the first request that no flush covers, and all later
/// ones up to the cut.
struct UnflushedWindow<'a> {
    /// Number of requests before these, all of which are durable.
    start: usize,
    writes: Vec<UnflushedRequest<'a>>,
}

/// A request in a window of unflushed requests.
struct UnflushedRequest<'a> {
    request: &'a Request,
    units: Vec<Range<usize>>,
    /// Whether the request survives every cut: a durable write that has returned, or a write to a
    /// part of the device that was flushed afterwards.
    certain: bool,
}

/// The elements of which a subset survives a cut: units of writes, or whole writes. The number in a
/// variant is the number of these elements.
enum SubsetBasis {
    Units(usize),
    Writes(usize),
    /// There are too many units, and too many writes, to enumerate their subsets.
    None,
}

impl UnflushedWindow<'_> {
    fn uncertain(&self) -> impl Iterator<Item = &UnflushedRequest<'_>> {
        self.writes.iter().filter(|write| !write.certain)
    }

    fn subset_basis(&self) -> SubsetBasis {
        let units = self.uncertain().map(|write| write.units.len()).sum();
        let writes = self.uncertain().count();
        match (units <= MAX_ENUMERATED, writes <= MAX_ENUMERATED) {
            (true, _) => SubsetBasis::Units(units),
            (false, true) => SubsetBasis::Writes(writes),
            (false, false) => SubsetBasis::None,
        }
    }

    /// For each request, returns a list with one value for each unit of the request: whether the
    /// unit survives.
    fn survivors(&self, choice: u32, prng: &mut Prng) -> Vec<Vec<bool>> {
        let sample = Sample::new(choice, self.uncertain().count(), prng);
        let by_unit = matches!(self.subset_basis(), SubsetBasis::Units(_));
        let mut bits = (0..u32::BITS).map(|bit| choice >> bit & 1 == 1);
        let mut bit = || bits.next().unwrap_or(false);
        let mut index = 0;
        let mut survivors = Vec::with_capacity(self.writes.len());
        for write in &self.writes {
            let mut units = vec![true; write.units.len()];
            if !write.certain {
                match &sample {
                    Some(sample) => sample.choose(index, &mut units, prng),
                    None if by_unit => units.fill_with(&mut bit),
                    None => units.fill(bit()),
                }
                index += 1;
            }
            survivors.push(units);
        }
        survivors
    }
}

/// A pattern by which surviving writes are chosen.
///
/// Most bugs show in a few patterns: one write lost, only one write present, writes out of order, a
/// write half present. Uniformly random choices would rarely produce these patterns if many writes
/// are unflushed.
enum SurvivalPattern {
    Nothing,
    Everything,
    AllBut(usize),
    Only(usize),
    UpTo(usize),
    From(usize),
    Writes,
    Units,
}

struct Sample {
    pattern: SurvivalPattern,
    /// Out of 8 writes, the number that survive on average. The same share of the units of a torn
    /// write survives.
    eighths: usize,
    /// Out of 8 surviving writes, the number that are torn on average.
    torn_eighths: usize,
}

impl Sample {
    /// Creates the random sample whose number is `choice` less [`SAMPLED`]. Returns `None` if
    /// `choice` is less than [`SAMPLED`]: then `choice` names one exact subset of surviving writes
    /// or units.
    fn new(choice: u32, writes: usize, prng: &mut Prng) -> Option<Self> {
        let pattern = match choice.checked_sub(SAMPLED)? {
            0 => SurvivalPattern::Nothing,
            1 => SurvivalPattern::Everything,
            _ => match prng.within(0..8) {
                0 => SurvivalPattern::AllBut(prng.within(0..writes)),
                1 => SurvivalPattern::Only(prng.within(0..writes)),
                2 => SurvivalPattern::UpTo(prng.within(0..writes + 1)),
                3 => SurvivalPattern::From(prng.within(0..writes + 1)),
                4 | 5 => SurvivalPattern::Writes,
                _ => SurvivalPattern::Units,
            },
        };
        let torn_eighths = match pattern {
            SurvivalPattern::Nothing | SurvivalPattern::Everything => 0,
            SurvivalPattern::Units => 8,
            _ => prng.choose(&[0, 0, 1, 4]).copied().unwrap_or(0),
        };
        let eighths = prng.choose(&[1, 4, 7]).copied().unwrap_or(4);
        Some(Self { pattern, eighths, torn_eighths })
    }

    /// Decides which units of write number `write` survive.
    fn choose(&self, write: usize, units: &mut [bool], prng: &mut Prng) {
        let survives = self.write_survives(write, prng);
        let torn = prng.within(0..8) < self.torn_eighths;
        units.fill_with(|| survives && (!torn || prng.within(0..8) < self.eighths));
    }

    fn write_survives(&self, write: usize, prng: &mut Prng) -> bool {
        match self.pattern {
            SurvivalPattern::Nothing => false,
            SurvivalPattern::Everything | SurvivalPattern::Units => true,
            SurvivalPattern::AllBut(lost) => write != lost,
            SurvivalPattern::Only(kept) => write == kept,
            SurvivalPattern::UpTo(end) => write < end,
            SurvivalPattern::From(start) => write >= start,
            SurvivalPattern::Writes => prng.within(0..8) < self.eighths,
        }
    }
}

impl UnflushedRequest<'_> {
    /// Applies the units for which `survives` is true to the device.
    fn apply(&self, device: &CowDevice, survives: &[bool], prng: &mut Prng) {
        let units = self.units.iter().zip(survives).filter(|(_, survives)| **survives);
        for (unit, _) in units {
            let outcome = match self.request {
                Request::Write { offset, bytes, durability } => {
                    let bytes = bytes.get(unit.clone()).unwrap_or_default();
                    device.write_at(bytes, offset + unit.start as u64, *durability)
                }
                Request::Discard { offset, length } if prng.within(0..2) == 0 => {
                    device.discard(*offset, *length)
                }
                Request::Discard { offset, length } => {
                    let random: Vec<u8> = (0..*length).map(|_| prng.number() as u8).collect();
                    device.write_at(&random, *offset, Durability::Cached)
                }
                Request::Flush | Request::FlushPart(_) => Ok(()),
            };
            outcome.expect("a request that succeeded succeeds again");
        }
    }
}

#[cfg(test)]
mod tests;
