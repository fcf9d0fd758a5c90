//! What answers the requests of a port.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use axum::body::Body;
use http::{Request, Response};

use super::asked::Asked;
use crate::{
    inbound::{MCP_PATHS, mcp::Mcp, rest::Rest},
    telemetry::{Meters, Tracing},
};

type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Answers every request of a port, whatever its path. Cheap to clone.
#[derive(Clone)]
pub struct Answerer(Arc<dyn Fn(Request<Body>) -> Answer + Send + Sync>);

impl Answerer {
    /// One that does what a function does. Dropping an answer that is not there yet ends the work on it.
    pub fn new<A>(answer: impl Fn(Request<Body>) -> A + Send + Sync + 'static) -> Self
    where
        A: Future<Output = Response<Body>> + Send + 'static,
    {
        Self(Arc::new(move |request| Box::pin(answer(request))))
    }

    /// Every path to its face: [`MCP_PATHS`] to the one, all others to the other; counted by the meters and traced.
    pub fn of_faces(rest: Rest, mcp: Mcp, meters: &Meters, tracing: &Tracing) -> Self {
        let faces = Arc::new((rest, mcp, (meters.clone(), tracing.clone())));
        Self::new(move |mut request| {
            let faces = Arc::clone(&faces);
            async move {
                let (rest, mcp, observed) = &*faces;
                let asked = Asked::of(&mut request, observed);
                let path = request.uri().path();
                // Clients are given the address with a slash at its end, too.
                let is_mcp = MCP_PATHS.contains(&path.strip_suffix('/').unwrap_or(path));
                asked.answered(match is_mcp {
                    true => mcp.handle(request).await,
                    false => rest.handle(request).await,
                })
            }
        })
    }

    /// Answers a request.
    pub fn answer(&self, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send + use<> {
        (self.0)(request)
    }
}

impl fmt::Debug for Answerer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Answerer")
    }
}
