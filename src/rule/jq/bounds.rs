//! What keeps a filter from running, or growing, without end on a reply that was made for that.
//!
//! jq has loops and recursion, and `+` and `*` make values as large as their operands say: `.price * .count` on
//! `{"price": "x", "count": 1e12}` would be a terabyte of text. The engine has no limits of its own, so they are
//! put into the filter before it is compiled: every round of a loop and every sum or product spends some of
//! the work that one run may do. Where one thing is done for each of several values (`.[] as $a | .[] as $b | …`),
//! each of them is a step, of which there are many more, so that lists can be long and still not be crossed at will.

use std::cell::Cell;

use jaq_core::{
    Exn, Lut, Native, ValX,
    data::{DataT, HasLut},
    native::{Fun, bome, v},
};
use jaq_json::{Error, Num, Val};

use crate::{
    rule::stop::{STOPPED, Stop},
    tool::JsonText,
};

/// How much work one run may do: rounds of loops, sums, products.
// A tenth in unit tests: a debug build takes ten times as long for it.
const WORK_LIMIT: u64 = if cfg!(test) { 100_000 } else { 1_000_000 };
/// How many steps one run may take: values of a term that may have several.
// Less in unit tests, as above.
const STEP_LIMIT: u64 = if cfg!(test) { 200_000 } else { 20_000_000 };
/// How large a sum or product may be, in bytes or elements.
const VALUE_LIMIT: usize = 64 << 20;

/// How large a whole number may be, in bytes: some ten thousand digits.
const NUMBER_LIMIT_BYTES: usize = 4 << 10;

/// The engine's data: the filter's table, and how the run stands.
#[derive(Clone)]
pub(super) struct Bounded<'a> {
    pub(super) table: &'a Lut<Kind>,
    pub(super) spent: &'a Spent,
}

/// How one run stands.
pub(super) struct Spent {
    work_left: Cell<u64>,
    steps_left: Cell<u64>,
    /// What the filter itself raised last, with `error(…)`; it may have been caught since.
    pub(super) raised: Cell<Option<Val>>,
    /// What ends the run when nobody waits any more: a round may copy all that the rounds before have made.
    stop: Option<Stop>,
}

impl Spent {
    /// Nothing yet.
    pub(super) fn until(stop: Option<&Stop>) -> Self {
        Self {
            work_left: Cell::new(WORK_LIMIT),
            steps_left: Cell::new(STEP_LIMIT),
            raised: Cell::new(None),
            stop: stop.cloned(),
        }
    }
}

/// Values are the JSON of `jaq`, data is [`Bounded`].
pub(super) struct Kind;

impl DataT for Kind {
    type V<'a> = Val;
    type Data<'a> = Bounded<'a>;
}

impl<'a> HasLut<'a, Kind> for Bounded<'a> {
    fn lut(&self) -> &'a Lut<Kind> {
        self.table
    }
}

impl Bounded<'_> {
    fn spend(&self, work: u64) -> Result<(), Error> {
        self.take(&self.spent.work_left, work)
    }

    fn step(&self) -> Result<(), Error> {
        self.take(&self.spent.steps_left, 1)
    }

    fn take(&self, left: &Cell<u64>, amount: u64) -> Result<(), Error> {
        if self.spent.stop.as_ref().is_some_and(Stop::is_asked) {
            left.set(0);
            return Err(Error::str(STOPPED));
        }
        let rest = left.get().checked_sub(amount);
        left.set(rest.unwrap_or(0));
        rest.map(|_| ()).ok_or_else(|| Error::str("the filter does too much work"))
    }
}

pub(super) const TICK: &str = "!tick";
/// A value of a term that may have several.
pub(super) const STEP: &str = "!step";
pub(super) const SUM: &str = "!sum";
pub(super) const PRODUCT: &str = "!product";
/// Written in jq, so that its rounds are counted; the engine's own counts nothing.
pub(super) const RANGE: &str = "def range($from; $to; $by): \
     def rec: if ($by > 0 and . < $to) or ($by < 0 and . > $to) then ., (. + $by | rec) else {}[] end; $from | rec;";

/// `error` of a written filter, told apart from that of the standard library: its words are for clients.
pub(super) const RAISE: &str =
    "def error: raise_empty as $x | .; def error(message): (message | raise_empty) as $x | .;";

/// The engine's functions that have a bounded one in their place.
pub(super) const REPLACED: [&str; 2] = ["fromjson", "range"];

/// The functions behind the limits.
pub(super) fn functions() -> [Fun<Kind>; 6] {
    // Both are met in paths too, such as those of `recurse(.[]?) |= …` and `del(.[] | .a)`.
    let tick = Native::<Kind>::new(|cv| bome(cv.0.data().spend(1).map(|()| cv.1)))
        .with_paths(|cv| one(cv.0.data().spend(1).map(|()| cv.1)))
        .with_update(|cv, update| match cv.0.data().spend(1) {
            Ok(()) => update(cv.1),
            Err(error) => bome(Err(error)),
        });
    let step = Native::<Kind>::new(|cv| bome(cv.0.data().step().map(|()| cv.1)))
        .with_paths(|cv| one(cv.0.data().step().map(|()| cv.1)))
        .with_update(|cv, update| match cv.0.data().step() {
            Ok(()) => update(cv.1),
            Err(error) => bome(Err(error)),
        });
    [
        (TICK, v(0), tick),
        (STEP, v(0), step),
        // The engine's own parser takes a step down the stack for every bracket.
        jaq_core::native::run(("fromjson", v(0), |cv| bome(from_json(cv.1)))),
        jaq_core::native::run(("raise_empty", v(0), |cv| {
            cv.0.data().spent.raised.set(Some(cv.1.clone()));
            bome(Err(Error::new(cv.1)))
        })),
        jaq_core::native::run((SUM, v(2), |mut cv| {
            let (left, right) = (cv.0.pop_var(), cv.0.pop_var());
            let size = size(&left).saturating_add(size(&right));
            bome(
                cv.0.data()
                    .spend(1 + size_of_one(&right))
                    .and_then(|()| fits(size))
                    .and_then(|()| left + right),
            )
        })),
        jaq_core::native::run((PRODUCT, v(2), |mut cv| {
            let (left, right) = (cv.0.pop_var(), cv.0.pop_var());
            let size = product_size(&left, &right);
            bome(cv.0.data().spend(1).and_then(|()| fits(size)).and_then(|()| left * right))
        })),
    ]
}

fn one<'a, T: 'a>(result: Result<T, Error>) -> Box<dyn Iterator<Item = ValX<'a, T, Val>> + 'a> {
    Box::new(std::iter::once(result.map_err(Exn::from)))
}

fn from_json(value: Val) -> Result<Val, Error> {
    let Val::TStr(text) = &value else { return Err(Error::typ(value, "string")) };
    let json = JsonText::check(text).map_err(|error| Error::str(&error))?;
    jaq_json::read::parse_single(json.bytes()).map_err(|error| Error::str(&error))
}

fn fits(size: usize) -> Result<(), Error> {
    if size <= VALUE_LIMIT { Ok(()) } else { Err(Error::str("the filter makes too large a value")) }
}

/// The work of putting a value at the end of another.
fn size_of_one(value: &Val) -> u64 {
    (size(value) / 64) as u64
}

fn size(value: &Val) -> usize {
    match value {
        Val::Null | Val::Bool(_) => 1,
        // Arithmetic on large numbers costs more than their size.
        Val::Num(Num::BigInt(integer)) => {
            let bytes = usize::try_from(integer.bits() / 8).unwrap_or(usize::MAX);
            bytes.saturating_mul(VALUE_LIMIT / NUMBER_LIMIT_BYTES)
        }
        Val::Num(_) => 8,
        Val::BStr(bytes) | Val::TStr(bytes) => bytes.len(),
        Val::Arr(items) => items.len(),
        Val::Obj(members) => members.len(),
    }
}

fn product_size(left: &Val, right: &Val) -> usize {
    match (left, right) {
        (Val::BStr(text) | Val::TStr(text), Val::Num(times))
        | (Val::Num(times), Val::BStr(text) | Val::TStr(text)) => {
            let times = times.as_isize().map_or(usize::MAX, |times| usize::try_from(times).unwrap_or(0));
            text.len().saturating_mul(times)
        }
        _ => size(left).saturating_add(size(right)),
    }
}
