//! Two versions of one contract on one wire: an old client with a new server, and the reverse, over real sockets.

mod equal;
mod ledger;
mod record;
mod tap;
mod versions;

pub(crate) use ledger::Ready;

use punctual::rpc::Service;
use punctual::{CallError, Channel, Code, Server, Status};
use std::time::Duration;

mod old {
    #[punctual::message]
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) struct Item {
        pub(crate) name: String,
        pub(crate) count: u32,
    }

    #[punctual::service(name = "test.Items")]
    pub(crate) trait Items {
        async fn put(&self, item: Item) -> Result<Item, String>;
    }

    pub(super) struct Keeper;

    impl Items for Keeper {
        async fn put(&self, item: Item) -> Result<Item, String> {
            if item.count == 0 { Err("none".to_owned()) } else { Ok(item) }
        }
    }
}

mod new {
    /// Another name, a field more, and others in another order: nothing that a name on the wire needs.
    #[punctual::message]
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) struct Article {
        #[serde(default)]
        pub(crate) colour: Option<String>,
        pub(crate) count: u32,
        pub(crate) name: String,
    }

    #[punctual::service(name = "test.Items")]
    pub(crate) trait Items {
        async fn forget(&self, name: String) -> Result<(), punctual::Status>;
        async fn put(&self, item: Article, #[serde(default)] note: String) -> Result<Article, String>;
    }

    pub(super) struct Keeper;

    impl Items for Keeper {
        async fn forget(&self, _: String) -> Result<(), punctual::Status> {
            Ok(())
        }

        async fn put(&self, item: Article, note: String) -> Result<Article, String> {
            let colour = if note.is_empty() { item.colour } else { Some(note) };
            Ok(Article { colour, ..item })
        }
    }
}

async fn channel_to(service: impl Service) -> (Channel, punctual::ServerHandle) {
    let server =
        Server::builder().service(service).listen("tcp://127.0.0.1:0").bind().await.expect("a free port").spawn();
    let address = server.local_addrs().first().expect("it listens on one address").clone();
    (Channel::connect(&address).await.expect("it listens"), server)
}

/// A client of yesterday calls a server of today: what it does not send takes its default, what it does not know it
/// ignores.
#[tokio::test]
async fn an_old_client_and_a_new_server() {
    assert_ne!(old::items::DESCRIPTOR.contract_hash(), new::items::DESCRIPTOR.contract_hash());
    let (channel, server) = channel_to(new::ItemsServer::new(new::Keeper)).await;
    let item = old::Item { name: "tea".to_owned(), count: 3 };
    assert_eq!(old::ItemsClient::new(channel).put(item.clone()).await, Ok(item));
    server.shutdown(Duration::from_secs(5)).await;
}

/// A client of today calls a server of yesterday: what that does not know it ignores, and what it does not have is said
/// to be missing.
#[tokio::test]
async fn a_new_client_and_an_old_server() {
    let (channel, server) = channel_to(old::ItemsServer::new(old::Keeper)).await;
    let items = new::ItemsClient::new(channel);
    let article = new::Article { colour: Some("red".to_owned()), count: 3, name: "tea".to_owned() };
    let kept = items.put(article.clone(), "a note".to_owned()).await;
    assert_eq!(kept, Ok(new::Article { colour: None, ..article.clone() }));
    let none = items.put(new::Article { count: 0, ..article }, String::new()).await;
    assert_eq!(none, Err(CallError::App("none".to_owned())));
    let missing = items.forget("tea".to_owned()).await;
    assert_eq!(missing.unwrap_err().status().map(Status::code), Some(Code::Unimplemented));
    server.shutdown(Duration::from_secs(5)).await;
}

/// The same contract written twice has one hash, so that two builds of it speak the compact codec.
#[test]
fn equal_contracts_have_equal_hashes() {
    mod again {
        #[punctual::message]
        pub(super) struct Renamed {
            pub(super) name: String,
            pub(super) count: u32,
        }

        #[punctual::service(name = "test.Items")]
        pub(super) trait Other {
            /// With a comment, and an attribute that is not on the wire.
            #[rpc(idempotent, timeout = "1s")]
            async fn put(&self, item: Renamed) -> Result<Renamed, String>;
        }

        fn _is_used(renamed: &Renamed) -> (&str, u32) {
            (&renamed.name, renamed.count)
        }
    }
    assert_eq!(again::other::DESCRIPTOR.contract_hash(), old::items::DESCRIPTOR.contract_hash());
}
