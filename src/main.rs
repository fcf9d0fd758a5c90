//! The `glossator` binary; all of its code is in the library.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// jemalloc, because a call makes about fifty small, short-lived allocations, for which it is faster than the
/// system's allocator. A background thread returns freed memory to the system, also while the program is
/// idle.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    glossator::cli::main()
}
