//! Session ids of the older era: sealed, so that any replica knows what their clients said at `initialize`.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::revision::Revision;
use crate::{
    crypto::{Purpose, Seal, Unsealed},
    upstream::Caller,
};

/// How long an id opens.
const LIFE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What is kept of a client's capabilities: those that matter to a server.
const KEPT: [&str; 3] = ["elicitation", "roots", "sampling"];

/// How long what a client says of one capability may be, in bytes; what is longer is kept as `{}`.
const CAPABILITY_LIMIT_BYTES: usize = 256;

/// What a client said at `initialize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) revision: String,
    pub(super) capabilities: Map<String, Value>,
    /// Whose it is, where clients are told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    /// Where its client was when it began, where clients are not told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) address: Option<String>,
}

impl Session {
    pub(super) fn new(revision: Revision, mut capabilities: Map<String, Value>) -> Self {
        capabilities.retain(|name, value| KEPT.contains(&name.as_str()) && value.is_object());
        for value in capabilities.values_mut() {
            if value.to_string().len() > CAPABILITY_LIMIT_BYTES {
                *value = Value::Object(Map::new());
            }
        }
        Self { revision: revision.as_str().to_owned(), capabilities, owner: None, address: None }
    }

    /// The same, of this client.
    pub(super) fn of(self, caller: &Caller) -> Self {
        let address = match caller {
            Caller::Address(address) => Some(address.to_string()),
            Caller::Only | Caller::Client(_) | Caller::Unknown => None,
        };
        Self { owner: caller.owner().map(str::to_owned), address, ..self }
    }

    /// The client that began it, as far as it is told from others.
    pub(super) fn client(&self) -> &str {
        self.owner.as_deref().or(self.address.as_deref()).unwrap_or_default()
    }

    /// The id under which all of this is found again.
    pub(super) fn seal(&self, seal: &Seal, now: SystemTime) -> String {
        let content = serde_json::to_vec(self).expect("its keys are strings");
        seal.seal(Purpose::Session, &content, now + LIFE)
    }

    /// What an id holds.
    ///
    /// # Errors
    ///
    /// [`Unsealed`] when it is not one of ours, or too old.
    pub(super) fn open(seal: &Seal, id: &str, now: SystemTime) -> Result<Self, Unsealed> {
        let content = seal.open(Purpose::Session, id, now)?;
        serde_json::from_slice(&content).map_err(|_| Unsealed::Foreign)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_session_is_its_id() {
        let (seal, now) = (Seal::random(), SystemTime::UNIX_EPOCH);
        let said = json!({"sampling": {}, "elicitation": {"form": {}}, "experimental": {"x": 1}, "roots": 7});
        let session = Session::new(Revision::R2025_11_25, said.as_object().unwrap().clone());
        let opened = Session::open(&seal, &session.seal(&seal, now), now).unwrap();
        assert_eq!(opened, session);
        assert_eq!(opened.revision, "2025-11-25");
        assert_eq!(Value::Object(opened.capabilities), json!({"sampling": {}, "elicitation": {"form": {}}}));
        let endless = json!({"sampling": {"x": "y".repeat(9999)}});
        let session = Session::new(Revision::R2025_11_25, endless.as_object().unwrap().clone());
        assert_eq!(Value::Object(session.capabilities), json!({"sampling": {}}));
    }
}
