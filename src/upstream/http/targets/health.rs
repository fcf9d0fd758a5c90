//! Asks every place after its health, in the background, as long as the upstream is there.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, header, uri::PathAndQuery};
use http_body_util::{BodyExt, Limited};
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{sleep, timeout},
};
use tracing::debug;

use super::{Target, Targets};
use crate::{
    telemetry::Chain,
    upstream::http::{
        client::{USER_AGENT, version_of},
        outgoing::{BoxError, Outgoing},
    },
};

/// How much of an answer is read, so that its connection can be used again.
const BODY_LIMIT_BYTES: usize = 64 << 10;

/// How the health of each address is asked after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthSettings {
    /// What is asked for with `GET`, after the base of the address. Healthy is who answers it with a 2xx.
    pub path: PathAndQuery,
    /// How often; each time a tenth sooner or later.
    pub interval: Duration,
    /// How long the answer may take.
    pub timeout: Duration,
    /// After how many failures in a row an address is left out. One success brings it back.
    pub failures: u32,
}

impl HealthSettings {
    /// For [`interval`](Self::interval).
    pub const INTERVAL_DEFAULT: Duration = Duration::from_secs(10);
    /// For [`timeout`](Self::timeout).
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(2);
    /// For [`failures`](Self::failures).
    pub const FAILURES_DEFAULT: u32 = 2;
}

impl Targets {
    /// Begins to, where that is set and there is a runtime to do it in.
    pub(super) fn check_health(self: Arc<Self>) {
        let (Some(settings), Ok(runtime)) = (self.settings.health.clone(), Handle::try_current()) else {
            return;
        };
        let checking = runtime.spawn(check_all(Arc::downgrade(&self), settings));
        let _ = self.checking.set(checking.abort_handle());
    }
}

async fn check_all(targets: Weak<Targets>, settings: HealthSettings) {
    let settings = Arc::new(settings);
    loop {
        let Some(all) = targets.upgrade() else { return };
        let known = all.known().await.unwrap_or_default();
        drop(all);
        let mut checks = JoinSet::new();
        for entry in known.iter() {
            let (target, settings, targets) = (entry.target.clone(), settings.clone(), targets.clone());
            checks.spawn(async move {
                let asked = timeout(settings.timeout, ask(&target, &settings.path)).await;
                let asked = asked.unwrap_or_else(|_| Err("no answer in time".into()));
                if let Err(error) = &asked {
                    debug!(address = %target.address(), error = %Chain(&**error), "a check of its health failed");
                }
                target.checked(asked.is_ok(), settings.failures);
                if let (Ok(()), Some(targets)) = (asked, targets.upgrade()) {
                    targets.is_healthy();
                }
            });
        }
        drop(known);
        while checks.join_next().await.is_some() {}
        sleep(settings.interval.mul_f64(0.9 + fastrand::f64() / 5.0)).await;
    }
}

async fn ask(target: &Target, path: &PathAndQuery) -> Result<(), BoxError> {
    let settings = target.settings();
    let mut request = Request::new(Outgoing::whole(Bytes::new()));
    *request.method_mut() = Method::GET;
    *request.uri_mut() = target.address().join(path)?;
    *request.version_mut() = version_of(settings.protocol);
    request.headers_mut().insert(header::USER_AGENT, USER_AGENT);
    request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    request.headers_mut().extend(settings.headers.clone());
    let reply = target.connections().send(request).await?;
    let status = reply.status();
    Limited::new(reply.into_body(), BODY_LIMIT_BYTES).collect().await?;
    if status.is_success() { Ok(()) } else { Err(format!("it answered {status}").into()) }
}
