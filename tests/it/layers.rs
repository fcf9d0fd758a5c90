//! The layers of `src/lib.rs`: a module imports only modules that are declared above it there, and each
//! external crate is named only in the modules that own it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Source file, without comments and tests.
struct Source {
    module: String,
    path: String,
    code: String,
}

fn source_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Modules from the lowest layer up, as `src/lib.rs` declares them.
fn modules() -> Vec<String> {
    let text = fs::read_to_string(source_folder().join("lib.rs")).unwrap();
    let names = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    names.map(str::to_owned).collect()
}

fn sources() -> Vec<Source> {
    fn visit(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    visit(&source_folder(), &mut paths);
    paths.sort();
    let read = |path: PathBuf| {
        let inside = path.strip_prefix(source_folder()).unwrap().to_str().unwrap().replace('\\', "/");
        let module = inside.split('/').next().unwrap().trim_end_matches(".rs").to_owned();
        Source { module, code: code_of(&fs::read_to_string(&path).unwrap()), path: inside }
    };
    let all: Vec<Source> = paths.into_iter().map(read).collect();
    // Files that only contain tests.
    let is_test = |path: &str| path.ends_with("/tests.rs") || path.contains("/tests/");
    all.into_iter().filter(|source| !is_test(&source.path)).collect()
}

/// Drops comments, and everything from the first test module on: tests may import from higher layers. Test
/// helpers outside of such a module may not.
fn code_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = String::new();
    for (index, line) in lines.iter().enumerate() {
        let is_attribute = |line: &&&str| line.trim_start().starts_with("#[");
        let item = lines[index..].iter().find(|line| !is_attribute(line));
        let is_module = item.is_some_and(|item| has_word(item, "mod") && item.ends_with('{'));
        if line.trim() == "#[cfg(test)]" && is_module {
            break;
        }
        if !line.trim_start().starts_with("//") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// Whether `code` contains `word` as a whole word. After `::` and `_` anything may follow.
fn has_word(code: &str, word: &str) -> bool {
    let part = |character: char| character.is_alphanumeric() || character == '_';
    code.match_indices(word).any(|(start, _)| {
        let after = &code[start + word.len()..];
        !code[..start].ends_with(part) && (word.ends_with([':', '_']) || !after.starts_with(part))
    })
}

/// Modules that a file imports or names: `crate::module`, and each member of `crate::{…}`.
fn modules_named(code: &str) -> Vec<String> {
    let mut named = Vec::new();
    for (start, _) in code.match_indices("crate::") {
        // Not `$crate` and `some_crate::`.
        if code[..start].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
            continue;
        }
        let rest = &code[start + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(list) => named.extend(members(list)),
            None => named.extend(first_word(rest)),
        }
    }
    named
}

/// First word of each member of a list, up to its closing brace.
fn members(list: &str) -> Vec<String> {
    let (mut depth, mut at_start, mut found) = (0_u32, true, Vec::new());
    for (index, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_start = true,
            _ if at_start && !character.is_whitespace() => {
                found.extend(first_word(&list[index..]));
                at_start = false;
            }
            _ => {}
        }
    }
    found
}

fn first_word(text: &str) -> Option<String> {
    let word: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!word.is_empty()).then_some(word)
}

#[test]
fn a_module_imports_only_modules_of_lower_layers() {
    let modules = modules();
    assert!(modules.len() >= 10 && modules[0] == "settings", "{modules:?}");
    let layer = |name: &str| modules.iter().position(|module| module == name);
    let mut wrong = Vec::new();
    for source in sources() {
        // The library's root and the binary belong to no module.
        let Some(own) = layer(&source.module) else { continue };
        for named in modules_named(&source.code) {
            if layer(&named).is_some_and(|other| other > own) {
                wrong.push(format!("src/{} uses `{named}`, which is above `{}`", source.path, source.module));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn external_crates_are_named_only_by_their_owners() {
    /// Crates or their items, and the path prefixes that may name them.
    const OWNERS: [(&[&str], &[&str]); 29] = [
        (&["rmcp::", "use rmcp"], &["inbound/mcp/", "upstream/mcp"]),
        (&["hyper_util::client", "hyper::client", "HttpConnector"], &["upstream/"]),
        (&["client::legacy"], &["upstream/"]),
        (&["granit_parser"], &["settings/"]),
        (&["rustls", "tokio_rustls", "rustls_native_certs", "x509_cert"], &["tls/"]),
        (&["ring"], &["crypto", "tls/", "auth/jws", "auth/jwks"]),
        (&["jaq_"], &["translate/"]),
        (&["jsonschema"], &["model/"]),
        // The crate has the same name as the extractor's module.
        (&["ReaderBuilder", "StringRecord", "ByteRecord"], &["translate/extract/", "authoring/infer/"]),
        (&["roxmltree"], &["translate/extract/", "authoring/infer/"]),
        (&["scraper", "ego_tree"], &["translate/extract/", "translate/charset"]),
        (&["html5ever"], &["translate/extract/"]),
        (
            &["jiff"],
            &[
                "translate/content",
                "translate/fields/",
                "inbound/mcp/tasks",
                "config/certificate_expiry",
                "auth/api_keys",
                "telemetry/log",
            ],
        ),
        (&["flate2"], &["translate/content_encoding"]),
        (&["brotli_decompressor"], &["translate/content_encoding"]),
        (&["ruzstd"], &["translate/content_encoding"]),
        (&["redis::", "use redis"], &["shared_state/"]),
        (&["diffy::", "use diffy"], &["cli/"]),
        (&["fastrand"], &["policy/", "upstream/http/endpoints"]),
        (
            &["rustix", "tokio::process"],
            &["upstream/", "descriptors", "pipeline/worker_pool", "telemetry/metrics"],
        ),
        (&["httpdate"], &["policy/"]),
        (&["quick_cache"], &["auth/jwt", "policy/"]),
        (&["tower"], &["admin/"]),
        (&["tower_http"], &["admin/"]),
        (&["form_urlencoded"], &["admin/", "inbound/", "upstream/http/credentials/"]),
        (&["url::"], &["route/path"]),
        (&["fearless_simd"], &["model/json/escape"]),
        (&["wide::", "use wide"], &["model/json/escape"]),
        (
            &["opentelemetry", "opentelemetry_sdk", "opentelemetry_proto", "prost"],
            &["telemetry/otlp_encoding", "telemetry/traces"],
        ),
    ];
    let mut wrong = Vec::new();
    for source in sources() {
        for (words, owners) in OWNERS {
            for word in words {
                if has_word(&source.code, word) && !owners.iter().any(|home| source.path.starts_with(home)) {
                    wrong.push(format!("src/{} names `{word}`, which only {owners:?} may", source.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_modules_name_no_clock_log_environment_or_wire() {
    const PURE: [&str; 4] = ["model", "translate", "route", "prompt"];
    const UNKNOWN: [&str; 14] = [
        "async",
        "await",
        "tokio",
        "tracing",
        "hyper",
        "hyper_util",
        "axum",
        "tower",
        "Instant",
        "SystemTime",
        "std::env",
        "std::fs",
        "std::net",
        "println",
    ];
    let modules = modules();
    assert!(PURE.iter().all(|module| modules.iter().any(|known| known == module)), "{PURE:?}, {modules:?}");
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| PURE.contains(&source.module.as_str())) {
        for word in UNKNOWN {
            if has_word(&source.code, word) {
                wrong.push(format!("src/{} names `{word}`", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_reader_of_imports_sees_every_form() {
    let code = "use crate::model::Name;\nuse crate::{\n    wire::Body,\n    translate::{a, b},\n    route,\n};\nother_crate::config::x";
    assert_eq!(modules_named(code), ["model", "wire", "translate", "route"]);
    let cut = "a\n#[cfg(test)]\nfn helper() {\n}\nb\n#[cfg(test)]\n#[allow(x)]\npub(crate) mod tests {\nc";
    assert_eq!(code_of(cut), "a\n#[cfg(test)]\nfn helper() {\n}\nb\n");
    assert!(has_word("use jaq_core::x", "jaq_") && !has_word("my_jaq_core", "jaq_"));
    assert!(has_word("a tokio::x", "tokio") && !has_word("my_tokio", "tokio"));
}
