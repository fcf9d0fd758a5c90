//! Any file: it loads, or is told what is wrong; never a panic.

#![no_main]

use glossator::config::{self, Sources};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Err(problems) = config::load(&Sources::of_text("routes.yaml", text)) {
        assert!(!problems.as_slice().is_empty());
        let _ = problems.to_string();
    }
});
