//! Requests of clients, whatever they are for.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use http::{Method, StatusCode};

use super::{histogram::Histogram, reading::Reading};

/// How long answers to HTTP requests took, until their heads were there: by scheme, method and status.
#[derive(Default)]
pub(super) struct HttpMeters(RwLock<BTreeMap<Labels, Arc<Histogram>>>);

type Labels = (&'static str, &'static str, u16);

/// The last status that is counted for itself: an upstream that is handed through may make up others.
const LAST_STATUS: u16 = 599;

impl HttpMeters {
    pub(super) fn answered(&self, scheme: &'static str, method: &Method, status: StatusCode, took: Duration) {
        let key = (scheme, method_word(method), status.as_u16().min(LAST_STATUS));
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let histogram = known.unwrap_or_else(|| {
            Arc::clone(self.0.write().unwrap_or_else(PoisonError::into_inner).entry(key).or_default())
        });
        histogram.observe(took);
    }

    pub(super) fn tell(&self, reading: &mut Reading) {
        let help = "How long it took until the head of an answer was there, by what was asked and answered";
        let requests = reading.histogram("glossator_http_request_duration_seconds", help);
        for ((scheme, method, status), histogram) in
            self.0.read().unwrap_or_else(PoisonError::into_inner).iter()
        {
            let labels = vec![
                ("scheme", (*scheme).into()),
                ("method", (*method).into()),
                ("status", status.to_string().into()),
            ];
            requests.add(labels, histogram.read());
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
