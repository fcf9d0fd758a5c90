//! Threads for work that may take long, beside those that serve connections.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use crate::{model::ToolName, translate::Stop};

/// How much work that may take long is done at once, in all and for one route: long replies are translated here, and values
/// checked against a schema where that costs much.
///
/// In all as much as there are cores, so that the trees of long replies do not fill the memory; for one route at most half of it,
/// so that a slow one leaves room for the others. Work waits for its turn until its deadline, and is never begun when its caller
/// has left.
#[derive(Debug, Clone)]
pub(super) struct WorkerPool {
    permits: Arc<Semaphore>,
    per_route_share: usize,
    /// Those of routes that have work here now, or had it a short time ago.
    routes: Arc<Mutex<HashMap<ToolName, Arc<Semaphore>>>>,
}

/// Why work was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkError {
    /// It panicked.
    Panicked,
    /// Its deadline came first.
    DeadlineExceeded,
}

impl WorkerPool {
    pub(super) fn new() -> Self {
        Self::with_permits(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// At least two: with one, every route would wait for the slowest.
    fn with_permits(permits: usize) -> Self {
        let permits = permits.max(2);
        Self {
            permits: Arc::new(Semaphore::new(permits)),
            per_route_share: permits.div_ceil(2).min(permits - 1),
            routes: Arc::default(),
        }
    }

    /// Does work of a route on a thread of its own, until `deadline`.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        route: &ToolName,
        deadline: Instant,
        work: impl FnOnce(&Stop) -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        run_blocking(self.permits_of(route), deadline, work).await
    }

    /// The route's own permit first: those of its calls that wait for it are not in the way of other routes.
    async fn permits_of(&self, route: &ToolName) -> [OwnedSemaphorePermit; 2] {
        let of_route = acquire(self.share_of(route)).await;
        [of_route, acquire(Arc::clone(&self.permits)).await]
    }

    fn share_of(&self, route: &ToolName) -> Arc<Semaphore> {
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = routes.get(route) {
            return Arc::clone(share);
        }
        routes.retain(|_, share| Arc::strong_count(share) > 1);
        let share = Arc::new(Semaphore::new(self.per_route_share));
        routes.insert(route.clone(), Arc::clone(&share));
        share
    }
}

/// Does work on a thread of its own once it has its permits, until `deadline`.
///
/// Work that nobody waits for any more, because of the deadline or because its caller left, is asked to stop; it keeps its
/// permits until it does.
///
/// # Errors
///
/// [`WorkError`].
pub async fn run_blocking<P: Send + 'static, T: Send + 'static>(
    permits: impl Future<Output = P>,
    deadline: Instant,
    work: impl FnOnce(&Stop) -> T + Send + 'static,
) -> Result<T, WorkError> {
    let waiting = Waiting::default();
    let stop = waiting.0.clone();
    let done = async move {
        let permits = permits.await;
        let work = move || {
            // It may have waited for a thread as well.
            let done = (!stop.is_asked()).then(|| work(&stop));
            drop(permits);
            done
        };
        match spawn_blocking(work).await {
            Ok(Some(done)) => Ok(done),
            // Nobody is there to read it.
            Ok(None) => Err(WorkError::DeadlineExceeded),
            Err(_) => Err(WorkError::Panicked),
        }
    };
    timeout_at(deadline, done).await.unwrap_or(Err(WorkError::DeadlineExceeded))
}

async fn acquire(semaphore: Arc<Semaphore>) -> OwnedSemaphorePermit {
    semaphore.acquire_owned().await.expect("the semaphore is never closed")
}

/// Somebody who waits for work; when they go, it is asked to stop.
#[derive(Debug, Default)]
struct Waiting(Stop);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.now();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::pin,
        sync::mpsc,
        task::{Context, Waker},
        time::Duration,
    };

    use super::*;

    fn name(text: &str) -> ToolName {
        text.parse().unwrap()
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }

    /// Work that says that it has begun, and ends when it is told to.
    fn held() -> (impl FnOnce(&Stop) + Send + 'static, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((begun, has_begun), (end, ends)) = (mpsc::channel(), mpsc::channel());
        let work = move |_: &Stop| {
            begun.send(()).unwrap();
            ends.recv().unwrap_or_default();
        };
        (work, has_begun, end)
    }

    #[test]
    fn a_route_has_half_of_the_permits_and_never_all() {
        for (cores, permits, share) in [(1, 2, 1), (2, 2, 1), (3, 3, 2), (4, 4, 2), (16, 16, 8)] {
            let pool = WorkerPool::with_permits(cores);
            assert_eq!((pool.permits.available_permits(), pool.per_route_share), (permits, share), "{cores}");
        }
    }

    #[tokio::test]
    async fn a_slow_route_leaves_room_for_others() {
        let pool = WorkerPool::with_permits(2);
        let slow = name("slow");
        let (work, has_begun, end) = held();
        let mut first = pin!(pool.run(&slow, far(), work));
        let mut second = pin!(pool.run(&slow, far(), |_| "second"));
        let mut nobody = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut nobody).is_pending());
        has_begun.recv().unwrap();
        assert!(second.as_mut().poll(&mut nobody).is_pending());
        assert_eq!(
            pool.permits.available_permits(),
            1,
            "the second waits for the first, and keeps nobody else"
        );
        assert_eq!(pool.run(&name("quick"), far(), |_| "quick").await, Ok("quick"));
        end.send(()).unwrap();
        assert_eq!(second.await, Ok("second"));
        assert_eq!(first.await, Ok(()));
    }

    #[tokio::test]
    async fn work_whose_caller_has_left_is_never_begun() {
        let pool = WorkerPool::with_permits(2);
        let route = name("slow");
        let (work, has_begun, end) = held();
        let mut first = pin!(pool.run(&route, far(), work));
        let mut nobody = Context::from_waker(Waker::noop());
        assert!(first.as_mut().poll(&mut nobody).is_pending());
        has_begun.recv().unwrap();

        let (counts, begun) = mpsc::channel();
        let counted = || {
            let counts = counts.clone();
            move |_: &Stop| counts.send(()).unwrap()
        };
        assert_eq!(pool.run(&route, Instant::now(), counted()).await, Err(WorkError::DeadlineExceeded));
        {
            let mut left = pin!(pool.run(&route, far(), counted()));
            assert!(left.as_mut().poll(&mut nobody).is_pending());
        }
        end.send(()).unwrap();
        first.await.unwrap();
        pool.run(&route, far(), |_| ()).await.unwrap();
        assert!(begun.try_recv().is_err());
    }

    #[tokio::test]
    async fn routes_without_work_are_forgotten() {
        let pool = WorkerPool::with_permits(2);
        for route in ["a", "b", "c"] {
            pool.run(&name(route), far(), |_| ()).await.unwrap();
        }
        assert_eq!(pool.routes.lock().unwrap().len(), 1, "the last");
    }

    #[tokio::test]
    async fn work_that_panics_gives_its_permits_back() {
        let pool = WorkerPool::with_permits(2);
        let failed = pool.run(&name("a"), far(), |_| panic!("on purpose")).await;
        assert_eq!(failed, Err::<(), _>(WorkError::Panicked));
        assert_eq!(pool.permits.available_permits(), 2);
        assert_eq!(pool.run(&name("a"), far(), |_| 1).await, Ok(1));
    }
}
