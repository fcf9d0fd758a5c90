//! The program; see the library for everything it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    glossator::cli::main()
}
