//! Which session ids of the older era are taken.
//!
//! A session lives in its id alone, so there is no table of them; only those that their clients have ended are kept,
//! by the replica that was told.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use super::{refusal::Refusal, session::Session};
use crate::crypto::{Seal, Unsealed};

/// How many ended sessions are kept, of all clients. When more end, the client that has ended the most loses the one that it
/// ended first: that id is taken again until it expires. So nobody who begins and ends sessions brings back another's.
const ENDED_LIMIT: usize = 10_000;

/// The ids that are taken, and those that are not any more.
#[derive(Debug)]
pub(super) struct Sessions {
    seal: Seal,
    strangers: Strangers,
    ended: Mutex<Ended>,
}

/// What is done with an id that was not given out here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strangers {
    /// Every replica has the same secret, so there is none that should be known.
    Refused,
    /// It may be one of another replica, or of this one before it was started again: its request is taken as one
    /// without a session.
    Taken,
}

#[derive(Debug, Default)]
struct Ended {
    known: HashSet<Arc<str>>,
    /// The same by the client that began them, the oldest first.
    by_client: HashMap<String, VecDeque<Arc<str>>>,
}

impl Ended {
    fn add(&mut self, client: &str, id: &str) {
        let id: Arc<str> = id.into();
        if !self.known.insert(Arc::clone(&id)) {
            return;
        }
        self.by_client.entry(client.to_owned()).or_default().push_back(id);
        if self.known.len() > ENDED_LIMIT
            && let Some((client, ids)) = self.by_client.iter_mut().max_by_key(|(_, ids)| ids.len())
            && let Some(first) = ids.pop_front()
        {
            self.known.remove(&first);
            let client = ids.is_empty().then(|| client.clone());
            client.map(|client| self.by_client.remove(&client));
        }
    }
}

impl Sessions {
    pub(super) fn new(seal: Seal, strangers: Strangers) -> Self {
        Self { seal, strangers, ended: Mutex::default() }
    }

    /// Whether a request of `owner` with this session id is taken; one without any is. Where clients are told apart, an
    /// id is taken of nobody but the one that began its session.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoSession`].
    pub(super) fn check(&self, id: Option<&str>, owner: Option<&str>) -> Result<(), Refusal> {
        let Some(id) = id else { return Ok(()) };
        if self.ended().known.contains(id) {
            return Err(Refusal::NoSession);
        }
        match (Session::open(&self.seal, id, SystemTime::now()), self.strangers) {
            (Ok(session), _) if session.owner.as_deref() == owner => Ok(()),
            (Err(Unsealed::Foreign), Strangers::Taken) if owner.is_none() => Ok(()),
            (Ok(_) | Err(Unsealed::Foreign | Unsealed::Expired), _) => Err(Refusal::NoSession),
        }
    }

    /// Takes no request of this session any more.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoSession`] when none was taken before.
    pub(super) fn end(&self, id: &str, owner: Option<&str>) -> Result<(), Refusal> {
        self.check(Some(id), owner)?;
        self.end_as_told(id);
        Ok(())
    }

    /// The same on the word of another replica, which has asked whose it is; whether there was one to end.
    pub(super) fn end_as_told(&self, id: &str) -> bool {
        let Ok(session) = Session::open(&self.seal, id, SystemTime::now()) else {
            // A stranger's: there is nothing to remember, or anybody could fill the list.
            return false;
        };
        self.ended().add(session.client(), id);
        true
    }

    fn ended(&self) -> MutexGuard<'_, Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::{
        face::mcp::revision::Revision,
        route::Scopes,
        upstream::{Caller, Client},
    };

    fn id(seal: &Seal) -> String {
        Session::new(Revision::R2025_11_25, Map::new()).seal(seal, SystemTime::now())
    }

    fn id_of(seal: &Seal, caller: &Caller) -> String {
        Session::new(Revision::R2025_11_25, Map::new()).of(caller).seal(seal, SystemTime::now())
    }

    fn client(name: &str) -> Caller {
        Caller::Client(Arc::new(Client::new(name, name, Scopes::default())))
    }

    #[test]
    fn an_id_is_taken_until_it_is_ended() {
        let seal = Seal::random();
        let sessions = Sessions::new(seal.clone(), Strangers::Refused);
        let (one, other) = (id(&seal), id(&seal));
        sessions.check(None, None).unwrap();
        sessions.check(Some(&one), None).unwrap();
        sessions.end(&one, None).unwrap();
        assert_eq!(sessions.check(Some(&one), None).unwrap_err(), Refusal::NoSession);
        assert_eq!(sessions.end(&one, None).unwrap_err(), Refusal::NoSession);
        sessions.check(Some(&other), None).unwrap();
        let expired = Session::new(Revision::R2025_11_25, Map::new()).seal(&seal, SystemTime::UNIX_EPOCH);
        assert_eq!(sessions.check(Some(&expired), None).unwrap_err(), Refusal::NoSession);
    }

    #[test]
    fn ids_of_strangers_are_refused_where_every_replica_knows_its_own() {
        let foreign = id(&Seal::random());
        let refused = Sessions::new(Seal::random(), Strangers::Refused);
        assert_eq!(refused.check(Some(&foreign), None).unwrap_err(), Refusal::NoSession);
        let taken = Sessions::new(Seal::random(), Strangers::Taken);
        taken.check(Some(&foreign), None).unwrap();
        taken.end(&foreign, None).unwrap();
        assert_eq!(taken.ended().known.len(), 0);
    }

    #[test]
    fn a_session_is_nobodys_but_its_owners() {
        let seal = Seal::random();
        let owned =
            Session::new(Revision::R2025_11_25, Map::new()).of(&client("me")).seal(&seal, SystemTime::now());
        for strangers in [Strangers::Taken, Strangers::Refused] {
            let sessions = Sessions::new(seal.clone(), strangers);
            let check = |id: &str, owner| sessions.check(Some(id), owner).is_ok();
            assert!(check(&owned, Some("me")));
            assert!(!check(&owned, Some("you")) && !check(&owned, None));
            assert!(!check(&id(&seal), Some("me")), "it was begun by nobody");
            assert!(!check(&id(&Seal::random()), Some("me")), "nobody knows whose it is");
            assert_eq!(sessions.end(&owned, Some("you")), Err(Refusal::NoSession));
            assert!(check(&owned, Some("me")));
        }
    }

    #[test]
    fn the_list_of_ended_sessions_has_an_end() {
        let seal = Seal::random();
        let sessions = Sessions::new(seal.clone(), Strangers::Refused);
        let first = id(&seal);
        sessions.end(&first, None).unwrap();
        for _ in 0..ENDED_LIMIT {
            sessions.end(&id(&seal), None).unwrap();
        }
        assert_eq!(sessions.ended().known.len(), ENDED_LIMIT);
        sessions.check(Some(&first), None).unwrap();
    }

    #[test]
    fn who_ends_many_sessions_brings_back_nobody_elses() {
        let seal = Seal::random();
        let sessions = Sessions::new(seal.clone(), Strangers::Refused);
        let (here, there) = (["192.0.2.1", "192.0.2.2"]).map(|at| Caller::at(at.parse().unwrap())).into();
        let (known, other) = (client("one"), client("two"));
        for (victim, attacker) in [(&here, &there), (&known, &other), (&known, &here), (&here, &known)] {
            let theirs = id_of(&seal, victim);
            let first = id_of(&seal, attacker);
            sessions.end(&theirs, victim.owner()).unwrap();
            sessions.end(&first, attacker.owner()).unwrap();
            for _ in 0..ENDED_LIMIT {
                sessions.end(&id_of(&seal, attacker), attacker.owner()).unwrap();
            }
            assert_eq!(sessions.check(Some(&theirs), victim.owner()), Err(Refusal::NoSession));
            assert_eq!(sessions.check(Some(&first), attacker.owner()), Ok(()), "the list has an end");
            assert_eq!(sessions.ended().known.len(), ENDED_LIMIT);
        }
    }
}
