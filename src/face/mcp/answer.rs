//! What goes back to a client: results written straight into one buffer, JSON-RPC errors, HTTP statuses.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use rmcp::model::ErrorData;
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use super::{
    accept::Form,
    header::SESSION_ID,
    message::Id,
    refusal::Refusal,
    revision::{Revision, UnknownId},
    stream,
};
use crate::{
    face::context::{LoggedRequest, Reason},
    tool::{ToolResult, write_result_fields},
};

/// A JSON-RPC message on its way out.
#[derive(Debug, Default)]
pub(super) struct Answer {
    status: StatusCode,
    body: Vec<u8>,
    session: Option<String>,
    /// What `WWW-Authenticate` says.
    challenge: Option<HeaderValue>,
}

impl Answer {
    /// The result of a request; its type is left out in the era of handshakes, and `_meta` where it is empty.
    pub(super) fn result(
        id: Id<'_>,
        result_type: Option<&str>,
        members: &impl Serialize,
        meta: &Map<String, Value>,
    ) -> Self {
        #[derive(Serialize)]
        struct Response<'a, T: Serialize> {
            jsonrpc: &'static str,
            id: &'a RawValue,
            result: Members<'a, T>,
        }
        #[derive(Serialize)]
        struct Members<'a, T: Serialize> {
            #[serde(rename = "resultType", skip_serializing_if = "Option::is_none")]
            result_type: Option<&'a str>,
            #[serde(flatten)]
            members: &'a T,
            #[serde(rename = "_meta", skip_serializing_if = "Map::is_empty")]
            meta: &'a Map<String, Value>,
        }
        let result = Members { result_type, members, meta };
        Self::of(StatusCode::OK, &Response { jsonrpc: "2.0", id: id.as_raw(), result })
    }

    /// The result of a call, written straight into one buffer: an upstream's JSON goes from its bytes into these.
    pub(super) fn tool_result(
        id: Id<'_>,
        revision: Revision,
        result: &ToolResult,
        meta: &Map<String, Value>,
    ) -> Self {
        let mut body = Vec::with_capacity(512);
        body.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        body.extend_from_slice(id.as_json().as_bytes());
        body.extend_from_slice(b",\"result\":");
        write_tool_result(revision, result, meta, &mut body);
        body.push(b'}');
        Self { body, ..Self::default() }
    }

    fn of(status: StatusCode, message: &impl Serialize) -> Self {
        let body = serde_json::to_vec(message).expect("a message has string keys only");
        Self { status, body, ..Self::default() }
    }

    /// The id of the session that it opens, if it opens one.
    pub(super) fn session(&self) -> Option<&str> {
        self.session.as_deref()
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
        #[derive(Serialize)]
        struct Response<'a> {
            jsonrpc: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<Option<&'a RawValue>>,
            error: ErrorData,
        }
        let id = match (id, revision.unknown_id()) {
            (Some(id), _) => Some(Some(id.as_raw())),
            (None, UnknownId::Null) => Some(None),
            (None, UnknownId::LeftOut) => None,
        };
        let error = refusal.to_error(revision);
        Self::of(refusal.status(revision), &Response { jsonrpc: "2.0", id, error })
    }

    /// What another replica answered.
    pub(super) fn of_peer(status: StatusCode, body: Bytes) -> Self {
        Self { status, body: Vec::from(body), ..Self::default() }
    }

    /// The answers of a batch, at least one, in one message.
    pub(super) fn batch(answers: Vec<Self>) -> Self {
        let bodies: Vec<Vec<u8>> = answers.into_iter().map(Self::into_body).collect();
        let body = [b"[".as_slice(), &bodies.join(b",".as_slice()), b"]"].concat();
        Self { body, ..Self::default() }
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

/// JSON that was written here, to stand in a result as it is.
pub(super) fn raw_json(written: Vec<u8>) -> Box<RawValue> {
    let written = String::from_utf8(written).ok().and_then(|text| RawValue::from_string(text).ok());
    written.expect("what is written here is JSON")
}

/// The result of a call as an object.
pub(super) fn write_tool_result(
    revision: Revision,
    result: &ToolResult,
    meta: &Map<String, Value>,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    if let Some(result_type) = revision.result_type() {
        out.extend_from_slice(format!("\"resultType\":\"{result_type}\",").as_bytes());
    }
    write_result_fields(result, revision.shapes(), meta, out);
    out.push(b'}');
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
