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
            let is_command_start =
                |index: usize| lines[index].starts_with('*') && lines[index + 1].starts_with('$');
            let starts = (0..lines.len().saturating_sub(2)).filter(|index| is_command_start(*index));
            self.lines = starts.map(|index| lines[index + 2].to_owned()).collect();
        }
        self.lines.pop_front()
    }

    /// Sends valid responses to the first `valid_count` commands, and `further_response` to each further
    /// one.
    async fn respond(mut self, valid_count: usize, further_response: &[u8]) {
        let mut number = 0;
        while let Some(name) = self.next().await {
            let response = if number < valid_count { valid_response(&name) } else { further_response };
            number += 1;
            if self.stream.write_all(response).await.is_err() {
                return;
            }
        }
    }
}

fn valid_response(name: &str) -> &'static [u8] {
    match name {
        "SUBSCRIBE" => b">3\r\n$9\r\nsubscribe\r\n$18\r\ntest:notifications\r\n:1\r\n",
        "EVALSHA" => b"*2\r\n$0\r\n\r\n:-2\r\n",
        _ => b"+OK\r\n",
    }
}

/// `HELLO`, two commands with the client's name and version, `SUBSCRIBE`, and a script as a probe.
const SETUP_COMMANDS: usize = 5;

/// A server that sends valid responses to the first `valid_count` commands of each connection, and
/// `further_response` to the others.
async fn server(valid_count: usize, further_response: &'static [u8]) -> u16 {
    let (listener, port) = listen().await;
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(Commands::new(stream).respond(valid_count, further_response));
        }
    });
    port
}

async fn wait_until(store: &SharedStore, is_up: bool) {
    let reached = async {
        while store.state().is_up != is_up {
            tokio::task::yield_now().await;
        }
    };
    timeout(TEST_TIMEOUT, reached).await.expect("it is seen");
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
    let store = store_at(server(SETUP_COMMANDS, b"").await);
    store.begin().await;
    wait_until(&store, true).await;
    let mut timeout_count = 0;
    while store.state().is_up {
        let started = Instant::now();
        assert_eq!(store.get("a").await, Err(StoreUnreachable));
        timeout_count += usize::from(started.elapsed() >= TIMEOUT);
        // Another task closes the connection.
        tokio::task::yield_now().await;
    }
    assert!((3..=4).contains(&timeout_count), "{timeout_count}");
}

#[tokio::test]
async fn a_server_that_is_no_longer_primary_is_disconnected_at_once() {
    let store =
        store_at(server(SETUP_COMMANDS, b"-READONLY You can't write against a read only replica.\r\n").await);
    store.begin().await;
    wait_until(&store, true).await;
    assert_eq!(store.take("a", TIMEOUT, TIMEOUT).await, Err(StoreUnreachable));
    wait_until(&store, false).await;
    assert_eq!((store.counts().get("success"), store.counts().get("failed")), (0, 1));
}

#[tokio::test]
async fn a_store_that_lets_us_in_and_is_of_no_use_is_tried_less_and_less() {
    let (listener, port) = listen().await;
    let store = store_at(port);
    store.begin().await;
    let mut accept_times = Vec::new();
    while accept_times.len() < 4 {
        let (stream, _) = listener.accept().await.unwrap();
        accept_times.push(Instant::now());
        let mut commands = Commands::new(stream);
        for _ in 0..SETUP_COMMANDS {
            let Some(name) = commands.next().await else { break };
            let _ = commands.stream.write_all(valid_response(&name)).await;
        }
    }
    // 100, 200 and 400 ms.
    assert!(
        accept_times[3] - accept_times[0] >= Duration::from_millis(650),
        "{:?}",
        accept_times[3] - accept_times[0]
    );
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
    let store = store_at(server(SETUP_COMMANDS - 1, b"-LOADING the dataset is in memory soon\r\n").await);
    store.begin().await;
    assert!(!store.state().is_up);
}

#[tokio::test]
async fn a_failed_login_does_not_log_the_password() {
    for (response, expected) in [
        (b"-WRONGPASS invalid username-password pair\r\n".as_slice(), "WRONGPASS"),
        (b"-WRONGPASS invalid password s3cr3t\r\n", "WRONGPASS"),
        (b"-s3cr3t\r\n", "…"),
        (
            b"-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `s3cr3\r\n",
            "older than Redis 6",
        ),
        (b"-ERR unknown command 'EVALSHA', with args beginning with: 'x'\r\n", "'EVALSHA'"),
    ] {
        let port = server(0, response).await;
        let settings = settings(&format!("redis://127.0.0.1:{port}"));
        let error =
            redis_connection::OpenConnection::open(&settings, "test:notifications").await.err().unwrap();
        assert!(error.contains(expected) && !error.contains("s3cr3"), "{error}");
    }
}

#[tokio::test]
async fn sentinels_are_queried_in_turn_until_one_knows_the_primary() {
    let (closed_listener, closed_port) = listen().await;
    drop(closed_listener);
    let primary = server(usize::MAX, b"").await.to_string();
    // Its login differs from that of the server.
    let primary_address = format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{primary}\r\n", primary.len());
    let knowing_port = server(SETUP_COMMANDS - 2, primary_address.leak().as_bytes()).await;
    let ignorant_port = server(SETUP_COMMANDS - 2, b"_\r\n").await;
    let address = |last| {
        format!(
            "redis+sentinel://127.0.0.1:{closed_port},127.0.0.1:{ignorant_port},127.0.0.1:{last}/mymaster"
        )
    };
    let store = SharedStore::new(settings(&address(knowing_port)), &secret());
    store.begin().await;
    wait_until(&store, true).await;
    let error =
        redis_connection::OpenConnection::open(&settings(&address(ignorant_port)), "test:notifications")
            .await
            .err()
            .unwrap();
    assert_eq!(
        error.to_string(),
        format!("Sentinel 127.0.0.1:{ignorant_port} does not know the primary `mymaster`")
    );
}

#[tokio::test]
async fn any_bytes_of_a_store_are_a_response_or_an_error() {
    for response in [
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
        let store = store_at(server(SETUP_COMMANDS, response).await);
        store.begin().await;
        wait_until(&store, true).await;
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
    let [publisher, subscriber] = [(); 2].map(|()| SharedStore::in_memory(&memory));
    let mut events = subscriber.subscribe();
    let message = ReplicaMessage::Changed { uri: "a:b".into(), fingerprint: 7 };
    publisher.publish(&message);
    assert_eq!(events.recv().await.unwrap(), ReplicaEvent::Message(message));
    memory.publish(b"{\"ended\":{\"session\":\"x\"}}");
    assert!(events.try_recv().is_err());
    assert_eq!(subscriber.counts().get("undecryptable"), 1);
}

#[test]
fn a_log_level_is_the_same_word_in_messages_of_all_versions() {
    let message = ReplicaMessage::Level { session: "x".into(), level: McpLogLevel::Warning };
    assert_eq!(json!(message), json!({ "level": { "session": "x", "level": "warning" } }));
}

#[test]
fn settings_do_not_show_the_password() {
    let formatted = format!("{:?}", store_at(1));
    assert!(formatted.contains("127.0.0.1") && !formatted.contains("s3cr3t"), "{formatted}");
}
