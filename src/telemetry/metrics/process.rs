//! Metrics of the process, by the conventional names for dashboards, and of all HTTP requests.

use std::{fs, time::SystemTime};

use http::Method;

use super::ByLabel;
use super::snapshot::{Histogram, MetricsSnapshot};

/// The kernel's clock ticks per second in user space, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Gauges by the lines of `/proc/self/status`: their names and help, and the unit of the number in each line.
const STATUS_LINES: [(&str, &str, &str, u64); 3] = [
    ("VmRSS:", "process_resident_memory_bytes", "Resident memory of the process, in bytes", 1024),
    ("VmSize:", "process_virtual_memory_bytes", "Virtual memory of the process, in bytes", 1024),
    ("Threads:", "process_threads", "Threads of the process", 1),
];

/// Adds the metrics of the process. Those that the system does not provide are omitted.
pub(super) fn report(reading: &mut MetricsSnapshot, began: SystemTime) {
    let since = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    reading
        .gauge("process_start_time_seconds", "Start time of the process, in seconds since 1970")
        .set(since.as_secs_f64());
    if let Some(seconds) = cpu_seconds() {
        reading.counter("process_cpu_seconds", "CPU time of the process, in seconds").set(seconds);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (line, name, help, unit) in STATUS_LINES {
        if let Some(number) = number_in(&status, line).and_then(|number| number.checked_mul(unit)) {
            reading.gauge(name, help).set(number);
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        reading.gauge("process_open_fds", "Open file descriptors of the process").set(open.count());
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    if let Some(most) = number_in(&limits, "Max open files") {
        reading.gauge("process_max_fds", "Maximum number of open file descriptors").set(most);
    }
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program precedes, in parentheses, and may contain any character.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok().map(f64::from);
    let (user, system) = (ticks()?, ticks()?);
    Some((user + system) / TICKS_PER_SECOND)
}

/// The first number of the line that begins with `name`.
fn number_in(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Durations of HTTP requests until the headers of the response, by scheme, method and status.
pub(super) type HttpDurations = ByLabel<Histogram, (&'static str, &'static str, u16)>;

/// The last status with a counter of its own: a proxied upstream may invent others.
pub(super) const LAST_STATUS: u16 = 599;

/// Adds the metrics of HTTP requests.
pub(super) fn report_http(reading: &mut MetricsSnapshot, durations: &HttpDurations) {
    let help = "Duration of HTTP requests until the response headers, by scheme, method and status";
    let requests = reading.histogram("glossator_http_request_duration_seconds", help);
    for ((scheme, method, status), histogram) in durations.all() {
        let status = status.to_string();
        let labels = [("scheme", scheme), ("method", method), ("status", status.as_str())];
        requests.add(&labels, histogram.read());
    }
}

/// The method, or one constant for all unknown ones: clients can send any.
pub fn method_label(method: &Method) -> &'static str {
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
