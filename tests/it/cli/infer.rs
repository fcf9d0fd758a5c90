//! `glossator infer`, and the output of `check` and `test` for the file that it writes.

use serde_json::{Value, json};

use super::{TemporaryFile, glossator, succeeds, warnings_of};

/// Two reports of a boiler, and an error with a success status.
fn samples(test: &str) -> [TemporaryFile; 3] {
    let response = |name: &str, body: &str| {
        let recording = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{body}");
        TemporaryFile::new(&format!("{test}-{name}"), recording)
    };
    [
        response("1.http", "Boiler: north\nTemp: 81.5 °C\nChecked: 2026-11-21T09:30:00Z\nBurning: yes\n"),
        response("2.http", "Boiler: south\nTemp: 79 °C\nChecked: 2026-11-21T09:31:00Z\nBurning: no\n"),
        response("3.http", "ERR 17 NO SUCH BOILER\n"),
    ]
}

/// Checks a proposal with the commands that an operator would use.
#[track_caller]
fn check_proposal(test: &str, yaml: &str, examples: usize) {
    let file = TemporaryFile::new(&format!("{test}.yaml"), yaml);
    assert_eq!(warnings_of(file.path()), Vec::<Value>::new(), "{yaml}");
    let tested = succeeds(&["test", "--config", file.path()]);
    assert!(tested.ends_with(&format!("{examples} passed, 0 failed in 1 route\n")), "{tested}");
}

#[test]
fn a_proposal_from_several_responses_passes_check_and_test() {
    let samples = samples("several");
    let mut arguments =
        vec!["infer", "--name", "get_boiler", "--url", "http://plant.example:81/boiler/{id}?unit=C"];
    arguments.extend(samples.iter().map(TemporaryFile::path));
    let yaml = succeeds(&arguments);
    for part in [
        "  boiler: \"http://plant.example:81\"",
        "  get_boiler:",
        "request: \"GET boiler/boiler/{id}?unit=C\"",
        "temp: { from: Temp, type: number, suffix: \"°C\", description: In °C. }",
        "checked: { from: Checked, type: date-time }",
        "burning: { from: Burning, type: boolean, true_values: [\"yes\"], false_values: [\"no\"] }",
        "error: \"{{ why }}\"",
        "isError: true",
    ] {
        assert!(yaml.contains(part), "{part} is missing in\n{yaml}");
    }
    check_proposal("several", &yaml, 3);
}

#[test]
fn the_proposal_is_available_as_json() {
    let samples = samples("json");
    let mut arguments = vec!["infer", "--request", "POST /boilers/{id}"];
    arguments.extend(samples.iter().map(TemporaryFile::path));
    let yaml = succeeds(&arguments);
    arguments.extend(["--output", "json"]);
    let report: Value = serde_json::from_str(&succeeds(&arguments)).unwrap();
    assert_eq!(report["config"].as_str().unwrap().trim_end(), yaml.trim_end());
    assert!(
        yaml.contains("request: \"POST boilers/boilers/{id}\"") && yaml.contains("  get_boilers:"),
        "{yaml}"
    );
    let findings = report["findings"].as_array().unwrap();
    let about = |part: &str| findings.iter().find(|finding| finding["part"] == part).unwrap();
    assert_eq!(
        (&about("extract")["value"], &about("extract")["confidence"]),
        (&json!("pairs"), &json!("sure"))
    );
    assert_eq!(about("field temp")["value"], "number");
    assert_eq!(about("request body")["confidence"], "guess");
    assert!(
        findings.iter().all(|finding| finding["reason"].as_str().is_some_and(|reason| !reason.is_empty()))
    );
    check_proposal("json", &yaml, 3);
}

#[test]
fn a_comment_reminds_of_the_body_that_a_recording_lacks() {
    let file = TemporaryFile::new("body.txt", "a: 1\nb: 2\n");
    for (method, is_reminded) in [("REPORT", true), ("PROPFIND", true), ("GET", false), ("DELETE", false)] {
        let yaml = succeeds(&["infer", file.path(), "--request", &format!("{method} /a")]);
        assert_eq!(yaml.contains("recordings have no request body"), is_reminded, "{yaml}");
    }
}

#[test]
fn a_recording_of_a_failed_request_is_rejected() {
    for (name, content, expected) in [
        ("e.http", "", ": expected a response, found an empty file"),
        (
            "c.http",
            "curl: (7) Failed to connect to 10.0.0.7 port 80: Connection refused\n",
            ": expected a response, found an error of curl: `curl: (7) Failed to connect",
        ),
    ] {
        let file = TemporaryFile::new(&format!("failed-{name}"), content);
        let good = TemporaryFile::new(&format!("failed-good-{name}"), "Temp: 5\n");
        let output = glossator(&["infer", good.path(), file.path()]);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && error.contains(&(file.path().to_owned() + expected)),
            "{error}"
        );
    }
}

#[test]
fn a_command_without_output_is_a_sample_beside_others() {
    let empty = TemporaryFile::new("command-empty.txt", "");
    let rows = TemporaryFile::new("command-rows.txt", "web running 3\ndb stopped 0\n");
    let yaml = succeeds(&["infer", rows.path(), empty.path(), "--request", "RUN state"]);
    assert!(yaml.contains("allow_empty: true"), "{yaml}");
    let error = glossator(&["infer", empty.path(), "--request", "RUN state"]).stderr;
    assert!(String::from_utf8_lossy(&error).contains("found an empty file"), "{error:?}");
}

#[test]
fn a_request_that_nothing_gives_is_marked_as_a_guess() {
    let file = TemporaryFile::new("guessed.txt", "Temp: 5\nState: up\n");
    let guesses = |more: &[&str]| {
        let yaml = succeeds(&[&["infer", file.path()][..], more].concat());
        let is_guess = |start: &str| {
            let line = yaml.lines().find(|line| line.trim_start().starts_with(start));
            line.unwrap_or_else(|| panic!("no {start} in\n{yaml}")).contains(" # guess: ")
        };
        check_proposal("guessed", &yaml, 1);
        [is_guess("boiler: "), is_guess("request: ")]
    };
    let upstream = ["--upstream", "boiler"];
    assert_eq!(guesses(&upstream), [true, true]);
    assert_eq!(guesses(&[&upstream[..], &["--request", "GET /temp"]].concat()), [true, false]);
    assert_eq!(guesses(&[&upstream[..], &["--url", "http://10.0.0.7/temp"]].concat()), [false, false]);
}

#[test]
fn a_har_file_determines_the_tool_and_its_request() {
    let entry = |method: &str, url: &str, status: u16, kind: &str, body: &str| {
        json!({ "request": { "method": method, "url": url }, "response": { "status": status,
            "headers": [{ "name": "Content-Type", "value": kind }], "content": { "mimeType": kind, "text": body } } })
    };
    let orders = "http://shop.example/api/orders?day=monday";
    let har = json!({ "log": { "entries": [
        entry("GET", "http://shop.example/", 200, "text/html", "<html><body>Shop</body></html>"),
        entry("GET", orders, 200, "application/json", r#"{"orders": [{"id": 1, "sum": 5.5}]}"#),
        entry("GET", "http://shop.example/logo.png", 404, "text/plain", "no"),
        entry("GET", "http://shop.example/api/orders?day=friday", 404, "application/json", r#"{"error": "closed"}"#),
        entry("GET", orders, 200, "application/json", r#"{"orders": [{"id": 2, "sum": 7}, {"id": 3, "sum": 1}]}"#),
    ] } });
    let file = TemporaryFile::new("shop.har", har.to_string());
    let yaml = succeeds(&["infer", file.path()]);
    for part in [
        "from 3 samples",
        "  orders: \"http://shop.example\"",
        "  get_orders:",
        "api/orders?day=monday",
        "extract: json",
    ] {
        assert!(yaml.contains(part), "{part} is missing in\n{yaml}");
    }
    check_proposal("har", &yaml, 3);
    let one = succeeds(&["infer", file.path(), "--entry", "3", "--name", "get_logo"]);
    assert!(one.contains("from 1 sample.") && one.contains("  get_logo:"), "{one}");
    check_proposal("har-one", &one, 1);
}

#[test]
fn entries_of_several_endpoints_are_no_samples_of_one_route() {
    let entry = |method: &str, path: &str| {
        json!({ "request": { "method": method, "url": format!("http://shop.example/api/{path}") },
            "response": { "status": 200, "headers": [], "content": { "mimeType": "text/plain", "text": "a: 1\nb: 2\n" } } })
    };
    let har = json!({ "log": { "entries": [entry("GET", "orders/1"), entry("GET", "orders/2"), entry("POST", "orders")] } });
    let file = TemporaryFile::new("several.har", har.to_string());
    let stderr_of = |arguments: &[&str]| String::from_utf8(glossator(arguments).stderr).unwrap();
    let stderr = stderr_of(&["infer", file.path(), "--entry", "/api"]);
    for part in [
        "expected entries of one endpoint, found several:\n",
        "entry 1: GET http://shop.example/api/orders/1\n",
        "entry 3: POST http://shop.example/api/orders\n",
        "`--entry NUMBER`",
    ] {
        assert!(stderr.contains(part), "{part} is missing in\n{stderr}");
    }
    let request = ["infer", file.path(), "--entry", "/orders/", "--request", "GET /api/orders/{id}"];
    assert!(succeeds(&request).contains("from 2 samples"));
    let empty = TemporaryFile::new("empty.har", json!({ "log": { "entries": [] } }).to_string());
    assert!(stderr_of(&["infer", empty.path()]).contains("at least one entry, found none"));
    let body = TemporaryFile::new("no-har.txt", "a: 1\n");
    assert!(stderr_of(&["infer", body.path(), "--entry", "1"]).contains("found a single response"));
}

#[test]
fn a_long_response_gets_the_limit_that_it_needs() {
    let lines: String = (0..600_000).map(|number| format!("{number},a b c d e\n")).collect();
    let file = TemporaryFile::new("long.csv", format!("id,words\n{lines}"));
    let yaml = succeeds(&["infer", file.path()]);
    for part in
        ["    response_limit: 32MiB\n", "more than the default limit", "`csv` does not parse every sample:"]
    {
        assert!(yaml.contains(part), "{part} is missing in\n{}", &yaml[..yaml.len().min(2000)]);
    }
}

#[test]
fn a_recording_that_curl_has_decompressed_is_read_as_it_is() {
    let recording = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: 33\r\n\r\nTemp: 5\nWind: 7\n";
    let file = TemporaryFile::new("decompressed.http", recording);
    let yaml = succeeds(&["infer", file.path()]);
    assert!(yaml.contains("pairs:") && !yaml.contains("gzip"), "{yaml}");
    check_proposal("decompressed", &yaml, 1);
}

#[test]
fn an_optional_argument_is_not_required() {
    let file = TemporaryFile::new("optional.txt", "Temp: 5\nState: up\n");
    let url = "http://plant.example:81/boilers/{id}?unit=C&cursor={cursor?}";
    let yaml = succeeds(&["infer", file.path(), "--url", url]);
    let input = "input: { type: object, properties: { id: { type: string }, cursor: { type: string } }, \
                 required: [id] }\n";
    let request = "request: \"GET boilers/boilers/{id}?unit=C&cursor={cursor}\"";
    assert!(yaml.contains(request) && yaml.contains(input), "{yaml}");
    check_proposal("optional", &yaml, 1);
}

#[test]
fn the_output_of_a_command_gives_a_route_that_runs_it() {
    let file = TemporaryFile::new(
        "command.txt",
        "Filesystem Size Use%\n/dev/vda   252G  49%\ntmpfs      12G   0%\n",
    );
    let yaml = succeeds(&["infer", file.path(), "--request", "RUN df -h -- {path?}"]);
    for part in [
        "  df: { command: [df] }\n",
        "  get_df:\n",
        "request: \"RUN df -h -- {path}\"",
        "description: \"The output of df -h -- {path}.\"",
        "properties: { path: { type: string } }",
        "columns:",
    ] {
        assert!(yaml.contains(part), "{part} is missing in\n{yaml}");
    }
    check_proposal("command", &yaml, 1);
}

#[test]
fn a_url_gives_the_names_and_the_address() {
    let file = TemporaryFile::new("tokyo.txt", "Temp: 5\nState: up\n");
    for (url, parts) in [
        ("http://plant.example/~", ["_tokyo:\n", "http://plant.example"]),
        ("http://plant.example/weather/~", ["  get_weather:\n", "http://plant.example"]),
        ("localhost:8080/fetch?u=http://x/", ["  get_fetch:\n", "\"http://localhost:8080\""]),
    ] {
        let yaml = succeeds(&["infer", file.path(), "--url", url]);
        assert!(parts.iter().all(|part| yaml.contains(part)), "{url}: {yaml}");
    }
}

/// As with `glossator infer … > plant/boiler.yaml` for each of a server's endpoints.
#[test]
fn several_proposals_are_one_configuration() {
    let samples = samples("folder");
    let folder = std::env::temp_dir().join(format!("glossator-it-{}-folder", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let url = "http://plant.example:81/boiler/{id}";
    for (file, options) in [
        ("a.yaml", &["--name", "get_boiler", "--url", url][..]),
        ("b.yaml", &["--name", "get_valve", "--url", url]),
        ("c.yaml", &["--name", "valve.state", "--upstream", "plant", "--url", url]),
        ("d.yaml", &[]),
    ] {
        let arguments = [&["infer", samples[0].path()][..], options].concat();
        std::fs::write(folder.join(file), succeeds(&arguments)).unwrap();
    }
    let checked = succeeds(&["check", "--config", folder.to_str().unwrap()]);
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(checked.contains("good, 4 routes and 4 upstreams"), "{checked}");
}

#[test]
fn input_without_a_route_is_a_usage_error() {
    let samples = samples("wrong");
    let sample = samples[0].path();
    let output = TemporaryFile::new("wrong.txt", "Temp: 5\n");
    let output = output.path();
    for (arguments, part) in [
        (vec!["infer"], "FILE"),
        (vec!["infer", "/nowhere.http"], "/nowhere.http"),
        (vec!["infer", sample, "--name", "no name"], "form no valid route"),
        (vec!["infer", sample, "--upstream", "a/b"], "is not a name for an upstream"),
        (vec!["infer", sample, "--request", "GET /a b c"], "`--request` takes `METHOD /path`"),
        (vec!["infer", sample, "--request", "CALL a/b"], "`--request` takes `METHOD /path`"),
        (vec!["infer", output, "--request", "RUN"], "`--request` takes `METHOD /path`"),
        (vec!["infer", output, "--request", "RUN df | sort"], "`RUN` has no shell"),
        (vec!["infer", output, "--request", "RUN df", "--url", "http://a/"], "cannot be used with"),
        (vec!["infer", sample, "--request", "RUN df"], "expected the output of a command"),
        (vec!["infer", sample, "--url", "http://a/{city?}"], "write `{name}` in the path"),
    ] {
        let output = glossator(&arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && stderr.contains(part), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}
