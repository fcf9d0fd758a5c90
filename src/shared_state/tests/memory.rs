//! Test helper: a store in memory that several replicas share, under a clock that can be paused. It can
//! become unreachable.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use redis::{Arg, Cmd, RedisFuture, Value};
use tokio::{sync::mpsc, time::Instant};

use crate::crypto::SecretKey;
use crate::settings::FromText;
use crate::shared_state::connection_manager::{ADD, ActiveConnection, GET, StoreClient, TAKE};
use crate::shared_state::redis_connection::StoreConnection;
use crate::shared_state::{SharedStore, StoreSettings};

/// The store. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct MemoryStore(Arc<MemoryState>);

#[derive(Default)]
struct MemoryState {
    entries: Mutex<Entries>,
    replicas: Mutex<Vec<Weak<StoreClient>>>,
}

#[derive(Default)]
struct Entries {
    arrival_times: HashMap<String, Instant>,
    values: HashMap<String, (Bytes, Instant)>,
    groups: HashMap<String, BTreeMap<String, Vec<u8>>>,
}

impl StoreClient {
    /// Connects to a store in memory, or disconnects.
    fn connect_to(&self, memory: Option<MemoryStore>) {
        let connected = |memory| {
            let connection = StoreConnection::Memory(memory);
            Arc::new(ActiveConnection::new(connection, mpsc::channel(1).0))
        };
        self.set_connected(memory.map(connected));
    }
}

impl SharedStore {
    /// The access of one replica to a store in memory.
    pub(crate) fn in_memory(memory: &MemoryStore) -> Self {
        let settings = StoreSettings {
            address: FromText::from_text("redis://memory").unwrap(),
            tls: None,
            user: None,
            password: None,
            sentinel_user: None,
            sentinel_password: None,
            database: None,
            prefix: "glossator".to_owned(),
            timeout: Duration::from_millis(250),
            entry_limit_bytes: 10_000,
        };
        let store = Self::new(settings, &SecretKey::new(b"the same for all").unwrap());
        store.client.connect_to(Some(memory.clone()));
        memory.0.replicas.lock().push(Arc::downgrade(&store.client));
        store
    }
}

impl MemoryStore {
    /// Disconnects all replicas.
    pub(crate) fn disconnect(&self) {
        self.each_replica(|replica| replica.connect_to(None));
    }

    /// Connects all replicas again.
    pub(crate) fn reconnect(&self) {
        self.each_replica(|replica| replica.connect_to(Some(self.clone())));
    }

    /// The keys of all values.
    pub(crate) fn names(&self) -> Vec<String> {
        self.entries().values.keys().cloned().collect()
    }

    /// Stores a value that no replica wrote, or the value of another key.
    pub(crate) fn insert(&self, name: &str, value: Bytes) {
        let expires_at = Instant::now() + Duration::from_secs(3600);
        self.entries().values.insert(name.to_owned(), (value, expires_at));
    }

    /// A value as it is stored, encrypted.
    pub(crate) fn value(&self, name: &str) -> Bytes {
        self.entries().values[name].0.clone()
    }

    /// Publishes a message to all replicas, as another client of the store may.
    pub(crate) fn publish(&self, message: &[u8]) {
        self.each_replica(|replica| replica.received(message));
    }

    fn each_replica(&self, act: impl Fn(&StoreClient)) {
        let replicas = self.0.replicas.lock();
        replicas.iter().filter_map(Weak::upgrade).for_each(|replica| act(&replica));
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.entries.lock()
    }

    /// Executes a command at once; the response takes a little longer.
    pub(in crate::shared_state) fn request<'a>(&self, command: &Cmd) -> RedisFuture<'a, Value> {
        let words: Vec<&[u8]> = command
            .args_iter()
            .map(|word| match word {
                Arg::Simple(word) => word,
                other => panic!("{other:?}"),
            })
            .collect();
        let response = self.respond(&words);
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(response)
        })
    }

    fn respond(&self, words: &[&[u8]]) -> Value {
        let text = |index: usize| String::from_utf8(words[index].to_vec()).unwrap();
        let number = |index: usize| text(index).parse::<u64>().unwrap();
        let (mut entries, now) = (self.entries(), Instant::now());
        match text(0).as_str() {
            "SET" => {
                let value = (Bytes::copy_from_slice(words[2]), now + Duration::from_millis(number(4)));
                entries.values.insert(text(1), value);
            }
            "DEL" => {
                entries.values.remove(&text(1));
            }
            "PUBLISH" => self.publish(words[2]),
            "HDEL" => {
                entries.groups.entry(text(1)).or_default().remove(&text(2));
            }
            "HVALS" => {
                let members = entries.groups.get(&text(1)).into_iter().flat_map(BTreeMap::values);
                return Value::Array(members.cloned().map(Value::BulkString).collect());
            }
            // The arguments follow the command, the hash, the number of keys, and the key.
            "EVALSHA" if text(1) == TAKE.get_hash() => {
                let [emission_interval, burst_tolerance] =
                    [4, 5].map(|index| Duration::from_micros(number(index)));
                let arrival_time = entries.arrival_times.entry(text(3)).or_insert(now);
                let ahead = arrival_time.saturating_duration_since(now);
                if ahead > burst_tolerance {
                    return Value::Int(i64::try_from((ahead - burst_tolerance).as_micros()).unwrap());
                }
                *arrival_time = now + ahead + emission_interval;
                return Value::Int(0);
            }
            "EVALSHA" if text(1) == GET.get_hash() => {
                let stored = entries.values.get(&text(3)).filter(|(_, expires_at)| *expires_at > now);
                let (value, remaining_ms) = stored.map_or((Vec::new(), -2), |(value, expires_at)| {
                    (value.to_vec(), i64::try_from((*expires_at - now).as_millis()).unwrap())
                });
                return Value::Array(vec![Value::BulkString(value), Value::Int(remaining_ms)]);
            }
            "EVALSHA" if text(1) == ADD.get_hash() => {
                let group = entries.groups.entry(text(3)).or_default();
                if group.len() as u64 >= number(6) && !group.contains_key(&text(4)) {
                    return Value::Int(0);
                }
                group.insert(text(4), words[5].to_vec());
                return Value::Int(1);
            }
            other => panic!("{other}"),
        }
        Value::Okay
    }
}
