//! The listener of the admin API, beside that for clients.

use std::net::SocketAddr;

use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::{HttpHandler, Listener, ServeError, bind, serve};
use crate::admin::Admin;
use crate::config::{AdminSettings, ListenerSettings};
use crate::telemetry::{ErrorChain, SAMPLE_INTERVAL};

/// Limit of the connections of operators, probes and scrapers.
const CONNECTION_LIMIT: usize = 64;

/// The listener of the admin API; it is closed when this is dropped.
#[derive(Debug)]
pub struct AdminListener {
    /// The address that operators connect to.
    pub address: Option<SocketAddr>,
    _serving: AbortOnDropHandle<()>,
}

impl AdminListener {
    /// Binds the admin port and serves on it. `None` if it is off, or if the default port is in use.
    ///
    /// # Errors
    ///
    /// [`ServeError::Bind`], if the configuration names the address.
    pub async fn open(settings: &AdminSettings, admin: Admin) -> Result<Option<Self>, ServeError> {
        let Some(address) = settings.listen else { return Ok(None) };
        let listener = match bind(address).await {
            Ok(listener) => listener,
            Err(error) if settings.is_named => return Err(error),
            Err(error) => {
                let error = ErrorChain(&error);
                warn!(%error, "admin port unavailable; `listen` under `admin` sets another");
                return Ok(None);
            }
        };
        let address = listener.local_addr().ok();
        if let Some(address) = address {
            info!(%address, "admin API listening");
        }
        let settings = ListenerSettings { max_connections: CONNECTION_LIMIT, ..ListenerSettings::default() };
        let sampling = admin.clone();
        let sampled = async move {
            let mut times = interval(SAMPLE_INTERVAL);
            times.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                times.tick().await;
                sampling.sample();
            }
        };
        let handler = HttpHandler::new(move |request| {
            let admin = admin.clone();
            async move { admin.handle(request).await }
        });
        let serving = AbortOnDropHandle::new(tokio::spawn(async move {
            // It may use every file descriptor.
            let listener = Listener { reserve: 0, ..Listener::from(listener) };
            let served = serve(listener, settings, handler, std::future::pending());
            tokio::select! {
                _ = served => {}
                () = sampled => {}
            }
        }));
        Ok(Some(Self { address, _serving: serving }))
    }
}
