//! Memory that reading a configuration has used, and nothing uses any more.

use std::{convert::Infallible, future::pending, hint::black_box, time::Duration};

use tokio::time::sleep;

/// When what a start has freed is due; and how long memory that was taken for a while keeps everything else from being so.
const DUE: Duration = Duration::from_millis(100);

/// More than mimalloc keeps a free page at hand for.
const RUN_BYTES: usize = 256 << 10;

/// Lets the system have it back, once, soon after a start; to be polled by the thread that has read the configuration.
///
/// mimalloc keeps pages that became free for 10 ms, as they may be wanted again. Whether they are due it looks when the
/// same thread frees a run of pages once more. That one has nothing to do from then on but to accept connections, so that
/// half a megabyte would stay for good. Here it takes such a run, waits longer than that, since taking it may let the time
/// begin anew, and frees it.
pub(super) async fn give_back() -> Infallible {
    sleep(DUE).await;
    let run = black_box(Vec::<u8>::with_capacity(RUN_BYTES));
    sleep(DUE).await;
    drop(run);
    pending().await
}
