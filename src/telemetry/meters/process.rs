//! What this process takes, by the names that every dashboard knows.

use std::{fs, time::SystemTime};

use super::reading::Reading;

/// How many of the kernel's ticks a second has, on every Linux that there is for user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// Gauges by the lines of `/proc/self/status`: their names and help, and the unit of the number in each line.
const STATUS_LINES: [(&str, &str, &str, u64); 3] = [
    ("VmRSS:", "process_resident_memory_bytes", "Memory of this process that is really there", 1024),
    ("VmSize:", "process_virtual_memory_bytes", "Memory of this process by its addresses", 1024),
    ("Threads:", "process_threads", "Threads of this process", 1),
];

/// Tells of the process. What the system does not say this way is left out.
pub(super) fn tell(reading: &mut Reading, began: SystemTime) {
    let since = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    reading.gauge("process_start_time_seconds", "Since when this process runs").set(since.as_secs_f64());
    if let Some(seconds) = cpu_seconds() {
        reading.counter("process_cpu_seconds", "Time of processors that this process took").set(seconds);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    for (line, name, help, unit) in STATUS_LINES {
        if let Some(number) = number_in(&status, line).and_then(|number| number.checked_mul(unit)) {
            reading.gauge(name, help).set(number);
        }
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        reading.gauge("process_open_fds", "Files and sockets of this process").set(open.count());
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    if let Some(most) = number_in(&limits, "Max open files") {
        reading.gauge("process_max_fds", "How many files and sockets it may have").set(most);
    }
}

fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program comes before, in parentheses, and may have anything in it.
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
