//! What keeps a filter from running, or growing, without end on a reply that was made for that.
//!
//! jq has loops and recursion, and `+` and `*` make values as large as their operands say: `.price * .count` on
//! `{"price": "x", "count": 1e12}` would be a terabyte of text. The engine has no limits of its own, so
//! `rewrite` puts them into the filter before it is compiled: every round of a loop, every value of a term
//! that may have several, and all that is read as a whole costs work; all that is made and kept costs memory.
//! One run has a budget of each.

use std::cell::Cell;

use jaq_core::{
    Lut,
    data::{DataT, HasLut},
};
use jaq_json::{Error, Num, Rc, Val};

use crate::translate::work_budget::{STOPPED, WorkBudget};

/// How much work one run of a filter may do, in steps: values of terms that may have several.
pub const JQ_WORK_LIMIT: u64 = 20_000_000;
/// How many steps a round of a loop (`range`, `recurse`, `until`, …) counts as.
pub const JQ_ROUND_STEPS: u64 = 20;
/// The same of `reduce` and `foreach`. A round may put the value one deeper, which costs stack when the value goes.
pub const JQ_FOLD_STEPS: u64 = 80;
/// How much one run may make, in bytes: texts, lists and objects that it keeps, also for a while, and copies of those it had.
pub const JQ_MEMORY_LIMIT_BYTES: u64 = 128 << 20;
/// How large a whole number may become, in bytes: some ten thousand digits.
const NUMBER_LIMIT_BYTES: u64 = 4 << 10;
/// How deep a value may nest that a loop makes, or that is read as a whole: it takes a step down the stack for each when it goes.
const DEPTH_LIMIT: usize = 4_000;
/// After how many rounds it is looked how deep it nests.
const ROUNDS_BETWEEN_LOOKS: u64 = 2_048;
/// How many values are looked at for that.
const LOOK_LIMIT: usize = 4_000_000;
/// How many rounds of `reduce` may be in one another where a path is made of them: `setpath`, `delpaths`.
const NESTED_LIMIT: usize = 200;

// Less in unit tests: a debug build takes ten times as long for it.
pub(super) const WORK_HERE: u64 = if cfg!(test) { JQ_WORK_LIMIT / 40 } else { JQ_WORK_LIMIT };
pub(super) const MEMORY_HERE_BYTES: u64 =
    if cfg!(test) { JQ_MEMORY_LIMIT_BYTES / 40 } else { JQ_MEMORY_LIMIT_BYTES };

/// What an item of a list takes.
const ITEM_BYTES: u64 = 16;
/// What a member of an object takes, with its place in the table.
const MEMBER_BYTES: u64 = 64;
/// What a text takes beside its bytes.
const TEXT_BYTES: u64 = 48;

/// The engine's data: the filter's table, and how the run stands.
#[derive(Clone)]
pub(super) struct Bounded<'a> {
    pub(super) table: &'a Lut<Kind>,
    pub(super) spent: &'a Spent,
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

/// Why a run had to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    Stopped,
    Work,
    Memory,
    Number,
    Depth,
}

impl Over {
    /// What is said of the filter.
    pub(super) fn message(self) -> String {
        match self {
            Self::Stopped => STOPPED.to_owned(),
            Self::Work => {
                format!("takes more than {WORK_HERE} steps, which is as much work as a filter may do")
            }
            Self::Memory => {
                format!("makes more than {MEMORY_HERE_BYTES} bytes, which is as much as a filter may make")
            }
            Self::Number => format!("makes a whole number of more than {NUMBER_LIMIT_BYTES} bytes"),
            Self::Depth => format!("makes a value that nests more than {DEPTH_LIMIT} deep"),
        }
    }
}

/// How one run stands.
pub(super) struct Spent {
    work_left: Cell<u64>,
    bytes_left: Cell<u64>,
    rounds: Cell<u64>,
    nested: Cell<usize>,
    over: Cell<Option<Over>>,
    /// What the filter itself raised last, with `error(…)`; it may have been caught since.
    pub(super) raised: Cell<Option<Val>>,
    /// What ends the run when nobody waits any more.
    stop: Option<WorkBudget>,
}

impl Spent {
    /// Nothing yet.
    pub(super) fn until(stop: Option<&WorkBudget>) -> Self {
        Self {
            work_left: Cell::new(WORK_HERE),
            bytes_left: Cell::new(MEMORY_HERE_BYTES),
            rounds: Cell::new(0),
            nested: Cell::new(0),
            over: Cell::new(None),
            raised: Cell::new(None),
            stop: stop.cloned(),
        }
    }

    /// Why the run had to end, if it had to: what a filter makes of that error is no result.
    pub(super) fn over(&self) -> Option<Over> {
        self.over.get()
    }

    /// Steps taken, and bytes made.
    #[cfg(test)]
    pub(super) fn used(&self) -> (u64, u64) {
        (WORK_HERE - self.work_left.get(), MEMORY_HERE_BYTES - self.bytes_left.get())
    }

    fn end(&self, over: Over) -> Error {
        // The first is the reason; nothing goes on after it.
        let over = self.over.get().unwrap_or(over);
        self.over.set(Some(over));
        self.work_left.set(0);
        Error::str(over.message())
    }

    /// Steps that are about to be taken.
    pub(super) fn work(&self, steps: u64) -> Result<(), Error> {
        self.work_for(steps, steps.div_ceil(4))
    }

    /// The same where some more time is taken than the run has to pay for, as the whole of a long reply would be too much.
    pub(super) fn work_for(&self, steps: u64, time: u64) -> Result<(), Error> {
        if self.stop.as_ref().is_some_and(|stop| !stop.allows(time)) {
            return Err(self.end(Over::Stopped));
        }
        // Nothing is left once the run is over.
        let left = self.work_left.get().checked_sub(steps).ok_or_else(|| self.end(Over::Work))?;
        self.work_left.set(left);
        Ok(())
    }

    /// Bytes that are about to be made, or were: a step, and some more for the time that they take.
    pub(super) fn make(&self, bytes: u64) -> Result<(), Error> {
        let left = self.bytes_left.get().checked_sub(bytes).ok_or_else(|| self.end(Over::Memory))?;
        self.bytes_left.set(left);
        self.work(1 + bytes / 64)
    }

    /// A value that is kept, in a list, an object or a variable. What somebody else has too costs the place only.
    pub(super) fn keep(&self, value: &Val) -> Result<(), Error> {
        let inside = match value {
            Val::Null | Val::Bool(_) | Val::Num(_) => 0,
            Val::BStr(_) | Val::TStr(_) => TEXT_BYTES,
            Val::Arr(_) | Val::Obj(_) if is_shared(value) => 0,
            Val::Arr(_) | Val::Obj(_) => extent(value),
        };
        self.make(ITEM_BYTES + inside)
    }

    /// A round of a loop that begins with a value.
    pub(super) fn round(&self, steps: u64, value: &Val) -> Result<(), Error> {
        self.work(steps)?;
        self.rounds.set(self.rounds.get() + 1);
        match self.rounds.get().is_multiple_of(ROUNDS_BETWEEN_LOOKS) && nests_too_deep(value) {
            true => Err(self.end(Over::Depth)),
            false => Ok(()),
        }
    }

    /// Does something in which rounds are in one another, each a step down the stack.
    pub(super) fn nested<T>(&self, inner: impl FnOnce() -> T) -> Result<T, Error> {
        let nested = self.nested.get() + 1;
        if nested > NESTED_LIMIT {
            return Err(self.end(Over::Depth));
        }
        self.nested.set(nested);
        let done = inner();
        self.nested.set(nested - 1);
        Ok(done)
    }

    /// A number that may have become large.
    pub(super) fn number(&self, value: &Val) -> Result<(), Error> {
        match value {
            Val::Num(Num::BigInt(integer)) if integer.bits() / 8 > NUMBER_LIMIT_BYTES => {
                Err(self.end(Over::Number))
            }
            _ => Ok(()),
        }
    }

    /// A value that is read with all that is in it. Gives how many bytes it is as text, about.
    pub(super) fn read<'v>(&self, value: &'v Val) -> Result<u64, Error> {
        if !matches!(value, Val::Arr(_) | Val::Obj(_)) {
            let bytes = text_bytes(value);
            return self.work(bytes / 64).map(|()| bytes);
        }
        let mut bytes = 0;
        // A list of what is to be read yet, as a value may nest deeper than the stack is.
        let mut inside = vec![(value, 1)];
        while let Some((value, depth)) = inside.pop() {
            let before = bytes;
            let mut look = |child: &'v Val| match child {
                Val::Arr(_) | Val::Obj(_) => inside.push((child, depth + 1)),
                simple => bytes += text_bytes(simple) + 2,
            };
            let count = match value {
                Val::Arr(items) => {
                    items.iter().for_each(look);
                    items.len()
                }
                Val::Obj(members) => {
                    members.iter().for_each(|(key, value)| {
                        look(key);
                        look(value);
                    });
                    2 * members.len()
                }
                Val::Null | Val::Bool(_) | Val::Num(_) | Val::BStr(_) | Val::TStr(_) => 0,
            };
            bytes += 2;
            self.work(1 + count as u64 / 4 + (bytes - before) / 64)?;
            if depth > DEPTH_LIMIT {
                return Err(self.end(Over::Depth));
            }
        }
        Ok(bytes)
    }
}

/// Whether a value nests deeper than it may, or has more parts than any result.
fn nests_too_deep<'v>(value: &'v Val) -> bool {
    let (mut inside, mut looked_at) = (vec![(value, 1)], 0);
    while let Some((value, depth)) = inside.pop() {
        let look = |child: &'v Val| {
            if matches!(child, Val::Arr(_) | Val::Obj(_)) {
                inside.push((child, depth + 1));
            }
        };
        looked_at += match value {
            Val::Arr(items) => {
                items.iter().for_each(look);
                items.len()
            }
            Val::Obj(members) => {
                members.values().for_each(look);
                members.len()
            }
            Val::Null | Val::Bool(_) | Val::Num(_) | Val::BStr(_) | Val::TStr(_) => 0,
        };
        if depth > DEPTH_LIMIT || looked_at > LOOK_LIMIT {
            return true;
        }
    }
    false
}

/// How long a value without parts is as text, about.
fn text_bytes(value: &Val) -> u64 {
    match value {
        Val::Num(Num::BigInt(integer)) => integer.bits() / 3,
        Val::Num(Num::Dec(text)) => text.len() as u64,
        Val::BStr(bytes) | Val::TStr(bytes) => bytes.len() as u64,
        Val::Null | Val::Bool(_) | Val::Num(_) | Val::Arr(_) | Val::Obj(_) => 8,
    }
}

/// Whether somebody else has the same list, object or text: who changes it then copies it.
pub(super) fn is_shared(value: &Val) -> bool {
    match value {
        Val::Null | Val::Bool(_) | Val::Num(_) => false,
        Val::BStr(bytes) | Val::TStr(bytes) => !bytes.is_unique(),
        Val::Arr(items) => Rc::strong_count(items) > 1,
        Val::Obj(members) => Rc::strong_count(members) > 1,
    }
}

/// What a copy of a value takes, in bytes, without what is in its parts.
pub(super) fn extent(value: &Val) -> u64 {
    match value {
        Val::Null | Val::Bool(_) | Val::Num(_) => 0,
        Val::BStr(bytes) | Val::TStr(bytes) => bytes.len() as u64,
        Val::Arr(items) => items.len() as u64 * ITEM_BYTES,
        Val::Obj(members) => members.len() as u64 * MEMBER_BYTES,
    }
}
