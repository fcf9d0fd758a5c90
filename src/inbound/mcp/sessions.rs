//! Sessions of legacy clients, up to MCP 2025-11-25 (`Mcp-Session-Id`).
//!
//! - [`Session`]: the content of an encrypted session id, with the parameters of `initialize`. Every replica
//!   can read it, so there is no table of sessions.
//! - [`Sessions`]: the ids of ended sessions, at the replica that got the `DELETE` and at the replicas that
//!   it notifies.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Revision, RpcError};
use crate::crypto::{Purpose, TokenCipher, TokenError};
use crate::upstream::ClientIdentity;

/// Lifetime of a session id.
const SESSION_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The client capabilities that the server uses, and therefore stores.
const STORED_CAPABILITIES: [&str; 3] = ["elicitation", "roots", "sampling"];

/// Maximum length of one capability in a session id, in bytes. A longer capability is stored as `{}`.
const CAPABILITY_LIMIT_BYTES: usize = 256;

/// Maximum length of a session id that is stored although this process can't decrypt it, in bytes. Ids that
/// glossator issued before a restart are shorter.
const UNKNOWN_ID_LIMIT_BYTES: usize = 2 << 10;

/// Content of a session id: the parameters of `initialize`, and the client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) revision: String,
    pub(super) capabilities: Map<String, Value>,
    /// The client that owns the session, if clients have identities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    /// Address of the client when the session began, if clients have no identities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<String>,
    /// The lists that the response to `initialize` declared.
    pub(super) declared: DeclaredLists,
}

/// The lists that the server has declared in addition to the list of tools. A session gets notifications only
/// for lists that were declared to it (MCP 2025-11-25, Lifecycle, "Operation").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeclaredLists {
    pub(super) prompts: bool,
    /// Resources and resource templates.
    pub(super) resources: bool,
}

const ALL_LISTS: DeclaredLists = DeclaredLists { prompts: true, resources: true };

impl Session {
    /// Creates a session of a client that has declared these capabilities.
    pub(super) fn new(
        revision: Revision,
        mut capabilities: Map<String, Value>,
        client: &ClientIdentity,
    ) -> Self {
        capabilities.retain(|name, value| STORED_CAPABILITIES.contains(&name.as_str()) && value.is_object());
        for value in capabilities.values_mut() {
            if value.to_string().len() > CAPABILITY_LIMIT_BYTES {
                *value = Value::Object(Map::new());
            }
        }
        let address = match client {
            ClientIdentity::Address(address) => Some(address.to_string()),
            ClientIdentity::Local | ClientIdentity::Client(_) | ClientIdentity::Unknown => None,
        };
        let (revision, owner) = (revision.as_str().to_owned(), client.owner().map(str::to_owned));
        Self { revision, capabilities, owner, address, declared: ALL_LISTS }
    }

    /// Encrypts the session into a session id.
    pub(super) fn encrypt(&self, cipher: &TokenCipher, now: SystemTime) -> String {
        let content = serde_json::to_vec(self).expect("its keys are strings");
        cipher.issue(Purpose::Session, &content, now + SESSION_TTL)
    }
}

/// The session that a message names. Its id is decrypted once.
#[derive(Debug)]
pub(super) struct NamedSession {
    pub(super) id: Box<str>,
    /// An error if glossator did not issue the id with the current key, or if the id has expired.
    pub(super) content: Result<Session, TokenError>,
}

impl NamedSession {
    /// The revision that was negotiated for the session.
    pub(super) fn revision(&self) -> Option<Revision> {
        self.content.as_ref().ok()?.revision.parse().ok()
    }

    /// Whether the id may be stored: an id that glossator did not issue can be as long as the headers allow.
    pub(super) fn is_storable(&self) -> bool {
        self.content.is_ok() || self.id.len() <= UNKNOWN_ID_LIMIT_BYTES
    }

    /// The lists that were declared to the session; all lists for an id of unknown origin.
    pub(super) fn declared_lists(&self) -> DeclaredLists {
        self.content.as_ref().map_or(ALL_LISTS, |session| session.declared)
    }
}

/// Maximum number of stored ids of ended sessions. Beyond it, the oldest id of the client with the most ended
/// sessions is dropped, and is accepted again until it expires. So a client that begins and ends many
/// sessions can't reopen the session of another client.
const ENDED_LIMIT: usize = 10_000;

/// Checks session ids, and stores the ids of sessions that have ended.
#[derive(Debug)]
pub(super) struct Sessions {
    cipher: TokenCipher,
    unknown_sessions: UnknownSessions,
    ended: Mutex<EndedSessions>,
}

/// The policy for session ids of unknown origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownSessions {
    /// Unknown sessions are rejected: every replica has the same secret key, so no replica has issued the id.
    Reject,
    /// Unknown sessions are accepted, and treated as no session: another replica may have issued the id, or
    /// this replica before a restart.
    Accept,
}

#[derive(Debug, Default)]
struct EndedSessions {
    ids: HashSet<Arc<str>>,
    /// The ids of ended sessions by client, oldest first.
    by_client: HashMap<String, VecDeque<Arc<str>>>,
}

impl EndedSessions {
    fn add(&mut self, client: &str, id: &str) {
        let id: Arc<str> = id.into();
        if !self.ids.insert(Arc::clone(&id)) {
            return;
        }
        self.by_client.entry(client.to_owned()).or_default().push_back(id);
        if self.ids.len() > ENDED_LIMIT
            && let Some((client, ids)) = self.by_client.iter_mut().max_by_key(|(_, ids)| ids.len())
            && let Some(first) = ids.pop_front()
        {
            self.ids.remove(&first);
            let client = ids.is_empty().then(|| client.clone());
            client.map(|client| self.by_client.remove(&client));
        }
    }
}

impl Sessions {
    pub(super) fn new(cipher: TokenCipher, unknown_sessions: UnknownSessions) -> Self {
        Self { cipher, unknown_sessions, ended: Mutex::default() }
    }

    /// Checks the session of a request from `owner`. If clients have identities, only the client that began
    /// the session may use its id.
    ///
    /// # Errors
    ///
    /// [`RpcError::no_session()`] if the id is not accepted.
    pub(super) fn check(&self, session: &NamedSession, owner: Option<&str>) -> Result<(), RpcError> {
        let is_accepted = match &session.content {
            Ok(content) => content.owner.as_deref() == owner,
            Err(TokenError::Invalid) => self.unknown_sessions == UnknownSessions::Accept && owner.is_none(),
            Err(TokenError::Expired) => false,
        };
        let is_open = is_accepted && !self.ended.lock().ids.contains(&*session.id);
        if is_open { Ok(()) } else { Err(RpcError::no_session()) }
    }

    /// Decrypts a session id.
    pub(super) fn open(&self, id: &str) -> NamedSession {
        let content = self.cipher.open(Purpose::Session, id, SystemTime::now());
        let parse = |content: Vec<u8>| serde_json::from_slice(&content).map_err(|_| TokenError::Invalid);
        NamedSession { id: id.into(), content: content.and_then(parse) }
    }

    /// Ends a session: its requests are rejected from now on. The caller, at this or another replica, has
    /// checked its owner. Returns whether the id is a valid session.
    pub(super) fn end(&self, session: &NamedSession) -> bool {
        // Storing ids that glossator did not issue would allow any client to fill the list.
        let Ok(Session { owner, address, .. }) = &session.content else { return false };
        let client = owner.as_deref().or(address.as_deref()).unwrap_or_default();
        self.ended.lock().add(client, &session.id);
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_session_is_its_id() {
        let cipher = TokenCipher::random();
        let sessions = Sessions::new(cipher.clone(), UnknownSessions::Reject);
        let declared =
            json!({"sampling": {}, "elicitation": {"form": {}}, "experimental": {"x": 1}, "roots": 7});
        let session = Session::new(
            Revision::R2025_11_25,
            declared.as_object().unwrap().clone(),
            &ClientIdentity::Local,
        );
        let opened = sessions.open(&session.encrypt(&cipher, SystemTime::now())).content.unwrap();
        assert_eq!(opened, session);
        assert_eq!(opened.revision, "2025-11-25");
        assert_eq!(Value::Object(opened.capabilities), json!({"sampling": {}, "elicitation": {"form": {}}}));
        let oversized = json!({"sampling": {"x": "y".repeat(9999)}});
        let session = Session::new(
            Revision::R2025_11_25,
            oversized.as_object().unwrap().clone(),
            &ClientIdentity::Local,
        );
        assert_eq!(Value::Object(session.capabilities), json!({"sampling": {}}));
    }
}

#[cfg(test)]
mod sessions_tests {
    use serde_json::Map;

    use super::*;
    use crate::{
        inbound::mcp::revision::Revision,
        route::Scopes,
        upstream::{Client, ClientIdentity},
    };

    fn id(cipher: &TokenCipher) -> String {
        Session::new(Revision::R2025_11_25, Map::new(), &ClientIdentity::Local)
            .encrypt(cipher, SystemTime::now())
    }

    fn id_of(cipher: &TokenCipher, client: &ClientIdentity) -> String {
        Session::new(Revision::R2025_11_25, Map::new(), client).encrypt(cipher, SystemTime::now())
    }

    fn client(name: &str) -> ClientIdentity {
        ClientIdentity::Client(Arc::new(Client::new(name, name, Scopes::default())))
    }

    fn end(sessions: &Sessions, id: &str, owner: Option<&str>) -> Result<(), RpcError> {
        let session = sessions.open(id);
        sessions.check(&session, owner)?;
        sessions.end(&session);
        Ok(())
    }

    #[test]
    fn an_id_is_taken_until_it_is_ended() {
        let cipher = TokenCipher::random();
        let sessions = Sessions::new(cipher.clone(), UnknownSessions::Reject);
        let (one, other) = (id(&cipher), id(&cipher));
        sessions.check(&sessions.open(&one), None).unwrap();
        end(&sessions, &one, None).unwrap();
        assert_eq!(sessions.check(&sessions.open(&one), None).unwrap_err(), RpcError::no_session());
        assert_eq!(end(&sessions, &one, None).unwrap_err(), RpcError::no_session());
        sessions.check(&sessions.open(&other), None).unwrap();
        let expired = Session::new(Revision::R2025_11_25, Map::new(), &ClientIdentity::Local)
            .encrypt(&cipher, SystemTime::UNIX_EPOCH);
        assert_eq!(sessions.check(&sessions.open(&expired), None).unwrap_err(), RpcError::no_session());
    }

    #[test]
    fn unknown_session_ids_are_rejected_if_replicas_share_a_key() {
        let foreign = id(&TokenCipher::random());
        let rejecting = Sessions::new(TokenCipher::random(), UnknownSessions::Reject);
        assert_eq!(rejecting.check(&rejecting.open(&foreign), None).unwrap_err(), RpcError::no_session());
        let accepting = Sessions::new(TokenCipher::random(), UnknownSessions::Accept);
        accepting.check(&accepting.open(&foreign), None).unwrap();
        end(&accepting, &foreign, None).unwrap();
        assert_eq!(accepting.ended.lock().ids.len(), 0);
    }

    #[test]
    fn a_long_id_that_is_not_ours_is_not_stored() {
        let cipher = TokenCipher::random();
        let sessions = Sessions::new(cipher.clone(), UnknownSessions::Accept);
        let subject = client(&"a long subject ".repeat(1000));
        for id in [id_of(&cipher, &subject), id(&TokenCipher::random()), "a".repeat(UNKNOWN_ID_LIMIT_BYTES)] {
            assert!(sessions.open(&id).is_storable());
        }
        assert!(!sessions.open(&"a".repeat(UNKNOWN_ID_LIMIT_BYTES + 1)).is_storable());
    }

    #[test]
    fn a_session_is_valid_only_for_its_owner() {
        let cipher = TokenCipher::random();
        let owned = Session::new(Revision::R2025_11_25, Map::new(), &client("me"))
            .encrypt(&cipher, SystemTime::now());
        for unknown_sessions in [UnknownSessions::Accept, UnknownSessions::Reject] {
            let sessions = Sessions::new(cipher.clone(), unknown_sessions);
            let check = |id: &str, owner| sessions.check(&sessions.open(id), owner).is_ok();
            assert!(check(&owned, Some("me")));
            assert!(!check(&owned, Some("you")) && !check(&owned, None));
            assert!(!check(&id(&cipher), Some("me")), "the session has no owner");
            assert!(!check(&id(&TokenCipher::random()), Some("me")), "the owner of the session is unknown");
            assert_eq!(end(&sessions, &owned, Some("you")), Err(RpcError::no_session()));
            assert!(check(&owned, Some("me")));
        }
    }

    #[test]
    fn the_list_of_ended_sessions_has_an_end() {
        let cipher = TokenCipher::random();
        let sessions = Sessions::new(cipher.clone(), UnknownSessions::Reject);
        let first = id(&cipher);
        end(&sessions, &first, None).unwrap();
        for _ in 0..ENDED_LIMIT {
            end(&sessions, &id(&cipher), None).unwrap();
        }
        assert_eq!(sessions.ended.lock().ids.len(), ENDED_LIMIT);
        sessions.check(&sessions.open(&first), None).unwrap();
    }

    #[test]
    fn ending_many_sessions_revives_no_other_session() {
        let cipher = TokenCipher::random();
        let sessions = Sessions::new(cipher.clone(), UnknownSessions::Reject);
        let (client_at_address, other_address) = (["192.0.2.1", "192.0.2.2"])
            .map(|address| ClientIdentity::from_address(address.parse().unwrap()))
            .into();
        let (identified, other_client) = (client("one"), client("two"));
        for (victim, attacker) in [
            (&client_at_address, &other_address),
            (&identified, &other_client),
            (&identified, &client_at_address),
            (&client_at_address, &identified),
        ] {
            let victim_id = id_of(&cipher, victim);
            let attacker_id = id_of(&cipher, attacker);
            end(&sessions, &victim_id, victim.owner()).unwrap();
            end(&sessions, &attacker_id, attacker.owner()).unwrap();
            for _ in 0..ENDED_LIMIT {
                end(&sessions, &id_of(&cipher, attacker), attacker.owner()).unwrap();
            }
            assert_eq!(
                sessions.check(&sessions.open(&victim_id), victim.owner()),
                Err(RpcError::no_session())
            );
            assert_eq!(
                sessions.check(&sessions.open(&attacker_id), attacker.owner()),
                Ok(()),
                "the list has an end"
            );
            assert_eq!(sessions.ended.lock().ids.len(), ENDED_LIMIT);
        }
    }
}
