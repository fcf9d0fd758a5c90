//! Chaos test: thousands of calls under mixed faults. Each ends in time with a correct result, nothing leaks,
//! and the program's counts of retries and circuit breakers match what the servers received.
//!
//! `GLOSSATOR_CHAOS_CALLS` sets the number of calls; `.ci/run chaos` uses it.

#![cfg(target_os = "linux")]

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::{Client, Disruption, Program, Response, Scripted, soon};

/// Number of clients that call concurrently, each over its own connection.
const CLIENTS: usize = 16;

/// Longest duration of a call, with waits and retries.
const DEADLINE: Duration = Duration::from_secs(8);

/// Additional time for a response on a busy machine.
const SLACK: Duration = Duration::from_secs(4);

/// Percentage of calls without a fault.
const GOOD_PERCENT: usize = 60;

/// Files that the program itself opens while it serves. Leaks from faults would be many more.
const FILES_OF_ITS_OWN: usize = 8;

/// Expected result of a fault: status, and words of the text.
fn expected_result(disruption: Disruption) -> (u16, &'static str) {
    match disruption {
        Disruption::None | Disruption::Slow | Disruption::HalfClosed | Disruption::LongerThanSaid => {
            (200, "all is well")
        }
        Disruption::Silent | Disruption::SilentAfterHead => (504, "no complete response within"),
        Disruption::Endless => (502, "longer than the limit"),
        Disruption::Closed | Disruption::CutOff | Disruption::Reset => (502, "closed the connection"),
        Disruption::TwoLengths | Disruption::NotHttp => (502, "not valid HTTP"),
        Disruption::Charset => (502, "UTF-8"),
        Disruption::Compression => (502, "gzip"),
        Disruption::Busy => (502, "503"),
        Disruption::Broken => (502, "500"),
    }
}

const CIRCUIT_OPEN: (u16, &str) = (503, "temporarily unavailable");

fn config(mixed: &Scripted, quiet: &Scripted, bad: &Scripted) -> String {
    let mut routes = String::new();
    for upstream in ["mixed", "quiet", "bad"] {
        for disruption in Disruption::ALL {
            let name = disruption.name();
            routes += &format!("  {upstream}_{name}: {{ description: x, request: GET {upstream}/{name} }}\n");
        }
    }
    format!(
        "server: {{ listen: '127.0.0.1:0' }}\ndefaults:\n  timeout: {deadline}ms\n  \
         response_limit: 64KiB\n  retry: {{ initial_backoff: 5ms, max_backoff: 20ms }}\nupstreams:\n  mixed: {{ url: 'http://{mixed}', \
         circuit_breaker: {{ consecutive_failures: 40, open_for: 100ms }} }}\n  quiet: {{ url: 'http://{quiet}', \
         attempt_timeout: 300ms, circuit_breaker: {{ consecutive_failures: 40, open_for: 100ms }} }}\n  bad: {{ url: 'http://{bad}', circuit_breaker: {{ consecutive_failures: 3, open_for: 200ms }} \
         }}\nroutes:\n{routes}",
        deadline = DEADLINE.as_millis(),
        mixed = mixed.address,
        quiet = quiet.address,
        bad = bad.address
    )
}

/// Results of calls, by upstream.
#[derive(Default)]
struct ResultCounts {
    calls: AtomicUsize,
    circuit_open: AtomicUsize,
}

fn how_many() -> usize {
    #[expect(clippy::disallowed_methods, reason = "an environment variable that is a switch of the tests")]
    let wanted = std::env::var("GLOSSATOR_CHAOS_CALLS");
    wanted.map_or(600, |wanted| wanted.parse().expect("a number of calls"))
}

#[track_caller]
fn check(disruption: Disruption, response: &Response, took: Duration) -> bool {
    let text = response.tool_text();
    let is_expected = |(status, words): (u16, &str)| response.status == status && text.contains(words);
    assert!(took < DEADLINE + SLACK, "{disruption:?} took {took:?}");
    assert_eq!(response.json()["isError"], response.status != 200, "{disruption:?}: {text}");
    assert!(!response.text().contains("evil") && !text.contains("stack trace"), "{disruption:?}: {text}");
    let circuit_open = is_expected(CIRCUIT_OPEN);
    assert!(
        circuit_open || is_expected(expected_result(disruption)),
        "{disruption:?}: {} {text}",
        response.status
    );
    circuit_open
}

async fn one_client(client: &mut Client, calls: usize, results: &HashMap<&str, ResultCounts>) {
    let random_disruption = || Disruption::ALL[fastrand::usize(1..Disruption::ALL.len())];
    for _ in 0..calls {
        // A tenth of the calls goes to the upstream that always fails.
        let upstream = if fastrand::usize(..10) == 0 { "bad" } else { "mixed" };
        let disruption = match upstream {
            "bad" => [Disruption::Closed, Disruption::Reset, Disruption::Busy][fastrand::usize(..3)],
            _ if fastrand::usize(..100) < GOOD_PERCENT => Disruption::None,
            _ => random_disruption(),
        };
        // Attempts have a timeout only where nothing ever arrives. Elsewhere a busy machine could not be
        // distinguished from a silent server.
        let upstream = match disruption {
            Disruption::Silent | Disruption::SilentAfterHead => "quiet",
            _ => upstream,
        };
        let started = Instant::now();
        let response = client.send(&format!("POST /tools/{upstream}_{}", disruption.name()), &[], "").await;
        let counts = &results[upstream];
        counts.calls.fetch_add(1, Ordering::Relaxed);
        if check(disruption, &response, started.elapsed()) {
            counts.circuit_open.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[expect(clippy::print_stdout, reason = "the counts are what the long run is looked at for")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_any_disruption_calls_end_in_time_with_correct_results() {
    let (mixed, quiet, bad) =
        (Disruption::server().await, Disruption::server().await, Disruption::server().await);
    let program = Program::start(&config(&mixed, &quiet, &bad), &[]).await;
    let upstreams = ["mixed", "quiet", "bad"];
    let results = Arc::new(HashMap::from(upstreams.map(|upstream| (upstream, ResultCounts::default()))));
    let run = async |calls: usize| {
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..CLIENTS {
            let (mut client, results) = (program.connect().await, results.clone());
            clients.spawn(async move { one_client(&mut client, calls, &results).await });
        }
        while let Some(ended) = clients.join_next().await {
            ended.unwrap();
        }
    };
    let calls = how_many() / CLIENTS;
    let files_before = program.open_files();
    // Memory that is needed once is allocated after the first part, so growth after it is a leak.
    run(calls / 3).await;
    let memory_before = program.resident_kib();
    run(calls - calls / 3).await;
    let memory = program.resident_kib();
    assert!(memory < memory_before + 24 * 1024, "{memory_before} KiB grew to {memory} KiB");
    soon("nothing is left open", async {
        while program.open_files() > files_before + FILES_OF_ITS_OWN {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let log = program.log().await;
    let seen = [&mixed, &quiet, &bad].map(|server| server.state().requests.len());
    for (upstream, seen) in upstreams.into_iter().zip(seen) {
        let is_line = |line: &&Value, words: &str| line["upstream"] == upstream && line["message"] == words;
        let lines = |words| log.iter().filter(|line| is_line(line, words)).count();
        let (again, rests) = (lines("retrying upstream request"), lines("circuit breaker opened"));
        let (calls, circuit_open) = (
            results[upstream].calls.load(Ordering::Relaxed),
            results[upstream].circuit_open.load(Ordering::Relaxed),
        );
        println!(
            "{upstream}: {calls} calls, {circuit_open} turned away, {again} repetitions, {rests} rests, {seen} seen"
        );
        // A request on a connection that its server was just closing may be lost, and is then sent once more.
        let moved = lines("idle connection was closed, resending the request");
        let sent = calls - circuit_open + again + moved;
        // A retry may be rejected by a circuit breaker that has opened meanwhile.
        let spared = if rests > 0 { again } else { 0 };
        let range = sent - moved - spared..=sent;
        assert!(
            range.contains(&seen),
            "{upstream}: {seen} seen of {sent} sent, {moved} of them again at once"
        );
        assert!(again <= 10 + calls / 5 + 1, "{upstream}: {again} repetitions of {calls} calls");
        assert!(
            rests > 0 || circuit_open == 0,
            "{upstream}: {rests} rests, {circuit_open} calls turned away"
        );
    }
    assert!(results["bad"].circuit_open.load(Ordering::Relaxed) > 0, "the breaker opened for who only fails");
}
