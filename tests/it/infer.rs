//! Routes proposed from recorded responses: one folder per case under `tests/infer`.
//!
//! Every file but `expected.yaml` is a recorded response of one endpoint, in the order of their names.
//! `expected.yaml` is the proposed file. `UPDATE_GOLDEN=1 cargo test --test it infer` rewrites it; read the
//! diff. Every proposal loads without a warning, and its examples pass.

use std::{fs, path::Path};

use bytes::Bytes;
use glossator::{
    authoring::infer::{RouteNaming, Sample, propose},
    config::{self, Sources},
    model::{Recording, UpstreamResponse},
};
use proptest::prelude::*;

fn naming(name: &str) -> RouteNaming {
    RouteNaming {
        name: name.to_owned(),
        upstream: "legacy".to_owned(),
        address: Some("http://127.0.0.1:9000".to_owned()),
        method: "GET".to_owned(),
        path: Some("/report".to_owned()),
    }
}

#[test]
fn every_folder_of_samples_gives_the_expected_file() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/infer");
    let mut cases: Vec<_> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 8, "cases are missing: found {}", cases.len());
    let mut different = Vec::new();
    for case in cases {
        let name = case.file_name().unwrap().to_str().unwrap();
        let proposed = propose(&samples(&case), &naming(name)).yaml;
        let loaded = config::load(&Sources::from_text("expected.yaml", proposed.clone()))
            .unwrap_or_else(|problems| panic!("{name}: {problems}\n{proposed}"));
        assert!(loaded.warnings.is_empty(), "{name}: {:?}", loaded.warnings);
        let file = case.join("expected.yaml");
        if update {
            fs::write(&file, &proposed).unwrap();
        } else if fs::read_to_string(&file).unwrap_or_default() != proposed {
            different.push(format!("{name}\n{proposed}"));
        }
    }
    assert!(different.is_empty(), "proposals differ:\n{}", different.join("\n"));
}

fn samples(case: &Path) -> Vec<Sample> {
    let mut files: Vec<_> = fs::read_dir(case).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.file_name().unwrap() != "expected.yaml");
    files.sort();
    let read = |file: &std::path::PathBuf| {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let recording = Recording::read(&Bytes::from(fs::read(file).unwrap())).unwrap();
        Sample { name, response: recording.choose(None).unwrap() }
    };
    files.iter().map(read).collect()
}

fn any_response() -> impl Strategy<Value = UpstreamResponse> {
    let types = prop_oneof![
        Just(None),
        prop::sample::select(vec![
            "text/plain",
            "application/json",
            "text/csv",
            "text/html",
            "text/xml",
            "image/png",
            "x"
        ])
        .prop_map(Some),
    ];
    let line = prop_oneof![
        "[a-z]{1,8}: [0-9]{1,4}",
        "[a-z]{1,3}=[a-z0-9 ]{0,9}",
        "[a-z,;|\t ]{0,20}",
        "\\PC{0,20}",
        "<[a-z]{1,5}>"
    ];
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n").into_bytes()),
        any::<String>().prop_map(String::into_bytes),
        "\\{\"[a-z<]{1,4}\": ?(\"\\PC{0,9}\"|[0-9.]{1,5}|\\[\\]|null)\\}".prop_map(String::into_bytes),
    ];
    let statuses = prop::sample::select(vec![200_u16, 200, 200, 204, 302, 404, 500]);
    (types, body, statuses).prop_map(|(media_type, body, status)| {
        let mut response = http::Response::builder().status(status);
        if let Some(media_type) = media_type {
            response = response.header("Content-Type", media_type);
        }
        let (parts, ()) = response.body(()).unwrap().into_parts();
        UpstreamResponse::new(parts.status, parts.headers, body.into())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_proposal_loads_for_any_responses(replies in prop::collection::vec(any_response(), 0..4), name in "\\PC{0,9}") {
        let samples: Vec<_> = replies.into_iter().map(|response| Sample { name: name.clone(), response }).collect();
        let proposal = propose(&samples, &naming("get_report"));
        let loaded = config::load(&Sources::from_text("a.yaml", proposal.yaml.clone()));
        prop_assert!(loaded.is_ok(), "{}\n{}", loaded.unwrap_err(), proposal.yaml);
    }
}
