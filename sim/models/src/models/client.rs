//! Models of the client: its lane, pools, duties, settings, retry tokens and codecs.

use super::check;
use crate::client::budget::{RetryBudget, Tokens};
use crate::client::config::ChannelConfig;
use crate::client::connection::Connection;
use crate::client::connector::Connector;
use crate::client::contracts::Contracts;
use crate::client::duty::Duty;
use crate::client::lane::Lane;
use crate::client::pool::Pool;
use crate::client::settings::Settings;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use punctual_proto::codec::Codec;
use punctual_proto::contract::{MethodDescriptor, ServiceDescriptor};
use punctual_proto::handshake::ServiceEntry;
use punctual_proto::schema::Type;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The cluster that has the lane.
const OURS: u64 = 1;

/// Whoever comes second, the connector with its connection or the cluster that makes it the only one: the lane has that connection
/// in the end.
pub fn a_connection_reaches_the_lane_whoever_comes_first() {
    check(|| {
        let (lane, connector) = (Arc::new(Lane::of(OURS)), Arc::new(Connector::new(7)));
        let publishing = {
            let (lane, connector) = (Arc::clone(&lane), Arc::clone(&connector));
            thread::spawn(move || lane.publish(OURS, connector.id(), &connector.own, Some(&Arc::new(Connection(1)))))
        };
        lane.assign(OURS, Some(&connector));
        joined(publishing);
        assert_eq!(lane.current().as_deref(), Some(&Connection(1)), "calls find it with one load");
    });
}

/// A connector that is given company while it gets a connection leaves nothing in the lane.
pub fn a_connector_with_company_leaves_the_lane_empty() {
    check(|| {
        let (lane, connector) = (Arc::new(Lane::of(OURS)), Arc::new(Connector::new(7)));
        lane.assign(OURS, Some(&connector));
        let publishing = {
            let (lane, connector) = (Arc::clone(&lane), Arc::clone(&connector));
            thread::spawn(move || lane.publish(OURS, connector.id(), &connector.own, Some(&Arc::new(Connection(1)))))
        };
        lane.assign(OURS, None);
        joined(publishing);
        assert_eq!(lane.current(), None, "there is something to choose");
    });
}

/// Once another cluster has the lane, nothing of the old one's comes back into it.
pub fn nothing_of_a_replaced_cluster_comes_back_into_the_lane() {
    check(|| {
        let (lane, connector) = (Arc::new(Lane::of(OURS)), Arc::new(Connector::new(7)));
        lane.assign(OURS, Some(&connector));
        let publishing = {
            let (lane, connector) = (Arc::clone(&lane), Arc::clone(&connector));
            thread::spawn(move || lane.publish(OURS, connector.id(), &connector.own, Some(&Arc::new(Connection(1)))))
        };
        let assigning = {
            let (lane, connector) = (Arc::clone(&lane), Arc::clone(&connector));
            thread::spawn(move || lane.assign(OURS, Some(&connector)))
        };
        lane.hand_over(OURS + 1);
        assert_eq!(lane.current(), None, "handed over");
        joined(publishing);
        joined(assigning);
        assert_eq!(lane.current(), None, "later");
    });
}

/// A connector that is closed while it connects leaves its connection neither to calls nor in the lane.
pub fn a_closed_connector_leaves_nothing_behind() {
    check(|| {
        let (lane, connector) = (Arc::new(Lane::of(OURS)), Arc::new(Connector::new(7)));
        lane.assign(OURS, Some(&connector));
        // The state of a connector is under a lock of its own.
        let is_closed = Arc::new(Mutex::new(false));
        let connecting = {
            let (lane, connector, is_closed) = (Arc::clone(&lane), Arc::clone(&connector), Arc::clone(&is_closed));
            thread::spawn(move || {
                lane.publish(OURS, connector.id(), &connector.own, Some(&Arc::new(Connection(1))));
                if *is_closed.lock().expect("no panic") {
                    lane.publish(OURS, connector.id(), &connector.own, None);
                }
            })
        };
        *is_closed.lock().expect("no panic") = true;
        lane.publish(OURS, connector.id(), &connector.own, None);
        joined(connecting);
        assert_eq!((lane.current(), connector.current()), (None, None));
    });
}

/// A duty has one holder at a time, who sees what the one before did.
pub fn a_duty_has_one_holder_at_a_time() {
    check(|| {
        let duty = Arc::new((Duty::free(), AtomicUsize::new(0)));
        let serve = |duty: Arc<(Duty, AtomicUsize)>| {
            let taken = duty.0.take();
            if taken {
                let before = duty.1.load(Ordering::Relaxed);
                duty.1.store(before + 1, Ordering::Relaxed);
                duty.0.give_back();
            }
            usize::from(taken)
        };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let duty = Arc::clone(&duty);
                thread::spawn(move || serve(duty))
            })
            .collect();
        let served: usize = serve(Arc::clone(&duty)) + others.into_iter().map(joined).sum::<usize>();
        assert!(served >= 1, "nobody took a duty that was free");
        assert!(duty.0.take(), "it was given back");
        assert_eq!(duty.1.load(Ordering::Relaxed), served, "two had it at once");
    });
}

/// A member of a pool.
#[derive(Debug, Default)]
struct Member {
    is_closed: AtomicBool,
}

fn grow(pool: &Pool<Member>) -> bool {
    pool.grow(8, |_| true, Member::default).is_some()
}

/// A pool that grows while it is closed leaves nobody open.
pub fn a_pool_that_closes_leaves_nobody_open() {
    check(|| {
        let pool = Arc::new(Pool::of(Member::default()));
        let growing = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || grow(&pool))
        };
        for member in pool.close().iter() {
            member.is_closed.store(true, Ordering::Relaxed);
        }
        let grew = joined(growing);
        let members = pool.members();
        assert_eq!(members.len(), 1 + usize::from(grew));
        assert!(members.iter().all(|member| member.is_closed.load(Ordering::Relaxed)), "one was left open");
        assert!(!grow(&pool), "it is closed");
    });
}

/// Whoever grows while others are removed is a member or was removed, and the first stays.
pub fn a_pool_loses_nobody_who_joins() {
    check(|| {
        let pool = Arc::new(Pool::of(Member::default()));
        let first = Arc::clone(&pool.members()[0]);
        assert!(grow(&pool));
        let growing = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || grow(&pool))
        };
        let removed = pool.remove(|_, _| true).len();
        assert!(joined(growing));
        let members = pool.members();
        assert!(Arc::ptr_eq(&members[0], &first), "the first went");
        assert_eq!(members.len() + removed, 3);
    });
}

/// Where there is more than the first, somebody looks for those that are not needed.
pub fn a_pool_that_is_too_big_is_looked_after() {
    check(|| {
        let pool = Arc::new(Pool::of(Member::default()));
        assert!(grow(&pool) && pool.begin_shrinking());
        let shrinking = {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                pool.remove(|_, _| true);
                !pool.end_shrinking()
            })
        };
        assert!(grow(&pool));
        let begun = pool.begin_shrinking();
        let goes_on = joined(shrinking);
        assert!(!(begun && goes_on), "two are at it");
        assert!(pool.members().len() == 1 || begun || goes_on, "nobody is at it");
    });
}

/// Changes of the settings are not lost, have numbers of their own, and what is mirrored for plain calls agrees with the rest.
pub fn no_change_of_the_settings_is_lost() {
    check(|| {
        let settings = Arc::new(Settings::new(ChannelConfig { default_timeout: None, retries: false }));
        let changing = {
            let settings = Arc::clone(&settings);
            thread::spawn(move || settings.change(|config| config.retries = true))
        };
        let timeout = Some(Duration::from_secs(1));
        let second = settings.change(|config| config.default_timeout = timeout).expect("a change that is allowed");
        let first = joined(changing).expect("a change that is allowed");
        assert_eq!(first + second, 2 + 3, "each is a generation of its own");
        let mirrored = (settings.default_timeout(), settings.has_policies(), settings.is_observed());
        assert_eq!(mirrored, (timeout, true, true));
        let config = settings.load();
        assert_eq!((config.default_timeout, config.retries), (timeout, true));
    });
}

/// Retries take no token twice, and none that was brought is lost but those that overflow.
pub fn retry_tokens_are_taken_once() {
    check(|| {
        let budget = RetryBudget::new(1, 100);
        let tokens = Arc::new(Tokens::full(&budget));
        let retrying = {
            let tokens = Arc::clone(&tokens);
            thread::spawn(move || usize::from(tokens.withdraw(&budget)) + usize::from(tokens.withdraw(&budget)))
        };
        let calling = {
            let tokens = Arc::clone(&tokens);
            thread::spawn(move || tokens.deposit(&budget))
        };
        let mut taken = usize::from(tokens.withdraw(&budget)) + joined(retrying);
        joined(calling);
        while tokens.withdraw(&budget) {
            taken += 1;
        }
        assert!((1..=2).contains(&taken), "{taken} were taken of one, and one that was brought");
    });
}

static SERVICES: [ServiceDescriptor; 9] = [
    ServiceDescriptor::new("A", "", &[]),
    ServiceDescriptor::new("B", "", &[]),
    ServiceDescriptor::new("C", "", &[]),
    ServiceDescriptor::new("D", "", &[]),
    ServiceDescriptor::new("E", "", &[]),
    ServiceDescriptor::new("F", "", &[]),
    ServiceDescriptor::new("G", "", &[]),
    ServiceDescriptor::new("H", "", &[]),
    ServiceDescriptor::new("I", "", &[]),
];

static METHOD: MethodDescriptor = MethodDescriptor::oneway("A/m", &Type::Unit);

/// Two services that race for the last quick place are each spoken to in their own codec, then and later.
pub fn services_that_race_for_a_place_keep_their_codecs() {
    let [.., same, other] = &SERVICES;
    let entries = [ServiceEntry { name: same.name.to_owned(), contract: same.contract_hash() }];
    check(move || {
        let contracts = Arc::new(Contracts::new(&entries));
        for service in &SERVICES[..7] {
            assert_eq!(contracts.codec(service, &METHOD), Codec::Named);
        }
        let racing = {
            let contracts = Arc::clone(&contracts);
            thread::spawn(move || contracts.codec(same, &METHOD))
        };
        assert_eq!(contracts.codec(other, &METHOD), Codec::Named);
        assert_eq!(joined(racing), Codec::Compact);
        let codecs = [same, other].map(|service| contracts.codec(service, &METHOD));
        assert_eq!(codecs, [Codec::Compact, Codec::Named]);
    });
}

/// Two callers that find at once that a service differs have it asked about once, and see what was told.
pub fn a_service_that_differs_is_asked_about_once() {
    let [service, ..] = &SERVICES;
    let entries = [ServiceEntry { name: service.name.to_owned(), contract: [7; 16] }];
    check(move || {
        let contracts = Arc::new(Contracts::new(&entries));
        let racing = {
            let contracts = Arc::clone(&contracts);
            thread::spawn(move || contracts.codec(service, &METHOD))
        };
        assert_eq!(contracts.codec(service, &METHOD), Codec::Named);
        assert_eq!(joined(racing), Codec::Named);
        let mut context = Context::from_waker(Waker::noop());
        let Poll::Ready(differing) = pin!(contracts.differing()).poll(&mut context) else { panic!("nothing is asked") };
        assert!(pin!(contracts.differing()).poll(&mut context).is_pending(), "it is asked about twice");
        differing.settle(vec![METHOD.id]);
        assert_eq!(contracts.codec(service, &METHOD), Codec::Compact);
    });
}

fn joined<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().expect("a thread of the model panicked")
}
