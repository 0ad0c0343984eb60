//! Leases live on the boot clock.

use crate::stand::{Place, any, config, enqueue};
use punctual_clock::Clock;
use punctual_store_sqlite::{BootClock, MonotonicBoot, SqliteStore, SystemBoot};
use punctual_task::{Rescue, Store, StoreErrorKind, WorkerInfo};
use std::sync::Arc;
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(15);
const NOTHING: Rescue = Rescue { workers: 0, requeued: 0, failed: 0, failing: Vec::new() };

fn info(name: &str) -> WorkerInfo {
    WorkerInfo { name: name.to_owned(), slots: 1 }
}

/// Somebody sets the wall clock a year forward, or back: no worker is declared dead for it, and due times follow.
#[tokio::test]
async fn a_jump_of_the_wall_clock_kills_nobody() {
    let place = Place::new();
    let store = place.open().await;
    let [one, two] = [store.register(info("1"), LEASE).await.unwrap(), store.register(info("2"), LEASE).await.unwrap()];
    let start = place.clock.timestamp();
    let year = Duration::from_secs(365 * 86_400);
    for wall in [start.after(year), start.before(year), start] {
        place.clock.set_wall(wall);
        assert_eq!(store.rescue(one).await.unwrap(), NOTHING);
        store.renew(two, LEASE).await.unwrap();
        let until: Vec<_> = store.workers().await.unwrap().iter().map(|worker| worker.until).collect();
        assert_eq!(until, [wall.after(LEASE); 2]);
    }
    place.clock.advance(LEASE);
    assert_eq!(store.rescue(one).await.unwrap(), Rescue { workers: 1, requeued: 0, ..NOTHING });
    assert_eq!(store.renew(two, LEASE).await.expect_err("dead").kind(), StoreErrorKind::Fenced);
}

/// After a boot all leases of the boot before are void, although the boot clock began anew and stands before their ends.
#[tokio::test]
async fn a_boot_voids_old_leases() {
    let place = Place::new();
    let store = place.open().await;
    let old = store.register(info("before"), Duration::from_secs(3600)).await.unwrap();
    let ids = enqueue(&store, 2).await;
    assert_eq!(store.claim(old, any(5)).await.unwrap().tasks.len(), 2);
    store.close().await;

    let mut rebooted = config(place.clock.clone());
    rebooted.boot = Arc::new(MonotonicBoot::new(place.clock.clone(), "boot-2"));
    let store = SqliteStore::open(&place.text(), rebooted).await.unwrap();
    let new = store.register(info("after"), LEASE).await.unwrap();
    let workers = store.workers().await.unwrap();
    assert_eq!((workers[0].holds, workers[0].until), (2, place.clock.timestamp()));
    assert_eq!(store.rescue(new).await.unwrap(), Rescue { workers: 1, requeued: 2, ..NOTHING });
    assert_eq!(store.rescue(new).await.unwrap(), NOTHING);
    let claimed = store.claim(new, punctual_task::ClaimRequest { suspects: true, ..any(5) }).await.unwrap();
    assert_eq!(claimed.tasks[0].task, ids[0]);
}

/// Where a boot has no name, be it the worker's or the judge's, leases end by time and by nothing else.
#[tokio::test]
async fn a_boot_without_a_name_kills_nobody() {
    let place = Place::new();
    let named = place.open().await;
    let mut unnamed = config(place.clock.clone());
    unnamed.boot = Arc::new(MonotonicBoot::new(place.clock.clone(), ""));
    let unnamed = SqliteStore::open(&place.text(), unnamed).await.unwrap();
    let one = named.register(info("named"), LEASE).await.unwrap();
    let two = unnamed.register(info("unnamed"), LEASE).await.unwrap();
    assert_eq!(named.rescue(one).await.unwrap(), NOTHING);
    assert_eq!(unnamed.rescue(two).await.unwrap(), NOTHING);
    place.clock.advance(LEASE / 2);
    named.renew(one, LEASE).await.unwrap();
    place.clock.advance(LEASE / 2);
    assert_eq!(named.rescue(one).await.unwrap(), Rescue { workers: 1, requeued: 0, ..NOTHING });
}

/// The machine's own clock goes forward and, on Linux, names the boot.
#[test]
fn the_machine_has_a_boot_clock() {
    let (first, second) = (SystemBoot.micros(), SystemBoot.micros());
    assert!(0 < first && first <= second);
    assert!(SystemBoot.boot().len() <= 64);
    assert_eq!(SystemBoot.boot(), SystemBoot.boot());
    #[cfg(target_os = "linux")]
    assert_eq!(SystemBoot.boot().len(), 36, "a boot id as Linux writes it");
}
