//! The suite's list is complete.

/// Every scenario that is written is also run: the macro's list has the names of all of them.
#[test]
fn every_scenario_is_listed() {
    let listed = include_str!("../store_suite.rs");
    let files = [
        include_str!("claims.rs"),
        include_str!("commands.rs"),
        include_str!("declarations.rs"),
        include_str!("follow_ups.rs"),
        include_str!("keys.rs"),
        include_str!("progress.rs"),
        include_str!("queries.rs"),
        include_str!("sweeps.rs"),
        include_str!("tasks.rs"),
        include_str!("transactions.rs"),
        include_str!("upkeep.rs"),
        include_str!("windows.rs"),
        include_str!("workers.rs"),
    ];
    let written = files.iter().flat_map(|file| file.lines()).filter_map(|line| {
        let rest = line.strip_prefix("pub async fn ")?;
        rest.split_once('(').map(|(name, _)| name)
    });
    let mut count = 0;
    for name in written {
        assert!(listed.lines().any(|line| line.trim() == name), "{name} is not in the list of `store_suite!`");
        count += 1;
    }
    assert!(count > 50, "{count} scenarios were found in the files");
}
