//! Fault injection: an upstream whose fault is selected by the path of the request.

use super::{Gate, ReceivedRequest, Scripted, Step, response};

/// Fault that a request meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Disruption {
    /// No fault.
    None,
    /// Sends every byte separately.
    Slow,
    /// Sends nothing.
    Silent,
    /// Sends the headers, and then nothing.
    SilentAfterHead,
    /// Sends an endless body.
    Endless,
    /// Closes the connection without a response.
    Closed,
    /// Closes the connection within the body.
    CutOff,
    /// Resets the connection within the body.
    Reset,
    /// Sends the whole response, then closes its sending side.
    HalfClosed,
    /// Sends a body longer than `Content-Length`.
    LongerThanSaid,
    /// Sends two different lengths.
    TwoLengths,
    /// Sends text in another charset than declared.
    Charset,
    /// Sends a body that is not compressed as declared.
    Compression,
    /// Sends bytes that are not HTTP.
    NotHttp,
    /// Responds that it is busy.
    Busy,
    /// Responds with a server error.
    Broken,
}

impl Disruption {
    pub(crate) const ALL: [Self; 16] = [
        Self::None,
        Self::Slow,
        Self::Silent,
        Self::SilentAfterHead,
        Self::Endless,
        Self::Closed,
        Self::CutOff,
        Self::Reset,
        Self::HalfClosed,
        Self::LongerThanSaid,
        Self::TwoLengths,
        Self::Charset,
        Self::Compression,
        Self::NotHttp,
        Self::Busy,
        Self::Broken,
    ];

    /// Name in a path: `silent_after_head`.
    pub(crate) fn name(self) -> String {
        let mut name = String::new();
        for character in format!("{self:?}").chars() {
            if character.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.extend(character.to_lowercase());
        }
        name
    }

    /// Fault that a request selects: the last part of its path.
    pub(crate) fn from_request(request: &ReceivedRequest) -> Self {
        let path = request.line().split(' ').nth(1).unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let found = Self::ALL.into_iter().find(|fault| fault.name() == name);
        found.unwrap_or_else(|| panic!("no fault is called {name:?}"))
    }

    /// Steps of a server with this fault.
    pub(crate) fn steps(self) -> Vec<Step> {
        let good = || response("200 OK", "text/plain; charset=utf-8", "all is well");
        let send = |text: &str| Step::Send(text.into());
        match self {
            Self::None => vec![Step::Send(good())],
            Self::Slow => vec![Step::Trickle(good())],
            Self::Silent => vec![Step::Hold(Gate::new())],
            Self::SilentAfterHead => {
                vec![send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall"), Step::Hold(Gate::new())]
            }
            Self::Endless => {
                vec![
                    send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"),
                    Step::Endlessly(vec![b'a'; 8192]),
                ]
            }
            Self::Closed => vec![Step::Close],
            Self::CutOff => vec![send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall"), Step::Close],
            Self::Reset => vec![send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nall"), Step::Reset],
            Self::HalfClosed => vec![Step::Send(good()), Step::HalfClose],
            Self::LongerThanSaid => {
                vec![Step::Send(
                    [good(), b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil".to_vec()].concat(),
                )]
            }
            Self::TwoLengths => {
                vec![send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 9\r\n\r\nall")]
            }
            Self::Charset => {
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n\r\n";
                vec![Step::Send([head.as_bytes(), b"\xe9t\xe9"].concat())]
            }
            Self::Compression => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: 11\r\n\r\n";
                vec![Step::Send([head.as_bytes(), b"all is well"].concat())]
            }
            Self::NotHttp => vec![send("220 mail.old.test ESMTP ready\r\n"), Step::Close],
            Self::Busy => vec![Step::Send(response("503 Service Unavailable", "text/plain", "later"))],
            Self::Broken => {
                vec![Step::Send(response("500 Internal Server Error", "text/plain", "a stack trace"))]
            }
        }
    }

    /// Server whose faults are selected by the request path.
    pub(crate) async fn server() -> Scripted {
        Scripted::start(|request| Self::from_request(request).steps()).await
    }
}
