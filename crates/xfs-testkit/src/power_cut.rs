//! What a device may hold after the power failed: the crash model of docs/limits.md.
//!
//! Owns: the states that a recording may have left, and a number for each of them. Does **not**
//! own: what a program promised by then. A test notes
//! [`RecordingDevice::position`](crate::RecordingDevice::position) with each promise and checks
//! those whose position is not greater than the cut's point: that a volume can be mounted says
//! nothing about what it lost.
//!
//! # The model
//!
//! At a point *n* the first *n* requests have returned and the next one is under way.
//!
//! - **I1** What a flush among those *n* covers is there, and so is every durable write among them.
//! - **I2** Of the other writes since that flush, and of the one under way, any subset is there, and
//!   of each any subset of its pieces ([`Atomicity`]).
//! - **I3** What is there was written in order. The order matters only where writes overlap, and
//!   there an older write wins only by the loss of the newer one.
//! - **I4** A range whose discard may or may not have happened holds what it held, zeros or rubbish.
//!
//! - **I5** Of two devices that are recorded as one ([`RecordingDevice::split`](crate::RecordingDevice::split))
//!   a flush covers what was written to the one that was flushed, and a durable write itself.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use xfs_device::{BlockDevice, Durability};

use crate::atomicity::Atomicity;
use crate::cow::CowDevice;
use crate::prng::Prng;
use crate::recording::{Recording, Request};

/// Up to this many writes (or pieces of writes) every subset is tried.
pub const MAX_ENUMERATED: usize = 12;

/// Marks the choice of a cut as the number of a sample instead of a subset.
const SAMPLED: u32 = 1 << 31;

/// One power cut: when, and what of the unflushed requests survives.
///
/// A number says all of it: print it where a test fails, and parse it to see the same state again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cut(u64);

impl Cut {
    fn new(point: usize, choice: u32) -> Self {
        let point = u32::try_from(point).expect("a recording has fewer than 2^32 requests");
        Self(u64::from(point) << 32 | u64::from(choice))
    }

    /// How many requests had returned.
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
    /// How many requests a flush covers, and the state that it made durable, kept because cuts come mostly in
    /// order.
    durable: Mutex<(usize, CowDevice)>,
}

impl<'a> PowerCuts<'a> {
    /// The power cuts during a recording.
    #[must_use]
    pub fn new(recording: &'a Recording, atomicity: Atomicity) -> Self {
        Self { recording, atomicity, durable: Mutex::new((0, recording.replay(0))) }
    }

    /// Cuts at every point of the recording, as [`at`](Self::at).
    pub fn all(&self, samples: u32) -> impl Iterator<Item = Cut> {
        (0..=self.requests().len()).flat_map(move |point| self.at(point, samples))
    }

    /// Cuts at one point: every subset of the unflushed pieces if they are few; else every subset
    /// of the unflushed writes if those are few, and so many `samples` of torn ones; else only
    /// `samples`, of which the first two lose and keep everything.
    pub fn at(&self, point: usize, samples: u32) -> impl Iterator<Item = Cut> + use<> {
        let window = self.window(point);
        let (subsets, samples) = match window.grain() {
            Grain::Pieces(count) => (1 << count, 0..0),
            Grain::Writes(count) => (1 << count, SAMPLED + 2..SAMPLED + 2 + samples),
            Grain::Many => (0, SAMPLED..SAMPLED + samples),
        };
        (0..subsets).chain(samples).map(move |choice| Cut::new(point, choice))
    }

    /// A cut for a seed: any point, and whatever it may leave.
    #[must_use]
    pub fn sample(&self, seed: u64) -> Cut {
        let mut prng = Prng::new(seed);
        let point = prng.within(0..self.requests().len() + 1);
        Cut::new(point, SAMPLED | prng.number() as u32)
    }

    /// The device after a cut.
    ///
    /// # Panics
    ///
    /// If the device below the recording cannot be read.
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

    /// The device as the first `count` requests left it, which flushes cover.
    fn durable(&self, count: usize) -> CowDevice {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.0 > count {
            *durable = (0, self.recording.replay(0));
        }
        let (done, device) = &mut *durable;
        for request in self.requests().get(*done..count).unwrap_or_default() {
            request.apply(device).expect("what worked once works again");
        }
        *done = count;
        device.fork()
    }

    /// What may or may not have happened at a point.
    fn window(&self, point: usize) -> Window<'a> {
        let done = self.requests().get(..point).unwrap_or(self.requests());
        let Flushed { start, parts } = Flushed::of(done);
        let since = self.requests().iter().enumerate().skip(start).take(point + 1 - start);
        let writes = since.filter_map(|(index, request)| {
            let pieces = match request {
                Request::Write { offset, bytes, .. } => self.atomicity.pieces(*offset, bytes),
                Request::Discard { .. } => vec![Range::default()],
                Request::Flush | Request::FlushPart(_) => return None,
            };
            let durable = matches!(request, Request::Write { durability: Durability::Durable, .. });
            let covers = |(part, at): &(Range<u64>, usize)| index < *at && request.lies_in(part);
            let certain = durable && index < point || parts.iter().any(covers);
            Some(Pending { request, pieces, certain })
        });
        Window { start, writes: writes.collect() }
    }
}

/// What flushes have made durable of the requests that have returned.
struct Flushed {
    /// All before this one is.
    start: usize,
    /// Parts that are devices of their own, each with its last flush.
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

/// The requests since the first that no flush covers.
struct Window<'a> {
    /// Requests before them.
    start: usize,
    writes: Vec<Pending<'a>>,
}

/// A request that is not covered by a flush.
struct Pending<'a> {
    request: &'a Request,
    pieces: Vec<Range<usize>>,
    /// It was durable by itself and has returned.
    certain: bool,
}

/// What the bits of a subset stand for.
enum Grain {
    Pieces(usize),
    Writes(usize),
    Many,
}

impl Window<'_> {
    fn uncertain(&self) -> impl Iterator<Item = &Pending<'_>> {
        self.writes.iter().filter(|write| !write.certain)
    }

    fn grain(&self) -> Grain {
        let pieces = self.uncertain().map(|write| write.pieces.len()).sum();
        let writes = self.uncertain().count();
        match (pieces <= MAX_ENUMERATED, writes <= MAX_ENUMERATED) {
            (true, _) => Grain::Pieces(pieces),
            (false, true) => Grain::Writes(writes),
            (false, false) => Grain::Many,
        }
    }

    /// For each request which of its pieces survive.
    fn survivors(&self, choice: u32, prng: &mut Prng) -> Vec<Vec<bool>> {
        let sample = Sample::new(choice, self.uncertain().count(), prng);
        let by_piece = matches!(self.grain(), Grain::Pieces(_));
        let mut bits = (0..u32::BITS).map(|bit| choice >> bit & 1 == 1);
        let mut bit = || bits.next().unwrap_or(false);
        let mut index = 0;
        let mut survivors = Vec::with_capacity(self.writes.len());
        for write in &self.writes {
            let mut pieces = vec![true; write.pieces.len()];
            if !write.certain {
                match &sample {
                    Some(sample) => sample.choose(index, &mut pieces, prng),
                    None if by_piece => pieces.fill_with(&mut bit),
                    None => pieces.fill(bit()),
                }
                index += 1;
            }
            survivors.push(pieces);
        }
        survivors
    }
}

/// A way of choosing what survives. Bugs hide in few shapes: one write lost, one alone there, an
/// order not kept, a write half there; pure chance would rarely hit those in a long window.
enum Shape {
    Nothing,
    Everything,
    AllBut(usize),
    Only(usize),
    UpTo(usize),
    From(usize),
    Writes,
    Pieces,
}

struct Sample {
    shape: Shape,
    /// Of 8 writes or pieces, how many survive on average.
    eighths: usize,
    /// Of 8 writes that the shape lets survive, how many are torn.
    torn_eighths: usize,
}

impl Sample {
    /// The sample that a choice asks for; `None` if it is a subset.
    fn new(choice: u32, writes: usize, prng: &mut Prng) -> Option<Self> {
        let shape = match choice.checked_sub(SAMPLED)? {
            0 => Shape::Nothing,
            1 => Shape::Everything,
            _ => match prng.within(0..8) {
                0 => Shape::AllBut(prng.within(0..writes)),
                1 => Shape::Only(prng.within(0..writes)),
                2 => Shape::UpTo(prng.within(0..writes + 1)),
                3 => Shape::From(prng.within(0..writes + 1)),
                4 | 5 => Shape::Writes,
                _ => Shape::Pieces,
            },
        };
        let torn_eighths = match shape {
            Shape::Nothing | Shape::Everything => 0,
            Shape::Pieces => 8,
            _ => prng.choose(&[0, 0, 1, 4]).copied().unwrap_or(0),
        };
        let eighths = prng.choose(&[1, 4, 7]).copied().unwrap_or(4);
        Some(Self { shape, eighths, torn_eighths })
    }

    /// Chooses which pieces of a write survive.
    fn choose(&self, write: usize, pieces: &mut [bool], prng: &mut Prng) {
        let survives = self.write_survives(write, prng);
        let torn = prng.within(0..8) < self.torn_eighths;
        pieces.fill_with(|| survives && (!torn || prng.within(0..8) < self.eighths));
    }

    fn write_survives(&self, write: usize, prng: &mut Prng) -> bool {
        match self.shape {
            Shape::Nothing => false,
            Shape::Everything | Shape::Pieces => true,
            Shape::AllBut(lost) => write != lost,
            Shape::Only(kept) => write == kept,
            Shape::UpTo(end) => write < end,
            Shape::From(start) => write >= start,
            Shape::Writes => prng.within(0..8) < self.eighths,
        }
    }
}

impl Pending<'_> {
    /// Brings the surviving pieces onto the device.
    fn apply(&self, device: &CowDevice, survives: &[bool], prng: &mut Prng) {
        let pieces = self.pieces.iter().zip(survives).filter(|(_, survives)| **survives);
        for (piece, _) in pieces {
            let outcome = match self.request {
                Request::Write { offset, bytes, durability } => {
                    let bytes = bytes.get(piece.clone()).unwrap_or_default();
                    device.write_at(offset + piece.start as u64, bytes, *durability)
                }
                Request::Discard { offset, length } if prng.within(0..2) == 0 => {
                    device.discard(*offset, *length)
                }
                Request::Discard { offset, length } => {
                    let rubbish: Vec<u8> = (0..*length).map(|_| prng.number() as u8).collect();
                    device.write_at(*offset, &rubbish, Durability::Cached)
                }
                Request::Flush | Request::FlushPart(_) => Ok(()),
            };
            outcome.expect("what worked once works again");
        }
    }
}

#[cfg(test)]
mod tests;
