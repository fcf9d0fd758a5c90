//! How a message came, and what stands beside it.

use std::{future::Future, sync::LazyLock, time::SystemTime};

use http::{HeaderMap, request::Parts};
use serde_json::{Map, Value};

use super::{
    header::{self, PROTOCOL_VERSION, SESSION_ID},
    message::{Notification, Request},
    refusal::Refusal,
    revision::{Era, Revision},
    sessions::Session,
};
use crate::{
    crypto::Seal,
    inbound::context::{LoggedRequest, RequestContext},
    upstream::Caller,
};

/// What brought a message, and who sends it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carrier<'a> {
    pub(super) context: &'a RequestContext,
    transport: Transport<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Transport<'a> {
    /// An HTTP request of its own, with its head.
    Http(&'a Parts),
    /// A line of a pipe, after what was agreed on at the handshake, if there was one.
    Stdio(Option<&'a Handshake>),
}

/// What a client at a pipe said at its handshake: what each of its requests would carry in its headers over
/// HTTP.
#[derive(Debug)]
pub(super) struct Handshake {
    pub(super) revision: Revision,
    /// The id of its session.
    pub(super) session: String,
}

/// The session of a pipe, by which requests in flight are found; no session over HTTP has such an id.
const STDIO_SESSION: &str = "stdio";

impl<'a> Carrier<'a> {
    pub(super) fn http(context: &'a RequestContext, head: &'a Parts) -> Self {
        Self { context, transport: Transport::Http(head) }
    }

    pub(super) fn stdio(context: &'a RequestContext, handshake: Option<&'a Handshake>) -> Self {
        Self { context, transport: Transport::Stdio(handshake) }
    }

    /// Who sent the message.
    pub(super) fn caller(self) -> &'a Caller {
        self.context.caller()
    }

    /// Whose sessions, tasks and questions those of the sender are.
    pub(super) fn owner(self) -> Option<&'a str> {
        self.caller().owner()
    }

    pub(super) fn is_stdio(self) -> bool {
        self.head().is_none()
    }

    /// The headers of the HTTP request, which a route may forward; a pipe has none.
    pub(super) fn headers(self) -> &'a HeaderMap {
        static NONE: LazyLock<HeaderMap> = LazyLock::new(HeaderMap::new);
        self.head().map_or(&NONE, |head| &head.headers)
    }

    /// The request, for the log.
    pub(super) fn logged(self) -> LoggedRequest<'a> {
        self.context.logged(self.head())
    }

    fn head(self) -> Option<&'a Parts> {
        match self.transport {
            Transport::Http(head) => Some(head),
            Transport::Stdio(_) => None,
        }
    }

    /// What is said of the revision beside the message.
    ///
    /// # Errors
    ///
    /// When it names one that is not spoken here.
    pub(super) fn revision(self) -> Result<Revision, Refusal> {
        match self.transport {
            Transport::Http(head) => {
                header::sole(&head.headers, &PROTOCOL_VERSION).and_then(Revision::of_header)
            }
            Transport::Stdio(handshake) => {
                Ok(handshake.map_or(Revision::R2026_07_28, |handshake| handshake.revision))
            }
        }
    }

    /// The revision that a request speaks.
    ///
    /// # Errors
    ///
    /// As [`Revision::of_request`].
    pub(super) fn revision_of(self, request: &Request<'_>) -> Result<Revision, Refusal> {
        match self.transport {
            Transport::Http(head) => Revision::of_request(&head.headers, request),
            Transport::Stdio(handshake) => {
                Revision::of_line(handshake.map(|handshake| handshake.revision), request)
            }
        }
    }

    /// Holds against the message what repeats its method beside it.
    ///
    /// # Errors
    ///
    /// [`Refusal::Headers`] when the two differ.
    pub(super) fn check_method(self, method: &str) -> Result<(), Refusal> {
        self.head().map_or(Ok(()), |head| header::check_method(&head.headers, method))
    }

    /// The same for a notification, whose method need not be repeated.
    ///
    /// # Errors
    ///
    /// [`Refusal::Headers`] when the two differ.
    pub(super) fn check_notification(self, notification: &Notification<'_>) -> Result<(), Refusal> {
        match (self.head(), &notification.method) {
            (Some(head), Some(method)) => header::check_method_if_any(&head.headers, method),
            (Some(_), None) | (None, _) => Ok(()),
        }
    }

    /// The same for the name of what is asked for.
    ///
    /// # Errors
    ///
    /// [`Refusal::Headers`] when the two differ.
    pub(super) fn check_name(self, name: &str) -> Result<(), Refusal> {
        self.head().map_or(Ok(()), |head| header::check_name(&head.headers, name))
    }

    /// The same for arguments that an input schema marks.
    ///
    /// # Errors
    ///
    /// [`Refusal::Headers`] when the two differ.
    pub(super) fn check_arguments(
        self,
        schema: &Map<String, Value>,
        arguments: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        self.head().map_or(Ok(()), |head| header::check_arguments(&head.headers, schema, arguments))
    }

    /// What the client of a request is capable of, as far as it has said so.
    pub(super) fn capabilities(
        self,
        request: &Request<'_>,
        revision: Revision,
        seal: &Seal,
    ) -> Map<String, Value> {
        match revision.era() {
            Era::PerRequest => request.meta.capabilities(),
            Era::Handshake => {
                let session = self.session().and_then(|id| Session::open(seal, id, SystemTime::now()).ok());
                session.map(|session| session.capabilities).unwrap_or_default()
            }
        }
    }

    /// The id of the session that a message of the older era is of.
    pub(super) fn session(self) -> Option<&'a str> {
        match self.transport {
            Transport::Http(head) => header::sole(&head.headers, &SESSION_ID).ok().flatten(),
            Transport::Stdio(handshake) => handshake.map(|handshake| handshake.session.as_str()),
        }
    }

    /// The same where it may be over: a pipe is a session of its own.
    ///
    /// # Errors
    ///
    /// [`Refusal::Headers`] when there are two.
    pub(super) fn session_to_check(self) -> Result<Option<&'a str>, Refusal> {
        self.head().map_or(Ok(None), |head| header::sole(&head.headers, &SESSION_ID))
    }

    /// Ready when what the message came by is about to end.
    pub(super) fn ending(self) -> impl Future<Output = ()> + 'a {
        self.context.arrival.connection.ending.come()
    }

    /// The session whose later messages can end this one: that of a request of the older era over HTTP, and a
    /// pipe. In the newer era a client over HTTP ends its request when it leaves.
    pub(super) fn cancelling_session(self) -> Option<&'a str> {
        match self.transport {
            // A request of the newer era has no session, whatever its headers name: it would take the place
            // of another's.
            Transport::Http(_) => self.session().filter(|_| {
                self.revision().is_ok_and(|revision| match revision.era() {
                    Era::Handshake => true,
                    Era::PerRequest => false,
                })
            }),
            Transport::Stdio(_) => Some(STDIO_SESSION),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::inbound::{authenticate::Identity, context::Arrival};

    #[test]
    fn a_request_of_the_newer_era_takes_no_place_in_a_session() {
        let session_of = |revision: Option<&str>| {
            let mut request = http::Request::post("/mcp").header(&SESSION_ID, "a-session");
            if let Some(revision) = revision {
                request = request.header(&PROTOCOL_VERSION, revision);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            let arrival = Arrival::new(Arc::default(), &head.headers);
            let context = RequestContext { arrival, identity: Identity::local() };
            Carrier::http(&context, &head).cancelling_session().map(str::to_owned)
        };
        assert_eq!(session_of(Some("2025-11-25")).as_deref(), Some("a-session"));
        assert_eq!(session_of(None).as_deref(), Some("a-session"), "who does not say it speaks 2025-03-26");
        assert_eq!(session_of(Some("2026-07-28")), None);
        assert_eq!(session_of(Some("2099-01-01")), None);
    }
}
