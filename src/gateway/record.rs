//! The log of one call.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use http::StatusCode;
use tracing::{debug, error, info, warn};

use super::{Call, Face, Snapshot, spans};
use crate::{
    observe::{CallEnd, Chain, Decided, Failure, Quoted, RequestId, RouteMeters, Span, Strange, Ticket},
    policy::result_word,
    reply::{End, Exit, Reply},
    route::{Route, UpstreamName},
    rule::{Note, Redaction},
    tool::{Fault, Outcome, ToolName},
    upstream::{Caller, UpstreamError},
};

/// Watches one call and writes one line when it ends, however it ends: a call whose caller left has the outcome
/// `cancelled`.
#[derive(Debug)]
pub(super) struct Record<'a> {
    meters: Arc<RouteMeters>,
    tool: &'a ToolName,
    upstream: &'a UpstreamName,
    face: Face,
    protocol: &'static str,
    request_id: &'a RequestId,
    ticket: Ticket,
    caller: Caller,
    begun: Instant,
    /// How long its upstream was waited for, in all.
    waited: Option<Duration>,
    /// How many bytes came from there, in all.
    received_bytes: usize,
    upstream_status: Option<StatusCode>,
    /// How the program ended that was asked.
    exit: Option<End>,
    /// How long ago the reply came, where it was kept since.
    age: Option<Duration>,
    outcome: Option<Outcome>,
    decided: Option<Decided>,
    /// What the log says of why it failed.
    reason: Option<String>,
    /// Whether the work goes on without the call.
    open: bool,
}

impl<'a> Record<'a> {
    pub(super) fn begin(
        snapshot: &Snapshot,
        route: &'a Route,
        call: &Call<'_>,
        request_id: &'a RequestId,
    ) -> Self {
        let meters = snapshot.meters_of(route);
        meters.began(call.face.as_str());
        let span = spans::begun(snapshot, route, call);
        Self {
            meters,
            tool: &route.definition.name,
            upstream: &route.upstream,
            face: call.face,
            protocol: call.protocol,
            request_id,
            ticket: Ticket::new(request_id.clone(), span),
            caller: call.caller.clone(),
            begun: Instant::now(),
            waited: None,
            received_bytes: 0,
            upstream_status: None,
            exit: None,
            age: None,
            outcome: None,
            decided: None,
            reason: None,
            open: false,
        }
    }

    /// Its name, for whatever is said of it on the way.
    pub(super) fn ticket(&self) -> Ticket {
        self.ticket.clone()
    }

    pub(super) fn replied(&mut self, reply: &Reply, took: Duration, redaction: &Redaction) {
        self.waited = Some(self.waited.unwrap_or_default() + took);
        self.received_bytes += reply.body.len();
        match &reply.exit {
            None => self.upstream_status = Some(reply.status),
            Some(exit) => self.exit = Some(exit.end),
        }
        if let Some(exit) = reply.exit.as_ref().or(reply.beside.as_ref()) {
            self.program_ended(exit, redaction);
        }
        self.meters.upstream_replied(result_word(reply), took);
    }

    /// What a program said of its failure is told here, because clients are not told it.
    fn program_ended(&self, exit: &Exit, redaction: &Redaction) {
        let (tool, request_id, upstream) = (self.tool, self.request_id, self.upstream);
        let stderr = exit.stderr_text();
        let stderr = redaction.hide_long(&stderr);
        let stderr = Quoted(stderr.trim_end());
        if !exit.end.is_success() {
            warn!(%tool, %request_id, %upstream, exit = %exit.end, %stderr, "the program failed");
        } else if !stderr.0.is_empty() {
            debug!(%tool, %request_id, %upstream, exit = %exit.end, %stderr, "the program wrote to standard error");
        }
    }

    pub(super) fn kept(&mut self, age: Duration) {
        self.age = Some(age);
    }

    /// Which rule of the route has decided; the default rules where there is none.
    pub(super) fn decided(&mut self, rule: Option<usize>) {
        self.meters.decided(rule);
        if let (Some(span), Some(rule)) = (self.ticket.span(), rule) {
            span.number("glossator.rule", rule + 1);
        }
        self.decided = Some(rule.into());
    }

    pub(super) fn upstream_failed(&mut self, error: &UpstreamError, took: Duration, redaction: &Redaction) {
        self.waited = Some(self.waited.unwrap_or_default() + took);
        if !error.is_our_own_word() {
            self.meters.upstream_replied(error.as_word(), took);
        }
        let chain = Chain(error).to_string();
        let chain = redaction.hide_long(&chain);
        warn!(
            tool = %self.tool,
            request_id = %self.request_id,
            upstream = %error.upstream(),
            // A part of it may be what the upstream sent.
            error = %Quoted(&chain),
            "upstream gave no usable reply"
        );
        self.reason = Some(chain.into_owned());
    }

    /// What the rule has to say about how it read the reply. When that failed, an operator must learn why without
    /// being asked for it beforehand; what shows the reply's own words is for a log of every detail only.
    pub(super) fn notes(&mut self, notes: &[Note], outcome: Outcome) {
        for note in notes {
            let (tool, request_id) = (self.tool, self.request_id);
            if outcome == Outcome::Error(Fault::Unreadable) && !note.is_body() {
                warn!(%tool, %request_id, %note, "the reply could not be read");
                self.reason = Some(match self.reason.take() {
                    Some(before) => format!("{before}; {note}"),
                    None => note.to_string(),
                });
            } else {
                debug!(%tool, %request_id, %note, "note of the rule");
            }
        }
    }

    pub(super) fn job_elsewhere(&self) {
        warn!(
            tool = %self.tool,
            request_id = %self.request_id,
            "the upstream points to another server for its job, which is not asked"
        );
    }

    pub(super) fn panicked(&mut self) {
        self.reason = Some("translation of the reply panicked".to_owned());
        error!(tool = %self.tool, request_id = %self.request_id, "translation of the reply panicked");
    }

    /// The call is over, and the job that it began is not.
    pub(super) fn end_open(mut self) {
        self.open = true;
    }

    pub(super) fn end(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        let (outcome, fault) = match self.outcome {
            Some(Outcome::Success) => ("success", None),
            Some(Outcome::Error(fault)) => ("error", Some(fault_name(fault))),
            None if self.open => ("task", None),
            None => ("cancelled", None),
        };
        let took = self.begun.elapsed();
        let (face, protocol) = (self.face.as_str(), self.protocol);
        self.meters.ended(CallEnd { face, protocol, outcome, fault }, took);
        // A failure is nothing that a route has to have a rule for.
        let replied_well = self.upstream_status.is_none_or(|status| status.is_success());
        if self.decided == Some(Decided::Default) && self.meters.rules() > 0 && replied_well {
            self.meters.strange(Strange::NoRule);
        } else if self.outcome == Some(Outcome::Error(Fault::Unreadable)) {
            self.meters.strange(Strange::Unreadable);
        }
        if let Some(span) = self.ticket.span() {
            spans::ended(span, !protocol.is_empty(), outcome, fault);
        }
        if matches!(outcome, "error" | "cancelled") {
            self.meters.failures().keep(Failure {
                at: SystemTime::now(),
                tool: self.tool.shared(),
                upstream: self.upstream.shared(),
                face: self.face.as_str(),
                request_id: self.request_id.clone(),
                outcome,
                fault: fault.unwrap_or_default(),
                upstream_status: self.upstream_status.map(|status| status.as_u16()),
                decided: self.decided,
                reason: self.reason.take().map(Into::into),
                took,
            });
        }
        info!(
            tool = %self.tool,
            outcome,
            fault,
            rule = self.decided.map(tracing::field::display),
            upstream_status = self.upstream_status.map(|status| status.as_u16()),
            reply_age_s = self.age.map(|age| age.as_secs()),
            exit = self.exit.map(tracing::field::display),
            duration_ms = millis(took),
            upstream_ms = self.waited.map(millis),
            attempts = self.ticket.attempts(),
            reply_bytes = self.received_bytes,
            request_id = %self.request_id,
            client = self.caller.in_log().map(tracing::field::display),
            face = self.face.as_str(),
            protocol = Some(self.protocol).filter(|protocol| !protocol.is_empty()),
            trace_id = self.ticket.span().and_then(Span::trace_id).map(tracing::field::display),
            "call"
        );
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn fault_name(fault: Fault) -> &'static str {
    match fault {
        Fault::Arguments => "arguments",
        Fault::Forbidden => "forbidden",
        Fault::Unanswered => "unanswered",
        Fault::Upstream { .. } => "upstream",
        Fault::Reported { .. } => "reported",
        Fault::Unreadable => "unreadable",
        Fault::Unreachable => "unreachable",
        Fault::Deadline => "deadline",
        Fault::Busy { .. } => "busy",
        Fault::TooOften { .. } => "too_often",
    }
}
