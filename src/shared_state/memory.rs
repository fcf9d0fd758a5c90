//! A store in memory, for tests: that of several replicas, under a clock that can be paused. It can be out of reach.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use tokio::time::Instant;

use super::{
    backend::{Backend, Doing, Failure, Operation, Outcome, Posting},
    link::LinkState,
};

type Listener = Box<dyn Fn(Bytes) + Send>;

/// The store. Clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Inside>);

#[derive(Default)]
struct Inside {
    is_gone: AtomicBool,
    kept: Mutex<Kept>,
    listeners: Mutex<Vec<Listener>>,
}

#[derive(Default)]
struct Kept {
    points: HashMap<String, Instant>,
    values: HashMap<String, (Bytes, Instant)>,
    groups: HashMap<String, BTreeMap<String, Bytes>>,
}

impl Memory {
    /// From now on nothing comes of anything.
    pub(crate) fn leave(&self) {
        self.0.is_gone.store(true, Ordering::SeqCst);
    }

    /// And again it does.
    pub(crate) fn come_back(&self) {
        self.0.is_gone.store(false, Ordering::SeqCst);
    }

    /// The names of all values.
    pub(crate) fn names(&self) -> Vec<String> {
        self.kept().values.keys().cloned().collect()
    }

    /// Puts a value there that is none of a replica's, or one of another name's.
    pub(crate) fn plant(&self, name: &str, value: Bytes) {
        let until = Instant::now() + Duration::from_secs(3600);
        self.kept().values.insert(name.to_owned(), (value, until));
    }

    /// A value as it is there.
    pub(crate) fn value(&self, name: &str) -> Bytes {
        self.kept().values[name].0.clone()
    }

    /// Tells all replicas something, as somebody else may.
    pub(crate) fn say(&self, message: &[u8]) {
        let message = Bytes::copy_from_slice(message);
        self.0.listeners.lock().unwrap().iter().for_each(|listener| listener(message.clone()));
    }

    pub(super) fn listen(&self, listener: impl Fn(Bytes) + Send + 'static) {
        self.0.listeners.lock().unwrap().push(Box::new(listener));
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap()
    }

    fn do_it(&self, operation: Operation<'_>) -> Outcome {
        let (mut kept, now) = (self.kept(), Instant::now());
        match operation {
            Operation::Take { name, gap, slack } => {
                let point = kept.points.entry(name.to_owned()).or_insert(now);
                let ahead = point.saturating_duration_since(now);
                if ahead > slack {
                    return Outcome::Wait(ahead - slack);
                }
                *point = now + ahead + gap;
                Outcome::Wait(Duration::ZERO)
            }
            Operation::Get { name, limit_bytes: _ } => {
                let found = kept.values.get(name).filter(|(_, until)| *until > now);
                Outcome::Value(found.map(|(value, until)| (value.clone(), *until - now)))
            }
            Operation::Add { group, member, value, limit, life: _ } => {
                let group = kept.groups.entry(group.to_owned()).or_default();
                if group.len() >= limit && !group.contains_key(member) {
                    return Outcome::Added(false);
                }
                group.insert(member.to_owned(), Bytes::copy_from_slice(value));
                Outcome::Added(true)
            }
            Operation::Drop { group, member } => {
                if let Some(group) = kept.groups.get_mut(group) {
                    group.remove(member);
                }
                Outcome::Done
            }
            Operation::All { group } => {
                let members = kept.groups.get(group).into_iter().flat_map(|group| group.values().cloned());
                Outcome::Values(members.collect())
            }
        }
    }
}

impl Backend for Memory {
    fn run<'a>(&'a self, operation: Operation<'a>) -> Doing<'a> {
        let is_gone = self.0.is_gone.load(Ordering::SeqCst);
        let done = if is_gone { Err(Failure::NoConnection) } else { Ok(self.do_it(operation)) };
        Box::pin(async move {
            tokio::task::yield_now().await;
            done
        })
    }

    fn post(&self, posting: Posting<'_>) -> Doing<'static> {
        if self.0.is_gone.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(Failure::NoConnection)));
        }
        match posting {
            Posting::Put { name, value, life } => {
                let value = (Bytes::copy_from_slice(value), Instant::now() + life);
                self.kept().values.insert(name.to_owned(), value);
            }
            Posting::Remove { name } => {
                self.kept().values.remove(name);
            }
            Posting::Tell { message } => self.say(message),
        }
        Box::pin(std::future::ready(Ok(Outcome::Done)))
    }

    fn state(&self) -> LinkState {
        LinkState { is_up: !self.0.is_gone.load(Ordering::SeqCst), since: SystemTime::UNIX_EPOCH }
    }
}
