//! Tests with a store that is unreachable, hangs, or returns arbitrary bytes: no operation takes longer than
//! its timeout.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::crypto::SecretKey;
use crate::settings::FromText;

pub(crate) mod memory;

const TIMEOUT: Duration = Duration::from_millis(40);
/// Fails a test that would otherwise hang.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

fn settings(address: &str) -> StoreSettings {
    StoreSettings {
        address: StoreAddress::from_text(address).unwrap(),
        tls: None,
        user: None,
        password: Some("s3cr3t".to_owned()),
        sentinel_user: None,
        sentinel_password: None,
        database: None,
        prefix: "test".to_owned(),
        timeout: TIMEOUT,
        entry_limit_bytes: 1000,
    }
}

fn secret() -> SecretKey {
    SecretKey::new(b"the same for all").unwrap()
}

fn store_at(port: u16) -> SharedStore {
    SharedStore::new(settings(&format!("redis://127.0.0.1:{port}")), &secret())
}

async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// Parses the commands on a connection.
struct Commands {
    stream: TcpStream,
    lines: VecDeque<String>,
}

impl Commands {
    fn new(stream: TcpStream) -> Self {
        Self { stream, lines: VecDeque::new() }
    }

    /// The name of the next command. Except for encrypted values, the commands of tests have no line breaks.
    async fn next(&mut self) -> Option<String> {
        let (mut buffer, mut text) = ([0; 4096], String::new());
        while self.lines.is_empty() {
            let count = self.stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
            let lines: Vec<&str> = text.split("\r\n").collect();
            let begins = |index: usize| lines[index].starts_with('*') && lines[index + 1].starts_with('$');
            let starts = (0..lines.len().saturating_sub(2)).filter(|index| begins(*index));
            self.lines = starts.map(|index| lines[index + 2].to_owned()).collect();
        }
        self.lines.pop_front()
    }

    /// Sends valid responses to the first `good` commands, and `then` to each further one.
    async fn respond(mut self, good: usize, then: &[u8]) {
        let mut number = 0;
        while let Some(name) = self.next().await {
            let response = if number < good { good_response(&name) } else { then };
            number += 1;
            if self.stream.write_all(response).await.is_err() {
                return;
            }
        }
    }
}

fn good_response(name: &str) -> &'static [u8] {
    match name {
        "SUBSCRIBE" => b">3\r\n$9\r\nsubscribe\r\n$18\r\ntest:notifications\r\n:1\r\n",
        "EVALSHA" => b"*2\r\n$0\r\n\r\n:-2\r\n",
        _ => b"+OK\r\n",
    }
}

/// `HELLO`, two commands with the client's name and version, `SUBSCRIBE`, and a script as a probe.
const TO_BEGIN: usize = 5;

/// A server that sends valid responses to the first `good` commands of each connection, and `then` to the
/// others.
async fn server(good: usize, then: &'static [u8]) -> u16 {
    let (listener, port) = listen().await;
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(Commands::new(stream).respond(good, then));
        }
    });
    port
}

async fn until(store: &SharedStore, is_up: bool) {
    let seen = async {
        while store.state().is_up != is_up {
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, seen).await.expect("it is seen");
}

#[tokio::test]
async fn calls_do_not_wait_for_an_unreachable_store() {
    let (listener, port) = listen().await;
    drop(listener);
    let store = store_at(port);
    assert_eq!(store.get("a").await, Err(StoreUnreachable), "before it is begun");
    store.begin().await;
    let started = Instant::now();
    for _ in 0..1000 {
        assert_eq!(store.take("a", TIMEOUT, TIMEOUT).await, Err(StoreUnreachable));
    }
    assert!(started.elapsed() < TIMEOUT * 25, "{:?}", started.elapsed());
    assert_eq!((store.counts().get("success"), store.counts().get("failed")), (0, 1001));
}

#[tokio::test]
async fn a_hanging_store_is_disconnected_after_some_commands() {
    let store = store_at(server(TO_BEGIN, b"").await);
    store.begin().await;
    until(&store, true).await;
    let mut waited = 0;
    while store.state().is_up {
        let started = Instant::now();
        assert_eq!(store.get("a").await, Err(StoreUnreachable));
        waited += usize::from(started.elapsed() >= TIMEOUT);
        // Another task closes the connection.
        tokio::task::yield_now().await;
    }
    assert!((3..=4).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_server_that_is_no_longer_primary_is_disconnected_at_once() {
    let store =
        store_at(server(TO_BEGIN, b"-READONLY You can't write against a read only replica.\r\n").await);
    store.begin().await;
    until(&store, true).await;
    assert_eq!(store.take("a", TIMEOUT, TIMEOUT).await, Err(StoreUnreachable));
    until(&store, false).await;
    assert_eq!((store.counts().get("success"), store.counts().get("failed")), (0, 1));
}

#[tokio::test]
async fn a_store_that_lets_us_in_and_is_of_no_use_is_tried_less_and_less() {
    let (listener, port) = listen().await;
    let store = store_at(port);
    store.begin().await;
    let mut came = Vec::new();
    while came.len() < 4 {
        let (stream, _) = listener.accept().await.unwrap();
        came.push(Instant::now());
        let mut commands = Commands::new(stream);
        for _ in 0..TO_BEGIN {
            let Some(name) = commands.next().await else { break };
            let _ = commands.stream.write_all(good_response(&name)).await;
        }
    }
    // 100, 200 and 400 ms.
    assert!(came[3] - came[0] >= Duration::from_millis(650), "{:?}", came[3] - came[0]);
}

#[tokio::test]
async fn a_store_without_a_login_response_is_unreachable() {
    let store = store_at(server(0, b"").await);
    store.begin().await;
    assert!(!store.state().is_up);
    assert_eq!(store.members("a").await, Err(StoreUnreachable));
}

#[tokio::test]
async fn a_store_that_is_loading_is_none() {
    let store = store_at(server(TO_BEGIN - 1, b"-LOADING the dataset is in memory soon\r\n").await);
    store.begin().await;
    assert!(!store.state().is_up);
}

#[tokio::test]
async fn a_failed_login_does_not_log_the_password() {
    for (said, expected) in [
        (b"-WRONGPASS invalid username-password pair\r\n".as_slice(), "WRONGPASS"),
        (b"-WRONGPASS invalid password s3cr3t\r\n", "WRONGPASS"),
        (b"-s3cr3t\r\n", "…"),
        (
            b"-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `s3cr3\r\n",
            "older than Redis 6",
        ),
        (b"-ERR unknown command 'EVALSHA', with args beginning with: 'x'\r\n", "'EVALSHA'"),
    ] {
        let port = server(0, said).await;
        let settings = settings(&format!("redis://127.0.0.1:{port}"));
        let error =
            redis_connection::OpenConnection::open(&settings, "test:notifications").await.err().unwrap();
        assert!(error.contains(expected) && !error.contains("s3cr3"), "{error}");
    }
}

#[tokio::test]
async fn sentinels_are_queried_in_turn_until_one_knows_the_primary() {
    let (gone, gone_port) = listen().await;
    drop(gone);
    let primary = server(usize::MAX, b"").await.to_string();
    // Its login differs from that of the server.
    let knows = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{primary}\r\n", primary.len());
    let knows = server(TO_BEGIN - 2, knows.leak().as_bytes()).await;
    let ignorant = server(TO_BEGIN - 2, b"_\r\n").await;
    let address = |last| {
        format!("redis+sentinel://127.0.0.1:{gone_port},127.0.0.1:{ignorant},127.0.0.1:{last}/mymaster")
    };
    let store = SharedStore::new(settings(&address(knows)), &secret());
    store.begin().await;
    until(&store, true).await;
    let error = redis_connection::OpenConnection::open(&settings(&address(ignorant)), "test:notifications")
        .await
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        format!("Sentinel 127.0.0.1:{ignorant} does not know the primary `mymaster`")
    );
}

#[tokio::test]
async fn any_bytes_of_a_store_are_a_response_or_an_error() {
    for said in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".as_slice(),
        b"$99999999999\r\n",
        b"*2\r\n$-1\r\n_\r\n",
        b"*2\r\n$3\r\nabc\r\n:5000\r\n",
        b">3\r\n$7\r\nmessage\r\n+x\r\n$3\r\nabc\r\n:1\r\n",
        b"-LOADING the dataset is in memory soon\r\n",
        b"+OK\r\n+OK\r\n+OK\r\n",
        b":-9223372036854775808\r\n",
        b"\xff\xfe\r\n",
    ] {
        let store = store_at(server(TO_BEGIN, said).await);
        store.begin().await;
        until(&store, true).await;
        for _ in 0..4 {
            if let Ok(found) = store.get("a").await {
                assert_eq!(found, None, "it was not sealed by a replica");
            }
            let _ = store.take("a", TIMEOUT, TIMEOUT).await;
            let _ = store.add("a", b"b", 1, TIMEOUT).await;
            assert!(store.members("a").await.unwrap_or_default().is_empty());
        }
    }
}

#[tokio::test]
async fn a_message_is_readable_only_with_the_secret() {
    let memory = MemoryStore::default();
    let [one, other] = [(); 2].map(|()| SharedStore::in_memory(&memory));
    let mut heard = other.subscribe();
    let message = ReplicaMessage::Changed { uri: "a:b".into(), fingerprint: 7 };
    one.publish(&message);
    assert_eq!(heard.recv().await.unwrap(), ReplicaEvent::Message(message));
    memory.publish(b"{\"ended\":{\"session\":\"x\"}}");
    assert!(heard.try_recv().is_err());
    assert_eq!(other.counts().get("undecryptable"), 1);
}

#[test]
fn a_log_level_is_the_same_word_in_messages_of_all_versions() {
    let message = ReplicaMessage::Level { session: "x".into(), level: McpLogLevel::Warning };
    assert_eq!(json!(message), json!({ "level": { "session": "x", "level": "warning" } }));
}

#[test]
fn settings_do_not_show_the_password() {
    let shown = format!("{:?}", store_at(1));
    assert!(shown.contains("127.0.0.1") && !shown.contains("s3cr3t"), "{shown}");
}
