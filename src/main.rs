//! The program; see the library for everything it does.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// A call makes some fifty small things that live no longer than it: quicker with this than with the system's. A thread
/// of its own gives freed memory back to the system, also when the program is idle.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    glossator::cli::main()
}
