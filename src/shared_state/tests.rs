//! A store that is not there, hangs, or says anything at all: nobody waits for it longer than its timeout.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::seal::Secret;

const TIMEOUT: Duration = Duration::from_millis(40);
/// Fails a test that would otherwise hang.
const PATIENCE: Duration = Duration::from_secs(20);

fn store_at(port: u16) -> SharedStore {
    SharedStore::new(StoreSettings {
        address: format!("redis://127.0.0.1:{port}").parse().unwrap(),
        tls: None,
        user: None,
        password: Some("s3cr3t".to_owned()),
        database: 0,
        prefix: "test".to_owned(),
        timeout: TIMEOUT,
        entry_limit_bytes: 1000,
        secret: Secret::new(b"the same for all").unwrap(),
    })
}

/// A server that answers the first so many commands with good words, and what follows with these; on each connection.
async fn server(good: usize, then: &'static [u8]) -> SharedStore {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut buffer, mut answered) = ([0; 4096], 0);
                while let Ok(1..) = stream.read(&mut buffer).await {
                    // Each command waits for the answer to the one before it, at the beginning of a connection.
                    let answer: &[u8] = if answered < good { b"+OK\r\n" } else { then };
                    answered += 1;
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    store_at(port)
}

/// `HELLO`, and a `SCRIPT LOAD` for each script.
const TO_BEGIN: usize = 1 + scripts::ALL.len();

async fn until(store: &SharedStore, is_up: bool) {
    let seen = async {
        while store.is_reachable() != is_up {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.expect("it is seen");
}

#[tokio::test]
async fn nobody_waits_for_a_store_that_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let store = store_at(port);
    assert_eq!(store.get("a").await, Err(Unreachable), "before it is begun");
    store.begin().await;
    let begun = Instant::now();
    for _ in 0..1000 {
        assert_eq!(store.take("a", TIMEOUT, TIMEOUT).await, Err(Unreachable));
    }
    assert!(begun.elapsed() < TIMEOUT * 25, "{:?}", begun.elapsed());
    assert_eq!((store.counts().asked(), store.counts().failed()), (1001, 1001));
}

#[tokio::test]
async fn a_store_that_hangs_is_given_up_after_some_commands() {
    let store = server(TO_BEGIN, b"").await;
    store.begin().await;
    until(&store, true).await;
    let mut waited = 0;
    while store.is_reachable() {
        let begun = Instant::now();
        assert_eq!(store.get("a").await, Err(Unreachable));
        waited += usize::from(begun.elapsed() >= TIMEOUT);
        // Who gives the connection up is another task.
        tokio::task::yield_now().await;
    }
    assert!((3..=4).contains(&waited), "{waited}");
}

#[tokio::test]
async fn a_store_that_lets_us_in_and_is_of_no_use_is_tried_less_and_less() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let store = store_at(listener.local_addr().unwrap().port());
    store.begin().await;
    let (mut buffer, mut came) = ([0; 4096], Vec::new());
    while came.len() < 4 {
        let (mut stream, _) = listener.accept().await.unwrap();
        came.push(Instant::now());
        for _ in 0..TO_BEGIN {
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(b"+OK\r\n").await;
        }
    }
    // 100, 200 and 400 ms.
    assert!(came[3] - came[0] >= Duration::from_millis(650), "{:?}", came[3] - came[0]);
}

#[tokio::test]
async fn a_store_that_never_says_hello_is_none() {
    let store = server(0, b"").await;
    store.begin().await;
    assert!(!store.is_reachable());
    assert_eq!(store.members("a").await, Err(Unreachable));
}

#[tokio::test]
async fn a_store_that_refuses_us_is_none() {
    let store = server(0, b"-WRONGPASS invalid username-password pair or user is disabled.\r\n").await;
    store.begin().await;
    assert!(!store.is_reachable());
}

#[tokio::test]
async fn whatever_a_store_says_is_an_answer_or_none() {
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
        let store = server(TO_BEGIN, said).await;
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
async fn what_is_told_is_heard_by_those_with_the_secret_and_by_nobody_else() {
    let memory = Memory::default();
    let [one, other] = [(); 2].map(|()| SharedStore::in_memory(&memory));
    let mut heard = other.listen();
    let message = Message::Changed { uri: "a:b".into(), fingerprint: 7 };
    one.tell(&message);
    assert_eq!(heard.recv().await.unwrap(), Heard::Message(message));
    memory.say(b"{\"ended\":{\"session\":\"x\"}}");
    assert!(heard.try_recv().is_err());
    assert_eq!(other.counts().foreign(), 1);
}

#[test]
fn settings_do_not_tell_the_password() {
    let shown = format!("{:?}", store_at(1));
    assert!(shown.contains("127.0.0.1") && !shown.contains("s3cr3t"), "{shown}");
}
