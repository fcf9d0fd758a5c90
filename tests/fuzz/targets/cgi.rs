#![no_main]

#[path = "../laws.rs"]
#[allow(dead_code, reason = "one of them is tried here")]
mod laws;

libfuzzer_sys::fuzz_target!(|data: &[u8]| laws::cgi_request(data));
