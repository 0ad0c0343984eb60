//! Two versions of a contract of which some methods are the same: each method's codec, by the wire.

use super::record::{Mark, Record, RecordingDial};
use punctual::rpc::{ChannelBuilder, Service};
use punctual::{Bytes, CallOptions, Channel, Server, ServerHandle};
use punctual_proto::frame::Kind;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// One version of the contract: of each shape a method that is the same in all of them, and one that is not.
macro_rules! version {
    ($version:ident, $($field:ident)?) => {
        mod $version {
            use punctual::{Status, Streaming, message, service};

            #[message]
            #[derive(Debug, Clone, PartialEq)]
            pub(super) struct Same {
                pub(super) number_of_the_note: u64,
            }

            #[message]
            #[derive(Debug, Clone, PartialEq, Default)]
            pub(super) struct Other {
                pub(super) number_of_the_note: u64,
                $(#[serde(default)] pub(super) $field: Option<String>,)?
            }

            #[service(name = "test.Notes")]
            pub(super) trait Notes {
                async fn same(&self, note: Same) -> Result<Same, Status>;
                async fn other(&self, note: Other) -> Result<Other, Status>;
                #[rpc(oneway)]
                async fn tell_same(&self, note: Same);
                #[rpc(oneway)]
                async fn tell_other(&self, note: Other);
                async fn up_same(&self, notes: Streaming<Same>) -> Result<u64, Same>;
                async fn up_other(&self, notes: Streaming<Other>) -> Result<u64, Other>;
                async fn down_same(&self, note: Same) -> Result<Streaming<Same, Same>, Status>;
                async fn down_other(&self, note: Other) -> Result<Streaming<Other, Other>, Status>;
                async fn both_same(&self, notes: Streaming<Same>) -> Result<Streaming<Same>, Status>;
                async fn both_other(&self, notes: Streaming<Other>) -> Result<Streaming<Other>, Status>;
            }

            impl From<Status> for Same {
                fn from(_: Status) -> Self {
                    Same { number_of_the_note: 0 }
                }
            }

            impl From<Status> for Other {
                fn from(_: Status) -> Self {
                    Other::default()
                }
            }

            fn numbered(number_of_the_note: u64) -> Other {
                Other { number_of_the_note, $($field: None,)? }
            }

            pub(super) struct Keeper;

            impl Notes for Keeper {
                async fn same(&self, note: Same) -> Result<Same, Status> {
                    Ok(note)
                }

                async fn other(&self, note: Other) -> Result<Other, Status> {
                    Ok(note)
                }

                async fn tell_same(&self, _: Same) {}

                async fn tell_other(&self, _: Other) {}

                async fn up_same(&self, mut notes: Streaming<Same>) -> Result<u64, Same> {
                    let note = notes.next().await.unwrap()?;
                    if note.number_of_the_note == 0 { Err(note) } else { Ok(note.number_of_the_note) }
                }

                async fn up_other(&self, mut notes: Streaming<Other>) -> Result<u64, Other> {
                    let note = notes.next().await.unwrap()?;
                    if note.number_of_the_note == 0 { Err(note) } else { Ok(note.number_of_the_note) }
                }

                async fn down_same(&self, note: Same) -> Result<Streaming<Same, Same>, Status> {
                    Ok(Streaming::new(super::super::Ready(vec![Ok(note.clone()), Err(note)].into_iter())))
                }

                async fn down_other(&self, note: Other) -> Result<Streaming<Other, Other>, Status> {
                    Ok(Streaming::new(super::super::Ready(vec![Ok(note.clone()), Err(note)].into_iter())))
                }

                async fn both_same(&self, notes: Streaming<Same>) -> Result<Streaming<Same>, Status> {
                    Ok(notes)
                }

                async fn both_other(&self, notes: Streaming<Other>) -> Result<Streaming<Other>, Status> {
                    Ok(notes)
                }
            }

            /// One call of each method, the one-way ones until they are written.
            pub(super) async fn call_all(channel: &punctual::Channel) {
                let client = NotesClient::new(channel.clone());
                let same = Same { number_of_the_note: 7 };
                let other = numbered(7);
                assert_eq!(client.same(same.clone()).await, Ok(same.clone()));
                assert_eq!(client.other(other.clone()).await, Ok(other.clone()));
                let minute = std::time::Duration::from_secs(60);
                client.tell_same(same.clone()).timeout(minute).await.unwrap();
                client.tell_other(other.clone()).timeout(minute).await.unwrap();
                for number_of_the_note in [7, 0] {
                    let same = Same { number_of_the_note };
                    let other = numbered(number_of_the_note);
                    let up = client.up_same(Streaming::from_items([same.clone()])).await;
                    assert_eq!(up.is_ok(), number_of_the_note == 7, "{up:?}");
                    let up = client.up_other(Streaming::from_items([other.clone()])).await;
                    assert_eq!(up.is_ok(), number_of_the_note == 7, "{up:?}");
                }
                let mut down = client.down_same(same.clone()).await.unwrap();
                assert_eq!(down.next().await.unwrap(), Ok(same.clone()));
                assert!(down.next().await.unwrap().is_err() && down.next().await.is_none());
                let mut down = client.down_other(other.clone()).await.unwrap();
                assert_eq!(down.next().await.unwrap(), Ok(other.clone()));
                assert!(down.next().await.unwrap().is_err() && down.next().await.is_none());
                let mut both = client.both_same(Streaming::from_items([same.clone()])).await.unwrap();
                assert_eq!(both.next().await.unwrap(), Ok(same));
                assert!(both.next().await.is_none());
                let mut both = client.both_other(Streaming::from_items([other.clone()])).await.unwrap();
                assert_eq!(both.next().await.unwrap(), Ok(other));
                assert!(both.next().await.is_none());
            }

            /// One call of the unary method that is the same.
            pub(super) async fn call_same(channel: &punctual::Channel) {
                let client = NotesClient::new(channel.clone());
                assert!(client.same(Same { number_of_the_note: 7 }).await.is_ok());
            }

            /// And of the one that is not.
            pub(super) async fn call_other(channel: &punctual::Channel) {
                let client = NotesClient::new(channel.clone());
                assert!(client.other(numbered(7)).await.is_ok());
            }
        }
    };
}

version!(old,);
version!(new, colour_of_the_note);

const SHAPES: [&str; 5] = ["", "tell_", "up_", "down_", "both_"];

#[derive(Debug, Clone, Copy)]
enum Transport {
    Tcp,
    Unix,
    Inproc,
}

struct Site {
    server: ServerHandle,
    address: String,
    _dir: Option<TempDir>,
}

impl Site {
    async fn start(transport: Transport, service: impl Service) -> Site {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (address, dir) = match transport {
            Transport::Tcp => ("tcp://127.0.0.1:0".to_owned(), None),
            Transport::Unix => {
                let dir = tempfile::tempdir().expect("a folder");
                (format!("unix:{}", dir.path().join("socket").display()), Some(dir))
            }
            Transport::Inproc => (format!("inproc:equal-{}", NEXT.fetch_add(1, Ordering::SeqCst)), None),
        };
        let server = Server::builder().service(service).listen(address).bind().await.expect("a free address").spawn();
        let address = server.local_addrs().first().expect("it listens on one address").clone();
        Site { server, address, _dir: dir }
    }

    async fn recorded(&self) -> (Channel, Record) {
        let record = Record::default();
        let dial = RecordingDial { address: self.address.clone(), record: record.clone() };
        (ChannelBuilder::dial(dial).connect().await.expect("it listens"), record)
    }
}

/// Calls until the answer to the describe query has come, which no call waits for.
macro_rules! call_until {
    ($version:ident, $channel:expr, $done:expr) => {
        for calls in 0.. {
            assert!(calls < 100_000, "the method that is the same never goes compact");
            $version::call_same($channel).await;
            if $done {
                break;
            }
            tokio::task::yield_now().await;
        }
    };
}

fn is_compact(record: &Record, from: Mark) -> bool {
    record.codecs("test.Notes/same", from) == BTreeSet::from(["compact"])
}

macro_rules! over_sockets {
    ($name:ident, $client:ident, $server:ident, $transport:expr) => {
        #[tokio::test]
        async fn $name() {
            let site = Site::start($transport, $server::NotesServer::new($server::Keeper)).await;
            let (channel, record) = site.recorded().await;
            let mut from = record.mark();
            call_until!($client, &channel, {
                let compact = is_compact(&record, from);
                from = record.mark();
                compact
            });
            let from = record.mark();
            $client::call_all(&channel).await;
            for shape in SHAPES {
                let same = record.codecs(&format!("test.Notes/{shape}same"), from);
                assert_eq!(same, BTreeSet::from(["compact"]), "{shape}same");
                let other = record.codecs(&format!("test.Notes/{shape}other"), from);
                assert_eq!(other, BTreeSet::from(["named"]), "{shape}other");
            }
            by_name(&channel, &record).await;
            assert_eq!(record.sent(Kind::Describe), 1, "one exchange for the service and the connection");
            drop(channel);
            site.server.shutdown(Duration::from_secs(5)).await;
        }
    };
}

/// Calls by name go in JSON whatever is known of the contract.
async fn by_name(channel: &Channel, record: &Record) {
    let from = record.mark();
    for method in ["test.Notes/same", "test.Notes/other"] {
        let args = Bytes::from_static(br#"{"note":{"number_of_the_note":7}}"#);
        channel.call_json(method, args, CallOptions::default()).await.expect("it is served");
        assert_eq!(record.codecs(method, from), BTreeSet::from(["json"]), "{method}");
    }
}

over_sockets!(an_old_client_speaks_compact_where_it_can_over_tcp, old, new, Transport::Tcp);
over_sockets!(an_old_client_speaks_compact_where_it_can_over_unix, old, new, Transport::Unix);
over_sockets!(a_new_client_speaks_compact_where_it_can_over_tcp, new, old, Transport::Tcp);
over_sockets!(a_new_client_speaks_compact_where_it_can_over_unix, new, old, Transport::Unix);

/// The bytes that one call moved, both ways.
macro_rules! moved {
    ($channel:expr, $call:expr) => {{
        let before = $channel.stats();
        $call.await;
        let after = $channel.stats();
        (after.sent_bytes - before.sent_bytes, after.received_bytes - before.received_bytes)
    }};
}

macro_rules! in_process {
    ($name:ident, $client:ident, $server:ident) => {
        /// In process, where nothing can be recorded: a call of a method that is the same moves exactly the bytes that it
        /// moves between peers of one version, and one that is not the same moves more.
        #[tokio::test]
        async fn $name() {
            let same = Site::start(Transport::Inproc, $client::NotesServer::new($client::Keeper)).await;
            let other = Site::start(Transport::Inproc, $server::NotesServer::new($server::Keeper)).await;
            let to_same = Channel::connect(&same.address).await.unwrap();
            let to_other = Channel::connect(&other.address).await.unwrap();
            $client::call_same(&to_same).await;
            let compact = moved!(to_same, $client::call_same(&to_same));
            let compact_other = moved!(to_same, $client::call_other(&to_same));
            call_until!($client, &to_other, moved!(to_other, $client::call_same(&to_other)) == compact);
            for _ in 0..3 {
                assert_eq!(moved!(to_other, $client::call_same(&to_other)), compact);
                let named = moved!(to_other, $client::call_other(&to_other));
                assert!(named.0 > compact_other.0 && named.1 > compact_other.1, "{named:?} and {compact_other:?}");
            }
            $client::call_all(&to_other).await;
            drop((to_same, to_other));
            same.server.shutdown(Duration::from_secs(5)).await;
            other.server.shutdown(Duration::from_secs(5)).await;
        }
    };
}

in_process!(an_old_client_speaks_compact_where_it_can_in_process, old, new);
in_process!(a_new_client_speaks_compact_where_it_can_in_process, new, old);

/// A server of the same version is not asked at all.
#[tokio::test]
async fn peers_of_one_version_exchange_nothing_more() {
    let site = Site::start(Transport::Tcp, old::NotesServer::new(old::Keeper)).await;
    let (channel, record) = site.recorded().await;
    let from = record.mark();
    old::call_all(&channel).await;
    for name in SHAPES.iter().flat_map(|shape| [format!("{shape}same"), format!("{shape}other")]) {
        assert_eq!(record.codecs(&format!("test.Notes/{name}"), from), BTreeSet::from(["compact"]), "{name}");
    }
    assert_eq!(record.sent(Kind::Describe), 0);
    drop(channel);
    site.server.shutdown(Duration::from_secs(5)).await;
}

/// What is said of a connection ends with it: behind another server, the same channel compares anew.
#[tokio::test]
async fn each_connection_compares_for_itself() {
    let first = Site::start(Transport::Tcp, new::NotesServer::new(new::Keeper)).await;
    let (channel, record) = first.recorded().await;
    let mut from = record.mark();
    call_until!(old, &channel, {
        let compact = is_compact(&record, from);
        from = record.mark();
        compact
    });
    let second = Site::start(Transport::Tcp, new::NotesServer::new(new::Keeper)).await;
    let (other, other_record) = second.recorded().await;
    let from = other_record.mark();
    old::call_same(&other).await;
    assert_eq!(other_record.codecs("test.Notes/same", from), BTreeSet::from(["named"]));
    drop((channel, other));
    first.server.shutdown(Duration::from_secs(5)).await;
    second.server.shutdown(Duration::from_secs(5)).await;
}
