//! Migrations move tables both ways, refuse what they do not know, and are applied by one process only.

use super::*;
use punctual_task::WorkerInfo;
use std::collections::BTreeSet;
use std::time::Duration;
use tempfile::TempDir;

/// What a later build would know: all versions of this one, and one more.
static LATER: [Migration; 4] = [
    MIGRATIONS[0],
    MIGRATIONS[1],
    MIGRATIONS[2],
    Migration {
        version: 4,
        name: "later",
        up: "CREATE TABLE extra (id INTEGER PRIMARY KEY); INSERT INTO extra (id) VALUES (1);",
        down: "DROP TABLE extra;",
    },
];

/// The same, with a last step that fails.
static BROKEN: [Migration; 2] = [
    MIGRATIONS[0],
    Migration { version: 2, name: "second", up: "CREATE TABLE extra (id INTEGER PRIMARY KEY); nonsense;", down: "" },
];

/// The first version, changed after it was applied elsewhere.
static TAMPERED: [Migration; 3] =
    [Migration { up: "CREATE TABLE meta (name TEXT, value TEXT);", ..MIGRATIONS[0] }, MIGRATIONS[1], MIGRATIONS[2]];

fn migrator(dir: &TempDir, known: &'static [Migration]) -> Migrator {
    let path = dir.path().join("m.db");
    let mut migrator = Migrator::open(path.to_str().expect("text"), SqliteConfig::default()).expect("opens");
    migrator.known = known;
    migrator
}

/// Every table and index with its columns, by name.
fn objects(migrator: &Migrator) -> BTreeSet<String> {
    let conn = migrator.db.conn();
    let columns = "SELECT s.name || '(' || group_concat(coalesce(c.name, ''), ',') || ')'
        FROM sqlite_schema s LEFT JOIN pragma_table_info(s.name) c GROUP BY s.name";
    let mut statement = conn.prepare(columns).expect("schema");
    let names = statement.query_map([], |row| row.get(0)).expect("rows");
    names.collect::<Result<_, _>>().expect("names")
}

fn versions(migrations: &[&Migration]) -> Vec<u32> {
    migrations.iter().map(|migration| migration.version).collect()
}

/// Up creates, down removes all of it, and up again gives the same tables: nothing is left behind on the way.
#[test]
fn up_and_down_meet() {
    let dir = TempDir::new().expect("a directory");
    let migrator = migrator(&dir, &LATER);
    assert_eq!(migrator.version(), Ok(0));
    let mut seen = vec![objects(&migrator)];
    for version in 1..=latest(&LATER) {
        assert_eq!(versions(&migrator.up(Some(version)).expect("up")), [version]);
        assert_eq!(migrator.version(), Ok(version));
        seen.push(objects(&migrator));
    }
    assert_eq!(migrator.up(None).expect("up"), Vec::<&Migration>::new());
    for version in (0..latest(&LATER)).rev() {
        assert_eq!(versions(&migrator.down(version).expect("down")), [version + 1]);
        // The list of applied versions is all that stays.
        let version = version as usize;
        if version > 0 {
            assert_eq!(objects(&migrator), seen[version], "version {version}");
        }
    }
    assert_eq!(objects(&migrator).len(), 1);
    assert_eq!(versions(&migrator.up(None).expect("up")), [1, 2, 3, 4]);
    let refused = migrator.up(Some(9)).expect_err("there is no ninth");
    assert_eq!(refused.kind(), StoreErrorKind::Refused);
}

/// A migration that fails half way leaves nothing of itself.
#[test]
fn a_failed_migration_is_undone() {
    let dir = TempDir::new().expect("a directory");
    let migrator = migrator(&dir, &BROKEN);
    migrator.up(Some(1)).expect("up");
    let before = objects(&migrator);
    assert!(migrator.up(None).is_err());
    assert_eq!((objects(&migrator), migrator.version()), (before, Ok(1)));
}

/// Tables of a newer build are refused, and the line names both versions.
#[test]
fn newer_tables_are_refused() {
    let dir = TempDir::new().expect("a directory");
    migrator(&dir, &LATER).up(None).expect("up");
    let older = migrator(&dir, &MIGRATIONS);
    for refused in [older.version().expect_err("newer"), older.up(None).expect_err("newer")] {
        assert_eq!(refused.kind(), StoreErrorKind::Version);
        assert!(refused.to_string().contains("version 4") && refused.to_string().contains("up to 3"), "{refused}");
    }
}

/// A migration whose file was changed after it was applied is refused by its name and both fingerprints.
#[test]
fn a_changed_file_is_noticed() {
    let dir = TempDir::new().expect("a directory");
    migrator(&dir, &MIGRATIONS).up(None).expect("up");
    let refused = migrator(&dir, &TAMPERED).version().expect_err("another file");
    assert_eq!(refused.kind(), StoreErrorKind::Version);
    let text = refused.to_string();
    assert!(text.contains("1 (first)") && text.contains(&MIGRATIONS[0].sha256()[..12]), "{text}");
    assert!(text.contains(&TAMPERED[0].sha256()[..12]), "{text}");
}

/// Tables are not taken away under a live worker; a dead one is no obstacle.
#[test]
fn live_workers_keep_their_tables() {
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join("m.db");
    let mut session = crate::session::Session::open(Location::File(path), SqliteConfig::default()).expect("opens");
    let info = WorkerInfo { name: "w".to_owned(), slots: 1 };
    let worker = crate::workers::register(&mut session, &info, Duration::from_secs(3600)).expect("a registration");
    let refused = migrator(&dir, &MIGRATIONS).down(0).expect_err("a worker lives");
    assert_eq!(refused.kind(), StoreErrorKind::Refused);
    crate::workers::retire(&mut session, worker).expect("a retirement");
    drop(session);
    assert_eq!(versions(&migrator(&dir, &MIGRATIONS).down(0).expect("down")), [3, 2, 1]);
}

/// Many processes that open a new file at once make its tables once.
#[test]
fn one_of_many_applies_them() {
    let dir = TempDir::new().expect("a directory");
    let applied: usize = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| migrator(&dir, &MIGRATIONS).up(None).expect("up").len())).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(applied, MIGRATIONS.len());
}

/// What is printed for review is what is applied, and each version has a way back.
#[test]
fn migrations_are_numbered_and_reversible() {
    for (at, migration) in migrations().iter().enumerate() {
        assert_eq!(migration.version as usize, at + 1);
        assert!(migration.up.starts_with("--") && migration.down.contains("DROP"), "{}", migration.name);
        assert_eq!(migration.sha256().len(), 64);
    }
    assert_eq!(schema_version() as usize, migrations().len());
}
