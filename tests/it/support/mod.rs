//! What the tests stand on: a [`Scripted`] upstream, with a [`Fault`] or without, the program as a [`Proxy`] before it, a raw [`Client`];
//! or the program in a process of its own, [`Program`], for one request of a web server, `Cgi`,
//! or with pipes, `Piped`.

#[cfg(unix)]
mod cgi;
mod balancer;
mod client;
mod faults;
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
pub(crate) use faults::Fault;
pub(crate) use loaded::Loaded;
#[cfg(unix)]
pub(crate) use piped::Piped;
pub(crate) use program::Program;
pub(crate) use proxy::{Proxy, RouteExt, Setup, http_of, policies, route};
pub(crate) use scripted::{Asked, Gate, Scripted, State, Step, response};

/// Fails a test that would otherwise hang. No test passes because of it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for something that is bound to come.
#[track_caller]
pub(crate) fn soon<F: Future>(what: impl Display, future: F) -> impl Future<Output = F::Output> {
    let what = format!("{what} (at {})", std::panic::Location::caller());
    async move {
        match tokio::time::timeout(PATIENCE, future).await {
            Ok(output) => output,
            Err(_) => panic!("waited in vain: {what}"),
        }
    }
}
