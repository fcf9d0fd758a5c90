//! Responses that take long to translate: the calls end in time, and so does the work.

use glossator::config::{self, Sources};

use crate::support::{Client, Loaded, Response, Scripted, Step, response};

/// A pattern that searches to the end of the response from each position, a filter that combines a list with
/// itself, and one that copies its output member by member. Each would take minutes or hours.
const ROUTES: &str = r"
upstreams:
  slow: { url: 'http://UPSTREAM', timeout: 2s }
  old: http://UPSTREAM
routes:
  matches:
    description: Looks for a pattern.
    request: GET slow/text
    response: { extract: { regex: { pattern: '(?<found>a+b|a)', each: match } } }
  crossed:
    description: Crosses a list with itself.
    request: GET slow/numbers
    response: { structured: '[.[] as $a | .[] as $b | select($a < $b)] | length' }
  copied:
    description: Makes an object of a list.
    request: GET slow/numbers
    response: { structured: '[.[] | {key: tostring, value: .}] | from_entries' }
  rows:
    description: Answers at once, in a place of its own for its length.
    request: GET old/rows
    response: { extract: { csv: { fields: { a: integer } } } }
";

async fn call(address: &Loaded, tool: &str) -> Response {
    let mut client: Client = address.connect().await;
    client.send(&format!("POST /tools/{tool}"), &[], "").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_work_frees_its_worker() {
    let upstream = Scripted::start(|request| {
        let numbers = || (0..100_000).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
        vec![Step::Send(match request.line() {
            "GET /text HTTP/1.1" => response("200 OK", "text/plain", &"a".repeat(1 << 20)),
            "GET /numbers HTTP/1.1" => response("200 OK", "application/json", &format!("[{}]", numbers())),
            _ => response("200 OK", "text/csv", &format!("a\n{}", "1\n".repeat(10_000))),
        })]
    })
    .await;
    let file = ROUTES.replace("UPSTREAM", &upstream.address.to_string());
    let proxy = Loaded::start(&config::load(&Sources::from_text("routes.yaml", &file)).unwrap()).await;
    for _ in 0..2 {
        let (matches, crossed, copied) =
            tokio::join!(call(&proxy, "matches"), call(&proxy, "crossed"), call(&proxy, "copied"));
        for response in [matches, crossed, copied] {
            assert_eq!(response.status, 504, "{}", response.text());
        }
    }
    // A route may use half of the pool. If one of these were still running, this would wait for it.
    let response = call(&proxy, "rows").await;
    assert_eq!(response.status, 200, "{}", response.text());
}

/// Schemas that used to take seconds or hours of a runtime thread for a few kilobytes.
const COSTLY: &str = r"
upstreams: { old: http://UPSTREAM }
routes:
  numbers:
    description: Looks at numbers.
    request: POST old/numbers
    input: { properties: { n: { items: { type: integer } } } }
  listed:
    description: Compares items.
    request: POST old/list
    input: { properties: { n: { uniqueItems: true } } }
    output: { properties: { n: { uniqueItems: true } } }
  doubled:
    description: Each reference leads to two others.
    request: POST old/list
    input:
      properties: { n: { items: { $ref: '#/$defs/a' } } }
      $defs:
DEFINITIONS
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_check_over_its_budget_is_an_error_and_a_long_one_runs_in_the_pool() {
    let unique = |last: &str| {
        let items: Vec<String> = (0..6_000).map(|number| format!("1.{number:020}")).collect();
        format!(r#"{{"n":[{},{last}]}}"#, items.join(","))
    };
    let upstream = {
        let twice = unique("1.0");
        Scripted::start(move |_| vec![Step::Send(response("200 OK", "application/json", &twice))]).await
    };
    let letters: Vec<char> = ('a'..='z').collect();
    let definitions: Vec<String> = letters
        .windows(2)
        .map(|pair| {
            let next = format!("{{ $ref: '#/$defs/{}' }}", pair[1]);
            format!("        {}: {{ allOf: [{next}, {next}, {next}] }}", pair[0])
        })
        .chain(["        z: { type: integer, minimum: 0 }".to_owned()])
        .collect();
    let file = COSTLY.replace("UPSTREAM", &upstream.address.to_string());
    let file = file.replace("DEFINITIONS", &definitions.join("\n"));
    let loaded = config::load(&Sources::from_text("routes.yaml", &file)).unwrap();
    assert_eq!(
        loaded
            .warnings
            .iter()
            .filter(|warning| warning.to_string().contains("values against `input` may exceed"))
            .count(),
        1
    );
    let proxy = Loaded::start(&loaded).await;
    let mut client: Client = proxy.connect().await;
    let mut call = async |tool: &str, arguments: &str| {
        let response = client.send(&format!("POST /tools/{tool}"), &[], arguments).await;
        (response.status, response.text().to_owned())
    };

    let numbers = format!(r#"{{"n":[1,{}1e-9998]}}"#, "1e-9998,".repeat(2_000));
    let (status, text) = call("numbers", &numbers).await;
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("`n[1]` must have at most 400 digits and an exponent from -400 to 400"), "{text}");

    // The arguments are valid, and the response has a duplicate item.
    let (status, text) = call("listed", &unique("2")).await;
    assert!(status == 502 && text.contains("must not contain duplicate items"), "{status} {text}");
    let (status, text) = call("listed", &unique("1.0")).await;
    assert!(status == 400 && text.contains("must not contain duplicate items"), "{status} {text}");

    let (status, text) = call("doubled", r#"{"n":[1]}"#).await;
    assert!(status == 400 && text.contains("more than 50,000,000 steps"), "{status} {text}");
}

/// Requests whose size depends on the arguments.
const MADE: &str = r#"
upstreams: { old: http://UPSTREAM }
routes:
  looped:
    description: Counts to a number, as often as it says.
    input: { properties: { n: { type: integer } }, required: [n] }
    request: { path: /n, query: { n: "{% for i in range(args.n) %}{% for j in range(args.n) %}{% endfor %}{% endfor %}{{ args.n }}" } }
  repeated:
    description: Repeats a text.
    input: { properties: { n: { type: integer } }, required: [n] }
    request: { method: POST, path: /text, body: { text: "{{ 'ab' * args.n }}" } }
  joined:
    description: Doubles a text.
    input: { properties: { n: { type: integer } }, required: [n] }
    request:
      method: POST
      path: /text
      body: { text: "{% set to = namespace(text='ab') %}{% for i in range(args.n) %}{% set to.text = to.text ~ to.text %}{% endfor %}{{ to.text }}" }
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_rendering_runs_in_the_pool_and_one_over_its_budget_is_an_error() {
    let upstream = Scripted::answering(response("200 OK", "text/plain", "ok")).await;
    let file = MADE.replace("UPSTREAM", &upstream.address.to_string());
    let proxy = Loaded::start(&config::load(&Sources::from_text("routes.yaml", &file)).unwrap()).await;
    let mut client: Client = proxy.connect().await;
    let mut call = async |tool: &str, n: u64| {
        let response = client.send(&format!("POST /tools/{tool}"), &[], &format!(r#"{{"n":{n}}}"#)).await;
        (response.status, response.text().to_owned())
    };
    // Few steps, more than a serving thread may spend, and more than a template may take at all.
    for (tool, few, many, too_many) in
        [("looped", 10, 300, 3000), ("repeated", 10, 500_000, 1_000_000_000), ("joined", 4, 18, 60)]
    {
        for n in [few, many] {
            let (status, text) = call(tool, n).await;
            assert_eq!(status, 200, "{tool} {n}: {text}");
        }
        let (status, text) = call(tool, too_many).await;
        assert!(status == 400 && text.contains("can't be built from the arguments `n`"), "{tool}: {text}");
    }
    let requests = &upstream.state().requests;
    assert_eq!(requests[1].line(), "GET /n?n=300 HTTP/1.1");
    let lengths: Vec<usize> = requests[2..].iter().map(|request| request.body.len()).collect();
    assert_eq!((requests.len(), lengths), (6, vec![20, 1_000_000, 32, 1 << 19]));
}
