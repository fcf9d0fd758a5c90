//! Replay of recorded servers: `server.sh` responds with the line that a test sets.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use glossator::config::{self, ConfigSource, Environment, Sources};
use serde::Deserialize;
use serde_json::{Value, json};

use super::folder;
use crate::support::Loaded as Serving;

/// Recording of one server.
#[derive(Deserialize)]
struct Recording {
    revision: String,
    tools: Vec<Value>,
    calls: Vec<Recorded>,
}

/// One exchange.
#[derive(Deserialize)]
pub(super) struct Recorded {
    #[serde(flatten)]
    pub(super) call: Called,
    /// Call to replay instead, if the proxy rejects the recorded one.
    pub(super) instead: Option<Called>,
    /// Line that the server wrote.
    pub(super) answer: String,
}

#[derive(Deserialize)]
pub(super) struct Called {
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// The program with the sample of a server, in front of its recording.
pub(super) struct Played {
    pub(super) serving: Serving,
    /// Working folder of the server.
    pub(super) folder: PathBuf,
    pub(super) calls: Vec<Recorded>,
}

impl Played {
    /// Starts the sample of `name`, which reads its program and the folder of that from these variables.
    pub(super) async fn start(name: &str, program: &str, place: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let works_in =
            std::env::temp_dir().join(format!("glossator-it-seed-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&works_in).unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/seeds/recorded");
        let text = std::fs::read_to_string(here.join(format!("{name}.json"))).unwrap();
        let Recording { revision, tools, calls } = serde_json::from_str(&text).unwrap();
        let result = json!({ "protocolVersion": revision, "capabilities": { "tools": {} } });
        let played = |file: &str, result: Value| {
            let line = json!({ "jsonrpc": "2.0", "id": 0, "result": result }).to_string();
            std::fs::write(works_in.join(file), line + "\n").unwrap();
        };
        played("initialize", result);
        played("tools", json!({ "tools": tools }));
        let sources = Sources {
            origin: ConfigSource::Path(folder(name).join("glossator.yaml")),
            environment: Environment(
                [
                    (program.to_owned(), here.join("server.sh").to_string_lossy().into_owned()),
                    (place.to_owned(), works_in.to_string_lossy().into_owned()),
                    ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
                ]
                .into(),
            ),
            flags: Vec::new(),
        };
        let loaded = config::load(&sources).unwrap_or_else(|problems| panic!("{problems}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        let mut serving = Serving::start(&loaded).await;
        serving.app.discover(std::time::Duration::from_secs(30)).await;
        Self { serving, folder: works_in, calls }
    }

    /// Sets the line that the server responds with from now on.
    pub(super) fn answers(&self, line: &str) {
        std::fs::write(self.folder.join("answer"), line.to_owned() + "\n").unwrap();
        let _ = std::fs::remove_file(self.folder.join("asked"));
    }

    /// Makes the server exit with the next call.
    pub(super) fn dies(&self) {
        std::fs::write(self.folder.join("die"), "").unwrap();
    }

    /// Call that the server received since the last line was set.
    pub(super) fn last_call(&self) -> Option<Value> {
        let line = std::fs::read_to_string(self.folder.join("asked")).ok()?;
        Some(serde_json::from_str::<Value>(&line).unwrap()["params"].take())
    }

    /// Whole JSON-RPC response that an MCP client of a revision gets.
    pub(super) async fn send(&self, revision: &str, method: &str, params: Value) -> Value {
        super::send(&self.serving, revision, method, params).await
    }

    /// Result of a call, or its JSON-RPC error.
    pub(super) async fn call(&self, revision: &str, called: &Called) -> Value {
        let params = json!({ "name": called.tool, "arguments": called.arguments });
        let mut answer = self.send(revision, "tools/call", params).await;
        match answer.get_mut("result") {
            Some(result) => result.take(),
            None => answer["error"].take(),
        }
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
