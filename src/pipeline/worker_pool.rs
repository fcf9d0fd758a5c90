//! Worker pool: threads for CPU work that may take long, separate from the threads that serve connections.
//!
//! Short work runs on the calling thread. Work that takes more steps than the calling thread may spend is
//! restarted in the pool.

use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use http::{HeaderMap, header};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::BoundRoute;
use crate::model::{Arguments, ToolName, UpstreamResponse};
use crate::policy::KeyedSemaphore;
use crate::route::Route;
use crate::translate::{self, CallInput, Trace, Translation, Translator, WorkBudget};
use crate::upstream::OnDrop;

/// Limits concurrent CPU work, in total and per route. The pool translates long responses, and checks values
/// against expensive schemas.
///
/// The total limit is the number of cores, so that the trees of long responses do not fill the memory. The
/// limit per route is half of the total, so that a slow route leaves threads for other routes. Work is queued
/// until its deadline, and is not started if its client has disconnected.
#[derive(Debug, Clone)]
pub(super) struct WorkerPool {
    permits: Arc<Semaphore>,
    routes: KeyedSemaphore<ToolName>,
}

/// Reason why work was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkError {
    /// The work panicked.
    Panicked,
    /// The deadline of the work passed.
    DeadlineExceeded,
}

impl WorkerPool {
    pub(super) fn new() -> Self {
        Self::with_permits(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Creates a pool with at least two permits: with one permit, every route would wait for the slowest
    /// route.
    fn with_permits(permits: usize) -> Self {
        let permits = permits.max(2);
        let permits_per_route = permits.div_ceil(2).min(permits - 1);
        Self { permits: Arc::new(Semaphore::new(permits)), routes: KeyedSemaphore::new(permits_per_route) }
    }

    /// Runs work of a route on a pool thread, until `deadline`.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        route: &ToolName,
        deadline: Instant,
        work: impl FnOnce(&WorkBudget) -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        // Acquire the permit of the route first, so that queued calls of one route do not block other routes.
        let permits = async {
            let route_permit = acquire(self.routes.semaphore(route)).await;
            [route_permit, acquire(Arc::clone(&self.permits)).await]
        };
        run_blocking(permits, deadline, work).await
    }
}

/// Runs work on a blocking thread once it has its permits, until `deadline`.
///
/// Work that nothing awaits any more (deadline passed, or client disconnected) is signalled to stop. The work
/// holds its permits until it stops.
///
/// # Errors
///
/// [`WorkError`].
pub async fn run_blocking<P: Send + 'static, T: Send + 'static>(
    permits: impl Future<Output = P>,
    deadline: Instant,
    work: impl FnOnce(&WorkBudget) -> T + Send + 'static,
) -> Result<T, WorkError> {
    let budget = WorkBudget::default();
    let task_budget = budget.clone();
    let _cancellation = OnDrop::new(|| budget.cancel());
    let task = async move {
        let permits = permits.await;
        let work = move || {
            LOW_PRIORITY.with(|()| ());
            // The work may have been cancelled while it waited for a thread.
            let result = task_budget.spend(1).then(|| work(&task_budget));
            drop(permits);
            result
        };
        match spawn_blocking(work).await {
            Ok(Some(result)) => Ok(result),
            // Nothing awaits the result.
            Ok(None) => Err(WorkError::DeadlineExceeded),
            Err(_) => Err(WorkError::Panicked),
        }
    };
    timeout_at(deadline, task).await.unwrap_or(Err(WorkError::DeadlineExceeded))
}

/// Niceness of pool threads, relative to the threads that serve connections: if both compete for a CPU, pool
/// threads get about a tenth of its time.
const POOL_NICENESS: i32 = 10;

thread_local! {
    /// Lowers the priority of a pool thread when it first works, if the system allows it. Tokio's blocking
    /// threads are shared, so the thread may later also read files or resolve names at this priority. On
    /// other systems than Linux, the priority would apply to the whole process, so it stays unchanged.
    static LOW_PRIORITY: () = {
        if cfg!(target_os = "linux") {
            rustix::process::nice(POOL_NICENESS).ok();
        }
    };
}

async fn acquire(semaphore: Arc<Semaphore>) -> OwnedSemaphorePermit {
    semaphore.acquire_owned().await.expect("the semaphore is never closed")
}

/// Size from which a response that no rule parses is translated in the pool. Below this size, translation
/// takes about half a millisecond, or 2 ms if the response consists of tiny values, which is acceptable on a
/// thread that also serves other calls.
const LARGE_RESPONSE_BYTES: usize = 1 << 20;

/// Size from which an error response, or a response that rules or a schema apply to, is translated in the
/// pool. It is smaller than [`LARGE_RESPONSE_BYTES`], because the steps of rules are only partly counted.
pub(super) const LARGE_FOR_RULES_BYTES: usize = 8 << 10;

/// Size of the arguments of a call from which the response is translated in the pool.
const LARGE_ARGUMENTS_BYTES: usize = 32 << 10;

/// Step limit of rules on a thread that also serves other calls: pattern matches, filter iterations, cost of
/// schema checks. The limit takes about a millisecond. A translation that needs more steps is restarted in
/// the pool, which is safe because a translation has no side effects.
const INLINE_STEPS: u64 = 10_000;

impl WorkerPool {
    /// Translates a response until `deadline`.
    pub(super) async fn translate(
        &self,
        route: &Arc<BoundRoute>,
        arguments: Arguments,
        response: UpstreamResponse,
        deadline: Instant,
    ) -> Result<Translation, WorkError> {
        let values = arguments.into_values();
        let is_unparsed = is_unparsed(&route.translator, &response);
        let large_bytes = if is_unparsed { LARGE_RESPONSE_BYTES } else { LARGE_FOR_RULES_BYTES };
        // Rules may do as much work on arguments as on a response.
        let is_short =
            is_shorter(&response, large_bytes) && approximate_bytes(&values.0) < LARGE_ARGUMENTS_BYTES;
        let bound = Arc::clone(route);
        let work = move |budget: &WorkBudget| {
            let (args, input_responses) = (&values.0, &values.1);
            let input =
                CallInput { tool: &bound.definition.name, args, input_responses, work_budget: Some(budget) };
            translate::translate(&bound.translator, input, &response, &mut Trace::off())
        };
        self.run_inline_first(&route.definition.name, deadline, is_short, work).await
    }

    /// Runs work on this thread within [`INLINE_STEPS`]. If the work needs more steps, or `is_short` is
    /// false, it runs in the pool, from the beginning.
    ///
    /// A translation returns no error, but runs library parsers on untrusted bytes: a panic in a parser must
    /// only fail this call.
    pub(super) async fn run_inline_first<T: Send + 'static>(
        &self,
        route: &ToolName,
        deadline: Instant,
        is_short: bool,
        work: impl Fn(&WorkBudget) -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        if is_short {
            let budget = WorkBudget::with_steps(INLINE_STEPS);
            let result = panic::catch_unwind(AssertUnwindSafe(|| work(&budget)));
            if !budget.is_used_up() {
                return result.map_err(|_| WorkError::Panicked);
            }
        }
        Box::pin(self.run(route, deadline, work)).await
    }

    /// Checks the arguments of a route and adds its defaults, until `deadline`.
    pub(super) async fn check(
        &self,
        route: &Arc<BoundRoute>,
        arguments: Arguments,
        deadline: Instant,
    ) -> Result<Result<Arguments, String>, WorkError> {
        let arguments = match route.input.check_within(arguments, INLINE_STEPS * WorkBudget::CHECK_STEPS) {
            Ok(checked) => return Ok(checked),
            Err(arguments) => *arguments,
        };
        let (name, route) = (&route.definition.name, Arc::clone(route));
        Box::pin(self.run(name, deadline, move |_| route.input.check(arguments))).await
    }

    /// Builds a request from the arguments of a route, until `deadline`: the route's own request, or one
    /// about an asynchronous operation.
    pub(super) async fn build<T: Send + 'static>(
        &self,
        route: &Arc<BoundRoute>,
        arguments: &Arguments,
        headers: &HeaderMap,
        deadline: Instant,
        request: impl Fn(&Route, &Arguments, &HeaderMap, &WorkBudget) -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        let budget = WorkBudget::with_steps(INLINE_STEPS);
        let built = request(route, arguments, headers, &budget);
        if !budget.is_used_up() {
            return Ok(built);
        }
        let (name, route) = (&route.definition.name, Arc::clone(route));
        let (arguments, headers) = (arguments.clone(), headers.clone());
        Box::pin(self.run(name, deadline, move |budget| request(&route, &arguments, &headers, budget))).await
    }
}

/// Whether a response is shorter than `bytes`. A compressed response counts as longer, because its
/// decompressed length is unknown.
pub(super) fn is_shorter(response: &UpstreamResponse, bytes: usize) -> bool {
    response.body.len() < bytes && !response.headers.contains_key(header::CONTENT_ENCODING)
}

/// Length of arguments in bytes, approximately.
fn approximate_bytes(value: &Value) -> usize {
    const VALUE_BYTES: usize = 2;
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Number(number) => number.as_str().len(),
        Value::Array(items) => items.iter().map(approximate_bytes).sum(),
        Value::Object(members) => members.values().map(approximate_bytes).sum(),
        Value::Null | Value::Bool(_) => 0,
    };
    inside + VALUE_BYTES
}

/// Whether a response is copied without parsing: no rule or schema applies, and it is not an error response,
/// whose message would be extracted.
fn is_unparsed(translator: &Translator, response: &UpstreamResponse) -> bool {
    let has_failed =
        !response.status.is_success() || response.exit.as_ref().is_some_and(|exit| !exit.end.is_success());
    translator.rules.is_empty() && translator.output.is_none() && !has_failed
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::{
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        task::{Context, Waker},
        thread,
        time::Duration,
    };

    use http::StatusCode;
    use serde_json::json;

    use super::*;
    use crate::translate::{OnNoMatch, OutputSchema, Redaction, TranslationLimits, WrapNonObjects};

    fn name(text: &str) -> ToolName {
        text.parse().unwrap()
    }

    fn distant_deadline() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    /// Work that reports when it starts, and ends when signalled.
    fn blocked_work() -> (impl FnOnce(&WorkBudget) + Send + 'static, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((start_sender, started), (end, end_signal)) = (mpsc::channel(), mpsc::channel());
        let work = move |_: &WorkBudget| {
            start_sender.send(()).unwrap();
            end_signal.recv().unwrap_or_default();
        };
        (work, started, end)
    }

    #[test]
    fn a_route_has_half_of_the_permits_and_never_all() {
        for (cores, permits, share) in [(1, 2, 1), (2, 2, 1), (3, 3, 2), (4, 4, 2), (16, 16, 8)] {
            let pool = WorkerPool::with_permits(cores);
            let route_permits = pool.routes.semaphore(&name("a")).available_permits();
            assert_eq!((pool.permits.available_permits(), route_permits), (permits, share), "{cores}");
        }
    }

    #[tokio::test]
    async fn a_slow_route_leaves_workers_for_others() {
        let pool = WorkerPool::with_permits(2);
        let slow = name("slow");
        let (work, started, end) = blocked_work();
        let mut first = pin!(pool.run(&slow, distant_deadline(), work));
        let mut second = pin!(pool.run(&slow, distant_deadline(), |_| "second"));
        let mut context = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut context).is_pending());
        started.recv().unwrap();
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert_eq!(
            pool.permits.available_permits(),
            1,
            "the second waits for the first, and keeps nobody else"
        );
        assert_eq!(pool.run(&name("quick"), distant_deadline(), |_| "quick").await, Ok("quick"));
        end.send(()).unwrap();
        assert_eq!(second.await, Ok("second"));
        assert_eq!(first.await, Ok(()));
    }

    #[tokio::test]
    async fn work_of_a_cancelled_call_is_never_started() {
        let pool = WorkerPool::with_permits(2);
        let route = name("slow");
        let (work, started, end) = blocked_work();
        let mut first = pin!(pool.run(&route, distant_deadline(), work));
        let mut context = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut context).is_pending());
        started.recv().unwrap();

        let (sender, receiver) = mpsc::channel();
        let counting_work = || {
            let sender = sender.clone();
            move |_: &WorkBudget| sender.send(()).unwrap()
        };
        assert_eq!(pool.run(&route, Instant::now(), counting_work()).await, Err(WorkError::DeadlineExceeded));
        {
            let mut cancelled = pin!(pool.run(&route, distant_deadline(), counting_work()));
            assert!(cancelled.as_mut().poll(&mut context).is_pending());
        }
        end.send(()).unwrap();
        first.await.unwrap();
        pool.run(&route, distant_deadline(), |_| ()).await.unwrap();
        assert!(receiver.try_recv().is_err());
    }

    #[tokio::test]
    async fn work_that_panics_releases_its_permits() {
        let pool = WorkerPool::with_permits(2);
        let failed = pool.run(&name("a"), distant_deadline(), |_| panic!("on purpose")).await;
        assert_eq!(failed, Err::<(), _>(WorkError::Panicked));
        assert_eq!(pool.permits.available_permits(), 2);
        assert_eq!(pool.run(&name("a"), distant_deadline(), |_| 1).await, Ok(1));
    }

    #[test]
    fn validated_or_failed_responses_are_not_forwarded_unparsed() {
        let translator = |output: Option<OutputSchema>| Translator {
            rules: Vec::new(),
            on_no_match: OnNoMatch::default(),
            output,
            wrap: WrapNonObjects::default(),
            redaction: Redaction::default(),
            limits: TranslationLimits::default(),
            has_effect: false,
        };
        let response = |status| UpstreamResponse::new(status, HeaderMap::new(), "{}".into());
        let schema = json!({"type": "object"});
        let schema =
            OutputSchema::new(schema.as_object().unwrap().clone(), WrapNonObjects::default()).unwrap();
        assert!(is_unparsed(&translator(None), &response(StatusCode::OK)));
        assert!(!is_unparsed(&translator(Some(schema)), &response(StatusCode::OK)));
        assert!(!is_unparsed(&translator(None), &response(StatusCode::BAD_GATEWAY)));
    }

    #[test]
    fn long_arguments_are_distinguished_from_short_ones() {
        let is_short = |value: Value| approximate_bytes(&value) < LARGE_ARGUMENTS_BYTES;
        assert!(is_short(json!({"text": "x".repeat(1000), "list": vec![1; 1000]})));
        assert!(!is_short(json!({"text": "x".repeat(LARGE_ARGUMENTS_BYTES)})));
        assert!(!is_short(json!({"list": vec![1; LARGE_ARGUMENTS_BYTES]})));
        assert!(!is_short(json!([["x".repeat(20 << 10)], {"a": "x".repeat(20 << 10)}])));
    }

    #[tokio::test]
    async fn work_over_the_inline_step_budget_restarts_in_the_pool() {
        let (pool, route) = (WorkerPool::new(), "slow".parse().unwrap());
        let this_thread = thread::current().id();
        for (steps, times, is_inline) in [(100, 1, true), (INLINE_STEPS + 1, 2, false)] {
            let start_count = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&start_count);
            let work = move |budget: &WorkBudget| {
                counter.fetch_add(1, Ordering::Relaxed);
                let is_done = (0..steps).all(|_| budget.spend(1));
                (is_done, thread::current().id())
            };
            let (is_done, work_thread) =
                pool.run_inline_first(&route, distant_deadline(), true, work).await.unwrap();
            let starts = start_count.load(Ordering::Relaxed);
            assert_eq!((is_done, starts, work_thread == this_thread), (true, times, is_inline), "{steps}");
        }
    }
}
