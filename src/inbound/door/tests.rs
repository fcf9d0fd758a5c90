//! Who comes in, and what is read of them.

use std::task::Poll;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
}

fn head(headers: HeaderMap) -> Parts {
    let (mut head, ()) = http::Request::post("/mcp").body(()).unwrap().into_parts();
    head.headers = headers;
    head
}

fn admit(door: &Door, headers: HeaderMap) -> Result<Page, Refused> {
    let arrival = &mut Arrival::new(Arc::default(), &headers);
    door.admit(&mut head(headers), arrival)
}

#[track_caller]
fn check(settings: &DoorSettings, host: &str, origin: Option<&str>, expected: bool) {
    let mut pairs = vec![("host", host)];
    pairs.extend(origin.map(|origin| ("origin", origin)));
    let found = admit(&Door::new(settings), headers(&pairs));
    assert_eq!(found.is_ok(), expected, "{found:?}");
}

#[test]
fn this_machine_comes_in_by_default_and_nobody_else() {
    let settings = DoorSettings::default();
    check(&settings, "127.0.0.1:8080", None, true);
    check(&settings, "LocalHost", Some("http://localhost:6274"), true);
    check(&settings, "[::1]:8080", Some("http://[::1]:8080"), true);
    check(&settings, "evil.example.com", None, false);
    check(&settings, "127.0.0.1.evil.example.com", None, false);
    check(&settings, "localhost@evil.example.com", None, false);
    check(&settings, "127.0.0.1:8080", Some("http://evil.example.com"), false);
    check(&settings, "127.0.0.1:8080", Some("null"), false);
    check(&settings, "127.0.0.1:8080", Some("http://127.0.0.1:8080/path"), false);
}

#[test]
fn a_page_of_any_host_is_not_our_own() {
    let settings = DoorSettings { allowed_hosts: vec!["*".into()], ..DoorSettings::default() };
    check(&settings, "evil.example.com", None, true);
    check(&settings, "evil.example.com:8080", Some("http://evil.example.com:8080"), false);
    check(&settings, "127.0.0.1.evil.example.com", Some("http://127.0.0.1.evil.example.com"), false);
    // An address is no name that somebody could have pointed here.
    for ours in ["10.1.2.3:8080", "[fd00::1]:8080", "localhost:8080"] {
        check(&settings, ours, Some(&format!("http://{ours}")), true);
        check(&settings, ours, Some("http://evil.example.com:8080"), false);
    }
    check(&DoorSettings::default(), "localhost:8080", Some("ftp://localhost:8080"), false);
}

#[test]
fn hosts_and_origins_can_be_allowed_by_name_or_altogether() {
    let settings = DoorSettings {
        allowed_hosts: vec!["tools.example.com:443".into()],
        allowed_origins: vec!["https://app.example.com".into()],
        ..DoorSettings::default()
    };
    check(&settings, "tools.example.com:443", Some("https://app.example.com"), true);
    check(&settings, "tools.example.com:443", Some("http://app.example.com"), false);
    check(&settings, "tools.example.com:443", Some("https://app.example.com:443"), true);
    check(&settings, "tools.example.com:443", Some("https://app.example.com:8443"), false);
    check(&settings, "tools.example.com:443", Some("https://tools.example.com:443"), true);
    check(&settings, "tools.example.com:80", None, false);
    let by_port = DoorSettings {
        allowed_origins: vec!["https://app.example.com:443".into(), "http://localhost".into()],
        ..DoorSettings::default()
    };
    check(&by_port, "localhost", Some("https://app.example.com"), true);
    check(&by_port, "localhost", Some("http://localhost:3000"), true);
    let open = DoorSettings {
        allowed_hosts: vec!["*".into()],
        allowed_origins: vec!["*".into()],
        ..DoorSettings::default()
    };
    check(&open, "anything", Some("null"), true);
}

#[test]
fn a_host_given_twice_or_not_at_all_is_refused() {
    let door = Door::new(&DoorSettings::default());
    assert!(admit(&door, HeaderMap::new()).is_err());
    let mut twice = headers(&[("host", "localhost")]);
    twice.append(header::HOST, "evil.example.com".parse().unwrap());
    assert!(admit(&door, twice).is_err());
    let refused = admit(&door, headers(&[("host", "evil.example.com")])).unwrap_err();
    assert!(refused.to_string().contains("`evil.example.com`"), "{refused}");
}

#[tokio::test]
async fn a_body_is_read_to_its_limit() {
    let door = Door::new(&DoorSettings { body_limit_bytes: 4, ..DoorSettings::default() });
    assert_eq!(door.read(&HeaderMap::new(), Body::from("1234")).await.unwrap(), "1234");
    let error = door.read(&HeaderMap::new(), Body::from("12345")).await.unwrap_err();
    assert!(matches!(error, BodyError::TooLong { limit_bytes: 4 }), "{error}");
    let announced = headers(&[("content-length", "5")]);
    assert!(door.read(&announced, Body::empty()).await.is_err());
}

/// A body whose pieces are sent; it ends when nobody sends any more.
struct Sent(mpsc::UnboundedReceiver<&'static str>);

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(http_body::Frame::data(piece.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_closed() && self.0.is_empty()
    }
}

fn sent() -> (mpsc::UnboundedSender<&'static str>, Body) {
    let (sender, pieces) = mpsc::unbounded_channel();
    (sender, Body::new(Sent(pieces)))
}

/// With a length it is one of the short ones.
fn lengths() -> [HeaderMap; 2] {
    [headers(&[("content-length", "7")]), HeaderMap::new()]
}

#[tokio::test(start_paused = true)]
async fn a_body_that_takes_too_long_is_not_waited_for() {
    for length in lengths() {
        let after = async |delay: Duration| {
            let (sender, body) = sent();
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                let _ = sender.send("a whole");
            });
            Door::new(&DoorSettings::default()).read(&length, body).await
        };
        assert_eq!(after(Duration::from_secs(1)).await.unwrap(), "a whole");
        let late = after(DoorSettings::BODY_TIMEOUT_DEFAULT + Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(late.status(), StatusCode::REQUEST_TIMEOUT);
    }
}

#[tokio::test]
async fn a_body_that_comes_in_pieces_is_put_together() {
    for length in lengths() {
        for pieces in [&["a whole"][..], &["a ", "", "whole"], &["a ", "whole", ""], &[]] {
            let (sender, body) = sent();
            pieces.iter().for_each(|piece| sender.send(piece).unwrap());
            drop(sender);
            let whole = Door::new(&DoorSettings::default()).read(&length, body).await;
            assert_eq!(whole.unwrap(), pieces.concat());
        }
    }
}
