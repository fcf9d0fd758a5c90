//! Who sends what one replica hands on to another: told under a seal, for that one request and a short while.
//!
//! What a client has shown of itself goes no further than the replica that it was shown to. Who overhears what is told in
//! its place can't use it for anything else: the seal holds a digest of the request that it goes with.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, HeaderName, HeaderValue, Method, request::Parts};

use super::header::{LAST_EVENT_ID, PROTOCOL_VERSION, SESSION_ID};
use crate::{
    crypto::{Purpose, Seal, fingerprint},
    route::Scopes,
    upstream::{Caller, Client},
};

/// Tells it.
pub(super) const CALLER: HeaderName = HeaderName::from_static("glossator-caller");

/// How long that is believed: as long as replicas wait for one another, and what their clocks differ by.
const LIFE: Duration = Duration::from_secs(15);

/// Where replicas take what is handed on to them.
pub(super) const PATH: &str = "/mcp";

/// What a request is about, beside its body.
const BOUND: [HeaderName; 3] = [PROTOCOL_VERSION, SESSION_ID, LAST_EVENT_ID];

/// Tells with a request to [`PATH`] whom it is sent for. `None` for a name that no header can hold.
pub(super) fn vouch(
    seal: &Seal,
    client: &Client,
    method: &Method,
    headers: &HeaderMap,
    body: &[u8],
) -> Option<HeaderValue> {
    let scopes: Vec<&str> = client.scopes().iter().collect();
    let request = digest(method, PATH, headers, body);
    let content = serde_json::json!([request, client.id(), client.name(), scopes]).to_string();
    let told = seal.seal(Purpose::Caller, content.as_bytes(), SystemTime::now() + LIFE);
    HeaderValue::from_str(&told).ok()
}

/// Whom another replica has named, as the sender of a request of which only the digest is known yet.
pub(super) struct Vouched {
    request: String,
    caller: Caller,
}

/// What another replica says that handed a request on: `None` where it says nothing, where no replica said it, or did so
/// long ago. Nobody else gets as far as having a body read.
pub(super) fn read(seal: &Seal, head: &Parts, now: SystemTime) -> Option<Vouched> {
    let told = head.headers.get(CALLER)?.to_str().ok()?;
    let content = seal.open(Purpose::Caller, told, now).ok()?;
    let (request, id, name, scopes): (String, String, String, Vec<String>) =
        serde_json::from_slice(&content).ok()?;
    let scopes = Scopes::of_caller(scopes.iter().map(String::as_str));
    Some(Vouched { request, caller: Caller::Client(Arc::new(Client::new(&id, &name, scopes))) })
}

impl Vouched {
    /// Who sends this request; `None` where another one was meant.
    pub(super) fn sender_of(self, head: &Parts, body: &[u8]) -> Option<Caller> {
        let target = head.uri.path_and_query()?.as_str();
        (self.request == digest(&head.method, target, &head.headers, body)).then_some(self.caller)
    }
}

/// What no two requests have in common that ask for different things.
fn digest(method: &Method, target: &str, headers: &HeaderMap, body: &[u8]) -> String {
    let mut all = Vec::new();
    let mut add = |part: &[u8]| {
        // So that no part runs into the next.
        all.extend_from_slice(&(part.len() as u64).to_be_bytes());
        all.extend_from_slice(part);
    };
    add(method.as_str().as_bytes());
    add(target.as_bytes());
    for name in BOUND {
        add(&headers.get_all(&name).iter().count().to_be_bytes());
        headers.get_all(&name).iter().for_each(|value| add(value.as_bytes()));
    }
    add(fingerprint(body).as_bytes());
    fingerprint(&all)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const BODY: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"tasks/get"}"#;

    fn request(method: Method, target: &str, headers: &[(HeaderName, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn who_is_vouched_for_is_so_for_one_request_and_a_short_while() {
        let seal = Seal::random();
        let of_session = [(SESSION_ID, "a"), (PROTOCOL_VERSION, "2025-11-25")];
        let sent = request(Method::POST, PATH, &of_session);
        let client = Client::new("client a", "a", Scopes::new(["use"]).unwrap());
        let told = vouch(&seal, &client, &sent.method, &sent.headers, BODY).unwrap();
        let now = SystemTime::now();
        let check = |mut head: Parts, body: &[u8], seal: &Seal, now| {
            head.headers.insert(CALLER, told.clone());
            read(seal, &head, now)?.sender_of(&head, body)
        };
        let found = check(sent.clone(), BODY, &seal, now).unwrap();
        assert_eq!(found.owner(), Some("client a"));
        assert!(found.may(client.scopes()) && !found.may(&Scopes::new(["more"]).unwrap()));
        assert_eq!(check(sent.clone(), b"{}", &seal, now), None);
        assert_eq!(check(sent.clone(), b"", &seal, now), None);
        assert_eq!(check(sent.clone(), BODY, &Seal::random(), now), None);
        assert_eq!(check(sent.clone(), BODY, &seal, now + LIFE + Duration::from_secs(1)), None);
        for other in [
            request(Method::GET, PATH, &of_session),
            request(Method::POST, "/message", &of_session),
            request(Method::POST, "/mcp?a", &of_session),
            request(Method::POST, PATH, &of_session[..1]),
            request(Method::POST, PATH, &[(SESSION_ID, "b"), (PROTOCOL_VERSION, "2025-11-25")]),
            request(Method::POST, PATH, &[(SESSION_ID, "a"), (PROTOCOL_VERSION, "2025-06-18")]),
            request(Method::POST, PATH, &[&of_session[..], &[(LAST_EVENT_ID, "1")]].concat()),
            request(Method::POST, PATH, &[&of_session[..], &[(SESSION_ID, "b")]].concat()),
        ] {
            assert_eq!(check(other.clone(), BODY, &seal, now), None, "{other:?}");
        }
        assert!(read(&seal, &sent, now).is_none(), "nobody has said anything");
    }
}
