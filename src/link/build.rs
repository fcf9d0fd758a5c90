//! What the linker is told of the program, beside what `rustc` tells it.
//!
//! - *What runs, and what is read of what never changes, stands side by side* (`order.ld`). A start and the calls after it pass a
//!   fifth of the program's code, and read an eighth of its constants. As those come from the compiler they lie everywhere, and
//!   since the kernel brings in 64 KiB around whatever is touched, most of the program is resident; a call, too, waits for code
//!   more than for anything else. A name that the script has and the program has not is passed over, so a script that is old
//!   costs memory and time, and nothing else. So does a build without the flag of `.cargo/config.toml`, whose names are others.
//!   Most constants have no name but a hash of their crate and a number: they are found as long as the crate, and the compiler,
//!   are those that the script was made with.
//! - *Addresses to be mended at the start are written as a bitmap* (RELR): a megabyte less of file, and of memory, as all of them
//!   are read. Only where the C library is known to read that: a program so built is refused by one older than 2.36.
//!
//! Both only for a release on Linux with x86-64 and glibc, where they were seen to work, and only with the linker that `rustc`
//! takes by itself, as others read neither scripts nor options alike.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=src/link/build.rs");
    println!("cargo::rerun-if-changed=src/link/order.ld");
    if !is_known_to_work() {
        return;
    }
    let tell = |option: &str| println!("cargo::rustc-link-arg-bin=glossator={option}");
    // Not by `-Wl`, which would end at a comma in the path.
    tell(&format!("-T{}/src/link/order.ld", variable("CARGO_MANIFEST_DIR")));
    if reads_bitmaps() {
        tell("-Wl,-z,pack-relative-relocs");
    }
}

/// What cargo tells of the build, or nothing.
#[expect(clippy::disallowed_methods, reason = "no environment of the program's")]
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

fn is_known_to_work() -> bool {
    let target = ["OS", "ENV", "ARCH"].map(|part| variable(&format!("CARGO_CFG_TARGET_{part}")));
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    variable("PROFILE") == "release"
        && target == ["linux", "gnu", "x86_64"]
        && variable("RUSTC_LINKER").is_empty()
        && !["linker", "fuse-ld"].iter().any(|other| flags.contains(other))
}

/// Whether this machine's C library does, and the program is for this machine's kind.
fn reads_bitmaps() -> bool {
    let version = || {
        let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
        let told = String::from_utf8(told.stdout).ok()?;
        let (major, minor) = told.trim().strip_prefix("glibc ")?.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    };
    variable("HOST") == variable("TARGET") && version().is_some_and(|version| version >= (2, 36))
}
