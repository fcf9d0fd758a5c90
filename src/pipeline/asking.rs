//! One call on its way to its upstream: what all its requests have in common.

use std::{future::Future, pin::pin, sync::Arc, time::Instant};

use http::HeaderMap;

use super::{BoundRoute, Snapshot, audience::Telling, record::Record};
use crate::{
    model::{Arguments, Reply},
    policy::Response,
    route::{TraceContext, Traces, UpstreamRequest},
    telemetry::Ticket,
    upstream::{Ask, Caller, Due, Happened, Hearing, Meanwhile, UpstreamError},
};

/// A call whose arguments are right.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) route: &'a Arc<BoundRoute>,
    pub(super) arguments: &'a Arguments,
    /// The caller's headers.
    pub(super) headers: &'a HeaderMap,
    pub(super) caller: &'a Caller,
    pub(super) trace: Option<&'a TraceContext>,
    /// Its name, for whatever is said of it.
    pub(super) ticket: &'a Ticket,
    pub(super) due: Due,
}

impl Asking<'_> {
    /// Asks the route's upstream what the call is for, and tells meanwhile how that goes.
    pub(super) async fn call(
        self,
        request: UpstreamRequest,
        repeatable: bool,
        record: &mut Record<'_>,
        telling: &mut Telling<'_>,
    ) -> Result<Response, UpstreamError> {
        let (meanwhile, hearing) = meanwhile(telling);
        let ask = Ask { meanwhile, ..self.ask_of(request, repeatable, self.due) };
        let begun = Instant::now();
        let response = self.heard(self.route.policies.call(&ask), hearing, telling).await;
        self.tell(response.as_ref().map(|response| &response.reply), begun, record);
        let response = response?;
        let Some(age) = response.age else { return Ok(response) };
        record.kept(age);
        Ok(Response { reply: ask.charged(response.reply, &self.route.upstream).await?, ..response })
    }

    /// The same for what follows from that.
    pub(super) async fn ask(
        self,
        request: UpstreamRequest,
        repeatable: bool,
        record: &mut Record<'_>,
        telling: &mut Telling<'_>,
    ) -> Result<Reply, UpstreamError> {
        let (meanwhile, hearing) = meanwhile(telling);
        let ask = Ask { meanwhile, ..self.ask_of(request, repeatable, self.due) };
        let begun = Instant::now();
        let reply = self.route.policies.upstream().follow_up(&ask);
        let reply = self.heard(reply, hearing, telling).await;
        self.tell(reply.as_ref(), begun, record);
        reply
    }

    /// Waits for a reply, and tells meanwhile what happens.
    async fn heard<T>(
        self,
        reply: impl Future<Output = T>,
        hearing: Option<Hearing>,
        telling: &mut Telling<'_>,
    ) -> T {
        let mut reply = pin!(reply);
        let Some(mut hearing) = hearing else { return reply.await };
        let reply = loop {
            tokio::select! {
                biased;
                reply = &mut reply => break reply,
                Some(happened) = hearing.recv() => telling.happened(happened, self.route.job.is_none()),
            }
        };
        // What an upstream told of its work may have come together with the reply.
        while let Ok(happened) = hearing.try_recv() {
            if let Happened::Progress { .. } = happened {
                telling.happened(happened, false);
            }
        }
        reply
    }

    /// Has the record know of a reply.
    fn tell(self, reply: Result<&Reply, &UpstreamError>, begun: Instant, record: &mut Record<'_>) {
        let took = begun.elapsed();
        match reply {
            Ok(reply) => record.replied(reply, took, &self.route.translator.redaction),
            Err(error) => record.upstream_failed(error, took, &self.route.translator.redaction),
        }
    }

    /// A request as its upstream's policies take it.
    pub(super) fn ask_of(self, mut request: UpstreamRequest, repeatable: bool, due: Due) -> Ask {
        let traced = self.route.traces == Traces::Forwarded;
        // Each attempt has a place of its own in the trace, where there are spans.
        if let (Some(trace), true, None) = (self.trace, traced, self.ticket.span())
            && let Some(headers) = request.headers_mut()
        {
            trace.write(headers);
        }
        let ask = Ask::new(request, self.route.reply_limit_bytes, due, repeatable);
        let charge = self.route.charge.clone();
        Ask { caller: self.caller.clone(), ticket: self.ticket.clone(), charge, traced, ..ask }
    }
}

/// What is told before the reply is there, where somebody listens.
fn meanwhile(telling: &Telling<'_>) -> (Option<Meanwhile>, Option<Hearing>) {
    telling.is_heard().then(Meanwhile::new).unzip()
}
