//! Rate limits for upstreams, routes and single clients, by GCRA (equivalent to a token bucket).

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use settings_derive::{EnumSetting, Section};
use tokio::time::{Instant, sleep};

use super::ReplicaSharing;
use crate::settings::{OrOff, units::Rate};
use crate::shared_state::{SharedStore, StoreUnreachable};
use crate::telemetry::LabelCounter;
use crate::upstream::{ClientIdentity, Failure, RateLimitScope};

/// Rate limit: how many calls in how long, and how many of them at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Section)]
#[section(id = "rate_limit", text = "rate")]
pub struct RateSettings {
    /// Number of calls per time: `100 per minute`, `5 per 10s`.
    #[key(example = "rate: 100 per minute")]
    pub rate: Rate,
    /// Number of calls admitted at once after an idle time.
    #[key(range = 1..=1_000_000, shown = "the number in `rate`")]
    pub burst: Option<u32>,
    /// Behaviour while the store of `shared_state` is unreachable: each replica counts for itself (`local`),
    /// all calls are rejected (`deny`), or admitted (`allow`).
    #[key(default = OnStoreFailure::Local)]
    pub on_store_failure: OnStoreFailure,
}

/// Behaviour of a shared rate limit while the store is unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumSetting)]
pub enum OnStoreFailure {
    /// Each replica counts for itself.
    Local,
    /// All calls are rejected.
    Deny,
    /// All calls are admitted.
    Allow,
}

/// Rate limit and its current usage.
///
/// The algorithm is GCRA (generic cell rate algorithm), which admits the same calls as a token bucket with
/// `burst` tokens, refilled at `rate`. The only state is a point in time, the theoretical arrival time (TAT):
/// one in total, or one per client. Each admitted call moves the point ahead by the interval between two
/// calls. A call is rejected if the point is too far ahead. A point in the past is equivalent to no point.
#[derive(Debug)]
pub(super) struct RateLimit {
    scope: RateLimitScope,
    settings: RateSettings,
    usage: Mutex<ClientUsage>,
    events: LabelCounter,
    /// Store of the counter that all replicas share, and the id of the counter.
    shared_counter: Option<(SharedStore, String)>,
}

#[derive(Debug)]
struct ClientUsage {
    /// GCRA point of all clients together; with a limit per client, of the clients that are not in
    /// `client_points`.
    shared_point: Instant,
    client_points: HashMap<ClientIdentity, Instant>,
    swept_at: Instant,
}

impl RateLimit {
    /// Maximum number of clients that are tracked separately. Further clients share one allowance, until idle
    /// clients are removed. Bounds the memory, and the gain of a client that keeps changing its address.
    pub(super) const CLIENTS_LIMIT: usize = 65_536;
    /// Minimum interval between two searches for idle clients to remove.
    const MIN_SWEEP_INTERVAL: Duration = Duration::from_secs(1);

    /// Creates the rate limit of the upstream or route `name`; `None` if the setting is missing or `off`. The
    /// counter of this replica starts with the full burst. With `sharing`, all replicas also share a counter,
    /// whose state remains in the store. `events` counts rejected calls.
    pub(super) fn new(
        scope: RateLimitScope,
        name: &str,
        settings: Option<OrOff<RateSettings>>,
        events: &LabelCounter,
        sharing: Option<&ReplicaSharing>,
    ) -> Option<Self> {
        let settings = settings?.on()?;
        let now = Instant::now();
        let usage =
            Mutex::new(ClientUsage { shared_point: now, client_points: HashMap::new(), swept_at: now });
        let (Rate { count, per }, burst) = (settings.rate, settings.burst());
        let shared_counter = sharing.map(|ReplicaSharing { store, .. }| {
            // The settings are part of the id, so a changed limit starts afresh: points of the old limit may
            // be far ahead.
            let counter_id = format!("{scope} {name} {count} {} {burst}", per.as_micros());
            (store.clone(), counter_id)
        });
        Some(Self { scope, settings, usage, events: events.clone(), shared_counter })
    }

    /// Admits a call by the counter of this replica, or returns the time until the next call is admitted.
    fn take(&self, client: &ClientIdentity) -> Result<(), Duration> {
        let (interval, tolerance) = self.settings.interval_and_tolerance();
        self.with_point(client, |point, now| {
            let ahead = point.saturating_duration_since(now);
            match ahead.checked_sub(tolerance) {
                Some(wait) if !wait.is_zero() => Err(wait),
                _ => {
                    *point = now + ahead + interval;
                    Ok(())
                }
            }
        })
    }

    /// Admits a call if the counter of this replica and the shared counter, if there is one, allow it.
    async fn try_admit(&self, client: &ClientIdentity) -> Result<(), Failure> {
        let local_result = self.take(client).map_err(|wait| self.rejection(wait));
        let Some((store, counter_id)) = &self.shared_counter else { return local_result };
        let on_store_failure = self.settings.on_store_failure;
        // A call over the limit of this replica alone is over the shared limit, too. Exception: `allow` while
        // the store is unreachable.
        if local_result.is_err() && (on_store_failure != OnStoreFailure::Allow || store.state().is_up) {
            return local_result;
        }
        let client_key = if self.scope.is_per_client() { client.to_bytes() } else { Vec::new() };
        let (interval, tolerance) = self.settings.interval_and_tolerance();
        match store
            .take(&store.name("rate", &[counter_id.as_bytes(), &client_key]), interval, tolerance)
            .await
        {
            Ok(Duration::ZERO) => Ok(()),
            Ok(wait) => {
                // The other replicas have used up the limit, so the counter of this replica is moved ahead as
                // well.
                self.with_point(client, |point, now| *point = now + tolerance + wait);
                Err(self.rejection(wait))
            }
            Err(StoreUnreachable) if on_store_failure == OnStoreFailure::Deny => {
                Err(Failure::RateLimitUnavailable)
            }
            Err(StoreUnreachable) => Ok(()),
        }
    }

    /// Admits a call, at once or after a wait.
    ///
    /// # Errors
    ///
    /// Only if `over_limit` rejects calls: [`Failure::RateLimited`] for a call over the limit, and with
    /// `deny`, [`Failure::RateLimitUnavailable`] if the shared counter is unreachable. The rejection is
    /// counted.
    pub(super) async fn admit(&self, client: &ClientIdentity, over_limit: OverLimit) -> Result<(), Failure> {
        while let Err(failure) = self.try_admit(client).await {
            if over_limit == OverLimit::Rejected {
                let is_per_client = self.scope.is_per_client();
                self.events.add(if is_per_client { "client_rate_limited" } else { "rate_limited" });
                return Err(failure);
            }
            // Each failure of a rate limit has a time until a retry.
            sleep(failure.properties().retry_after.unwrap_or_default()).await;
        }
        Ok(())
    }

    fn rejection(&self, retry_after: Duration) -> Failure {
        let Rate { count, per } = self.settings.rate;
        Failure::RateLimited { scope: self.scope, count, per, retry_after }
    }

    /// Calls `action` with the GCRA point of a client and the current time.
    fn with_point<T>(&self, client: &ClientIdentity, action: impl FnOnce(&mut Instant, Instant) -> T) -> T {
        let now = Instant::now();
        let mut usage = self.usage.lock();
        let usage = &mut *usage;
        if !self.scope.is_per_client() {
            return action(&mut usage.shared_point, now);
        }
        if usage.client_points.len() >= Self::CLIENTS_LIMIT && !usage.client_points.contains_key(client) {
            if now.saturating_duration_since(usage.swept_at) >= Self::MIN_SWEEP_INTERVAL {
                usage.swept_at = now;
                usage.client_points.retain(|_, point| *point > now);
            }
            if usage.client_points.len() >= Self::CLIENTS_LIMIT {
                return action(&mut usage.shared_point, now);
            }
        }
        action(usage.client_points.entry(client.clone()).or_insert(now), now)
    }
}

impl RateSettings {
    /// Emission interval (how far each call moves the point), and burst tolerance (how far ahead it may be).
    fn interval_and_tolerance(self) -> (Duration, Duration) {
        let interval = self.rate.per / self.rate.count.max(1);
        (interval, interval * self.burst().saturating_sub(1))
    }

    /// Number of calls admitted at once.
    fn burst(self) -> u32 {
        self.burst.unwrap_or(self.rate.count)
    }
}

/// Treatment of a call over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OverLimit {
    /// Rejected, with `Retry-After`.
    Rejected,
    /// The call waits until its deadline. For follow-up requests: a rejection would lose the call that they
    /// belong to.
    Waits,
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::policy::metrics::upstream_events;
    use crate::shared_state::MemoryStore;

    const SECOND: Duration = Duration::from_secs(1);
    const TEN_A_SECOND: RateSettings =
        RateSettings { rate: calls(10, SECOND), burst: None, on_store_failure: OnStoreFailure::Local };

    const fn calls(count: u32, per: Duration) -> Rate {
        Rate { count, per }
    }

    fn rate(scope: RateLimitScope, settings: RateSettings) -> RateLimit {
        RateLimit::new(scope, "old", Some(OrOff::On(settings)), &upstream_events(), None).unwrap()
    }

    fn client(number: u32) -> ClientIdentity {
        ClientIdentity::Address(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    /// Number of admitted calls out of a hundred at once.
    fn burst_size(rate: &RateLimit, client: &ClientIdentity) -> usize {
        (0..100).filter(|_| rate.take(client).is_ok()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_admitted_and_then_the_rate() {
        let rate = rate(RateLimitScope::Upstream, TEN_A_SECOND);
        assert_eq!(burst_size(&rate, &ClientIdentity::Local), 10);
        assert_eq!(rate.take(&ClientIdentity::Local), Err(SECOND / 10));
        tokio::time::advance(SECOND / 4).await;
        assert_eq!(burst_size(&rate, &ClientIdentity::Local), 2);
        assert_eq!(rate.take(&ClientIdentity::Local), Err(SECOND / 20));
        tokio::time::advance(100 * SECOND).await;
        assert_eq!(burst_size(&rate, &ClientIdentity::Local), 10, "what was not used is not saved for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn the_long_term_rate_is_the_limit() {
        let settings = RateSettings { rate: calls(7, SECOND), burst: Some(1), ..TEN_A_SECOND };
        let rate = rate(RateLimitScope::Route, settings);
        let mut admitted = 0;
        for _ in 0..10_000 {
            admitted += usize::from(rate.take(&ClientIdentity::Local).is_ok());
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert!((69..=71).contains(&admitted), "{admitted} in ten seconds");
    }

    #[tokio::test(start_paused = true)]
    async fn clients_do_not_use_up_the_rate_of_others() {
        let rate = rate(RateLimitScope::ClientOfRoute, TEN_A_SECOND);
        assert_eq!(burst_size(&rate, &client(1)), 10);
        assert_eq!(burst_size(&rate, &client(2)), 10);
        assert_eq!(burst_size(&rate, &client(1)), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn clients_beyond_the_table_limit_share_an_entry() {
        let rate = rate(RateLimitScope::ClientOfRoute, TEN_A_SECOND);
        let max_clients = u32::try_from(RateLimit::CLIENTS_LIMIT).unwrap();
        assert!((0..max_clients).all(|number| rate.take(&client(number)).is_ok()));
        let admitted =
            (max_clients..max_clients + 50).filter(|number| rate.take(&client(*number)).is_ok()).count();
        assert_eq!(admitted, 10, "fifty clients that are not tracked separately share the limit of one");
        assert_eq!(burst_size(&rate, &client(0)), 9, "a tracked client is not removed for new ones");
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(burst_size(&rate, &client(max_clients)), 10);
        assert_eq!(rate.usage.lock().client_points.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rejected_call_has_retry_after() {
        let events = upstream_events();
        let settings = RateSettings { rate: calls(1, 60 * SECOND), burst: Some(1), ..TEN_A_SECOND };
        let settings = Some(OrOff::On(settings));
        let rate = RateLimit::new(RateLimitScope::ClientOfRoute, "old", settings, &events, None).unwrap();
        let one = || rate.admit(&ClientIdentity::Local, OverLimit::Rejected);
        one().await.unwrap();
        tokio::time::advance(SECOND).await;
        let error = one().await.unwrap_err();
        let is_expected = matches!(
            error,
            Failure::RateLimited { retry_after, scope: RateLimitScope::ClientOfRoute, .. }
                if retry_after == 59 * SECOND
        );
        assert!(is_expected, "{error:?}");
        assert_eq!(events.get("client_rate_limited"), 1);
        tokio::time::advance(59 * SECOND).await;
        one().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_started_request_waits_for_its_turn() {
        let settings = RateSettings { rate: calls(1, SECOND), burst: Some(1), ..TEN_A_SECOND };
        let rate = rate(RateLimitScope::Upstream, settings);
        let one = || rate.admit(&ClientIdentity::Local, OverLimit::Waits);
        let started = Instant::now();
        let (first, second, third) = tokio::join!(one(), one(), one());
        assert!(first.is_ok() && second.is_ok() && third.is_ok());
        assert_eq!(started.elapsed(), 2 * SECOND);
    }

    fn sharing(memory: &MemoryStore) -> ReplicaSharing {
        ReplicaSharing { store: SharedStore::in_memory(memory), identity: "old".into() }
    }

    /// Two replicas that count together.
    fn replicas(memory: &MemoryStore, scope: RateLimitScope, settings: RateSettings) -> [RateLimit; 2] {
        [(), ()].map(|()| {
            let sharing = sharing(memory);
            let settings = Some(OrOff::On(settings));
            RateLimit::new(scope, "old", settings, &upstream_events(), Some(&sharing)).unwrap()
        })
    }

    async fn count_admitted(rate: &RateLimit, client: &ClientIdentity) -> usize {
        let mut count = 0;
        for _ in 0..30 {
            count += usize::from(rate.try_admit(client).await.is_ok());
        }
        count
    }

    #[tokio::test(start_paused = true)]
    async fn replicas_share_a_rate_limit() {
        let memory = MemoryStore::default();
        let [one, other] = replicas(&memory, RateLimitScope::ClientOfRoute, TEN_A_SECOND);
        for _ in 0..7 {
            one.try_admit(&client(1)).await.unwrap();
        }
        assert_eq!(count_admitted(&other, &client(1)).await, 3);
        assert_eq!(count_admitted(&other, &client(2)).await, 10);
        let failure = one.try_admit(&client(1)).await.unwrap_err();
        assert_eq!(failure.properties().retry_after, Some(SECOND / 10));
        tokio::time::advance(SECOND / 10).await;
        assert_eq!(count_admitted(&one, &client(1)).await, 1);
        assert_eq!(count_admitted(&other, &client(1)).await, 0);
        // A changed limit of the same name is counted separately.
        let half = RateSettings { rate: calls(5, SECOND), burst: Some(5), ..TEN_A_SECOND };
        let [changed, _] = replicas(&memory, RateLimitScope::ClientOfRoute, half);
        assert_eq!(count_admitted(&changed, &client(1)).await, 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_over_a_local_limit_does_not_reach_the_store() {
        let memory = MemoryStore::default();
        let [one, other] = replicas(&memory, RateLimitScope::Upstream, TEN_A_SECOND);
        assert_eq!(count_admitted(&one, &ClientIdentity::Local).await, 10);
        assert_eq!(count_admitted(&other, &ClientIdentity::Local).await, 0);
        let attempts = |rate: &RateLimit| rate.shared_counter.as_ref().unwrap().0.counts().get("success");
        assert_eq!((attempts(&one), attempts(&other)), (10, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn on_store_failure_determines_the_limit_without_a_store() {
        for (on_store_failure, expected) in
            [(OnStoreFailure::Local, 10), (OnStoreFailure::Deny, 0), (OnStoreFailure::Allow, 30)]
        {
            let memory = MemoryStore::default();
            let settings = RateSettings { on_store_failure, ..TEN_A_SECOND };
            let [one, other] = replicas(&memory, RateLimitScope::Route, settings);
            memory.disconnect();
            assert_eq!(count_admitted(&one, &ClientIdentity::Local).await, expected, "{on_store_failure:?}");
            assert_eq!(
                count_admitted(&other, &ClientIdentity::Local).await,
                expected,
                "{on_store_failure:?}"
            );
            memory.reconnect();
            tokio::time::advance(SECOND).await;
            assert_eq!(
                count_admitted(&one, &ClientIdentity::Local).await
                    + count_admitted(&other, &ClientIdentity::Local).await,
                10
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_uncountable_limit_has_its_own_error() {
        let (memory, events) = (MemoryStore::default(), upstream_events());
        let settings = RateSettings { on_store_failure: OnStoreFailure::Deny, ..TEN_A_SECOND };
        let sharing = sharing(&memory);
        let settings = Some(OrOff::On(settings));
        let rate = RateLimit::new(RateLimitScope::Route, "old", settings, &events, Some(&sharing)).unwrap();
        memory.disconnect();
        let error = rate.admit(&ClientIdentity::Local, OverLimit::Rejected).await.unwrap_err();
        assert!(matches!(error, Failure::RateLimitUnavailable), "{error:?}");
        assert_eq!(events.get("rate_limited"), 1);
        // A follow-up waits for the store.
        let waits = tokio::time::timeout(60 * SECOND, rate.admit(&ClientIdentity::Local, OverLimit::Waits));
        let (result, ()) = tokio::join!(waits, async {
            sleep(5 * SECOND).await;
            memory.reconnect();
        });
        result.unwrap().unwrap();
    }
}
