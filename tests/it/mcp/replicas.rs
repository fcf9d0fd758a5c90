//! Three replicas behind a load balancer, hundreds of concurrent clients of legacy and modern revisions, and
//! some that crash.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use glossator::config::{self, Sources};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};

use super::{
    NEWEST,
    streams::{get, message, send, session},
};
use crate::support::{Balancer, Client, Gate, Loaded, Scripted, Step, response, soon};

/// Number of clients of each kind.
const CLIENTS: usize = 60;

/// Limit of concurrent connections, except for those that wait for changes.
const CONNECTED: usize = 64;

/// Number of calls per client.
const CALLS: usize = 3;

fn configuration(upstream: &Scripted, with_more: bool) -> config::Loaded {
    let more = if with_more { "  more: { request: GET old/more }\n" } else { "" };
    let text = format!(
        "server: {{ secret_key: 0123456789abcdef, shutdown_timeout: 10s }}\nupstreams: {{ old: 'http://{}' }}\nroutes:\n  \
         echo: {{ request: 'GET old/echo/{{text}}' }}\n  silent: {{ request: GET old/silent }}\n{more}",
        upstream.address
    );
    config::load(&Sources::from_text("a.yaml", text)).unwrap_or_else(|problems| panic!("{problems}"))
}

/// Resources that each client uses.
#[derive(Clone)]
struct World {
    balancer: std::net::SocketAddr,
    connected: Arc<Semaphore>,
    calls: Arc<AtomicUsize>,
}

impl World {
    /// Sends one request over a new connection, so that each reaches another replica.
    async fn send(&self, version: &str, content: Value, headers: &str) -> Value {
        let _place = self.connected.acquire().await.unwrap();
        let mut client = Client::connect(self.balancer).await;
        let response = send(&mut client, version, content, headers).await;
        assert_eq!(response.status, 200, "{response:?}");
        response.json()
    }

    /// Calls the tool with a different argument each time, and checks that the response matches.
    async fn call(&self, version: &str, number: usize, headers: &str) {
        for call in 0..CALLS {
            let text = format!("{version}-{number}-{call}");
            let params = json!({ "name": "echo", "arguments": { "text": text } });
            let content = json!({ "jsonrpc": "2.0", "id": text, "method": "tools/call", "params": params });
            let response = self.send(version, content, headers).await;
            assert_eq!(
                (&response["id"], &response["result"]["content"][0]["text"]),
                (&json!(text), &json!(text))
            );
            self.calls.fetch_add(1, Ordering::Relaxed);
        }
        let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
        let tools = self.send(version, list, headers).await["result"]["tools"].as_array().unwrap().len();
        assert!((2..=3).contains(&tools), "{tools}");
    }

    async fn older(self, number: usize) {
        let id = {
            let _place = self.connected.acquire().await.unwrap();
            session(&mut Client::connect(self.balancer).await).await
        };
        let header = format!("Mcp-Session-Id: {id}\r\n");
        self.call("2025-11-25", number, &header).await;
        if number.is_multiple_of(2) {
            let mut stream = Client::connect(self.balancer).await;
            stream.write(get(&id)).await;
            stream.read_until("notifications/tools/list_changed").await;
        }
    }

    async fn newer(self, number: usize) {
        self.call(NEWEST, number, "").await;
        if number.is_multiple_of(2) {
            let mut stream = Client::connect(self.balancer).await;
            stream.write(listen()).await;
            stream.read_until("notifications/subscriptions/acknowledged").await;
            stream.read_until("notifications/tools/list_changed").await;
        }
    }

    /// A client that disconnects at a point that depends on its number.
    async fn dying(self, number: usize) {
        let _place = self.connected.acquire().await.unwrap();
        let mut client = Client::connect(self.balancer).await;
        let silent = json!({ "name": "silent" });
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": silent });
        let version = if number.is_multiple_of(2) { "2025-11-25" } else { NEWEST };
        let whole = message(version, call, "");
        match number % 6 {
            0 => {}
            1 => client.write(&whole[..whole.len() / 3]).await,
            2 => client.write(&whole[..whole.len() - 5]).await,
            3 => client.write(&whole).await,
            4 => client.write(listen()).await,
            _ => {
                client.write(listen()).await;
                client.read_until("acknowledged").await;
            }
        }
    }
}

fn listen() -> String {
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let listen = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params });
    message(NEWEST, listen, "")
}

/// The upstream: it echoes, and never responds to silent requests.
async fn upstream() -> Scripted {
    Scripted::start(|request| match request.line().strip_prefix("GET /echo/") {
        Some(rest) => {
            let text = rest.split(' ').next().unwrap();
            vec![Step::Send(response("200 OK", "text/plain", text))]
        }
        None => vec![Step::Hold(Gate::new())],
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_clients_of_both_lifecycles_leave_nothing_behind() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let upstream = upstream().await;
    let before = tasks();
    let mut replicas = Vec::new();
    for _ in 0..3 {
        replicas.push(Loaded::start(&configuration(&upstream, false)).await);
    }
    let balancer = Balancer::start(replicas.iter().map(|replica| replica.address).collect()).await;
    let world = World {
        balancer: balancer.address,
        connected: Arc::new(Semaphore::new(CONNECTED)),
        calls: Arc::default(),
    };
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(world.clone().older(number));
        clients.spawn(world.clone().newer(number));
        clients.spawn(world.clone().dying(number));
        clients.spawn(world.clone().dying(number + 1));
    }
    // The list of every replica changes repeatedly, until each client was notified once.
    let lists = [configuration(&upstream, true), configuration(&upstream, false)];
    let mut lists = lists.iter().cycle();
    let mut pace = tokio::time::interval(Duration::from_millis(5));
    soon("every client is done", async {
        while !clients.is_empty() {
            tokio::select! {
                ended = clients.join_next() => ended.unwrap().unwrap(),
                _ = pace.tick() => {
                    let list = lists.next().unwrap();
                    for replica in &mut replicas {
                        assert_eq!(replica.app.apply(list).unwrap(), [""; 0]);
                    }
                }
            }
        }
    })
    .await;
    assert_eq!(world.calls.load(Ordering::Relaxed), 2 * CLIENTS * CALLS);
    let requests = upstream.state().requests;
    let echoed = requests.iter().filter(|request| request.line().starts_with("GET /echo/")).count();
    assert_eq!(echoed, 2 * CLIENTS * CALLS, "each call is asked once");
    for replica in &replicas {
        let changes = replica.gateway.changes.clone();
        soon("nobody listens any more", async {
            while changes.receiver_count() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    for replica in &mut replicas {
        replica.stop();
    }
    for replica in replicas {
        assert_eq!(replica.ended().await, 0, "no connection is left");
    }
    drop((balancer, world));
    soon("no task is left", async {
        while tasks() > before {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let state = upstream.state();
    assert_eq!(state.closed_connections, state.connections, "every connection to the upstream is closed");
}
