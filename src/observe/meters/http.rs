//! Requests of clients, whatever they are for.

use std::{sync::OnceLock, time::Duration};

use http::{Method, StatusCode};

use super::{histogram::Histogram, reading::Reading, words::ByWord};

/// How long answers to HTTP requests took, until their heads were there.
#[derive(Default)]
pub(super) struct HttpMeters(ByWord<ByWord<Statuses, 10>, 2>);

/// A histogram for each status that there is.
struct Statuses(Box<[OnceLock<Box<Histogram>>; STATUSES]>);

const FIRST_STATUS: u16 = 100;
const STATUSES: usize = 500;

impl Default for Statuses {
    fn default() -> Self {
        Self(Box::new([const { OnceLock::new() }; STATUSES]))
    }
}

impl HttpMeters {
    pub(super) fn answered(&self, scheme: &'static str, method: &Method, status: StatusCode, took: Duration) {
        let statuses = &self.0.of(scheme).of(method_word(method)).0;
        let place = usize::from(status.as_u16() - FIRST_STATUS).min(STATUSES - 1);
        statuses[place].get_or_init(Box::default).observe(took);
    }

    pub(super) fn tell(&self, reading: &mut Reading) {
        let help = "How long it took until the head of an answer was there, by what was asked and answered";
        let requests = reading.histogram("glossator_http_request_duration_seconds", help);
        for (scheme, methods) in self.0.iter() {
            for (method, statuses) in methods.iter() {
                for (place, histogram) in statuses.0.iter().enumerate() {
                    let Some(histogram) = histogram.get() else { continue };
                    let status = (usize::from(FIRST_STATUS) + place).to_string();
                    let labels =
                        vec![("scheme", scheme.into()), ("method", method.into()), ("status", status.into())];
                    requests.add(labels, histogram.read());
                }
            }
        }
    }
}

/// The method, or one word for all that nobody knows: clients can send any.
pub fn method_word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::HEAD => "HEAD",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::PATCH => "PATCH",
        Method::TRACE => "TRACE",
        Method::CONNECT => "CONNECT",
        _ => "_OTHER",
    }
}
