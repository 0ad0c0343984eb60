//! A short run of the whole, as it is run for ten minutes before a release.

use std::process::Command;

/// Half a minute of bad weather: nothing is wrong, unexplained or left over.
#[test]
fn half_a_minute_holds() {
    let output = Command::new(env!("CARGO_BIN_EXE_chaos")).args(["--minutes", "0.5"]).output().expect("it starts");
    let told = [&output.stdout[..], &output.stderr[..]].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&told));
}
