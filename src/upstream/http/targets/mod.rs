//! The places that one upstream is reached at: several addresses, or a name with several.
//!
//! In reading order: a [`Target`] is one place with connections of its own, and what is known of it (`condition`);
//! `names` finds what names stand for, again and again; [`Targets`] picks the place for a request; `health` asks each
//! in the background.

mod condition;
mod health;
mod names;
mod target;

use std::{
    fmt, io,
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use tokio::{task::AbortHandle, time::Instant};

use super::HttpSettings;
use crate::upstream::{Tried, UpstreamError};

pub use condition::{EjectionSettings, State};
pub use health::HealthSettings;
pub(super) use names::{Lookup, system};
pub(super) use target::{Load, Outcome, Target};

/// How many places one upstream has at most, names looked up; more are passed over.
pub const ADDRESS_LIMIT: usize = 64;

/// All places of one upstream.
#[derive(Debug)]
pub(super) struct Targets {
    settings: Arc<HttpSettings>,
    current: ArcSwap<Vec<Entry>>,
    /// Absent where no address has a name in it.
    names: Option<names::Names>,
    checking: OnceLock<AbortHandle>,
    when_healthy: OnceLock<WhenHealthy>,
}

/// Is told of each check of health that went well.
struct WhenHealthy(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for WhenHealthy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WhenHealthy")
    }
}

/// A place, and whether it is asked only when no other can be.
#[derive(Debug, Clone)]
struct Entry {
    target: Arc<Target>,
    last_resort: bool,
}

impl Targets {
    /// Nothing is looked up or connected yet. Within a runtime it begins to ask after their health, where that is set.
    pub(super) fn new(settings: Arc<HttpSettings>, lookup: Lookup) -> Arc<Self> {
        let names = settings.addresses().any(|address| address.name().is_some());
        let names = names.then(|| names::Names::new(lookup));
        let known = settings.addresses().filter(|address| address.name().is_none());
        let known = known.map(|address| Entry {
            target: Target::new(&settings, address, address.ip()),
            last_resort: false,
        });
        let known: Vec<Entry> = known.take(ADDRESS_LIMIT).collect();
        set_alone(&known);
        let current = ArcSwap::from_pointee(known);
        let targets = Arc::new(Self {
            settings,
            current,
            names,
            checking: OnceLock::new(),
            when_healthy: OnceLock::new(),
        });
        targets.clone().check_health();
        targets
    }

    /// Finds a place for a request, and counts it there. It is another than those that were tried before, as long as
    /// there is one that is not left out.
    ///
    /// # Errors
    ///
    /// When no name leads anywhere.
    pub(super) async fn pick(self: &Arc<Self>, tried: &Tried, due: Instant) -> Result<Load, UpstreamError> {
        let targets = self.known().await?;
        let target = pick(&targets, tried).clone();
        if targets.len() > 1 {
            tried.add(target.id());
        }
        Ok(Load::new(target, due))
    }

    /// Another place, for a request of which nothing was sent to the one before.
    pub(super) fn pick_other(&self, tried: &Tried, due: Instant) -> Option<Load> {
        let targets = self.current.load();
        let target = pick_new(&targets, tried)?.clone();
        tried.add(target.id());
        Some(Load::new(target, due))
    }

    /// From now on, tells of each check of health that went well; only the first who asks is told.
    pub(super) fn when_healthy(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.when_healthy.set(WhenHealthy(Box::new(tell)));
    }

    fn is_healthy(&self) {
        if let Some(WhenHealthy(tell)) = self.when_healthy.get() {
            tell();
        }
    }

    /// The places as they are known now.
    pub(super) fn view(&self) -> Vec<AddressView> {
        let now = Instant::now();
        self.current.load().iter().map(|entry| entry.target.view(now)).collect()
    }
}

/// One place of an upstream, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressView {
    /// As it is written, with the number that its name stands for.
    pub address: String,
    /// Whether requests go there.
    pub state: State,
    /// How many are there.
    pub in_flight: usize,
}

/// Tells each whether it is the only one.
fn set_alone(entries: &[Entry]) {
    for entry in entries {
        entry.target.set_alone(entries.len() == 1);
    }
}

/// The place for a request. There is at least one.
fn pick<'t>(targets: &'t [Entry], tried: &Tried) -> &'t Arc<Target> {
    if let [only] = targets {
        return &only.target;
    }
    let now = Instant::now();
    pick_new(targets, tried)
        // All that are not left out have been tried.
        .or_else(|| less_loaded(targets, |entry| entry.target.is_open(now)))
        // All are left out, so nothing is lost by asking one of them.
        .or_else(|| less_loaded(targets, |entry| !tried.has(entry.target.id())))
        .or_else(|| less_loaded(targets, |_| true))
        .expect("there is a place")
}

/// One that is not left out and was not tried.
fn pick_new<'t>(targets: &'t [Entry], tried: &Tried) -> Option<&'t Arc<Target>> {
    let now = Instant::now();
    let is_new = |entry: &Entry| entry.target.is_open(now) && !tried.has(entry.target.id());
    less_loaded(targets, |entry| !entry.last_resort && is_new(entry)).or_else(|| less_loaded(targets, is_new))
}

/// The one with less to do of two that fit, taken at random: nearly as even as the least loaded of all, and without
/// everybody running to the same one.
fn less_loaded(targets: &[Entry], fits: impl Fn(&Entry) -> bool) -> Option<&Arc<Target>> {
    let fitting: Vec<&Entry> = targets.iter().filter(|entry| fits(entry)).collect();
    let one = match fitting.len() {
        0 => return None,
        1 => return Some(&fitting[0].target),
        count => fastrand::usize(..count),
    };
    let other = (one + fastrand::usize(1..fitting.len())) % fitting.len();
    let (one, other) = (&fitting[one].target, &fitting[other].target);
    Some(if other.in_flight() < one.in_flight() { other } else { one })
}

impl Drop for Targets {
    fn drop(&mut self) {
        if let Some(checking) = self.checking.get() {
            checking.abort();
        }
    }
}

/// A failed look-up as the failure to connect that it is.
fn not_found(settings: &HttpSettings, source: io::Error) -> UpstreamError {
    UpstreamError::Connect { upstream: settings.name.clone(), source: source.into() }
}

#[cfg(test)]
mod tests;
