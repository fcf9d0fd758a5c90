//! How many connections there are, and how long.

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::watch,
    task::JoinSet,
};

use super::*;
use crate::upstream::http::ConnectTimedOut;

/// A server that answers `ok` with a header, and how many connections to it were opened and are open.
async fn server(header: &'static str) -> (Address, watch::Receiver<(usize, usize)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let (told, seen) = watch::channel((0, 0));
    let told = Arc::new(told);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            told.send_modify(|(opened, open)| (*opened, *open) = (*opened + 1, *open + 1));
            let told = told.clone();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer).await {
                    let reply = format!("HTTP/1.1 200 OK\r\n{header}Content-Length: 2\r\n\r\nok");
                    stream.write_all(reply.as_bytes()).await.unwrap();
                }
                told.send_modify(|(_, open)| *open -= 1);
            });
        }
    });
    (address, seen)
}

fn pool(address: &Address, idle_connections: usize) -> Arc<Pool> {
    let settings = HttpSettings::new("old".parse().unwrap(), address.clone());
    let settings = HttpSettings { idle_connections, ..settings };
    Pool::new(&settings, address, Connector::new(&settings, address, address.ip()))
}

fn request(address: &Address) -> Request<Outgoing> {
    let mut request = Request::new(Outgoing::whole(Bytes::new()));
    (*request.method_mut(), *request.uri_mut()) = (Method::GET, address.itself().unwrap());
    request
}

async fn ask(pool: &Arc<Pool>, address: &Address) -> Bytes {
    pool.send(request(address)).await.unwrap().into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test]
async fn one_call_after_another_takes_the_same_connection() {
    let (address, seen) = server("").await;
    let pool = pool(&address, 8);
    for _ in 0..20 {
        assert_eq!(ask(&pool, &address).await, "ok");
    }
    assert_eq!(*seen.borrow(), (1, 1));
}

#[tokio::test]
async fn a_reply_that_is_not_read_to_its_end_closes_its_connection() {
    let (address, mut seen) = server("").await;
    let pool = pool(&address, 8);
    drop(pool.send(request(&address)).await.unwrap());
    seen.wait_for(|seen| *seen == (1, 0)).await.unwrap();
    assert_eq!(ask(&pool, &address).await, "ok");
}

#[tokio::test]
async fn no_more_are_kept_than_may_be() {
    let (address, mut seen) = server("").await;
    let pool = pool(&address, 2);
    let mut asking = JoinSet::new();
    for _ in 0..5 {
        let (pool, address) = (pool.clone(), address.clone());
        // Each holds its connection until all have one.
        asking.spawn(async move { pool.send(request(&address)).await.unwrap() });
    }
    let replies = asking.join_all().await;
    for reply in replies {
        reply.into_body().collect().await.unwrap();
    }
    seen.wait_for(|seen| *seen == (5, 2)).await.unwrap();
    drop(pool);
    seen.wait_for(|seen| *seen == (5, 0)).await.unwrap();
}

#[tokio::test]
async fn a_server_that_wants_no_second_request_gets_none() {
    let (address, mut seen) = server("Connection: close\r\n").await;
    let pool = pool(&address, 8);
    for count in 1..4 {
        assert_eq!(ask(&pool, &address).await, "ok");
        seen.wait_for(|seen| *seen == (count, 0)).await.unwrap();
    }
}

#[tokio::test]
async fn what_waits_too_long_is_closed_though_nobody_asks() {
    let (address, mut seen) = server("").await;
    let pool = pool(&address, 8);
    ask(&pool, &address).await;
    assert_eq!(*seen.borrow(), (1, 1));
    tokio::time::pause();
    tokio::time::advance(IDLE_TIMEOUT + Duration::from_millis(10)).await;
    tokio::time::resume();
    seen.wait_for(|seen| *seen == (1, 0)).await.unwrap();
    // And what comes after it is seen to as well.
    ask(&pool, &address).await;
    assert_eq!(*seen.borrow(), (2, 1));
    tokio::time::pause();
    tokio::time::advance(IDLE_TIMEOUT + Duration::from_millis(10)).await;
    tokio::time::resume();
    seen.wait_for(|seen| *seen == (2, 0)).await.unwrap();
}

#[tokio::test]
async fn who_waits_for_another_to_connect_waits_no_longer_than_connecting_may_take() {
    let address: Address = "http://127.0.0.1:9".parse().unwrap();
    let settings = HttpSettings {
        protocol: Protocol::Http2,
        connect_timeout: Duration::from_millis(20),
        ..HttpSettings::new("old".parse().unwrap(), address.clone())
    };
    let pool = Pool::new(&settings, &address, Connector::new(&settings, &address, address.ip()));
    let _connecting = pool.connecting.lock().await;
    match pool.send(request(&address)).await {
        Err(SendError::Connect(error)) => assert!(error.is::<ConnectTimedOut>(), "{error}"),
        Err(SendError::Exchange { error, .. }) => panic!("{error}"),
        Ok(_) => panic!("there is no server"),
    }
}
