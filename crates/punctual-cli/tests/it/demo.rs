//! The demo: the main job in small, with its own proof.

use std::process::{Command, Stdio};

/// The demo proves what it claims, says so in its report, and leaves nothing but what it was asked to keep.
#[test]
fn the_demo_proves_that_nothing_was_lost() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let output = Command::new(env!("CARGO_BIN_EXE_punctual"))
        .args(["demo", "--json", "--tasks", "500", "--seconds", "1", "--pause", "1", "--keep", "--folder"])
        .arg(&kept)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let proof = &report["proof"];
    for lost in ["tasks_lost", "slots_lost", "slots_doubled", "slots_undecided"] {
        assert_eq!(proof[lost], 0, "{lost} in {proof}");
    }
    assert!(proof["failures"].as_array().unwrap().is_empty(), "{proof}");
    assert!(report["schedules"][0]["created"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["schedules"][0]["created"], report["schedules"][0]["due"], "the policy `all` runs every slot");
    assert!(report["calls"].as_array().unwrap().iter().all(|line| line["calls"].as_u64() > Some(0)), "{report}");
    assert!(kept.join("demo.db").exists() && kept.join("ledger").exists());
    // A second demo does not mix its ledger with the first one's.
    let again = Command::new(env!("CARGO_BIN_EXE_punctual")).args(["demo", "--folder"]).arg(&kept).output().unwrap();
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("already holds a demo"));
}
