//! What the machine must have besides cargo: a C compiler for the bundled SQLite and the TLS provider, and the two
//! components of the toolchain that a minimal installation leaves out.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::cargo::Cargo;

/// Debian's packages for it: the compiler, and the headers that it does not bring along.
const COMPILER_PACKAGES: [&str; 2] = ["gcc", "libc6-dev"];

/// Sees to a C compiler that works, headers included. Root on Debian gets the packages installed, anyone else is told which.
///
/// # Errors
/// One line that says what to install.
pub(crate) fn want_compiler() -> Result<()> {
    if compiles() {
        return Ok(());
    }
    let names = COMPILER_PACKAGES.join(" ");
    let advice = format!(
        "no C compiler that works (tried {}), and SQLite is built from source: install {names}, or name one with CC",
        compiler().display()
    );
    // A compiler that was named and does not work is for whoever named it.
    let may_install = std::env::var_os("CC").is_none() && is_root() && Path::new("/usr/bin/apt-get").exists();
    if !may_install {
        anyhow::bail!(advice);
    }
    eprintln!("note: no C compiler that works; installing {names}");
    apt_get(&["update", "-q"])?;
    apt_get(&["install", "-y", "-q", "--no-install-recommends", COMPILER_PACKAGES[0], COMPILER_PACKAGES[1]])?;
    anyhow::ensure!(compiles(), advice);
    Ok(())
}

/// Whether `cargo nextest` is installed.
pub(crate) fn has_nextest(cargo: &Cargo) -> bool {
    cargo.answers(&["nextest", "--version"])
}

/// Why a component of the toolchain cannot be used; `None` when it can. CI installs what is missing where rustup can; the
/// toolchain of a developer is not changed behind their back.
pub(crate) fn missing_component(cargo: &Cargo, subcommand: &str, component: &str) -> Option<String> {
    if cargo.answers(&[subcommand, "--version"]) {
        return None;
    }
    if cargo.in_ci {
        let added = Command::new("rustup").args(["component", "add", component]).stdin(Stdio::null()).status();
        if added.is_ok_and(|status| status.success()) && cargo.answers(&[subcommand, "--version"]) {
            return None;
        }
    }
    Some(format!("cargo {subcommand} is not installed; try: rustup component add {component}"))
}

fn compiler() -> OsString {
    std::env::var_os("CC").filter(|name| !name.is_empty()).unwrap_or_else(|| "cc".into())
}

/// Compiles three words that need a header: a compiler without the C library's headers is as good as none.
fn compiles() -> bool {
    // `CC` may hold a launcher and options ("ccache gcc"), which the build scripts take as such too.
    let compiler = compiler().to_string_lossy().into_owned();
    let mut words = compiler.split_whitespace();
    let Some(program) = words.next() else { return false };
    let child = Command::new(program)
        .args(words)
        .args(["-x", "c", "-fsyntax-only", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    if let Some(mut input) = child.stdin.take() {
        use std::io::Write;
        // A compiler that stopped reading has failed, and its status says so.
        let _ = input.write_all(b"#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n");
    }
    child.wait().is_ok_and(|status| status.success())
}

pub(crate) fn is_root() -> bool {
    let output = Command::new("id").arg("-u").stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let status = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .context("apt-get did not start")?;
    anyhow::ensure!(status.success(), "apt-get {} failed: {status}", arguments.join(" "));
    Ok(())
}
