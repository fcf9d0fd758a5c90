//! The operators' port beside that of clients.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    net::TcpListener,
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};
use tracing::{info, warn};

use super::{Answerer, Listener, ServeError, bind, serve};
use crate::{
    admin::Admin,
    config::{AdminSettings, ListenerSettings},
    telemetry::{Chain, SAMPLE_INTERVAL},
};

/// How many operators, probes and scrapers may be connected at once.
const CONNECTION_LIMIT: usize = 64;

/// A port that operators can connect to; it is closed when this is dropped.
#[derive(Debug)]
pub struct OperatorsPort {
    address: Option<SocketAddr>,
    serving: JoinHandle<()>,
}

impl OperatorsPort {
    /// Takes the port and serves there. `None` where there is to be none, or somebody else has the one that nobody asked
    /// for.
    ///
    /// # Errors
    ///
    /// [`ServeError::Bind`], where the configuration names the address.
    pub async fn open(settings: &AdminSettings, admin: Admin) -> Result<Option<Self>, ServeError> {
        let Some(address) = settings.listen else { return Ok(None) };
        let listener = match bind(address).await {
            Ok(listener) => listener,
            Err(error) if settings.is_named => return Err(error),
            Err(error) => {
                warn!(error = %Chain(&error), "there is no port for operators; `listen` under `admin` names another");
                return Ok(None);
            }
        };
        Ok(Some(Self::serve(listener, admin)))
    }

    fn serve(listener: TcpListener, admin: Admin) -> Self {
        let address = listener.local_addr().ok();
        if let Some(address) = address {
            info!(%address, "operators are served");
        }
        let settings = ListenerSettings { connection_limit: CONNECTION_LIMIT, ..ListenerSettings::default() };
        let sampling = admin.clone();
        let sampled = async move {
            let mut times = interval(SAMPLE_INTERVAL);
            times.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                times.tick().await;
                sampling.sample();
            }
        };
        let admin = Arc::new(admin);
        let answerer = Answerer::new(move |request| {
            let admin = Arc::clone(&admin);
            async move { admin.handle(request).await }
        });
        let serving = tokio::spawn(async move {
            let served =
                serve(Listener::from(listener).for_admin(), settings, answerer, std::future::pending());
            tokio::select! {
                _ = served => {}
                () = sampled => {}
            }
        });
        Self { address, serving }
    }

    /// Where operators connect to.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }
}

impl Drop for OperatorsPort {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
