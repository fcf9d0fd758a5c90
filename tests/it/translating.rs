//! Replies that take long to translate: their calls end in time, and so does the work.

use glossator::config::{self, Sources};

use crate::support::{Client, Loaded, Response, Scripted, Step, reply};

/// A pattern that is looked for to the end of the reply from each of its places, a filter that crosses a list with
/// itself, and one that copies all that it has made, member by member. Each would take minutes or hours.
const ROUTES: &str = r"
upstreams:
  slow: { url: 'http://UPSTREAM', deadline: 2s }
  old: http://UPSTREAM
routes:
  matches:
    description: Looks for a pattern.
    request: GET slow/text
    reply: { extract: { regex: { pattern: '(?<found>a+b|a)', each: match } } }
  crossed:
    description: Crosses a list with itself.
    request: GET slow/numbers
    reply: { structured: '[.[] as $a | .[] as $b | select($a < $b)] | length' }
  copied:
    description: Makes an object of a list.
    request: GET slow/numbers
    reply: { structured: '[.[] | {key: tostring, value: .}] | from_entries' }
  rows:
    description: Answers at once, in a place of its own for its length.
    request: GET old/rows
    reply: { extract: { csv: { fields: { a: integer } } } }
";

async fn call(address: &Loaded, tool: &str) -> Response {
    let mut client: Client = address.connect().await;
    client.ask(&format!("POST /tools/{tool}"), &[], "").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_nobody_waits_for_any_more_gives_its_place_back() {
    let upstream = Scripted::start(|asked| {
        let numbers = || (0..100_000).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
        vec![Step::Send(match asked.line() {
            "GET /text HTTP/1.1" => reply("200 OK", "text/plain", &"a".repeat(1 << 20)),
            "GET /numbers HTTP/1.1" => reply("200 OK", "application/json", &format!("[{}]", numbers())),
            _ => reply("200 OK", "text/csv", &format!("a\n{}", "1\n".repeat(10_000))),
        })]
    })
    .await;
    let file = ROUTES.replace("UPSTREAM", &upstream.address.to_string());
    let proxy = Loaded::start(&config::load(&Sources::of_text("routes.yaml", &file)).unwrap()).await;
    for _ in 0..2 {
        let (matches, crossed, copied) =
            tokio::join!(call(&proxy, "matches"), call(&proxy, "crossed"), call(&proxy, "copied"));
        for response in [matches, crossed, copied] {
            assert_eq!(response.status, 504, "{}", response.text());
        }
    }
    // A route may have half of the pool: were one of those still at work, this would wait for it.
    let response = call(&proxy, "rows").await;
    assert_eq!(response.status, 200, "{}", response.text());
}
