//! The program in this process, with a configuration as an operator writes it.

use std::net::SocketAddr;

use glossator::{config, pipeline::Gateway, server};
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle};

use super::{Client, soon};

/// Served configuration, until dropped.
pub(crate) struct Loaded {
    pub(crate) address: SocketAddr,
    pub(crate) gateway: Gateway,
    pub(crate) app: server::App,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<usize>,
}

impl Loaded {
    /// Serves a configuration on a free port, whatever port it configures.
    pub(crate) async fn start(loaded: &config::Loaded) -> Self {
        Self::start_on(server::bind("127.0.0.1:0".parse().unwrap()).unwrap(), loaded)
    }

    /// Serves a configuration on this listener.
    pub(crate) fn start_on(listener: TcpListener, loaded: &config::Loaded) -> Self {
        let app = server::App::new(loaded).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let (listener, handler) = (app.listener(listener), app.handler.clone());
        let serving = tokio::spawn(server::serve(listener, app.settings, handler, async {
            let _ = stopped.await;
        }));
        Self { address, gateway: app.gateway.clone(), app, stop: Some(stop), serving }
    }

    /// Stops it, as SIGTERM does.
    pub(crate) fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits for the end, and returns the number of connections that were cut off.
    pub(crate) async fn ended(self) -> usize {
        soon("the end of serving", self.serving).await.unwrap()
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }
}
