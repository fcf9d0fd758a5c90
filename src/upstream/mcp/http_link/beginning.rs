//! How a session begins: in the newest words that the server knows.

use std::sync::{Arc, atomic::Ordering};

use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Map, Value, value::RawValue};

use super::{HttpLink, INTRODUCTION_LIMIT_BYTES, Session, Unanswered, sending::SESSION_ID};
use crate::upstream::{
    UpstreamError,
    buffer::BodyAccount,
    error::Withheld,
    mcp::{
        Answer, Outgoing,
        message::{self, RpcError},
        not_mcp,
        revision::{self, Agreed, Declared, PER_REQUEST},
        whole_response,
    },
};

/// What a server says of itself, and the session that it begins.
type Introduced = (Box<RawValue>, Option<HeaderValue>);

impl HttpLink {
    /// Asks in the newest words first, as the revision has it; whoever does not know them is older (MCP 2026-07-28,
    /// Streamable HTTP, "Backward Compatibility").
    pub(super) async fn begin(&self) -> Result<Session, Unanswered> {
        let discovered = self.introduce("server/discover", Map::new(), true).await?;
        if let Ok((result, _)) = &discovered
            && let Ok(agreed) = Agreed::of_discover(result)
        {
            return Ok(Session { agreed, id: None, listening: Default::default() });
        }
        let newer = discovered.err().filter(|refused| refused.code == RpcError::UNSUPPORTED_REVISION);
        let initialized = self.introduce("initialize", revision::initialize(), false).await?;
        let (result, id) =
            initialized.map_err(|refused| not_mcp(self.name(), Withheld::from(newer.unwrap_or(refused))))?;
        let agreed = Agreed::of_initialize(&result).map_err(|why| not_mcp(self.name(), why))?;
        let session = Session { agreed, id, listening: Default::default() };
        let told = message::notification("notifications/initialized", Map::new());
        let response =
            self.post(Some(&session), &HeaderMap::new(), told, "notifications/initialized", None).await?;
        let _ = response.whole(INTRODUCTION_LIMIT_BYTES, BodyAccount::none(), None).await;
        Ok(session)
    }

    /// Sends what begins a session. The inner error is the server's own no.
    async fn introduce(
        &self,
        method: &'static str,
        params: Map<String, Value>,
        is_per_request: bool,
    ) -> Result<Result<Introduced, RpcError>, Unanswered> {
        let (id, headers) = (self.ids.fetch_add(1, Ordering::Relaxed), HeaderMap::new());
        let limit_bytes = INTRODUCTION_LIMIT_BYTES;
        let outgoing = Outgoing { method, params, name: None, headers: &headers, limit_bytes, ask: None };
        let agreed = Agreed { revision: PER_REQUEST, declared: Declared::default() };
        let session = Session { agreed, id: None, listening: Default::default() };
        let session = Arc::new(session);
        let body = message::request(id, method, revision::params(&outgoing, id, is_per_request));
        let own = is_per_request.then_some(&*session);
        let response = self.post(own, &headers, body, method, None).await?;
        let given = response.headers().get(&SESSION_ID).cloned();
        match self.answer(&session, response, id, &outgoing).await {
            Ok(Answer::Message(text)) => {
                let whole = whole_response(self.name(), &text)?;
                Ok(match whole.outcome {
                    Ok(result) => Ok((result.to_owned(), given)),
                    Err(error) => Err(error),
                })
            }
            // Whoever must not come in, or finds nobody, is not older.
            Ok(Answer::Refused(reply)) if is_final(reply.status) => Err(Unanswered::Refused(reply)),
            Ok(Answer::Refused(reply)) => {
                let message = format!("`{method}` is answered with status {}", reply.status);
                let text = std::str::from_utf8(&reply.body).unwrap_or_default();
                Ok(Err(message::error_in(text).unwrap_or(RpcError { code: 0, message, is_ours: true })))
            }
            Err(Unanswered::Failed(error @ UpstreamError::NotMcp { .. })) if is_per_request => {
                Ok(Err(RpcError { code: 0, message: error.to_string(), is_ours: true }))
            }
            Err(unanswered) => Err(unanswered),
        }
    }
}

/// What no other words change.
fn is_final(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(
            status,
            StatusCode::UNAUTHORIZED
                | StatusCode::FORBIDDEN
                | StatusCode::PROXY_AUTHENTICATION_REQUIRED
                | StatusCode::TOO_MANY_REQUESTS
        )
}
