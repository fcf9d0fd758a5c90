//! Raw HTTP client that writes and reads bytes.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::soon;

/// Connection to the program.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    address: SocketAddr,
    unread: Vec<u8>,
}

/// HTTP response.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// Value of a header. Several are joined.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let values: Vec<_> = fields
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }

    /// Text of the first block of a tool result.
    #[track_caller]
    pub(crate) fn tool_text(&self) -> String {
        self.json()["content"][0]["text"].as_str().expect("a text block").to_owned()
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self { stream: TcpStream::connect(address).await.unwrap(), address, unread: Vec::new() }
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Sends a request and reads the response. `headers` are whole lines; `Host` and `Content-Length` are
    /// added.
    #[track_caller]
    pub(crate) fn send(
        &mut self,
        line: &str,
        headers: &[&str],
        body: &str,
    ) -> impl Future<Output = Response> {
        let mut request = format!("{line} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for header in headers {
            request.push_str(&format!("{header}\r\n"));
        }
        if !body.is_empty() {
            request.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        request.push_str(&format!("\r\n{body}"));
        let head_only = line.starts_with("HEAD ");
        soon(format!("answer to {line}"), async move {
            self.write(request).await;
            self.read(head_only).await
        })
    }

    /// Reads until the bytes of this response contain `words`.
    pub(crate) async fn read_until(&mut self, words: &str) -> String {
        soon(format!("{words:?} in a response"), async {
            loop {
                let text = String::from_utf8_lossy(&self.unread).into_owned();
                if text.contains(words) {
                    return text;
                }
                assert!(self.more().await, "the response ended with {text:?}");
            }
        })
        .await
    }

    /// Reads until there are more bytes than these of this response.
    pub(crate) async fn read_more_than(&mut self, count: usize) {
        while self.unread.len() <= count {
            assert!(self.more().await, "the response ended");
        }
    }

    /// Reads until the other side closes the connection.
    pub(crate) async fn read_to_end(&mut self) -> String {
        soon("the end of the connection", async { while self.more().await {} }).await;
        String::from_utf8_lossy(&self.unread).into_owned()
    }

    /// Whether the other side has closed the connection without further data.
    pub(crate) async fn is_closed(&mut self) -> bool {
        soon("the end of the connection", async { self.unread.is_empty() && !self.more().await }).await
    }

    /// Reads one response.
    pub(crate) async fn read(&mut self, head_only: bool) -> Response {
        let end = loop {
            if let Some(end) = self.unread.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            assert!(self.more().await, "no response, but {:?}", String::from_utf8_lossy(&self.unread));
        };
        let head: Vec<u8> = self.unread.drain(..end).collect();
        let head = String::from_utf8(head).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut response = Response { status, head, body: Vec::new() };
        if head_only || status == 204 || status == 304 {
            return response;
        }
        if response.header("transfer-encoding").as_deref() == Some("chunked") {
            loop {
                let size = self.line().await;
                let size = usize::from_str_radix(size.trim(), 16).unwrap();
                let chunk = self.take(size).await;
                response.body.extend(chunk);
                self.line().await;
                if size == 0 {
                    return response;
                }
            }
        }
        match response.header("content-length") {
            Some(length) => response.body = self.take(length.parse().unwrap()).await,
            None => {
                while self.more().await {}
                response.body = std::mem::take(&mut self.unread);
            }
        }
        response
    }

    async fn line(&mut self) -> String {
        let end = loop {
            if let Some(end) = self.unread.windows(2).position(|window| window == b"\r\n") {
                break end + 2;
            }
            assert!(self.more().await, "cut off inside a line");
        };
        String::from_utf8(self.unread.drain(..end).collect()).unwrap()
    }

    async fn take(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count {
            assert!(self.more().await, "cut off inside a body");
        }
        self.unread.drain(..count).collect()
    }

    async fn more(&mut self) -> bool {
        let mut buffer = vec![0; 64 << 10];
        match self.stream.read(&mut buffer).await {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.unread.extend_from_slice(&buffer[..count]);
                true
            }
        }
    }
}
