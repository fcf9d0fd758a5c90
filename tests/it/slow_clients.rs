//! Clients that request long responses and do not read them.

use http::Request;
use http_body_util::{BodyExt, Full};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

use crate::{
    support::{Program, Scripted, response, soon},
    tls::{certified, get, http2_client, section},
};

const REQUEST: &[u8] = b"GET /thing HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The response has this as text and as structure, so it is more than twice as long: more than any system
/// buffers for a connection.
const RESPONSE_BYTES: usize = 7 << 20;

const LEFT: &str = "does not read a long response";

/// Buffer for less than one response. `write_timeout` alone would take longer than this test.
async fn start(more: &str) -> (Program, Scripted) {
    start_with(RESPONSE_BYTES, more).await
}

async fn start_with(reply_bytes: usize, more: &str) -> (Program, Scripted) {
    let text = format!("{{\"text\":\"{}\"}}", "a".repeat(reply_bytes));
    let upstream = Scripted::answering(response("200 OK", "application/json", &text)).await;
    let config = format!(
        "server: {{ listen: '127.0.0.1:0', write_timeout: 30s, response_buffer_limit: 8MiB{more} }}
admin: {{ listen: 'off' }}
log: {{ level: debug }}
upstreams: {{ old: 'http://{}' }}
routes: {{ get_thing: {{ description: x, request: GET old/thing, rest: GET /thing }} }}
",
        upstream.address
    );
    (Program::start(&config, &[]).await, upstream)
}

/// Client that has sent a request, with a small receive buffer.
async fn request_sent(program: &Program) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(program.address).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    stream
}

#[tokio::test]
async fn a_client_that_does_not_read_long_responses_is_evicted() {
    let (mut program, _upstream) = start("").await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(request_sent(&program).await);
    }
    let reading = async {
        let mut client = program.connect().await;
        for _ in 0..3 {
            client.write(REQUEST).await;
            assert!(client.read(false).await.text().len() > 2 * RESPONSE_BYTES, "who reads has it all");
        }
    };
    soon("long answers", reading).await;
    // A single slow client is not closed, so the last one may stay.
    program.wait_for_log(LEFT, 2).await;
    program.wait_for_log("response buffer full", 1).await;
    let mut cut_off = 0;
    for left in clients {
        let mut received = Vec::new();
        let _ = soon("what is left", left.take(2 * RESPONSE_BYTES as u64).read_to_end(&mut received)).await;
        cut_off += usize::from(received.len() < 2 * RESPONSE_BYTES);
    }
    assert!(cut_off >= 2, "{cut_off}");
}

/// Without this limit the system would buffer up to 2 MB for each, and hide slow readers.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn bytes_in_socket_buffers_are_counted_too() {
    let (mut program, _upstream) = start_with(1 << 20, "").await;
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(request_sent(&program).await);
    }
    program.wait_for_log(LEFT, 1).await;
}

/// An HTTP/2 client may leave responses unread on a healthy connection, and needs only one to leave many.
#[tokio::test]
async fn over_http_2_they_are_evicted_too() {
    let certified = certified();
    let (mut program, _upstream) = start(&format!(", {}", section(&certified, ""))).await;
    let (mut sender, connection) = http2_client(program.address, &certified).await;
    let uri = "https://localhost/thing";
    let first = get(&mut sender, uri).await;
    // On a busy machine the connection may be closed before this response has headers.
    let second = sender.send_request(Request::get(uri).body(Full::default()).unwrap()).await;
    let _ended = soon("the end of the connection", connection).await.unwrap();
    program.wait_for_log(LEFT, 1).await;
    for response in [Some(first), second.ok()].into_iter().flatten() {
        response.into_body().collect().await.unwrap_err();
    }
    let (mut sender, _connection) = http2_client(program.address, &certified).await;
    let body = get(&mut sender, uri).await.into_body();
    assert!(soon("an answer", body.collect()).await.unwrap().to_bytes().len() > 2 * RESPONSE_BYTES);
}
