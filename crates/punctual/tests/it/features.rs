//! What a user compiles who wants less.

use std::process::Command;

/// A user of the calls alone compiles no SQL, no engine and no time zones; a user of the engine without the store no SQL.
#[test]
fn calls_alone_compile_no_sql() {
    let calls = tree(&["--no-default-features"]);
    assert!(calls.contains("punctual-rpc"), "{calls}");
    for unwanted in [
        "rusqlite",
        "libsqlite3-sys",
        "punctual-task",
        "punctual-engine",
        "jiff",
        "axum",
        "hyper",
        "opentelemetry",
        "prometheus",
    ] {
        assert!(!calls.lines().any(|line| line.starts_with(unwanted)), "{unwanted} is in\n{calls}");
    }
    let engine = tree(&["--no-default-features", "--features", "engine"]);
    assert!(engine.contains("punctual-engine") && !engine.contains("sqlite"), "{engine}");
    assert!(tree(&[]).contains("rusqlite"));
}

fn tree(features: &[&str]) -> String {
    let cargo = option_env!("CARGO").unwrap_or("cargo");
    let output = Command::new(cargo)
        .args(["tree", "--package", "punctual", "--edges", "normal", "--prefix", "none", "--offline"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}
