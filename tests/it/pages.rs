//! Pages of the reference in `config/book/reference`, such as `extractors/*.md`. Each shows rules, responses
//! and results, and the results are checked.
//!
//! A `yaml` block is the `response` of a route, an `http` block the upstream response, and a `json` block
//! those members of the tool result that are worth showing. A `yaml` block with `routes:` is a whole file,
//! which loads without a warning. `UPDATE_GOLDEN=1 cargo test --test it pages` rewrites the results: the
//! members that are shown, or the structured content if nothing is shown yet.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use bytes::Bytes;
use glossator::{
    config::{self, Code, Problem, Sources},
    model::{ErrorType, StructuredContentSupport, UpstreamResponse, write_result},
    translate::{self, CallInput, Trace, translate},
};
use serde_json::{Map, Value};

/// A page of the reference.
fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config/book/reference").join(name)
}

/// The pages of these folders of the reference, with their text, in order.
fn pages_of<const N: usize>(folders: [&str; N]) -> Vec<(PathBuf, String)> {
    let entries = folders.map(|folder| fs::read_dir(page(folder)).unwrap());
    let paths = entries.into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    pages.sort();
    pages.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn every_page_shows_what_happens() {
    let mut pages = pages_of(["", "extractors"]);
    // Its examples are fragments, which have a test of their own.
    pages.retain(|(path, _)| !path.ends_with("diagnostics.md"));
    pages.retain(|(_, written)| written.contains("```yaml\n") && !shows_files(written));
    assert!(pages.len() >= 18, "pages are missing: found {}", pages.len());
    let mut different = Vec::new();
    for (page, written) in pages {
        let expected = with_results(&written, &page);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&page, &expected).unwrap();
        } else if written != expected {
            different.push(format!("{}\n{expected}", page.display()));
        }
    }
    assert!(different.is_empty(), "results differ:\n{}", different.join("\n"));
}

#[test]
fn the_page_states_the_limits_of_jq_filters() {
    let page = fs::read_to_string(page("templates.md")).unwrap();
    for row in [
        format!("| may take | {} steps |", translate::JQ_WORK_LIMIT),
        format!("`until` or `while` | {} steps |", translate::JQ_ROUND_STEPS),
        format!("`reduce` or `foreach` | {} steps |", translate::JQ_FOLD_STEPS),
        format!("| may make | {} MiB |", translate::JQ_MEMORY_LIMIT_BYTES >> 20),
    ] {
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn the_page_has_every_error_type_and_no_other() {
    let page = fs::read_to_string(page("operations.md")).unwrap();
    let (_, table) = page.split_once("| `error_type` | cause |\n|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with("| `"));
    let documented: Vec<_> = rows.map(|row| row.split('`').nth(1).unwrap()).collect();
    let all = [
        ErrorType::Arguments,
        ErrorType::Forbidden,
        ErrorType::InputMissing,
        ErrorType::Upstream { status: 500 },
        ErrorType::ReportedError { status: None },
        ErrorType::UnparseableResponse,
        ErrorType::Unreachable,
        ErrorType::Timeout,
        ErrorType::Unavailable,
        ErrorType::RateLimited,
    ];
    assert_eq!(documented, all.map(<&str>::from));
}

/// Whether a page shows whole files rather than rules. Their results are tested with the feature.
fn shows_files(page: &str) -> bool {
    page.split_once("```yaml\n").is_some_and(|(_, first)| {
        first.split("```").next().unwrap().lines().any(|line| line.starts_with("upstreams:"))
    })
}

#[test]
fn the_files_that_pages_show_are_right() {
    let mut files = 0;
    // The full file has variables, and a test of its own.
    let pages = pages_of(["", "upstreams"]).into_iter().filter(|(page, _)| !page.ends_with("full-file.md"));
    for (page, written) in pages {
        let blocks = written.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        for block in blocks.filter(|_| shows_files(&written)) {
            let loaded = config::load(&Sources::from_text(page.display().to_string(), block));
            let loaded = loaded.unwrap_or_else(|problems| panic!("{block}\n{problems}"));
            // Programs of old servers are not installed on every machine.
            let is_missing_program =
                |warning: &&Problem| warning.message.starts_with("there is no executable file `/");
            let unexpected: Vec<_> =
                loaded.warnings.iter().filter(|warning| !is_missing_program(warning)).collect();
            assert!(unexpected.is_empty(), "{unexpected:?}");
            files += 1;
        }
    }
    assert!(files > 0, "no page shows a file");
}

/// The page with every key in one file: `glossator check` accepts the file, with its variables set.
#[test]
fn the_full_file_is_accepted() {
    let written = fs::read_to_string(page("full-file.md")).unwrap();
    let file = written.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("full-file");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("glossator.yaml"), file).unwrap();
    let recording = "src/config/tests/responses.har";
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(recording), folder.join("responses.har")).unwrap();
    let identity = rcgen::generate_simple_self_signed(["client.test".to_owned()]).unwrap();
    let checked = Command::new(env!("CARGO_BIN_EXE_glossator"))
        .args(["check", "--config", "glossator.yaml", "--deny-warnings"])
        .current_dir(&folder)
        .env("TOKEN", "s3cr3t")
        .env("SECRET", "s3cr3t-0123456789")
        .env("HASH", "0".repeat(64))
        .env("CLIENT_CERTIFICATE", identity.cert.pem())
        .env("CLIENT_KEY", identity.signing_key.serialize_pem())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// Groups of codes: the first two digits of the number, and the title of its section on the page.
const CODE_SUBJECTS: [(u16, &str); 8] = [
    (0, "Files and their syntax"),
    (1, "Keys and values"),
    (2, "Expressions and schemas"),
    (3, "Names across sections"),
    (4, "Routes and requests"),
    (5, "Rules, extractors and output"),
    (6, "Upstreams, policies and the process"),
    (7, "Secrets and access"),
];

/// The page of the codes has what `glossator check --explain` prints. `UPDATE_GOLDEN=1` writes it.
#[test]
fn the_page_of_the_codes_has_every_code() {
    const BEGIN: &str = "<!-- codes -->\n";
    let path = page("diagnostics.md");
    let written = fs::read_to_string(&path).unwrap();
    let (intro, _) = written.split_once(BEGIN).unwrap();
    let mut expected = format!("{intro}{BEGIN}");
    let has_subject = |code: &Code| CODE_SUBJECTS.iter().any(|(subject, _)| code.number() / 100 == *subject);
    assert!(Code::ALL.iter().all(has_subject), "a group of codes has no title");
    for (subject, title) in CODE_SUBJECTS {
        write!(expected, "\n## G{subject:02}xx: {title}\n").unwrap();
        for code in Code::ALL.iter().filter(|code| code.number() / 100 == subject) {
            write!(expected, "\n### {code}: {}\n", code.summary().trim_end_matches('.')).unwrap();
            let explanation = code.explanation();
            if !explanation.is_empty() {
                write!(expected, "\n{explanation}\n").unwrap();
            }
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &expected).unwrap();
        return;
    }
    assert!(
        written == expected,
        "the page of diagnostics is behind the table of codes: run with UPDATE_GOLDEN=1"
    );
}

/// The examples of fixes have keys that exist, and values of their types. A fragment is a part of a route.
#[test]
fn the_examples_of_the_codes_are_right() {
    let schema = config::schema();
    let has = |keys: &Value, key: &str| keys["properties"].get(key).is_some();
    let mut checked = 0;
    for code in Code::ALL {
        let explanation = code.explanation();
        let blocks = explanation.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
        for block in blocks {
            let key = block.split(':').next().unwrap();
            let file = if has(&schema, key) {
                block.to_owned()
            } else if has(&schema["$defs"]["route"], key) {
                format!("routes:\n  example:\n    {}", block.trim_end().replace('\n', "\n    "))
            } else if block.contains(" request: ") {
                format!("routes:\n  {}", block.trim_end().replace('\n', "\n  "))
            } else {
                continue;
            };
            checked += 1;
            let wrong = match config::load(&Sources::from_text("example.yaml", &file)) {
                Ok(_) => continue,
                Err(problems) => problems.as_slice().to_vec(),
            };
            let is_about_keys = |problem: &&Problem| {
                let codes = [
                    Code::InvalidYaml,
                    Code::UnknownKey,
                    Code::RenamedKey,
                    Code::WrongType,
                    Code::DuplicateKey,
                ];
                codes.contains(&problem.code)
            };
            let wrong: Vec<_> = wrong.iter().filter(is_about_keys).map(ToString::to_string).collect();
            assert!(wrong.is_empty(), "{code}\n{file}\n{}", wrong.join("\n"));
        }
    }
    assert!(checked > 20, "examples are not found any more: {checked}");
}

/// A code that nothing reports would be found by nobody.
#[test]
fn every_code_is_reported_somewhere() {
    fn add(folder: &Path, sources: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                add(&path, sources);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.ends_with("settings/problem_code.rs")
            {
                sources.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut sources = String::new();
    add(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sources);
    let unused: Vec<_> = Code::ALL
        .iter()
        .map(|code| code.name())
        .filter(|name| !sources.contains(&format!("Code::{name}")))
        .filter(|name| *name != "InvalidValue")
        .collect();
    assert!(unused.is_empty(), "nothing reports {unused:?}");
}

/// Extractors that a file may name, in order.
fn extractors() -> Vec<String> {
    let schema = config::schema();
    let named = schema["$defs"]["extract"]["anyOf"].as_array().unwrap();
    let mut names: Vec<_> = named.iter().map(|key| key["required"][0].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_readme_names_every_extractor_once() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let row = readme.lines().find(|line| line.starts_with("| `extract` | ")).unwrap();
    let (_, list) = row.split_once(": ").unwrap();
    let (list, _) = list.split_once(", or several").unwrap();
    let mut named: Vec<_> = list.split(", ").map(|name| name.trim_matches('`')).collect();
    named.sort_unstable();
    assert_eq!(named, extractors());
}

#[test]
fn every_extractor_has_a_page_that_the_reference_leads_to() {
    let reference = fs::read_to_string(page("responses.md")).unwrap();
    let links = reference.split("](extractors/").skip(1);
    let linked: BTreeSet<_> = links.map(|link| link.split_once(".md").unwrap().0).collect();
    assert_eq!(linked.into_iter().collect::<Vec<_>>(), extractors());
    let pages = pages_of(["extractors"]);
    let names: Vec<_> = pages.iter().map(|(page, _)| page.file_stem().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, extractors());
}

/// Page with the actual results of its rules.
fn with_results(page: &str, path: &Path) -> String {
    let shown = path.display();
    let mut parts: Vec<String> = page.split("```").map(str::to_owned).collect();
    let (mut rule, mut response, mut shows) = (None, None, false);
    // Splitting at fences alternates: prose, block, prose, …
    for block in parts.iter_mut().skip(1).step_by(2) {
        let (kind, body) = block.split_once('\n').unwrap_or_else(|| panic!("{shown}: an empty block"));
        match kind {
            "yaml" if body.contains("routes:\n") => {
                let loaded = config::load(&Sources::from_text("page.yaml", body));
                let loaded = loaded.unwrap_or_else(|problems| panic!("{shown}:\n{problems}"));
                assert!(loaded.warnings.is_empty(), "{shown}: {:?}", loaded.warnings);
                shows = true;
            }
            "yaml" => rule = Some(body.to_owned()),
            "http" => response = Some(body.to_owned()),
            "json" => {
                let rule = rule.as_ref().unwrap_or_else(|| panic!("{shown}: a result without a rule"));
                let response =
                    response.as_ref().unwrap_or_else(|| panic!("{shown}: a result without a reply"));
                let found = result_of(rule, response, path);
                let members = serde_json::from_str(body)
                    .unwrap_or_else(|_| Map::from_iter([("structuredContent".to_owned(), Value::Null)]));
                let shown: Map<String, Value> = members
                    .keys()
                    .filter_map(|name| Some((name.clone(), found.get(name)?.clone())))
                    .collect();
                *block = format!("json\n{}\n", serde_json::to_string_pretty(&shown).unwrap());
                shows = true;
            }
            _ => {}
        }
    }
    assert!(shows, "{shown} shows nothing that can be tried");
    parts.join("```")
}

fn result_of(rule: &str, response: &str, page: &Path) -> Value {
    let indented: String = rule.lines().map(|line| format!("      {line}\n")).collect();
    let name = page.file_stem().unwrap().to_string_lossy();
    let file = format!(
        "upstreams: {{ legacy: http://127.0.0.1:9000 }}\nroutes:\n  report:\n    description: A report.\n    \
         request: GET /report\n    response:\n{indented}"
    );
    let loaded = config::load(&Sources::from_text(format!("{name}.yaml"), &file))
        .unwrap_or_else(|problems| panic!("{}:\n{problems}", page.display()));
    let route = &loaded.routes[0].route;
    let response = UpstreamResponse::from_recording(&Bytes::from(response.to_owned())).unwrap();
    let args = Value::Object(Map::new());
    let input = CallInput::new(&route.definition.name, &args);
    let result = translate(&route.translator, input, &response, &mut Trace::off()).result;
    let mut written = Vec::new();
    write_result(&result, StructuredContentSupport::ObjectsOnly, &mut written);
    serde_json::from_slice(&written).unwrap()
}
