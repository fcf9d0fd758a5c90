//! Golden tests of rules: one folder per case under `tests/golden`.
//!
//! `route.yaml` is a configuration with one route. `response.http` is the upstream response byte for byte
//! (status line, headers, empty line, body). `args.json` has the arguments of the call, if there are any.
//! `result.json` is the result for clients of every API. `UPDATE_GOLDEN=1 cargo test golden` rewrites the
//! results; read the diff.

use std::{fs, path::Path};

use bytes::Bytes;
use glossator::{
    config::{self, Sources},
    model::{Arguments, Schema, StructuredContentSupport, UpstreamResponse, write_result},
    translate::{CallInput, Trace, translate},
};
use serde_json::{Map, Value};

#[test]
fn every_response_gives_the_expected_result() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut cases: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 20, "golden cases are missing: found {}", cases.len());
    let mut different = Vec::new();
    for case in cases {
        let found = result_of(&case);
        let file = case.join("result.json");
        if update {
            fs::write(&file, &found).unwrap();
        } else if fs::read_to_string(&file).unwrap_or_default() != found {
            different.push(format!("{}\n{found}", case.display()));
        }
    }
    assert!(different.is_empty(), "results differ:\n{}", different.join("\n"));
}

fn result_of(case: &Path) -> String {
    let loaded = config::load(&Sources::from_path(case.join("route.yaml")))
        .unwrap_or_else(|problems| panic!("{}:\n{problems}", case.display()));
    let [file] = &*loaded.routes else { panic!("{}: one route a case", case.display()) };
    let route = &file.route;
    let response =
        UpstreamResponse::from_recording(&Bytes::from(fs::read(case.join("response.http")).unwrap()))
            .unwrap();
    let given: Map<String, Value> = match fs::read(case.join("args.json")) {
        Ok(json) => serde_json::from_slice(&json).unwrap(),
        Err(_) => Map::new(),
    };
    let args = Value::Object(route.input.check(Arguments::from(given)).unwrap().values);
    let input = CallInput::new(&route.definition.name, &args);
    let result = translate(&route.translator, input, &response, &mut Trace::off()).result;
    let result = result.with_errors_as(route.error_format);
    let mut written = Vec::new();
    write_result(&result, StructuredContentSupport::ObjectsOnly, &mut written);
    let written: Value = serde_json::from_slice(&written).unwrap();
    // The output schema holds for any case.
    if let Some(schema) = &route.definition.output_schema
        && !result.is_error()
    {
        assert!(
            Schema::compile(schema).unwrap().accepts(&written["structuredContent"]),
            "{}",
            case.display()
        );
    }
    // The arguments that a limited result suggests for the next call are valid.
    if let Some(next) = written.pointer("/_meta/glossator~1limit/next").and_then(Value::as_object) {
        let mut args = args.as_object().cloned().unwrap_or_default();
        args.extend(next.clone());
        route.input.check(Arguments::from(args)).unwrap_or_else(|why| panic!("{}: {why}", case.display()));
    }
    serde_json::to_string_pretty(&written).unwrap() + "\n"
}

#[test]
fn the_routes_of_the_fuzz_target_load() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/routes.yaml");
    config::load(&Sources::from_path(file)).unwrap_or_else(|problems| panic!("{problems}"));
}
