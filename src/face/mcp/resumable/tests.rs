//! What streams keep, and for how long.

use http_body_util::BodyExt;
use tokio::time::sleep;

use super::{log::MESSAGES_LIMIT, *};
use crate::face::mcp::client::Outbox;

fn resumables(connection_life: Option<Duration>) -> Arc<Resumables> {
    let settings = ResumeSettings { connection_life, ..ResumeSettings::default() };
    Arc::new(Resumables::new(settings, Arc::default()))
}

async fn text_of(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The ids of the events in a text.
fn ids(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("id: ")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_many_messages_keeps_the_last_of_them() {
    let resumables = resumables(None);
    let (outbox, mailbox) = Outbox::new(Arc::default());
    let answering = Box::pin(async move {
        for _ in 0..2 * MESSAGES_LIMIT {
            outbox.send("notifications/message", &serde_json::json!({})).await.unwrap();
        }
        std::future::pending().await
    });
    let response = resumables.respond("s", Revision::R2025_11_25, None, mailbox, answering);
    let name = resumables.streams().keys().next().unwrap().clone();
    // Time stands still until all that can be said is said.
    sleep(Duration::from_millis(1)).await;
    assert!(resumables.resume("s", &format!("{name}.1")).is_none(), "long forgotten");
    let last = format!("{name}.{}", 2 * MESSAGES_LIMIT - 1);
    drop(resumables.resume("s", &last).unwrap());
    drop(response);
    sleep(Duration::from_secs(20)).await;
    assert!(resumables.streams().is_empty(), "nobody came back");
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_before_its_stream_for_clients_that_come_back() {
    let resumables = resumables(Some(Duration::from_secs(5)));
    for (revision, comes_back) in [(Revision::R2025_11_25, true), (Revision::R2025_06_18, false)] {
        let (outbox, mailbox) = Outbox::new(Arc::default());
        let answering = Box::pin(async move {
            sleep(Duration::from_secs(7)).await;
            outbox.notify("notifications/done", &serde_json::json!({}));
            None
        });
        let begun = Instant::now();
        let text = text_of(resumables.respond("s", revision, None, mailbox, answering)).await;
        assert_eq!(text.contains("done"), !comes_back, "{text}");
        assert_eq!(begun.elapsed().as_secs(), if comes_back { 5 } else { 7 });
        if comes_back {
            let rest = text_of(resumables.resume("s", ids(&text)[0]).unwrap()).await;
            assert!(rest.contains("done") && begun.elapsed().as_secs() == 7, "{rest}");
        }
    }
}
