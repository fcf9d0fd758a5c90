//! `GET /tools`: every tool definition, and where REST clients find the tool.

use super::answer::SHAPES;
use crate::{gateway::Snapshot, tool::write_escaped, upstream::Caller};

/// `[{…definition…, "endpoint": "/weather", "method": "POST"}]`, by tool name; `mount` comes before every
/// endpoint.
pub(super) fn of(snapshot: &Snapshot, caller: &Caller, mount: &str) -> Vec<u8> {
    let mut out = b"[".to_vec();
    for (index, entry) in snapshot.lists.tools.seen_by(caller).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let definition = entry.json(SHAPES).get().as_bytes();
        let Some(endpoint) = snapshot.table.by_tool(entry.key()).and_then(|route| route.endpoints().next())
        else {
            out.extend_from_slice(definition);
            continue;
        };
        let members = definition.strip_suffix(b"}").expect("a definition is a JSON object");
        out.extend_from_slice(members);
        out.extend_from_slice(b",\"endpoint\":");
        write_escaped(&format!("{mount}{}", endpoint.path), &mut out);
        out.extend_from_slice(b",\"method\":");
        write_escaped(endpoint.method.as_str(), &mut out);
        out.push(b'}');
    }
    out.push(b']');
    out
}
