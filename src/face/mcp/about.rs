//! What the server says of itself, and of its tools: `initialize`, `server/discover`, `tools/list`.

use std::{borrow::Cow, time::Duration};

use rmcp::model::{
    Implementation, InitializeResult, JsonObject, PromptsCapability, ResourcesCapability, ServerCapabilities,
    ToolsCapability,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    McpSettings,
    client::Client,
    message::Member,
    refusal::Refusal,
    revision::{Era, Revision},
    tasks,
};
use crate::{
    gateway::{List, Snapshot},
    tool::write_escaped,
};

/// What does not change from one request to the next.
#[derive(Debug)]
pub(super) struct About {
    server: Implementation,
    instructions: Option<String>,
    page_size: usize,
    pub(super) list_ttl: Duration,
    /// `_meta` of every result of the newer era.
    meta: Map<String, Value>,
    no_meta: Map<String, Value>,
}

impl About {
    pub(super) fn new(settings: McpSettings) -> Self {
        let mut server = Implementation::new(settings.server_name, settings.server_version);
        server.title = settings.server_title;
        let info = serde_json::to_value(&server).expect("a name and a version have string keys only");
        let meta = Map::from_iter([("io.modelcontextprotocol/serverInfo".to_owned(), info)]);
        let page_size = settings.page_size.max(1);
        let (instructions, list_ttl) = (settings.instructions, settings.list_ttl);
        Self { server, instructions, page_size, list_ttl, meta, no_meta: Map::new() }
    }

    /// What `_meta` of a result holds beside what the result itself brings.
    pub(super) fn result_meta(&self, revision: Revision) -> &Map<String, Value> {
        match revision.era() {
            Era::Handshake => &self.no_meta,
            Era::PerRequest => &self.meta,
        }
    }

    /// `initialize`. Nothing of it is kept: each later request says for itself what it speaks.
    pub(super) fn initialize(
        &self,
        snapshot: &Snapshot,
        client: &Client<'_>,
        revision: Revision,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let mut result = InitializeResult::new(capabilities(snapshot, client, revision))
            .with_protocol_version(revision.version())
            .with_server_info(self.server.clone());
        result.instructions.clone_from(&self.instructions);
        write_members(&result, out);
        Ok(())
    }

    /// `server/discover`.
    pub(super) fn discover(&self, snapshot: &Snapshot, client: &Client<'_>, out: &mut Vec<u8>) {
        let capabilities = capabilities(snapshot, client, Revision::R2026_07_28);
        let versions = Revision::ALL.map(Revision::as_str);
        let mut result = json!({ "supportedVersions": versions, "capabilities": capabilities });
        if tasks::are_offered(snapshot) {
            result["capabilities"]["extensions"] = json!({ tasks::EXTENSION: {} });
        }
        if let Some(instructions) = &self.instructions {
            result["instructions"] = instructions.as_str().into();
        }
        write_members(&result, out);
        self.write_hints(self.list_ttl, client.cache_scope(), out);
    }

    /// One page of a list, which may be kept for so long.
    pub(super) fn list(
        &self,
        list: &List,
        lasts: Duration,
        client: &Client<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let cursor = cursor_of(client)?;
        let page = list.page(cursor.as_deref(), self.page_size, client.carrier.caller());
        let page = page.map_err(|_| Refusal::UnknownCursor)?;
        write_escaped(list.name(), out);
        out.extend_from_slice(b":[");
        for (index, entry) in page.entries.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(entry.json(client.revision.shapes()).get().as_bytes());
        }
        self.end_list(page.next_cursor, lasts, client, out);
        Ok(())
    }

    fn end_list(&self, next_cursor: Option<String>, lasts: Duration, client: &Client<'_>, out: &mut Vec<u8>) {
        out.push(b']');
        if let Some(cursor) = next_cursor {
            out.extend_from_slice(b",\"nextCursor\":");
            write_escaped(&cursor, out);
        }
        match client.revision.era() {
            Era::Handshake => {}
            Era::PerRequest => self.write_hints(lasts, client.cache_scope(), out),
        }
    }

    /// `_meta` of a result that has nothing of its own to put there.
    pub(super) fn write_meta(&self, revision: Revision, out: &mut Vec<u8>) {
        let meta = self.result_meta(revision);
        if !meta.is_empty() {
            out.extend_from_slice(b",\"_meta\":");
            serde_json::to_writer(out, meta).expect("a JSON object has string keys only");
        }
    }

    /// How long the result may be kept, and by whom; and who gave it.
    pub(super) fn write_hints(&self, lasts: Duration, scope: &str, out: &mut Vec<u8>) {
        let ttl_ms = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
        out.extend_from_slice(
            format!(",\"ttlMs\":{ttl_ms},\"cacheScope\":\"{scope}\",\"_meta\":").as_bytes(),
        );
        serde_json::to_writer(out, &self.meta).expect("a JSON object has string keys only");
    }
}

/// Where a list is to go on.
fn cursor_of<'a>(client: &Client<'a>) -> Result<Option<Cow<'a, str>>, Refusal> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Params<'a> {
        #[serde(borrow)]
        cursor: Member<'a>,
    }
    let Params { cursor } = client.request.params()?;
    cursor.unless_null().optional_text("params.cursor")
}

/// Tools, and of the rest what there is something of; and that it is told when a list changes, to whoever listens.
fn capabilities(snapshot: &Snapshot, client: &Client<'_>, revision: Revision) -> ServerCapabilities {
    let has = |list: &List| list.seen_by(client.carrier.caller()).next().is_some();
    let lists = &snapshot.lists;
    let mut capabilities = ServerCapabilities::default();
    let mut tools = ToolsCapability::default();
    tools.list_changed = Some(true);
    capabilities.tools = Some(tools);
    capabilities.logging = Some(Map::new());
    if has(&lists.prompts) {
        let mut prompts = PromptsCapability::default();
        prompts.list_changed = Some(true);
        capabilities.prompts = Some(prompts);
    }
    // The first revision has the method, and no word for it.
    if snapshot.completes() && revision > Revision::R2024_11_05 {
        capabilities.completions = Some(JsonObject::new());
    }
    if has(&lists.resources) || has(&lists.resource_templates) {
        let mut resources = ResourcesCapability::default();
        resources.list_changed = Some(true);
        resources.subscribe = snapshot.watches_resources().then_some(true);
        capabilities.resources = Some(resources);
    }
    capabilities
}

/// The members of a result, without its braces.
fn write_members(result: &impl Serialize, out: &mut Vec<u8>) {
    let json = serde_json::to_vec(result).expect("a result has string keys only");
    out.extend_from_slice(&json[1..json.len() - 1]);
}
