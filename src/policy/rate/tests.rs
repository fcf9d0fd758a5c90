//! Who is let through, by one replica and by several.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::{policy::mock::name, shared_state::Memory};

const SECOND: Duration = Duration::from_secs(1);
const TEN_A_SECOND: RateSettings =
    RateSettings { count: 10, per: SECOND, burst: 10, without_store: WithoutStore::Local };

fn rate(whose: Whose, settings: RateSettings) -> Rate {
    Rate::new(name(), whose, settings, Count::default())
}

fn caller(number: u32) -> Caller {
    Caller::Address(IpAddr::V4(Ipv4Addr::from_bits(number)))
}

/// How many of a hundred calls at once are let through.
fn at_once(rate: &Rate, caller: &Caller) -> usize {
    (0..100).filter(|_| rate.take(caller).is_ok()).count()
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_let_through_and_then_as_many_as_there_may_be_in_a_time() {
    let rate = rate(Whose::Upstream, TEN_A_SECOND);
    assert_eq!(at_once(&rate, &Caller::Only), 10);
    assert_eq!(rate.take(&Caller::Only), Err(SECOND / 10));
    tokio::time::advance(SECOND / 4).await;
    assert_eq!(at_once(&rate, &Caller::Only), 2);
    assert_eq!(rate.take(&Caller::Only), Err(SECOND / 20));
    tokio::time::advance(100 * SECOND).await;
    assert_eq!(at_once(&rate, &Caller::Only), 10, "what was not used is not saved for ever");
}

#[tokio::test(start_paused = true)]
async fn over_a_long_time_no_more_are_let_through_than_is_said() {
    let settings = RateSettings { count: 7, burst: 1, ..TEN_A_SECOND };
    let rate = rate(Whose::Route, settings);
    let mut let_through = 0;
    for _ in 0..10_000 {
        let_through += usize::from(rate.take(&Caller::Only).is_ok());
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert!((69..=71).contains(&let_through), "{let_through} in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn callers_do_not_use_up_what_others_may_ask() {
    let rate = rate(Whose::CallerOfRoute, TEN_A_SECOND);
    assert_eq!(at_once(&rate, &caller(1)), 10);
    assert_eq!(at_once(&rate, &caller(2)), 10);
    assert_eq!(at_once(&rate, &caller(1)), 0);
}

#[tokio::test(start_paused = true)]
async fn callers_beyond_the_limit_share_until_others_are_forgotten() {
    let rate = rate(Whose::CallerOfRoute, TEN_A_SECOND);
    let most = u32::try_from(Rate::CALLERS_LIMIT).unwrap();
    assert!((0..most).all(|number| rate.take(&caller(number)).is_ok()));
    let more = (most..most + 50).filter(|number| rate.take(&caller(*number)).is_ok()).count();
    assert_eq!(more, 10, "fifty who are not told apart have what one has");
    assert_eq!(at_once(&rate, &caller(0)), 9, "who was there before is not forgotten for them");
    tokio::time::advance(2 * SECOND).await;
    assert_eq!(at_once(&rate, &caller(most)), 10);
    assert_eq!(rate.used.lock().unwrap().each.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_comes_too_often_is_told_when_to_come_again() {
    let counted = Count::default();
    let settings = RateSettings { count: 1, per: 60 * SECOND, burst: 1, ..TEN_A_SECOND };
    let rate = Rate::new(name(), Whose::CallerOfRoute, settings, counted.clone());
    let one = || rate.admit(&Caller::Only, Over::TurnedAway);
    one().await.unwrap();
    tokio::time::advance(SECOND).await;
    let error = one().await.unwrap_err();
    let told = matches!(error, UpstreamError::TooOften { rest, whose: Whose::CallerOfRoute, .. } if rest == 59 * SECOND);
    assert!(told, "{error}");
    assert_eq!(counted.get(), 1);
    tokio::time::advance(59 * SECOND).await;
    one().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_has_begun_waits_for_its_turn() {
    let settings = RateSettings { count: 1, burst: 1, ..TEN_A_SECOND };
    let rate = rate(Whose::Upstream, settings);
    let one = || rate.admit(&Caller::Only, Over::Waits);
    let begun = Instant::now();
    let (first, second, third) = tokio::join!(one(), one(), one());
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    assert_eq!(begun.elapsed(), 2 * SECOND);
}

/// Two replicas that count together.
fn replicas(memory: &Memory, whose: Whose, settings: RateSettings) -> [Rate; 2] {
    [(), ()].map(|()| rate(whose, settings).counted_in(SharedStore::in_memory(memory), "old"))
}

async fn through(rate: &Rate, caller: &Caller) -> usize {
    let mut through = 0;
    for _ in 0..30 {
        through += usize::from(rate.take_of_all(caller).await.is_ok());
    }
    through
}

#[tokio::test(start_paused = true)]
async fn replicas_share_a_limit_and_what_is_left_of_it() {
    let memory = Memory::default();
    let [one, other] = replicas(&memory, Whose::CallerOfRoute, TEN_A_SECOND);
    for _ in 0..7 {
        one.take_of_all(&caller(1)).await.unwrap();
    }
    assert_eq!(through(&other, &caller(1)).await, 3);
    assert_eq!(through(&other, &caller(2)).await, 10);
    assert_eq!(one.take_of_all(&caller(1)).await, Err(Stopped::For(SECOND / 10)));
    tokio::time::advance(SECOND / 10).await;
    assert_eq!(through(&one, &caller(1)).await, 1);
    assert_eq!(through(&other, &caller(1)).await, 0);
    // Another limit of the same name is counted for itself.
    let half = RateSettings { count: 5, burst: 5, ..TEN_A_SECOND };
    let [more, _] = replicas(&memory, Whose::CallerOfRoute, half);
    assert_eq!(through(&more, &caller(1)).await, 5);
}

#[tokio::test(start_paused = true)]
async fn who_is_over_a_limit_does_not_reach_the_store() {
    let memory = Memory::default();
    let [one, other] = replicas(&memory, Whose::Upstream, TEN_A_SECOND);
    assert_eq!(through(&one, &Caller::Only).await, 10);
    assert_eq!(through(&other, &Caller::Only).await, 0);
    let asked = |rate: &Rate| rate.counted.as_ref().unwrap().store.counts().asked();
    assert_eq!((asked(&one), asked(&other)), (10, 1));
}

#[tokio::test(start_paused = true)]
async fn without_the_store_a_limit_does_as_it_says() {
    for (without_store, expected) in
        [(WithoutStore::Local, 10), (WithoutStore::Refuse, 0), (WithoutStore::Allow, 30)]
    {
        let memory = Memory::default();
        let settings = RateSettings { without_store, ..TEN_A_SECOND };
        let [one, other] = replicas(&memory, Whose::Route, settings);
        memory.leave();
        assert_eq!(through(&one, &Caller::Only).await, expected, "{without_store:?}");
        assert_eq!(through(&other, &Caller::Only).await, expected, "{without_store:?}");
        memory.come_back();
        tokio::time::advance(SECOND).await;
        assert_eq!(through(&one, &Caller::Only).await + through(&other, &Caller::Only).await, 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_can_not_be_counted_is_told_of_as_that() {
    let (memory, counted) = (Memory::default(), Count::default());
    let settings = RateSettings { without_store: WithoutStore::Refuse, ..TEN_A_SECOND };
    let rate = Rate::new(name(), Whose::Route, settings, counted.clone());
    let rate = rate.counted_in(SharedStore::in_memory(&memory), "old");
    memory.leave();
    let error = rate.admit(&Caller::Only, Over::TurnedAway).await.unwrap_err();
    assert!(matches!(error, UpstreamError::Uncounted { .. }), "{error}");
    assert_eq!(counted.get(), 1);
    // What has begun waits for the store.
    let waits = tokio::time::timeout(60 * SECOND, rate.admit(&Caller::Only, Over::Waits));
    let (done, ()) = tokio::join!(waits, async {
        sleep(5 * SECOND).await;
        memory.come_back();
    });
    done.unwrap().unwrap();
}
