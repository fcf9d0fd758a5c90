//! Test support:
//!
//! - [`Scripted`]: an upstream, optionally with a [`Disruption`].
//! - [`Proxy`]: the program in this process, in front of it.
//! - [`Client`]: a raw HTTP client.
//! - [`Program`]: the program in its own process.
//! - `Cgi`: the same for one request of a web server; `Piped`: the same over stdio.

#[cfg(unix)]
mod cgi;
mod balancer;
mod client;
mod disruption;
mod loaded;
#[cfg(unix)]
mod piped;
mod program;
mod proxy;
mod scripted;

use std::{fmt::Display, future::Future, time::Duration};

pub(crate) use balancer::Balancer;
#[cfg(unix)]
pub(crate) use cgi::Cgi;
pub(crate) use client::{Client, Response};
pub(crate) use disruption::Disruption;
pub(crate) use loaded::Loaded;
#[cfg(unix)]
pub(crate) use piped::Piped;
pub(crate) use program::Program;
pub(crate) use proxy::{Proxy, RouteExt, Setup, http_of, policies, route};
pub(crate) use scripted::{Gate, ReceivedRequest, Scripted, State, Step, response};

/// Fails a test that would otherwise hang. No test passes because of it.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Waits for an event that must happen.
#[track_caller]
pub(crate) fn soon<F: Future>(what: impl Display, future: F) -> impl Future<Output = F::Output> {
    let what = format!("{what} (at {})", std::panic::Location::caller());
    async move {
        match tokio::time::timeout(TEST_TIMEOUT, future).await {
            Ok(output) => output,
            Err(_) => panic!("waited in vain: {what}"),
        }
    }
}
