//! What goes back to a client: results written straight into one buffer, JSON-RPC errors, HTTP statuses.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value};

use super::{
    accept::Form,
    header::SESSION_ID,
    message::Id,
    refusal::Refusal,
    revision::{Era, Revision, UnknownId},
    stream,
};
use crate::face::context::{LoggedRequest, Reason};

/// A JSON-RPC message on its way out.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    body: Vec<u8>,
    session: Option<String>,
    /// What `WWW-Authenticate` says.
    challenge: Option<HeaderValue>,
}

impl Answer {
    /// The result of a request; `members` writes what is between the braces, at least one member.
    pub(super) fn result<E>(
        id: Id<'_>,
        revision: Revision,
        members: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut body = Vec::with_capacity(512);
        body.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        body.extend_from_slice(id.as_json().as_bytes());
        body.extend_from_slice(b",\"result\":{");
        match revision.era() {
            Era::Handshake => {}
            Era::PerRequest => body.extend_from_slice(b"\"resultType\":\"complete\","),
        }
        members(&mut body)?;
        body.extend_from_slice(b"}}");
        Ok(Self { status: StatusCode::OK, body, session: None, challenge: None })
    }

    /// The id of the session that it opens, if it opens one.
    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    /// What a call of the newer era is answered with that has become a task.
    pub(super) fn task(id: Id<'_>, members: &Map<String, Value>) -> Self {
        let members = serde_json::to_string(members).expect("a JSON object has string keys only");
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"resultType":"task",{}}}"#,
            id.as_json(),
            &members[1..]
        );
        Self { status: StatusCode::OK, body: body.into_bytes(), session: None, challenge: None }
    }

    /// What a request of the newer era is answered with that needs more from the client before it has a result.
    pub(super) fn input_required(id: Id<'_>, members: &Value) -> Self {
        let mut body = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"resultType\":\"input_required\",",
            id.as_json()
        )
        .into_bytes();
        let members = members.to_string();
        body.extend_from_slice(&members.as_bytes()[1..]);
        body.push(b'}');
        Self { status: StatusCode::OK, body, session: None, challenge: None }
    }

    /// A JSON-RPC error, and its line in the log.
    pub(super) fn error(
        request: LoggedRequest<'_>,
        id: Option<Id<'_>>,
        revision: Revision,
        refusal: &Refusal,
    ) -> Self {
        let answer = Self::unlogged_error(id, revision, refusal);
        request.rejected(answer.status, refusal);
        answer
    }

    fn unlogged_error(id: Option<Id<'_>>, revision: Revision, refusal: &Refusal) -> Self {
        let error = refusal.to_error(revision);
        let mut body = b"{\"jsonrpc\":\"2.0\"".to_vec();
        match (id, revision.unknown_id()) {
            (Some(id), _) => {
                body.extend_from_slice(b",\"id\":");
                body.extend_from_slice(id.as_json().as_bytes());
            }
            (None, UnknownId::Null) => body.extend_from_slice(b",\"id\":null"),
            (None, UnknownId::LeftOut) => {}
        }
        body.extend_from_slice(b",\"error\":");
        serde_json::to_writer(&mut body, &error).expect("an error has string keys only");
        body.push(b'}');
        Self { status: refusal.status(revision), body, session: None, challenge: None }
    }

    /// What another replica answered.
    pub(super) fn of_peer(status: StatusCode, body: Bytes) -> Self {
        Self { status, body: Vec::from(body), session: None, challenge: None }
    }

    /// The answers of a batch, at least one, in one message.
    pub(super) fn batch(answers: Vec<Self>) -> Self {
        let bodies: Vec<Vec<u8>> = answers.into_iter().map(Self::into_body).collect();
        let body = [b"[".as_slice(), &bodies.join(b",".as_slice()), b"]"].concat();
        Self { status: StatusCode::OK, body, session: None, challenge: None }
    }

    /// The same answer, which opens a session of this id.
    pub(super) fn opening(self, session: String) -> Self {
        Self { session: Some(session), ..self }
    }

    /// The same answer, which says what the caller is not allowed.
    pub(super) fn challenging(self, challenge: Option<HeaderValue>) -> Self {
        Self { challenge, ..self }
    }

    /// The JSON-RPC message alone.
    pub(super) fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// The whole of it as HTTP.
    pub(super) fn into_response(self, form: Form) -> Response<Body> {
        // A stream is for results; a status other than 200 is read as JSON by every client.
        let mut response = match form {
            Form::EventStream if self.status == StatusCode::OK => {
                stream::as_stream(Response::new(Body::from(stream::as_event(None, &self.body))))
            }
            Form::EventStream | Form::Json | Form::Either => {
                let mut response = Response::new(Body::from(self.body));
                let json = HeaderValue::from_static("application/json");
                response.headers_mut().insert(header::CONTENT_TYPE, json);
                response
            }
        };
        *response.status_mut() = self.status;
        if let Some(challenge) = self.challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if let Some(session) = self.session {
            let id = HeaderValue::from_str(&session).expect("a token is letters, digits, `-` and `_`");
            response.headers_mut().insert(SESSION_ID, id);
        }
        response
    }
}

/// A request that is turned away before its message is read: a JSON-RPC error without an id, as both
/// specifications allow.
pub(super) fn turned_away(
    request: LoggedRequest<'_>,
    status: StatusCode,
    reason: &dyn Reason,
) -> Response<Body> {
    request.rejected(status, reason);
    let refusal = Refusal::NotAMessage(reason.to_string().into());
    let mut answer = Answer::unlogged_error(None, Revision::R2026_07_28, &refusal);
    answer.status = status;
    answer.into_response(Form::Json)
}

/// 202: taken, nothing to say.
pub(super) fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// 405 for a method that does nothing here. A person with a browser is told what this is.
pub(super) fn wrong_method(methods: &'static str) -> Response<Body> {
    const SENTENCE: &str = "This is an MCP endpoint (Streamable HTTP): it takes JSON-RPC messages by POST. \
                            Give this address to an MCP client.\n";
    let mut response = Response::new(Body::from(SENTENCE));
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
