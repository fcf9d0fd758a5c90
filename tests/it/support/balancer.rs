//! TCP load balancer: each connection goes to the next replica.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// Load balancer, until dropped.
#[derive(Debug)]
pub(crate) struct Balancer {
    pub(crate) address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Balancer {
    /// Starts a balancer for these replicas.
    pub(crate) async fn start(replicas: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let replicas = Arc::new(replicas);
        let accepting = tokio::spawn(async move {
            let mut carried = JoinSet::new();
            for replica in replicas.iter().cycle() {
                let (mut client, _) = listener.accept().await.unwrap();
                let replica = *replica;
                carried.spawn(async move {
                    let Ok(mut replica) = TcpStream::connect(replica).await else { return };
                    // Either side may close the connection.
                    let _ = copy_bidirectional(&mut client, &mut replica).await;
                });
                while carried.try_join_next().is_some() {}
            }
        });
        Self { address, accepting }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}
