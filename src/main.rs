//! The `glossator` binary; all of its code is in the library.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// A call makes some fifty small allocations that live no longer than it: quicker with this allocator than
/// with the system's. Its background thread returns freed memory to the system, also in an idle program.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    glossator::cli::main()
}
