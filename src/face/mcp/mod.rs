//! The Model Context Protocol over Streamable HTTP: five revisions at once on one endpoint, no sessions.
//!
//! In reading order: [`Mcp`] takes a request through the door and reads its body once; `decode` finds one
//! JSON-RPC message in it; `revision` says which revision it speaks and holds everything in which they
//! differ; `header` holds the headers of 2026-07-28 against the body; `call` and `about` give the results;
//! `refusal` names what has none; `answer` writes both.
//!
//! A message is never read into a tree and a result never built as one: an id is echoed as it came, and an
//! upstream's JSON goes from its bytes into the answer's. That is why the SDK (`rmcp`) lends its types for
//! what is small, while its service, which must own every value, serves as the second opinion in
//! `tests/it/mcp/sdk.rs`.

mod about;
mod answer;
mod call;
mod decode;
mod header;
mod refusal;
mod revision;
mod settings;

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, Request, Response, StatusCode, request::Parts};

use self::{
    about::About,
    answer::Answer,
    decode::{Form, Message},
    header::PROTOCOL_VERSION,
    refusal::Refusal,
    revision::{Era, Method, Revision},
};
use super::door::{self, Door};
use crate::{gateway::Gateway, observe::RequestId};

pub use settings::McpSettings;

/// What the endpoint takes.
const METHODS: &str = "POST, OPTIONS";

/// The MCP endpoint. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mcp(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    gateway: Gateway,
    about: About,
    door: Door,
}

impl Mcp {
    /// An endpoint for the tools of `gateway`.
    pub fn new(gateway: Gateway, settings: McpSettings, door: Door) -> Self {
        Self(Arc::new(Inner { gateway, about: About::new(settings), door }))
    }

    /// Answers one HTTP request, whatever its path.
    ///
    /// Dropping the future ends the call, and with it the request to the upstream.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        if let Err(refused) = self.0.door.check(&head.uri, &head.headers) {
            return answer::turned_away(&RequestId::of_request(&head), StatusCode::FORBIDDEN, &refused);
        }
        let mut response = match head.method {
            http::Method::POST => self.0.post(&head, body).await,
            http::Method::OPTIONS => door::options(&head.headers, METHODS),
            _ => answer::wrong_method(METHODS),
        };
        door::let_page_read(&head.headers, response.headers_mut());
        response
    }
}

impl Inner {
    async fn post(&self, head: &Parts, body: Body) -> Response<Body> {
        let form = match decode::form(&head.headers) {
            Ok(form) => form,
            Err(unfit) => return answer::turned_away(&RequestId::of_request(head), unfit.status(), &unfit),
        };
        let body = match self.door.read(&head.headers, body).await {
            Ok(body) => body,
            Err(error) => return answer::turned_away(&RequestId::of_request(head), error.status(), &error),
        };
        self.message(head, &body, form).await
    }

    /// Answers one message.
    async fn message(&self, head: &Parts, body: &[u8], form: Form) -> Response<Body> {
        // For what is said before a request's own word is known.
        let said = header::sole(&head.headers, &PROTOCOL_VERSION).and_then(Revision::of_header);
        let assumed = said.as_ref().copied().unwrap_or(Revision::R2026_07_28);
        let refuse = |id, refusal: &Refusal| {
            Answer::error(&RequestId::of_request(head), id, assumed, refusal).into_response(form)
        };
        match (decode::message(body), said) {
            (Ok(Message::Request(request)), _) => self.request(head, &request, form).await,
            (Err(rejected), _) => refuse(rejected.id, &rejected.refusal),
            (Ok(_), Err(refusal)) => refuse(None, &refusal),
            (Ok(Message::Notification), Ok(_)) => answer::accepted(),
            (Ok(Message::Response), Ok(_)) => refuse(
                None,
                &Refusal::NotAMessage(
                    "nothing was asked of this client, so there is no answer to take".into(),
                ),
            ),
        }
    }

    async fn request(&self, head: &Parts, request: &decode::Request<'_>, form: Form) -> Response<Body> {
        let refuse = |revision, refusal: &Refusal| {
            let request_id = RequestId::of_request(head);
            Answer::error(&request_id, Some(request.id), revision, refusal).into_response(form)
        };
        let revision = match Revision::of_request(&head.headers, request) {
            Ok(revision) => revision,
            // Such an error has the same status in every revision.
            Err(refusal) => {
                return refuse(Revision::R2026_07_28, &refusal);
            }
        };
        match self.result(head, request, revision).await {
            Ok((method, answer)) => {
                let mut response = answer.into_response(form);
                if method == Method::Initialize {
                    response.headers_mut().insert(header::SESSION_ID, session_id());
                }
                response
            }
            Err(refusal) => refuse(revision, &refusal),
        }
    }

    async fn result(
        &self,
        head: &Parts,
        request: &decode::Request<'_>,
        revision: Revision,
    ) -> Result<(Method, Answer), Refusal> {
        match revision.era() {
            Era::Handshake => {}
            Era::PerRequest => {
                request.meta.check_capabilities()?;
                header::check_method(&head.headers, &request.method)?;
            }
        }
        let method =
            Method::named(&request.method).filter(|method| revision.has(*method)).ok_or_else(|| {
                Refusal::UnknownMethod { method: request.method.clone().into_owned(), revision }
            })?;
        let (id, params, about) = (request.id, &request.params, &self.about);
        let answer = match method {
            Method::Initialize => Answer::result(id, revision, |out| about.initialize(params, out)),
            Method::Ping => Answer::result(id, revision, |_| Ok(())),
            Method::Discover => Answer::result(id, revision, |out| {
                about.discover(out);
                Ok(())
            }),
            Method::ListTools => {
                let snapshot = self.gateway.snapshot();
                Answer::result(id, revision, |out| about.list_tools(&snapshot.catalog, params, revision, out))
            }
            Method::CallTool => call::call_tool(&self.gateway, about, head, request, revision).await,
        }?;
        Ok((method, answer))
    }
}

/// A session id that nothing is kept under: clients of the older era may insist on having one, and every
/// replica takes every request with any or none.
fn session_id() -> HeaderValue {
    use std::hash::{BuildHasher, RandomState};
    let (one, other) = (RandomState::new().hash_one(0_u8), RandomState::new().hash_one(1_u8));
    HeaderValue::from_str(&format!("{one:016x}{other:016x}")).expect("hexadecimal digits are visible ASCII")
}
