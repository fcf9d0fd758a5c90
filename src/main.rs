//! The program; see the library for everything it does.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A call makes some fifty small things that live no longer than it: quicker with this than with the system's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    glossator::cli::main()
}
