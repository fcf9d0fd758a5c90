//! The log of one call.

use std::{
    net::IpAddr,
    time::{Duration, Instant, SystemTime},
};

use http::StatusCode;
use tracing::{debug, error, info, warn};

use super::{BoundRoute, Call, Face, Snapshot, spans};
use crate::{
    model::{End, Exit, Fault, Outcome, Reply},
    policy::result_word,
    telemetry::{CallEnd, Chain, Decided, Failure, Quoted, RequestId, Span, Strange, Ticket},
    translate::{Note, Redaction},
    upstream::{Caller, Stage, UpstreamError},
};

/// Watches one call and writes one line when it ends, however it ends: a call whose caller left has the outcome
/// `cancelled`.
#[derive(Debug)]
pub(super) struct Record<'a> {
    route: &'a BoundRoute,
    face: Face,
    protocol: &'static str,
    request_id: &'a RequestId,
    ticket: Ticket,
    caller: Caller,
    address: Option<IpAddr>,
    /// Which limit of ours rejected it.
    rejected_by: Option<&'static str>,
    begun: Instant,
    /// How long its upstream was waited for, in all.
    waited: Option<Duration>,
    /// How many bytes came from there, in all.
    received_bytes: usize,
    upstream_status: Option<StatusCode>,
    /// Of the last reply.
    media_type: Option<String>,
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
        route: &'a BoundRoute,
        call: &Call<'_>,
        request_id: &'a RequestId,
    ) -> Self {
        route.meters.began(call.face.as_str());
        let span = spans::begun(snapshot, route, call);
        Self {
            route,
            face: call.face,
            protocol: call.protocol,
            request_id,
            ticket: Ticket::new(request_id.clone(), span),
            caller: call.caller.clone(),
            address: call.address,
            rejected_by: None,
            begun: Instant::now(),
            waited: None,
            received_bytes: 0,
            upstream_status: None,
            media_type: None,
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
        self.media_type = reply.media_type().map(|media_type| media_type.chars().take(100).collect());
        match &reply.exit {
            None => self.upstream_status = Some(reply.status),
            Some(exit) => self.exit = Some(exit.end),
        }
        if let Some(exit) = reply.exit.as_ref().or(reply.beside.as_ref()) {
            self.program_ended(exit, redaction);
        }
        self.route.meters.upstream_replied(result_word(reply), took);
    }

    /// What a program said of its failure is told here at `debug`, because clients are not told it. It may repeat the
    /// arguments that it was given, so other levels tell its length alone.
    fn program_ended(&self, exit: &Exit, redaction: &Redaction) {
        let (tool, upstream) = (&self.route.definition.name, &self.route.upstream);
        let request_id = self.request_id;
        let stderr = exit.stderr_text();
        if !exit.end.is_success() {
            let stderr_bytes = exit.stderr.len();
            warn!(%tool, %request_id, %upstream, exit = %exit.end, stderr_bytes, "the program failed");
        }
        if tracing::enabled!(tracing::Level::DEBUG) && !stderr.trim().is_empty() {
            let stderr = redaction.hide_long(&stderr);
            let stderr = Quoted(stderr.trim_end());
            debug!(%tool, %request_id, %upstream, exit = %exit.end, %stderr, "the program wrote to standard error");
        }
    }

    pub(super) fn kept(&mut self, age: Duration) {
        self.age = Some(age);
    }

    /// Which rule of the route has decided; the default rules where there is none.
    pub(super) fn decided(&mut self, rule: Option<usize>) {
        self.route.meters.decided(rule);
        if let (Some(span), Some(rule)) = (self.ticket.span(), rule) {
            span.number("glossator.rule", rule + 1);
        }
        self.decided = Some(rule.into());
    }

    pub(super) fn upstream_failed(&mut self, error: &UpstreamError, took: Duration, redaction: &Redaction) {
        self.waited = Some(self.waited.unwrap_or_default() + took);
        let facts = error.facts();
        if facts.stage != Stage::Rejected {
            self.route.meters.upstream_replied(facts.label, took);
        }
        let chain = Chain(error).to_string();
        // The line of the call says so. Why there is no credential, it does not say.
        self.rejected_by = facts.rejected_by;
        if self.rejected_by.is_some() {
            self.reason = Some(chain);
            return;
        }
        warn!(
            tool = %self.route.definition.name,
            request_id = %self.request_id,
            upstream = %error.upstream(),
            error = %chain,
            "upstream gave no usable reply"
        );
        if let Some(words) = error.words().filter(|_| tracing::enabled!(tracing::Level::DEBUG)) {
            let words = redaction.hide_long(words);
            let (tool, request_id) = (&self.route.definition.name, self.request_id);
            let upstream = error.upstream();
            debug!(%tool, %request_id, %upstream, words = %Quoted(&words), "the upstream's own words");
        }
        self.reason = Some(chain);
    }

    /// What the rule has to say about how it read the reply. When that failed, an operator must learn why without
    /// being asked for it beforehand; what shows the reply's own words is for a log of every detail only.
    pub(super) fn notes(&mut self, notes: &[Note], outcome: Outcome) {
        for note in notes {
            let (tool, request_id) = (&self.route.definition.name, self.request_id);
            if outcome == Outcome::Error(Fault::Unreadable) && !note.quotes() {
                let (reply_bytes, media_type) = (self.received_bytes, self.media_type.as_deref());
                warn!(%tool, %request_id, %note, media_type, reply_bytes, "the reply could not be read");
                self.reason = Some(match self.reason.take() {
                    Some(before) => format!("{before}; {note}"),
                    None => note.to_string(),
                });
            } else {
                let note = note.to_string();
                debug!(%tool, %request_id, note = %Quoted(&note), "note of the rule");
            }
        }
    }

    pub(super) fn job_elsewhere(&self) {
        warn!(
            tool = %self.route.definition.name,
            request_id = %self.request_id,
            "the upstream points to another server for its job, which is not asked"
        );
    }

    pub(super) fn panicked(&mut self) {
        self.reason = Some("translation of the reply panicked".to_owned());
        error!(tool = %self.route.definition.name, request_id = %self.request_id, "translation of the reply panicked");
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
            Some(Outcome::Error(fault)) => ("error", Some(fault.as_str())),
            None if self.open => ("task", None),
            None => ("cancelled", None),
        };
        let took = self.begun.elapsed();
        let (face, protocol) = (self.face.as_str(), self.protocol);
        self.route.meters.ended(CallEnd { face, protocol, outcome, fault }, took);
        // A failure is nothing that a route has to have a rule for.
        let replied_well = self.upstream_status.is_none_or(|status| status.is_success());
        if self.decided == Some(Decided::Default) && self.route.meters.rules() > 0 && replied_well {
            self.route.meters.strange(Strange::NoRule);
        } else if self.outcome == Some(Outcome::Error(Fault::Unreadable)) {
            self.route.meters.strange(Strange::Unreadable);
        }
        if let Some(span) = self.ticket.span() {
            spans::ended(span, !protocol.is_empty(), outcome, fault);
        }
        if matches!(outcome, "error" | "cancelled") {
            self.route.meters.failures().keep(Failure {
                at: SystemTime::now(),
                tool: self.route.definition.name.shared(),
                upstream: self.route.upstream.shared(),
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
            tool = %self.route.definition.name,
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
            rejected_by = self.rejected_by,
            client = self.caller.address_in_log(self.address).map(tracing::field::display),
            client_name = self.caller.name_in_log().map(tracing::field::display),
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
