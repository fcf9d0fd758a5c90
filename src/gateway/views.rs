//! What a caller sees of everything that there is: what it may ask for, and nothing else.

use std::{
    collections::HashMap,
    ops::Deref,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bytes::Bytes;

use super::{Catalog, Listing, Snapshot};
use crate::{
    prompt::PromptTable,
    route::{Route, RouteTable, Scopes},
    upstream::Caller,
};

/// How many views are kept that are not of everything. There are as many as there are sets of scopes that make a
/// difference; one more is made for its request alone.
const KEPT_LIMIT: usize = 256;

/// The lists as clients read them: all of what there is, or what one caller may ask for.
#[derive(Debug, Default)]
pub struct View {
    /// What can be called.
    pub catalog: Catalog,
    /// What prompts there are.
    pub prompts: Listing,
    /// What can be read under one URI each.
    pub resources: Listing,
    /// What can be read under many URIs each.
    pub resource_templates: Listing,
    written: OnceLock<Bytes>,
}

/// A view, kept or not.
#[derive(Debug)]
pub enum Seen<'s> {
    /// Of everything.
    All(&'s View),
    /// Of what a caller may ask for.
    Some(Arc<View>),
}

impl Deref for Seen<'_> {
    type Target = View;

    fn deref(&self) -> &View {
        match self {
            Self::All(view) => view,
            Self::Some(view) => view,
        }
    }
}

/// The views of callers.
#[derive(Debug, Default)]
pub(super) struct Views {
    /// Every set of scopes that something needs.
    needed: Vec<Scopes>,
    /// By which of those a caller has.
    kept: Mutex<HashMap<Vec<usize>, Arc<View>>>,
}

impl View {
    /// Of the routes and prompts that need nothing but what is in reach.
    pub(super) fn of(table: &RouteTable, prompts: &PromptTable, is_open: impl Fn(&Scopes) -> bool) -> Self {
        let listing = |templates: bool| {
            let open = table.in_order().iter().filter(|route| is_open(&route.scopes));
            let all = open.filter_map(|route| route.resource.as_ref());
            let those = all.filter(|resource| resource.uri.is_template() == templates);
            Listing::of(those.map(|resource| (resource.uri.as_str().to_owned(), resource.to_json())))
        };
        let open_prompts = prompts.in_order().iter().filter(|prompt| is_open(&prompt.scopes));
        Self {
            catalog: Catalog::of(table, &is_open),
            prompts: Listing::of(
                open_prompts.map(|prompt| (prompt.name.as_str().to_owned(), prompt.to_json())),
            ),
            resources: listing(false),
            resource_templates: listing(true),
            written: OnceLock::new(),
        }
    }

    /// A document about what is seen, written when it is first asked for.
    pub fn written_once(&self, write: impl FnOnce() -> Bytes) -> &Bytes {
        self.written.get_or_init(write)
    }
}

impl Views {
    pub(super) fn of(table: &RouteTable, prompts: &PromptTable) -> Self {
        let routes = table.in_order().iter().map(|route| &route.scopes);
        let all = routes.chain(prompts.in_order().iter().map(|prompt| &prompt.scopes));
        let mut needed: Vec<Scopes> = all.filter(|scopes| !scopes.is_empty()).cloned().collect();
        needed.sort_unstable();
        needed.dedup();
        Self { needed, kept: Mutex::default() }
    }

    /// Every scope that something needs.
    pub(super) fn all_needed(&self) -> Scopes {
        self.needed.iter().fold(Scopes::default(), |all, more| all.and(more))
    }
}

impl Snapshot {
    /// What a caller sees: what it may ask for.
    pub fn seen_by(&self, caller: &Caller) -> Seen<'_> {
        let views = &self.views;
        let held: Vec<usize> = match views.needed.is_empty() {
            true => return Seen::All(&self.all),
            false => (0..views.needed.len()).filter(|index| caller.may(&views.needed[*index])).collect(),
        };
        if held.len() == views.needed.len() {
            return Seen::All(&self.all);
        }
        if let Some(view) = views.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&held) {
            return Seen::Some(Arc::clone(view));
        }
        let view = Arc::new(View::of(&self.table, &self.prompts, |scopes| caller.may(scopes)));
        let mut kept = views.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_LIMIT {
            kept.insert(held, Arc::clone(&view));
        }
        Seen::Some(view)
    }

    /// Every scope that some route or prompt needs.
    pub fn needed_scopes(&self) -> Scopes {
        self.views.all_needed()
    }

    /// What a caller needs to read what has this URI; `None` where nothing has it.
    pub fn scopes_of_uri(&self, uri: &str) -> Option<&Scopes> {
        self.table.by_uri(uri).map(|(route, _): (&Arc<Route>, _)| &route.scopes)
    }
}
