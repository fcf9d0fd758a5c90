//! Periodic DNS lookups: connections stay open for long, and DNS records change.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::{ADDRESS_LIMIT, Endpoint, Endpoints, Entry};
use crate::telemetry::ErrorChain;
use crate::upstream::Failure;

/// Time for which a failed DNS lookup is cached while no address is known. During this time, requests fail
/// with the same error.
const FAILURE_TTL: Duration = Duration::from_secs(1);

const NO_ADDRESS: &str = "the host name has no IP address";

/// Resolver of a host and port to IP addresses.
#[derive(Debug, Clone)]
pub(in crate::upstream::http) enum Lookup {
    /// Resolver of the system: `/etc/hosts`, DNS, and other configured sources (`nsswitch.conf`).
    System,
    #[cfg(test)]
    Scripted(super::tests::FakeDns),
}

impl Lookup {
    async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match self {
            Self::System => Ok(tokio::net::lookup_host((host, port)).await?.collect()),
            #[cfg(test)]
            Self::Scripted(records) => records.lookup().await,
        }
    }
}

/// State of the DNS lookups.
#[derive(Debug)]
pub(super) struct DnsCache {
    lookup: Lookup,
    /// Held during a DNS lookup, so that only one runs.
    lookup_lock: tokio::sync::Mutex<()>,
    /// Time of the last DNS lookup, and its error.
    last_lookup: Mutex<Option<(Instant, Option<String>)>>,
}

impl DnsCache {
    pub(super) fn new(lookup: Lookup) -> Self {
        Self { lookup, lookup_lock: tokio::sync::Mutex::default(), last_lookup: Mutex::default() }
    }

    /// Records that a DNS lookup ended now.
    fn record_lookup(&self, error: Option<String>) {
        *self.last_lookup.lock() = Some((Instant::now(), error));
    }
}

impl Endpoints {
    /// Returns the endpoints. Host names are resolved again in the background when the interval is over. The
    /// request waits for a lookup only if no address is known, or if the addresses are older than twice the
    /// interval.
    pub(super) async fn known(self: &Arc<Self>) -> Result<Arc<Vec<Entry>>, Failure> {
        let Some(dns) = &self.dns else { return Ok(self.current.load_full()) };
        let refresh_interval = self.settings.dns_refresh_interval;
        let entries = self.current.load_full();
        let age = dns.last_lookup.lock().as_ref().map(|(at, _)| at.elapsed()).filter(|_| !entries.is_empty());
        if let Some(age) = age.filter(|age| *age < 2 * refresh_interval) {
            if age >= refresh_interval && dns.lookup_lock.try_lock().is_ok() {
                let endpoints = self.clone();
                tokio::spawn(async move { endpoints.look_up().await });
            }
            return Ok(entries);
        }
        let connect_timeout = self.settings.connect_timeout;
        let outcome = timeout(connect_timeout, self.look_up()).await;
        let entries = self.current.load_full();
        if !entries.is_empty() {
            if outcome.is_err() {
                // The known addresses are used until the next interval. Otherwise every request would wait
                // for the lookup.
                dns.record_lookup(Some("no response in time".to_owned()));
            }
            return Ok(entries);
        }
        outcome.map_err(|_| Failure::ConnectTimeout(connect_timeout))?;
        let error = dns.last_lookup.lock().clone().and_then(|(_, error)| error);
        let error = error.unwrap_or_else(|| NO_ADDRESS.to_owned());
        Err(Failure::Connect(io::Error::other(error).into()))
    }

    /// Resolves every host name, unless another request has done so meanwhile, or a failed lookup is cached.
    async fn look_up(&self) {
        let Some(dns) = &self.dns else { return };
        let called_at = Instant::now();
        let _lookup_lock = dns.lookup_lock.lock().await;
        let last_at = dns.last_lookup.lock().as_ref().map(|(at, _)| *at);
        let is_fresh =
            |at: Instant| at >= called_at || (self.current.load().is_empty() && at.elapsed() < FAILURE_TTL);
        if last_at.is_some_and(is_fresh) {
            return;
        }
        let (mut entries, mut last_error) = (Vec::new(), None);
        let previous = self.current.load_full();
        for address in self.settings.addresses() {
            let same_address = previous.iter().filter(|entry| entry.endpoint.connections.address == *address);
            let Some((host, port)) = address.name() else {
                entries.extend(same_address.cloned());
                continue;
            };
            match dns.lookup.addresses(host, port).await {
                Ok(found) if !found.is_empty() => {
                    // The system returns first the address family that it reaches best. Addresses of the
                    // other family are a last resort.
                    let is_first =
                        |socket_address: &SocketAddr| socket_address.is_ipv4() == found[0].is_ipv4();
                    // Two equal lines of `/etc/hosts` return an address twice.
                    for (_, socket_address) in found
                        .iter()
                        .enumerate()
                        .filter(|(nth, socket_address)| !found[..*nth].contains(socket_address))
                    {
                        let existing = same_address
                            .clone()
                            .find(|entry| entry.endpoint.connections.at == Some(*socket_address));
                        let endpoint = existing.map_or_else(
                            || Endpoint::new(&self.settings, address, Some(*socket_address)),
                            |entry| entry.endpoint.clone(),
                        );
                        if !entries.iter().any(|entry: &Entry| entry.endpoint.id == endpoint.id) {
                            entries.push(Entry { endpoint, last_resort: !is_first(socket_address) });
                        }
                    }
                }
                other => {
                    let reason = other
                        .err()
                        .map_or_else(|| NO_ADDRESS.to_owned(), |error| ErrorChain(&error).to_string());
                    warn!(upstream = %self.settings.name, name = host, error = reason, "DNS lookup failed");
                    last_error = Some(reason);
                    // After a failed DNS lookup, the last known addresses are used.
                    entries.extend(same_address.cloned());
                }
            }
        }
        entries.truncate(ADDRESS_LIMIT);
        let is_known = |entry: &Entry| previous.iter().any(|other| other.endpoint.id == entry.endpoint.id);
        if last_at.is_some() && (previous.len() != entries.len() || !entries.iter().all(is_known)) {
            let count = entries.len();
            info!(upstream = %self.settings.name, addresses = count, "DNS addresses changed");
        }
        self.current.store(Arc::new(entries));
        dns.record_lookup(last_error);
    }
}
