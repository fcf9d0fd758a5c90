//! How a message came, and what stands beside it.

use std::time::SystemTime;

use http::request::Parts;
use serde_json::{Map, Value};

use super::{
    decode::{self, Request},
    header::{self, PROTOCOL_VERSION, SESSION_ID},
    refusal::Refusal,
    revision::{Era, Revision},
    session::Session,
};
use crate::{
    face::{Arrival, caller_of, came_by, guard::Guard, span_of},
    gateway::Face,
    observe::{RequestId, Span},
    seal::Seal,
    upstream::Caller,
};

/// What brought a message.
#[derive(Debug, Clone, Copy)]
pub(super) enum Carrier<'a> {
    /// An HTTP request of its own, with its head.
    Http(&'a Parts),
    /// A line of a pipe. The head is what HTTP would have beside it: what was agreed on at the handshake.
    Pipe(&'a Parts),
}

impl<'a> Carrier<'a> {
    /// The way in, as the log names it.
    pub(super) fn face(self) -> Face {
        match self {
            Self::Http(head) | Self::Pipe(head) => came_by(head, Face::Mcp),
        }
    }

    /// Who sent the message.
    pub(super) fn caller(self) -> Caller {
        caller_of(self.head())
    }

    /// Whose sessions, tasks and questions those of the sender are.
    pub(super) fn owner(self) -> Option<&'a str> {
        self.head().extensions.get().and_then(Caller::owner)
    }

    /// What is told of the request that it came with, where traces are on.
    pub(super) fn span(self) -> Span {
        span_of(self.head())
    }

    /// What the message is named in the log and in errors.
    pub(super) fn request_id(self) -> RequestId {
        match self {
            Self::Http(head) | Self::Pipe(head) => RequestId::of_request(head),
        }
    }

    /// What is said of the revision beside the message.
    ///
    /// # Errors
    ///
    /// When it names one that is not spoken here.
    pub(super) fn revision(self) -> Result<Revision, Refusal> {
        match self {
            Self::Http(head) => header::sole(&head.headers, &PROTOCOL_VERSION).and_then(Revision::of_header),
            Self::Pipe(head) => Ok(said(head)?.unwrap_or(Revision::R2026_07_28)),
        }
    }

    /// The revision that a request speaks.
    ///
    /// # Errors
    ///
    /// As [`Revision::of_request`].
    pub(super) fn revision_of(self, request: &Request<'_>) -> Result<Revision, Refusal> {
        match self {
            Self::Http(head) => Revision::of_request(&head.headers, request),
            Self::Pipe(head) => Revision::of_line(said(head)?, request),
        }
    }

    /// Holds against the message what repeats its method beside it.
    ///
    /// # Errors
    ///
    /// [`Refusal::Headers`] when the two differ.
    pub(super) fn check_method(self, method: &str) -> Result<(), Refusal> {
        match self {
            Self::Http(head) => header::check_method(&head.headers, method),
            Self::Pipe(_) => Ok(()),
        }
    }

    /// The same for a notification, whose method need not be repeated.
    ///
    /// # Errors
    ///
    /// [`Refusal::Headers`] when the two differ.
    pub(super) fn check_notification(self, notification: &[u8]) -> Result<(), Refusal> {
        match (self, decode::notified(notification)) {
            (Self::Http(head), Some(method)) => header::check_method_if_any(&head.headers, &method),
            (Self::Http(_), None) | (Self::Pipe(_), _) => Ok(()),
        }
    }

    /// The same for the name of what is asked for.
    ///
    /// # Errors
    ///
    /// [`Refusal::Headers`] when the two differ.
    pub(super) fn check_name(self, name: &str) -> Result<(), Refusal> {
        match self {
            Self::Http(head) => header::check_name(&head.headers, name),
            Self::Pipe(_) => Ok(()),
        }
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
        match self {
            Self::Http(head) => header::check_arguments(&head.headers, schema, arguments),
            Self::Pipe(_) => Ok(()),
        }
    }

    /// What the client of a request is capable of, as far as it has said so.
    pub(super) fn capabilities(
        self,
        request: &Request<'_>,
        revision: Revision,
        seal: &Seal,
    ) -> Map<String, Value> {
        match (revision.era(), self) {
            (Era::PerRequest, _) => request.params.meta.capabilities(),
            (Era::Handshake, Self::Http(head) | Self::Pipe(head)) => {
                let id = header::sole(&head.headers, &SESSION_ID).ok().flatten();
                let session = id.and_then(|id| Session::open(seal, id, SystemTime::now()).ok());
                session.map(|session| session.capabilities).unwrap_or_default()
            }
        }
    }

    /// The id of the session that a message of the older era is of.
    pub(super) fn session(self) -> Option<&'a str> {
        match self {
            Self::Http(head) | Self::Pipe(head) => header::sole(&head.headers, &SESSION_ID).ok().flatten(),
        }
    }

    /// The same where it may be over: a pipe is a session of its own.
    ///
    /// # Errors
    ///
    /// [`Refusal::Headers`] when there are two.
    pub(super) fn session_to_check(self) -> Result<Option<&'a str>, Refusal> {
        match self {
            Self::Http(head) => header::sole(&head.headers, &SESSION_ID),
            Self::Pipe(_) => Ok(None),
        }
    }

    /// Ready when what the message came by is about to end.
    pub(super) async fn ending(self) {
        match Arrival::of(&self.head().extensions).ending.clone() {
            Some(ending) => ending.come().await,
            None => std::future::pending().await,
        }
    }

    /// Ready when the message is to be answered with an error, since the server ends.
    pub(super) async fn overdue(self) {
        crate::face::overdue(&self.head().extensions).await;
    }

    /// Ready when who sent the message may not have a stream open any more. At a pipe nobody is asked.
    pub(super) async fn fallen(self, guard: &Guard) {
        match self {
            Self::Http(head) => guard.standing(head).over().await,
            Self::Pipe(_) => std::future::pending().await,
        }
    }

    /// The session whose later messages can end this one: that of a request of the older era over HTTP. A pipe ends its
    /// requests itself, and in the newer era a client that leaves does.
    pub(super) fn cancelling_session(self) -> Option<&'a str> {
        match self {
            // A request of the newer era has no session, whatever its headers name: it would take the place of another's.
            Self::Http(_) => self.session().filter(|_| {
                self.revision().is_ok_and(|revision| match revision.era() {
                    Era::Handshake => true,
                    Era::PerRequest => false,
                })
            }),
            Self::Pipe(_) => None,
        }
    }

    /// The head of the HTTP request, whose headers a route may forward.
    pub(super) fn head(self) -> &'a Parts {
        match self {
            Self::Http(head) | Self::Pipe(head) => head,
        }
    }
}

/// What was agreed on at the handshake of a pipe, if there was one.
fn said(head: &Parts) -> Result<Option<Revision>, Refusal> {
    header::sole(&head.headers, &PROTOCOL_VERSION)?.map(str::parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_the_newer_era_takes_no_place_in_a_session() {
        let session_of = |revision: Option<&str>| {
            let mut request = http::Request::post("/mcp").header(&SESSION_ID, "a-session");
            if let Some(revision) = revision {
                request = request.header(&PROTOCOL_VERSION, revision);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            Carrier::Http(&head).cancelling_session().map(str::to_owned)
        };
        assert_eq!(session_of(Some("2025-11-25")).as_deref(), Some("a-session"));
        assert_eq!(session_of(None).as_deref(), Some("a-session"), "who does not say it speaks 2025-03-26");
        assert_eq!(session_of(Some("2026-07-28")), None);
        assert_eq!(session_of(Some("2099-01-01")), None);
    }
}
