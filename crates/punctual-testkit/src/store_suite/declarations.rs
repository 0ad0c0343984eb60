//! Schedules as programs declare them.

use super::stand::*;
use punctual_task::schedule::{Cron, Every, Rule};
use punctual_task::{Declaration, Declared, ScheduleCommand, ScheduleSpec, ScheduleState, StoreErrorKind};

async fn declare(stand: &Stand, spec: ScheduleSpec, revision: u64) -> Declared {
    stand.store.declare(Declaration { spec, revision }).await.unwrap()
}

/// A new schedule stands at its first slot after now, whatever its anchor: a declaration never causes a catch-up.
pub async fn a_new_schedule_begins_after_now(stand: Stand) {
    stand.advance(90);
    assert_eq!(stand.declare(minutely("s")).await, Declared::Created);
    let view = stand.view("s").await;
    assert_eq!(view.spec, minutely("s"));
    assert_eq!(view.created, at(90));
    assert_eq!((view.live, view.lost.len()), (0, 0));
    let position = view.position;
    assert_eq!((position.state, position.note.as_str()), (ScheduleState::Active, ""));
    assert_eq!((position.rev, position.era, position.version, position.runs), (1, 1, 1, 0));
    assert_eq!(position.cursor.unwrap().at, at(120));
    assert!(stand.sweep().await.schedules.is_empty());
    // An interval without an anchor counts from the creation, and the creation is kept.
    let rule = Rule::from(Every::new(secs(50)));
    stand.declare(ScheduleSpec { rule, ..minutely("t") }).await;
    assert_eq!(stand.view("t").await.position.cursor.unwrap().at, at(140));
    stand.advance(250);
    stand.sweep_all(500).await;
    assert_eq!(stand.runs("t").await, [(140, 1), (190, 2), (240, 3), (290, 4), (340, 5)]);
}

/// The same declaration again changes nothing, even after an operator's edit; another one applies.
pub async fn the_same_declaration_changes_nothing(stand: Stand) {
    assert_eq!(declare(&stand, minutely("s"), 0).await, Declared::Created);
    assert_eq!(declare(&stand, minutely("s"), 0).await, Declared::Unchanged);
    let edited = ScheduleSpec { level: 3, ..minutely("s") };
    let command = ScheduleCommand::edit(edited, 1);
    stand.steer("s", command).await.unwrap();
    let view = stand.view("s").await;
    assert_eq!(declare(&stand, minutely("s"), 0).await, Declared::Unchanged);
    assert_eq!(stand.view("s").await, view);
    let next = ScheduleSpec { level: 2, ..minutely("s") };
    assert_eq!(declare(&stand, next.clone(), 0).await, Declared::Updated { rule: false });
    let view = stand.view("s").await;
    assert_eq!((view.spec, view.position.version, view.position.era), (next, 3, 1));
    let rule = Rule::from(Cron::parse("0 * * * *").unwrap());
    let next = ScheduleSpec { rule, ..minutely("s") };
    assert_eq!(declare(&stand, next, 0).await, Declared::Updated { rule: true });
    assert_eq!(stand.view("s").await.position.era, 2);
}

/// An older build undoes nothing that a newer one declared, also where the newer one only repeated what was there.
pub async fn an_older_build_undoes_nothing(stand: Stand) {
    let other = ScheduleSpec { level: 2, ..minutely("s") };
    assert_eq!(declare(&stand, minutely("s"), 5).await, Declared::Created);
    assert_eq!(declare(&stand, other.clone(), 4).await, Declared::OlderRevision);
    assert_eq!(declare(&stand, minutely("s"), 7).await, Declared::Unchanged);
    assert_eq!(declare(&stand, other.clone(), 6).await, Declared::OlderRevision);
    assert_eq!(stand.view("s").await.spec, minutely("s"));
    assert_eq!(declare(&stand, other.clone(), 7).await, Declared::Updated { rule: false });
    assert_eq!(stand.view("s").await.spec, other);
}

/// A declaration undoes no pause, halt or cancel.
pub async fn a_declaration_undoes_no_operators_act(stand: Stand) {
    stand.declare(minutely("paused")).await;
    stand.steer("paused", ScheduleCommand::Pause { note: "n".to_owned() }).await.unwrap();
    let next = ScheduleSpec { level: 0, ..minutely("paused") };
    assert_eq!(stand.declare(next).await, Declared::Updated { rule: false });
    let position = stand.view("paused").await.position;
    assert_eq!((position.state, position.note.as_str()), (ScheduleState::Paused, "n"));
    stand.declare(minutely("cancelled")).await;
    stand.steer("cancelled", ScheduleCommand::Cancel).await.unwrap();
    let view = stand.view("cancelled").await;
    for spec in [minutely("cancelled"), ScheduleSpec { level: 0, ..minutely("cancelled") }] {
        assert_eq!(stand.declare(spec).await, Declared::Cancelled);
        assert_eq!(stand.view("cancelled").await, view);
    }
}

/// A schedule whose last slot has passed can still be declared: it has ended.
pub async fn a_declaration_may_come_too_late(stand: Stand) {
    stand.advance(600);
    let spec = ScheduleSpec { rule: every_minute().until(at(300)), ..minutely("s") };
    assert_eq!(stand.declare(spec.clone()).await, Declared::Created);
    let position = stand.view("s").await.position;
    assert_eq!((position.state, position.cursor), (ScheduleState::Ended, None));
    assert_eq!(stand.declare(spec).await, Declared::Unchanged);
    assert!(stand.sweep().await.schedules.is_empty());
}

/// A definition out of its limits is refused and leaves nothing behind.
pub async fn wrong_declarations_are_refused(stand: Stand) {
    let wrong = [
        minutely(""),
        minutely(&"n".repeat(201)),
        minutely("nul\0"),
        ScheduleSpec { method: String::new(), ..minutely("s") },
        ScheduleSpec { queue: "q\n".to_owned(), ..minutely("s") },
        ScheduleSpec { level: 4, ..minutely("s") },
        ScheduleSpec { max_pending: 0, ..minutely("s") },
        ScheduleSpec { max_pending: 10_001, ..minutely("s") },
        ScheduleSpec { late_after: secs(86_401), ..minutely("s") },
        ScheduleSpec { missed: punctual_task::Missed::all(10_001, secs(1)), ..minutely("s") },
        ScheduleSpec { args: vec![b' '; punctual_task::PAYLOAD_BYTES_MAX + 1].into(), ..minutely("s") },
        ScheduleSpec { rule: every_minute().zone("Mars/Olympus"), ..minutely("s") },
        ScheduleSpec { rule: every_minute().max_occurrences(0), ..minutely("s") },
    ];
    for spec in wrong {
        let result = stand.store.declare(Declaration { spec: spec.clone(), revision: 0 }).await;
        assert_eq!(kind(result), StoreErrorKind::Refused, "{:?}", spec.name);
    }
    assert!(stand.store.schedules(None, 10).await.unwrap().is_empty());
}

/// Two programs that start at once and declare the same create it once.
pub async fn declarations_at_once_create_once(stand: Stand) {
    for round in 0..10 {
        let declarations: Vec<_> = (0..4)
            .map(|_| {
                let store = std::sync::Arc::clone(&stand.store);
                let spec = minutely(&format!("s{round}"));
                tokio::spawn(async move { store.declare(Declaration { spec, revision: 0 }).await.unwrap() })
            })
            .collect();
        let mut created = 0;
        for declaration in declarations {
            match declaration.await.unwrap() {
                Declared::Created => created += 1,
                other => assert_eq!(other, Declared::Unchanged),
            }
        }
        assert_eq!(created, 1);
    }
    assert_eq!(stand.store.schedules(None, 100).await.unwrap().len(), 10);
}

/// Schedules are listed by name, page by page.
pub async fn schedules_are_listed_by_name(stand: Stand) {
    for name in ["delta", "alpha", "Échelle", "charlie", "bravo"] {
        stand.declare(minutely(name)).await;
    }
    let names =
        |views: Vec<punctual_task::ScheduleView>| views.into_iter().map(|view| view.spec.name).collect::<Vec<_>>();
    let page = names(stand.store.schedules(None, 3).await.unwrap());
    assert_eq!(page, ["alpha", "bravo", "charlie"]);
    let page = names(stand.store.schedules(Some("charlie".to_owned()), 3).await.unwrap());
    assert_eq!(page, ["delta", "Échelle"]);
    let page = names(stand.store.schedules(Some("b".to_owned()), 1).await.unwrap());
    assert_eq!(page, ["bravo"]);
    assert!(stand.store.schedules(Some("Échelle".to_owned()), 3).await.unwrap().is_empty());
    assert_eq!(stand.store.schedule("bravo".to_owned()).await.unwrap().unwrap(), stand.view("bravo").await);
}

/// Losses are listed newest first, and their totals by reason stay when retention takes the records.
pub async fn losses_are_listed_newest_first(stand: Stand) {
    let spec = ScheduleSpec { overlap: punctual_task::Overlap::Skip, max_pending: 1, ..minutely("s") };
    stand.declare(spec).await;
    for _ in 0..5 {
        stand.advance(60);
        stand.sweep_all(500).await;
    }
    let losses = stand.store.losses("s".to_owned(), 2).await.unwrap();
    assert_eq!(losses.iter().map(|loss| loss.from).collect::<Vec<_>>(), [at(300), at(240)]);
    assert!(losses.iter().all(|loss| loss.exact && loss.count == 1));
    assert_eq!(stand.lost("s").await.len(), 4);
    let total = vec![(punctual_task::LossReason::Overlap, 4)];
    assert_eq!(stand.view("s").await.lost, total);
    let retention = punctual_task::Retention { ended: Some(secs(100)), failed: None };
    stand.store.prune(retention, 100).await.unwrap();
    assert_eq!(stand.lost("s").await, [(240, 240, "overlap", 1), (300, 300, "overlap", 1)]);
    assert_eq!(stand.view("s").await.lost, total);
}
