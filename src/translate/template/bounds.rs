//! How much a template may do: steps, what it looks up, what it writes, how deep its expressions are.

use std::{
    cell::Cell,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use minijinja::{Error, ErrorKind, State, Value, value::Object};

use super::TemplateError;
use crate::translate::{
    filters::MADE_LIMIT_BYTES,
    stop::{STOPPED, Stop},
};

/// How much work one rendering may do, in instructions of the template engine; a template that loops longer is an error.
pub(super) const FUEL: u64 = 2_000_000;

/// The same of one on a thread that serves other calls too, where steps are counted: one that takes more begins again elsewhere.
pub(super) const SHORT_FUEL: u64 = 10_000;

/// How many bytes that are looked up or made take about as long as a step.
pub(super) const STEP_BYTES: u64 = 64;

/// How much work the templates of one result, or one request, may do together: a block for each of a thousand rows is a thousand
/// renderings.
#[derive(Debug)]
pub(crate) struct Budget {
    left: Cell<u64>,
    stop: Option<Stop>,
}

impl Budget {
    /// Of one result or request: what one template may do alone.
    pub(crate) fn of_result() -> Self {
        Self { left: Cell::new(FUEL), stop: None }
    }

    /// The same, which ends when nobody waits for it any more.
    pub(crate) fn until(self, stop: Option<&Stop>) -> Self {
        Self { stop: stop.cloned(), ..self }
    }

    /// Whether anything is left.
    pub(super) fn check(&self) -> Result<(), TemplateError> {
        if self.left.get() == 0 {
            let message = "the templates do more work together than one may do alone".to_owned();
            return Err(TemplateError { message, line: None });
        }
        Ok(())
    }

    /// Counts what a rendering has used; `None` where that was more than it had.
    pub(super) fn spend(&self, used: Option<u64>) {
        let used_or_all = used.unwrap_or_else(|| self.left.get());
        self.left.set(self.left.get().saturating_sub(used_or_all));
        if let Some(stop) = self.stop.as_ref().filter(|_| self.is_short()) {
            stop.allows(used.unwrap_or(u64::MAX));
        }
    }

    /// Whether the steps of its renderings are counted, as they are taken on a thread that serves other calls too.
    pub(super) fn is_short(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.steps_left().is_some())
    }
}

/// How long the texts and lists may be together that one rendering looks up, in bytes; one that is looked up again counts
/// again, wherever its name comes from. The engine counts its own steps, and a step of a loop that adds to a text or searches it reads all of it.
const LOOKED_UP_LIMIT_BYTES: u64 = if cfg!(test) { 32 << 20 } else { 8 << 30 };

/// What an item of a list counts, in bytes.
pub(super) const ITEM_BYTES: u64 = 16;

/// The names of a template, and what may still be looked up and made. There are none once nobody waits any more: what is
/// left of the rendering is done soon then.
#[derive(Debug)]
pub(in crate::translate) struct LookedUp {
    names: Value,
    left: AtomicU64,
    made_left: AtomicUsize,
    stop: Option<Stop>,
}

/// The name by which the filters of a template find what they may make; no template can write it.
const OWN_NAME: &str = " looked up";

impl LookedUp {
    pub(super) fn of(names: &Value, budget: &Budget) -> Self {
        Self {
            names: names.clone(),
            left: AtomicU64::new(LOOKED_UP_LIMIT_BYTES),
            made_left: AtomicUsize::new(MADE_LIMIT_BYTES),
            stop: budget.stop.clone(),
        }
    }

    /// That of the rendering that a filter is called in.
    pub(in crate::translate) fn of_state(state: &State<'_, '_>) -> Option<Arc<Self>> {
        state.lookup(OWN_NAME).and_then(|value| value.downcast_object::<Self>())
    }

    /// Counts a value of so many bytes that is looked up.
    pub(super) fn look_up(&self, bytes: u64) -> Result<(), Error> {
        let left = self.left.load(Ordering::Relaxed).saturating_sub(bytes);
        self.left.store(left, Ordering::Relaxed);
        match left > 0 && !self.is_stopped_for(bytes) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidOperation, "looks up too much")),
        }
    }

    /// Whether filters and operators may make so many bytes more.
    pub(in crate::translate) fn allows_to_make(&self, bytes: usize) -> bool {
        let left = self.made_left.load(Ordering::Relaxed).checked_sub(bytes);
        self.made_left.store(left.unwrap_or(0), Ordering::Relaxed);
        left.is_some() && !self.is_stopped_for(bytes as u64)
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped_for(0)
    }

    /// Whether it is, after so many bytes that are looked up or made.
    fn is_stopped_for(&self, bytes: u64) -> bool {
        self.stop.as_ref().is_some_and(|stop| !stop.allows(bytes / STEP_BYTES))
    }

    /// Whether every name was there that was looked up.
    pub(super) fn check(&self) -> Result<(), TemplateError> {
        let message = if self.is_stopped() {
            STOPPED.to_owned()
        } else if self.left.load(Ordering::Relaxed) == 0 {
            format!("looks up more than {LOOKED_UP_LIMIT_BYTES} bytes of texts and lists")
        } else {
            return Ok(());
        };
        Err(TemplateError { message, line: None })
    }
}

impl Object for LookedUp {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        if key.as_str() == Some(OWN_NAME) {
            return Some(Value::from_dyn_object(Arc::clone(self)));
        }
        let value = self.names.get_item(key).ok().filter(|value| !value.is_undefined())?;
        (!self.is_stopped()).then_some(value)
    }
}

/// How long a rendered text may be, in bytes: a loop over a large reply writes a multiple of it.
pub(super) const TEXT_LIMIT_BYTES: usize = 16 << 20;

/// How many operators one expression may have, and how many `elif` a template: the parser takes a step down the
/// stack for each, and the stack has an end.
const OPERATOR_LIMIT: usize = 400;

/// Refuses what the engine's parser would go too far down the stack for.
pub(super) fn refuse_too_deep(source: &str) -> Result<(), TemplateError> {
    let parts = source.split("{{").flat_map(|part| part.split("{%"));
    let most = parts.map(|part| {
        let inside = part.split("}}").next().unwrap_or(part);
        let inside = inside.split("%}").next().unwrap_or(inside);
        let signs = inside.bytes().filter(|byte| b"([{|.,~+-*/%<>=!".contains(byte)).count();
        let words = inside.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        signs + words.filter(|word| ["and", "or", "not", "if", "else", "is", "in"].contains(word)).count()
    });
    if most.max().unwrap_or(0).max(source.matches("elif").count()) > OPERATOR_LIMIT {
        let message = format!("more than {OPERATOR_LIMIT} operators in one expression");
        return Err(TemplateError { message, line: None });
    }
    Ok(())
}
