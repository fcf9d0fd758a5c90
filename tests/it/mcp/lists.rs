//! All lists, page by page.

use serde_json::{Value, json};

use super::served::{LIFECYCLES, Served};
use crate::support::{Scripted, response};

/// Seven entries per list, three per page, with names out of order.
fn configuration() -> String {
    let names = ["pine", "elm", "yew", "ash", "oak", "fir", "box"];
    let mut text = "server: { mcp: { page_size: 3 } }\nupstreams: { old: LEGACY }\nroutes:\n".to_owned();
    for name in names {
        text += &format!("  {name}: {{ description: A tree., request: GET old/ }}\n");
        let resource = |uri: &str, path: &str| {
            format!("{{ description: A leaf., request: 'GET old/{path}', resource: '{uri}' }}\n")
        };
        text += &format!("  leaf_{name}: {}", resource(&format!("leaf://{name}"), "leaf"));
        text += &format!("  leaves_{name}: {}", resource(&format!("leaves-{name}://{{n}}"), "{n}"));
    }
    text += "prompts:\n";
    for name in names {
        text += &format!("  {name}: {{ description: A tree., messages: [{{ user: hello }}] }}\n");
    }
    text
}

/// Pages of a list: the key of each entry.
async fn pages(served: &Served, revision: &str, method: &str, list: &str, key: &str) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let params = match &cursor {
            Value::Null => json!({}),
            cursor => json!({ "cursor": cursor }),
        };
        let result = served.result(revision, method, params).await;
        let entries = result[list].as_array().unwrap().iter();
        pages.push(entries.map(|entry| entry[key].as_str().unwrap().to_owned()).collect());
        assert_eq!(result.get("ttlMs").is_some(), revision == LIFECYCLES[1], "{result}");
        match result.get("nextCursor") {
            Some(next) => cursor = next.clone(),
            None => return pages,
        }
    }
}

const LISTS: [(&str, &str, &str); 2] = [("tools/list", "tools", "name"), ("prompts/list", "prompts", "name")];

#[tokio::test]
async fn every_list_is_complete_ordered_and_finite() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "x")).await;
    let served = Served::start(&configuration(), &upstream).await;
    for revision in LIFECYCLES {
        for (method, list, key) in LISTS {
            let shown = pages(&served, revision, method, list, key).await;
            let sizes: Vec<_> = shown.iter().map(Vec::len).collect();
            assert_eq!(sizes, [3, 3, 1], "{revision} {method}");
            let all = shown.concat();
            assert!(all.is_sorted(), "{revision} {method}: {all:?}");
            assert!(all.iter().any(|entry| entry.contains("yew")), "{all:?}");
        }
    }
}

#[tokio::test]
async fn a_cursor_of_one_list_is_none_of_another() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "x")).await;
    let served = Served::start(&configuration(), &upstream).await;
    for revision in LIFECYCLES {
        for (method, ..) in LISTS {
            let cursor = served.result(revision, method, json!({})).await["nextCursor"].clone();
            assert!(cursor.is_string());
            for (other, ..) in LISTS.iter().filter(|(other, ..)| *other != method) {
                let (_, code, message) = served.error(revision, other, json!({ "cursor": cursor })).await;
                assert_eq!(code, -32602, "{message}");
            }
            for cursor in [json!("nowhere"), json!(""), json!(7), json!({})] {
                let (_, code, _) = served.error(revision, method, json!({ "cursor": cursor })).await;
                assert_eq!(code, -32602, "{method} {cursor}");
            }
        }
    }
}
