//! Replicas that share a real Redis or Valkey, if it is installed: rate limits, cached responses, and events;
//! with the store, without it, and after its return.

#![cfg(unix)]

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use glossator::config::{self, Sources};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    task::yield_now,
};

use crate::{
    mcp::streams::{get, send, session},
    support::{Client, Loaded, Scripted, Step, response, soon},
};

/// Store on a socket in its own folder. Both are removed with it.
struct Store {
    program: PathBuf,
    folder: PathBuf,
    process: Child,
}

impl Store {
    /// Starts a store. `None` if no server is installed.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    async fn start() -> Option<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let names = ["valkey-server", "redis-server"];
        let places = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"];
        let programs = names.iter().flat_map(|name| places.map(|place| PathBuf::from(place).join(name)));
        let Some(program) = programs.into_iter().find(|program| program.exists()) else {
            eprintln!("skipped: there is neither valkey-server nor redis-server on this machine");
            return None;
        };
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let folder = std::env::temp_dir().join(format!("glossator-store-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let process = Self::run(&program, &folder);
        let store = Self { program, folder, process };
        store.answers().await;
        Some(store)
    }

    fn run(program: &PathBuf, folder: &PathBuf) -> Child {
        let mut command = Command::new(program);
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket", "store.sock"]);
        command.args(["--requirepass", "s3cr3t"]).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    async fn answers(&self) {
        let socket = self.folder.join("store.sock");
        soon("the store", async {
            while UnixStream::connect(&socket).await.is_err() {
                yield_now().await;
            }
        })
        .await;
    }

    /// Kills it: all its data is lost.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    async fn start_again(&mut self) {
        self.process = Self::run(&self.program, &self.folder);
        self.answers().await;
    }

    /// Replica with these routes in front of `upstream`, connected to the store.
    async fn replica(&self, upstream: &Scripted, routes: &str) -> Loaded {
        let text = format!(
            "server: {{ secret_key: 0123456789abcdef }}\nshared_state: {{ url: 'unix:{}/store.sock', password: s3cr3t }}\n\
             upstreams: {{ old: 'http://{}' }}\nroutes:\n{routes}",
            self.folder.display(),
            upstream.address
        );
        let loaded = config::load(&Sources::from_text("a.yaml", text));
        let mut replica = Loaded::start(&loaded.unwrap_or_else(|problems| panic!("{problems}"))).await;
        replica.app.join_replicas().await;
        // The replica waits only for the timeout of one response, and a busy machine may need longer.
        until_up(&replica, true).await;
        replica
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn is_up(replica: &Loaded) -> bool {
    replica.gateway.shared.as_ref().unwrap().state().is_up
}

async fn until_up(replica: &Loaded, wanted: bool) {
    soon("the store is seen to come or go", async {
        while is_up(replica) != wanted {
            yield_now().await;
        }
    })
    .await;
}

async fn call(replica: &Loaded, tool: &str) -> u16 {
    let path = format!("POST /tools/{tool}");
    replica.connect().await.send(&path, &["Content-Type: application/json"], "{}").await.status
}

async fn counting() -> (Scripted, Arc<AtomicUsize>) {
    let request_count = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&request_count);
    let upstream = Scripted::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        vec![Step::Send(response("200 OK", "text/plain", &format!("reply {number}")))]
    })
    .await;
    (upstream, request_count)
}

const LIMITED: &str =
    "  limited: { description: x, request: GET old/a, rate_limit_per_client: { rate: 5 per hour } }
  refused: { description: x, request: GET old/b, rate_limit: { rate: 5 per hour, on_store_failure: deny } }
  allowed: { description: x, request: GET old/c, rate_limit: { rate: 5 per hour, on_store_failure: allow } }
  kept: { description: x, request: GET old/d, cache: 1h }
";

/// Runs a command in the store that no replica uses, and returns the response.
async fn send_command(store: &Store, command: &str) -> String {
    let mut stream = UnixStream::connect(store.folder.join("store.sock")).await.unwrap();
    stream.write_all(format!("AUTH s3cr3t\r\n{command}\r\nQUIT\r\n").as_bytes()).await.unwrap();
    let mut reply = String::new();
    soon("its answer", stream.read_to_string(&mut reply)).await.unwrap();
    reply
}

/// Number of admitted calls, alternating between replicas.
async fn through(replicas: [&Loaded; 2], tool: &str) -> usize {
    let mut through = 0;
    for number in 0..16 {
        let status = call(replicas[number % 2], tool).await;
        assert!([200, 429, 503].contains(&status), "{status}");
        through += usize::from(status == 200);
    }
    through
}

#[tokio::test]
async fn limits_apply_across_replicas_and_follow_on_store_failure() {
    let Some(mut store) = Store::start().await else { return };
    let (upstream, _) = counting().await;
    let one = store.replica(&upstream, LIMITED).await;
    let other = store.replica(&upstream, LIMITED).await;
    for tool in ["limited", "refused", "allowed"] {
        assert_eq!(through([&one, &other], tool).await, 5, "{tool}");
    }
    store.kill();
    let fresh = [(); 2].map(|()| &one);
    until_up(&one, false).await;
    until_up(&other, false).await;
    assert_eq!(through(fresh, "allowed").await, 16);
    assert_eq!(through(fresh, "refused").await, 0);
    assert_eq!(call(&one, "refused").await, 429, "what is too much of one is too much of all");
    store.start_again().await;
    until_up(&one, true).await;
    until_up(&other, true).await;
    // The store has lost its data, but each replica still counts the calls that it admitted itself.
    assert!(through([&one, &other], "limited").await <= 5);
}

#[tokio::test]
async fn a_response_cached_by_one_replica_is_served_by_all() {
    let Some(mut store) = Store::start().await else { return };
    let (upstream, request_count) = counting().await;
    let one = store.replica(&upstream, LIMITED).await;
    assert_eq!(call(&one, "kept").await, 200);
    let key = || one.gateway.shared.as_ref().unwrap().counts().get("success");
    soon("it is written", async {
        while key() < 2 {
            yield_now().await;
        }
    })
    .await;
    // Written before it is read: both use the same connection, in order.
    let other = store.replica(&upstream, LIMITED).await;
    let mut client = other.connect().await;
    let given = client.send("POST /tools/kept", &["Content-Type: application/json"], "{}").await;
    assert_eq!((given.tool_text().as_str(), given.header("age").is_some()), ("reply 0", true));
    assert_eq!(request_count.load(Ordering::SeqCst), 1);
    store.kill();
    until_up(&other, false).await;
    assert_eq!(call(&other, "kept").await, 200);
    assert_eq!(request_count.load(Ordering::SeqCst), 1, "it is the replica's own by now");
}

#[tokio::test]
async fn a_change_is_notified_by_every_replica_with_shared_subscriptions() {
    let Some(mut store) = Store::start().await else { return };
    let version = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&version);
    let upstream = Scripted::start(move |_| {
        let text = format!("news {}", now.load(Ordering::SeqCst));
        vec![Step::Send(response("200 OK", "text/plain", &text))]
    })
    .await;
    let resource = |watch: &str| {
        format!(
            "  news: {{ description: x, request: GET old/news, resource: {{ uri: 'news:all', poll_interval: {watch} }} }}\n"
        )
    };
    // One polls often; the other would not poll again during this test.
    let quick = store.replica(&upstream, &resource("100ms")).await;
    let slow = store.replica(&upstream, &resource("1d")).await;
    let id = session(&mut quick.connect().await).await;
    let header = format!("Mcp-Session-Id: {id}\r\n");
    let mut stream = slow.connect().await;
    stream.write(get(&id)).await;
    stream.read_until("text/event-stream").await;
    let subscribe = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": { "uri": "news:all" } });
    let mut client = quick.connect().await;
    assert_eq!(send(&mut client, "2025-11-25", subscribe.clone(), &header).await.json()["result"], json!({}));
    // The replica with the stream is notified, and polls once.
    let watches = async |replica: &Loaded, count: usize| {
        soon("it is watched there", async {
            while replica.gateway.watched() != count {
                yield_now().await;
            }
        })
        .await;
    };
    watches(&slow, 1).await;
    // With a client at the other replica too, it polls repeatedly.
    let mut watching = quick.connect().await;
    watching.write(get(&id)).await;
    watching.read_until("text/event-stream").await;
    watches(&quick, 1).await;
    upstream.until("both have looked", |state| state.requests.len() >= 4).await;
    version.fetch_add(1, Ordering::SeqCst);
    for client in [&mut stream, &mut watching] {
        let received = client.read_until("notifications/resources/updated").await;
        assert!(received.contains("news:all"), "{received}");
    }
    // A replica that starts later, with another store than before, recognizes the contents.
    let late = store.replica(&upstream, &resource("1d")).await;
    let mut stream = late.connect().await;
    stream.write(get(&id)).await;
    stream.read_until("text/event-stream").await;
    watches(&late, 1).await;
    // Subscriptions from the time without the store are published once it is back.
    store.kill();
    until_up(&quick, false).await;
    let ended = json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/unsubscribe", "params": { "uri": "news:all" } });
    for content in [ended, subscribe] {
        assert_eq!(send(&mut client, "2025-11-25", content, &header).await.json()["result"], json!({}));
    }
    store.start_again().await;
    until_up(&quick, true).await;
    let again = store.replica(&upstream, &resource("1d")).await;
    soon("another replica hears of it", async {
        loop {
            let mut stream = again.connect().await;
            stream.write(get(&id)).await;
            stream.read_until("text/event-stream").await;
            if again.gateway.watched() == 1 {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_that_is_ended_is_taken_by_no_replica() {
    let Some(store) = Store::start().await else { return };
    let (upstream, _) = counting().await;
    let one = store.replica(&upstream, LIMITED).await;
    let other = store.replica(&upstream, LIMITED).await;
    let id = session(&mut one.connect().await).await;
    let header = format!("Mcp-Session-Id: {id}");
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let asks = async |client: &mut Client| {
        let headers =
            ["Content-Type: application/json", "Accept: application/json, text/event-stream", &header];
        client.send("POST /mcp", &headers, list).await.status
    };
    assert_eq!(asks(&mut other.connect().await).await, 200);
    assert_eq!(one.connect().await.send("DELETE /mcp", &[&header], "").await.status, 204);
    soon("the other hears of it", async {
        while asks(&mut other.connect().await).await != 404 {
            yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn entries_of_other_writers_in_the_store_are_ignored() {
    let Some(store) = Store::start().await else { return };
    let (upstream, request_count) = counting().await;
    let one = store.replica(&upstream, LIMITED).await;
    assert_eq!((call(&one, "kept").await, call(&one, "limited").await), (200, 200));
    let counted = || one.gateway.shared.as_ref().unwrap().counts().get("success");
    soon("it is written", async {
        while counted() < 3 {
            yield_now().await;
        }
    })
    .await;
    for instead in [
        "redis.call('RPUSH', key, 'x')",
        "redis.call('SET', key, string.rep('x', 3000000))",
        "redis.call('SET', key, '99999999999999999')",
    ] {
        let script = format!(
            "EVAL \"local all = redis.call('KEYS', 'glossator:*') for _, key in ipairs(all) do redis.call('DEL', key) {instead} end return #all\" 0"
        );
        let reply = send_command(&store, &script).await;
        assert!(reply.contains(":2\r\n"), "{reply}");
        let before = request_count.load(Ordering::SeqCst);
        let other = store.replica(&upstream, LIMITED).await;
        assert_eq!(call(&other, "kept").await, 200, "{instead}");
        assert_eq!(request_count.load(Ordering::SeqCst), before + 1, "{instead}");
        assert_eq!(through([&other, &other], "limited").await, 5, "{instead}");
        assert!(is_up(&other));
    }
    // Keys in the store reveal nothing about the content.
    let reply = send_command(&store, "KEYS *").await;
    assert!(reply.contains("glossator:response:") && reply.contains("glossator:rate:"), "{reply}");
    for word in ["limited", "kept", "127.0.0.1", "old"] {
        assert!(!reply.contains(word), "{reply}");
    }
}
