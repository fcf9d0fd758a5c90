//! Limits of the work and memory of a filter, against responses crafted to exhaust them.
//!
//! jq has loops and recursion, and `+` and `*` can create large values from small operands: `.price * .count`
//! on `{"price": "x", "count": 1e12}` would be a terabyte of text. The engine has no limits of its own, so
//! `rewrite` inserts counters into the filter before it is compiled. Work is charged for every round of a
//! loop, for every value of a term that may have several, and for every value that is read completely. Memory
//! is charged for every value that is created and stored. Each run has one budget for work and one for
//! memory.

use std::cell::{Cell, OnceCell};

use jaq_core::{
    Lut,
    data::{DataT, HasLut},
};
use jaq_json::{Error, Num, Rc, Val};

use crate::translate::work_budget::{STOPPED, WorkBudget};

/// Maximum work of one run, in steps. A step is one output of a generator, a term that may have several.
pub const JQ_WORK_LIMIT: u64 = 20_000_000;
/// Number of steps charged for a round of a loop (`range`, `recurse`, `until`, …).
pub const JQ_ROUND_STEPS: u64 = 20;
/// Number of steps charged for a round of `reduce` and `foreach`. A round may nest the value one level
/// deeper, and dropping a deep value needs much stack.
pub const JQ_FOLD_STEPS: u64 = 80;
/// Maximum memory of one run, in bytes: strings, lists and objects that the run stores, even temporarily, and
/// copies of existing ones.
pub const JQ_MEMORY_LIMIT_BYTES: u64 = 128 << 20;
/// Maximum size of an integer, in bytes: about ten thousand digits.
const NUMBER_LIMIT_BYTES: u64 = 4 << 10;
/// Maximum nesting depth of a value that a loop creates, or that is read completely: dropping such a value
/// recurses once per level.
const DEPTH_LIMIT: usize = 4_000;
/// Number of loop rounds between two checks of the nesting depth of a value.
const ROUNDS_PER_DEPTH_CHECK: u64 = 2_048;
/// Maximum number of values that one check of the nesting depth visits. A larger value counts as nested too
/// deep.
const DEPTH_CHECK_LIMIT: usize = 4_000_000;
/// Maximum number of nested rounds of `reduce` that build a path: `setpath`, `delpaths`.
const NESTED_LIMIT: usize = 200;

// The limits are lower in unit tests, because a debug build takes ten times as long.
pub(super) const EFFECTIVE_WORK_LIMIT: u64 = if cfg!(test) { JQ_WORK_LIMIT / 40 } else { JQ_WORK_LIMIT };
pub(super) const EFFECTIVE_MEMORY_LIMIT_BYTES: u64 =
    if cfg!(test) { JQ_MEMORY_LIMIT_BYTES / 40 } else { JQ_MEMORY_LIMIT_BYTES };

/// Memory of an item of a list, in bytes.
const ITEM_BYTES: u64 = 16;
/// Memory of a member of an object, with its hash table entry, in bytes.
const MEMBER_BYTES: u64 = 64;
/// Memory of a string in addition to its text, in bytes.
const TEXT_BYTES: u64 = 48;

/// Data of one run of a filter: the engine's lookup table of compiled definitions, and the budget.
#[derive(Clone)]
pub(super) struct Bounded<'a> {
    pub(super) table: &'a Lut<EngineTypes>,
    pub(super) budget: &'a RunBudget,
}

/// Type parameters of the engine: values are the JSON of `jaq`, data is [`Bounded`].
pub(super) struct EngineTypes;

impl DataT for EngineTypes {
    type V<'a> = Val;
    type Data<'a> = Bounded<'a>;
}

impl<'a> HasLut<'a, EngineTypes> for Bounded<'a> {
    fn lut(&self) -> &'a Lut<EngineTypes> {
        self.table
    }
}

/// Remaining work and memory of one run, and the first limit that was exceeded.
pub(super) struct RunBudget {
    /// Remaining steps of [`EFFECTIVE_WORK_LIMIT`].
    pub(super) steps_left: Cell<u64>,
    /// Remaining bytes of [`EFFECTIVE_MEMORY_LIMIT_BYTES`].
    pub(super) bytes_left: Cell<u64>,
    /// Number of loop rounds so far. Every [`ROUNDS_PER_DEPTH_CHECK`] rounds, the nesting depth is checked.
    rounds: Cell<u64>,
    /// Number of nested rounds on the stack, at most [`NESTED_LIMIT`].
    nested: Cell<usize>,
    /// Error message for the first limit that was exceeded. The run ends then, and its output is not used.
    pub(super) exhausted: OnceCell<String>,
    /// The last value that the filter raised with `error(…)`; it may have been caught.
    pub(super) raised: Cell<Option<Val>>,
    /// Work budget of the call; cancelled when no client waits for the result.
    work_budget: Option<WorkBudget>,
}

impl RunBudget {
    /// Creates the budget of a new run.
    pub(super) fn new(work_budget: Option<&WorkBudget>) -> Self {
        Self {
            steps_left: Cell::new(EFFECTIVE_WORK_LIMIT),
            bytes_left: Cell::new(EFFECTIVE_MEMORY_LIMIT_BYTES),
            rounds: Cell::new(0),
            nested: Cell::new(0),
            exhausted: OnceCell::new(),
            raised: Cell::new(None),
            work_budget: work_budget.cloned(),
        }
    }

    fn exhaust(&self, message: String) -> Error {
        // Only the first exceeded limit is reported, and no step is allowed after it.
        self.steps_left.set(0);
        Error::str(self.exhausted.get_or_init(|| message))
    }

    fn exhaust_depth(&self) -> Error {
        self.exhaust(format!(
            "builds a value nested more than {DEPTH_LIMIT} levels deep, or of more than {DEPTH_CHECK_LIMIT} \
             parts"
        ))
    }

    /// Charges steps to the run before the work is done, and a quarter of them to the work budget of the
    /// call.
    pub(super) fn charge_steps(&self, steps: u64) -> Result<(), Error> {
        self.charge_run_and_call(steps, steps.div_ceil(4))
    }

    /// Charges `steps` to the run, and `call_steps` to the work budget of the call. They differ for work that
    /// takes time but would be too many steps of the run: a search in a long text, the comparisons of a sort.
    pub(super) fn charge_run_and_call(&self, steps: u64, call_steps: u64) -> Result<(), Error> {
        if self.work_budget.as_ref().is_some_and(|work_budget| !work_budget.spend(call_steps)) {
            return Err(self.exhaust(STOPPED.to_owned()));
        }
        // After the first exceeded limit, no steps are left.
        let limit_error = || {
            self.exhaust(format!("takes more than {EFFECTIVE_WORK_LIMIT} steps, the work limit of a filter"))
        };
        self.steps_left.set(self.steps_left.get().checked_sub(steps).ok_or_else(limit_error)?);
        Ok(())
    }

    /// Charges allocated bytes, and steps for the time to write these bytes.
    pub(super) fn charge_bytes(&self, bytes: u64) -> Result<(), Error> {
        let limit_error = || {
            self.exhaust(format!(
                "builds more than {EFFECTIVE_MEMORY_LIMIT_BYTES} bytes, the memory limit of a filter"
            ))
        };
        self.bytes_left.set(self.bytes_left.get().checked_sub(bytes).ok_or_else(limit_error)?);
        self.charge_steps(1 + bytes / 64)
    }

    /// Charges a value that is stored in a list, an object or a variable. A shared value costs only its
    /// reference.
    pub(super) fn charge_stored(&self, value: &Val) -> Result<(), Error> {
        let content_bytes = match value {
            Val::Null | Val::Bool(_) | Val::Num(_) => 0,
            Val::BStr(_) | Val::TStr(_) => TEXT_BYTES,
            Val::Arr(_) | Val::Obj(_) if is_shared(value) => 0,
            Val::Arr(_) | Val::Obj(_) => shallow_copy_bytes(value),
        };
        self.charge_bytes(ITEM_BYTES + content_bytes)
    }

    /// Charges a round of a loop. Every [`ROUNDS_PER_DEPTH_CHECK`] rounds, checks the nesting depth of the
    /// value.
    pub(super) fn charge_round(&self, steps: u64, value: &Val) -> Result<(), Error> {
        self.charge_steps(steps)?;
        self.rounds.set(self.rounds.get() + 1);
        match self.rounds.get().is_multiple_of(ROUNDS_PER_DEPTH_CHECK) && nests_too_deep(value) {
            true => Err(self.exhaust_depth()),
            false => Ok(()),
        }
    }

    /// Runs a nested round, which recurses on the stack; fails if too many rounds are nested.
    pub(super) fn nested<T>(&self, round: impl FnOnce() -> T) -> Result<T, Error> {
        let nested = self.nested.get() + 1;
        if nested > NESTED_LIMIT {
            return Err(self.exhaust_depth());
        }
        self.nested.set(nested);
        let result = round();
        self.nested.set(nested - 1);
        Ok(result)
    }

    /// Checks that an integer is not larger than [`NUMBER_LIMIT_BYTES`].
    pub(super) fn check_integer_size(&self, value: &Val) -> Result<(), Error> {
        match value {
            Val::Num(Num::BigInt(integer)) if integer.bits() / 8 > NUMBER_LIMIT_BYTES => {
                Err(self.exhaust(format!("builds an integer of more than {NUMBER_LIMIT_BYTES} bytes")))
            }
            _ => Ok(()),
        }
    }

    /// Charges a value that is read completely. Returns its approximate length as text, in bytes.
    pub(super) fn charge_read(&self, value: &Val) -> Result<u64, Error> {
        if !matches!(value, Val::Arr(_) | Val::Obj(_)) {
            let bytes = text_bytes(value);
            return self.charge_steps(bytes / 64).map(|()| bytes);
        }
        let mut bytes = 0;
        // Use an explicit list of pending values, because a value may nest deeper than the stack allows.
        let mut pending = vec![(value, 1)];
        while let Some((value, depth)) = pending.pop() {
            let (bytes_before, mut count) = (bytes, 0);
            for part in parts(value) {
                count += 1;
                match part {
                    Val::Arr(_) | Val::Obj(_) => pending.push((part, depth + 1)),
                    simple => bytes += text_bytes(simple) + 2,
                }
            }
            bytes += 2;
            self.charge_steps(1 + count / 4 + (bytes - bytes_before) / 64)?;
            if depth > DEPTH_LIMIT {
                return Err(self.exhaust_depth());
            }
        }
        Ok(bytes)
    }

    /// Charges a list whose items are compared with each other, as for sorting: for reading the list, and for
    /// the time of the comparisons.
    pub(super) fn charge_comparisons(&self, value: &Val) -> Result<(), Error> {
        self.charge_read(value)?;
        let Val::Arr(items) = value else { return Ok(()) };
        let comparisons_of_each = u64::from(items.len().checked_ilog2().unwrap_or(0));
        self.charge_run_and_call(0, items.len() as u64 * comparisons_of_each / 4)
    }
}

/// Whether a value is nested too deep, or has more parts than [`DEPTH_CHECK_LIMIT`]. The check costs no
/// steps: the value of a loop grows with its rounds, so a loop over a long list would be charged
/// quadratically.
fn nests_too_deep(value: &Val) -> bool {
    let (mut pending, mut visited) = (vec![(value, 1)], 0);
    while let Some((value, depth)) = pending.pop() {
        for part in parts(value) {
            visited += 1;
            if matches!(part, Val::Arr(_) | Val::Obj(_)) {
                pending.push((part, depth + 1));
            }
        }
        if depth > DEPTH_LIMIT || visited > DEPTH_CHECK_LIMIT {
            return true;
        }
    }
    false
}

/// Items of a list, or keys and values of an object.
fn parts(value: &Val) -> impl Iterator<Item = &Val> {
    let (items, members) = match value {
        Val::Arr(items) => (Some(items), None),
        Val::Obj(members) => (None, Some(members)),
        Val::Null | Val::Bool(_) | Val::Num(_) | Val::BStr(_) | Val::TStr(_) => (None, None),
    };
    let members = members.into_iter().flat_map(|members| members.iter());
    items.into_iter().flat_map(|items| items.iter()).chain(members.flat_map(|(key, value)| [key, value]))
}

/// Approximate length of a scalar as text, in bytes.
fn text_bytes(value: &Val) -> u64 {
    match value {
        Val::Num(Num::BigInt(integer)) => integer.bits() / 3,
        Val::Num(Num::Dec(text)) => text.len() as u64,
        Val::BStr(bytes) | Val::TStr(bytes) => bytes.len() as u64,
        Val::Null | Val::Bool(_) | Val::Num(_) | Val::Arr(_) | Val::Obj(_) => 8,
    }
}

/// Whether a list, object or string has other references, so that a change copies it.
pub(super) fn is_shared(value: &Val) -> bool {
    match value {
        Val::Null | Val::Bool(_) | Val::Num(_) => false,
        Val::BStr(bytes) | Val::TStr(bytes) => !bytes.is_unique(),
        Val::Arr(items) => Rc::strong_count(items) > 1,
        Val::Obj(members) => Rc::strong_count(members) > 1,
    }
}

/// Memory of a shallow copy of a value, in bytes.
pub(super) fn shallow_copy_bytes(value: &Val) -> u64 {
    match value {
        Val::Null | Val::Bool(_) | Val::Num(_) => 0,
        Val::BStr(bytes) | Val::TStr(bytes) => bytes.len() as u64,
        Val::Arr(items) => items.len() as u64 * ITEM_BYTES,
        Val::Obj(members) => members.len() as u64 * MEMBER_BYTES,
    }
}
