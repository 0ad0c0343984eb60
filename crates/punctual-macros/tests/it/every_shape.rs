//! Every shape of contract that there is, under lints that users switch on: that this compiles is the test.

#![deny(warnings, missing_docs, rust_2018_idioms, unused_qualifications)]

use punctual::{Bytes, Status, Streaming, message, service};
use std::collections::BTreeMap;

/// A failure that the application names.
#[message]
#[derive(Debug)]
pub(crate) enum Failure {
    /// With its reason.
    Declined {
        /// The reason.
        reason: String,
    },
    /// Of the call itself.
    Call(Status),
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Failure::Call(status)
    }
}

/// A failure that cannot hold a status.
#[message]
#[derive(Debug)]
pub(crate) struct Bare(pub(crate) u8);

/// Returned by a method of the same name.
#[message]
#[derive(Debug, Clone)]
pub(crate) struct Receipt {
    /// Its number.
    pub(crate) id: u64,
}

/// Generic messages are fine where the contract names the type.
#[message]
#[derive(Debug, Clone)]
pub(crate) struct Page<T> {
    /// The items.
    pub(crate) items: Vec<T>,
    /// Where to go on.
    #[serde(default)]
    pub(crate) next: Option<String>,
}

/// An alias hides the `Result`.
pub(crate) type AppResult<T> = Result<T, Failure>;

/// Types of another module.
pub(crate) mod inner {
    /// Named by a relative path.
    #[punctual::message]
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Place;

    /// A contract whose types are above.
    #[punctual::service]
    pub(crate) trait Below {
        /// Relative paths.
        async fn at(&self, place: Place, of: super::Receipt) -> Result<super::Receipt, punctual::Status>;
    }
}

/// All of it.
#[service(name = "test.Every")]
pub(crate) trait Every {
    /// Plain.
    #[rpc(idempotent, timeout = "1m30s")]
    async fn plain(&self, order: u64) -> Result<u64, Failure>;
    /// Behind an alias, with attributes on an argument.
    #[rpc(durable, queue = "q", attempts = 8, backoff = "linear(1s, 1m)", priority = 3)]
    async fn stored(
        &self,
        order: u64,
        /// In cents.
        #[serde(default)]
        cents: u64,
    ) -> AppResult<BTreeMap<String, u64>>;
    /// Named like its result.
    async fn receipt(&self, of: inner::Place) -> Result<Receipt, Failure>;
    /// No reply.
    #[rpc(oneway, timeout = "500ms")]
    async fn seen(&self, page: String);
    /// Raw.
    async fn upload(&self, data: Bytes) -> Result<Bytes, Failure>;
    /// Absent.
    #[cfg(any())]
    async fn absent(&self, gone: Gone) -> Result<(), Failure>;
    /// Behind an absent one.
    async fn r#type(&self, r#in: Page<Receipt>) -> Result<Page<u8>, Failure>;
    /// Old.
    #[deprecated = "use plain"]
    async fn old(&self, a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8) -> Result<(), Failure>;
}

/// Its client is not an implementation of it.
#[service]
pub(crate) trait Unflattened {
    /// Fails barely.
    async fn fail(&self) -> Result<(), Bare>;
}

#[service]
trait Private {
    async fn f(&self) -> Result<(), Status>;
}

#[service]
pub(crate) trait Empty {}

struct All;

impl Every for All {
    async fn plain(&self, order: u64) -> Result<u64, Failure> {
        Ok(order)
    }
    async fn stored(&self, order: u64, cents: u64) -> AppResult<BTreeMap<String, u64>> {
        Ok(BTreeMap::from([(order.to_string(), cents)]))
    }
    async fn receipt(&self, _: inner::Place) -> Result<Receipt, Failure> {
        Ok(Receipt { id: 1 })
    }
    async fn seen(&self, _: String) {}
    async fn upload(&self, data: Bytes) -> Result<Bytes, Failure> {
        Ok(data)
    }
    async fn r#type(&self, _: Page<Receipt>) -> Result<Page<u8>, Failure> {
        Ok(Page { items: Vec::new(), next: None })
    }
    async fn old(&self, _: u8, _: u8, _: u8, _: u8, _: u8, _: u8, _: u8, _: u8) -> Result<(), Failure> {
        Ok(())
    }
}

/// Streams in every place.
#[service]
pub(crate) trait Flowing {
    /// An argument beside another.
    async fn upload(&self, name: String, parts: Streaming<Bytes>) -> Result<u64, Failure>;
    /// A result, with an error of its own.
    #[rpc(timeout = "1h")]
    async fn prices(&self, since: u64) -> Result<Streaming<Receipt, Failure>, Failure>;
    /// Both, behind an alias, of types of another module.
    async fn places(
        &self,
        /// A doc comment.
        r#in: Streaming<inner::Place>,
        pages: Streaming<Page<u8>>,
    ) -> AppResult<Streaming<Receipt>>;
    /// Without an answer.
    #[rpc(oneway)]
    async fn log(&self, lines: Streaming<String>);
    /// To its end.
    #[rpc(detached)]
    async fn settle(&self) -> Result<(), Status>;
}

impl Flowing for All {
    async fn upload(&self, name: String, parts: Streaming<Bytes>) -> Result<u64, Failure> {
        Ok((name.len() + parts.collect().await?.len()) as u64)
    }
    async fn prices(&self, since: u64) -> Result<Streaming<Receipt, Failure>, Failure> {
        Ok(Streaming::from_items([Receipt { id: since }]))
    }
    async fn places(&self, r#in: Streaming<inner::Place>, pages: Streaming<Page<u8>>) -> AppResult<Streaming<Receipt>> {
        drop((r#in, pages));
        Ok(Streaming::empty())
    }
    async fn log(&self, _: Streaming<String>) {}
    async fn settle(&self) -> Result<(), Status> {
        Ok(())
    }
}

fn a_call_with_streams_is_a_future(client: &FlowingClient) -> impl Future + Send + Unpin + 'static + use<> {
    client.places(Streaming::empty(), Streaming::empty())
}

fn with_streams_the_client_is_the_contract(client: FlowingClient) -> impl Flowing {
    client
}

/// Streams are no fields of the request, and stand in the descriptor.
#[test]
fn streams_are_described() {
    let request = flowing::Upload { name: "x".to_owned() };
    drop((request, flowing::Places {}, flowing::Log {}, FlowingServer::new(All)));
    let methods = flowing::DESCRIPTOR.methods;
    let shapes: Vec<&str> = methods.iter().map(|method| method.shape.as_str()).collect();
    assert_eq!(shapes, ["client-stream", "server-stream", "duplex", "oneway", "unary"]);
    let streams: Vec<&str> = methods[2].streams.iter().map(|stream| stream.name).collect();
    assert_eq!((streams, methods[4].detached), (vec!["in", "pages"], true));
    let mut text = String::new();
    methods[1].write_canonical(&mut text).unwrap();
    let failure = "enum{Declined{reason:str},Call(status)}";
    assert_eq!(text, format!("server-stream prices struct{{since:u64}} -> struct{{id:u64}} ! {failure} > {failure}"));
    let _ = (a_call_with_streams_is_a_future, with_streams_the_client_is_the_contract);
}

impl Private for () {
    async fn f(&self) -> Result<(), Status> {
        Ok(())
    }
}

/// Generic code can spawn a contract's futures.
fn spawns<T: Every>(service: std::sync::Arc<T>) {
    fn is_spawnable(_: impl Future + Send + 'static) {}
    is_spawnable(async move { service.plain(1).await });
}

fn the_client_is_the_contract(client: EveryClient) -> impl Every {
    client
}

fn a_call_object_is_a_future(client: &UnflattenedClient) -> impl Future + Send + Unpin + 'static + use<> {
    client.fail()
}

/// What the expansion is made of can be named where the trait can, and the descriptor counts the methods that exist.
#[test]
fn every_part_is_there() {
    let wrapped = EveryServer::new(All);
    let request = every::Type { r#in: Page { items: vec![Receipt { id: 1 }], next: None } };
    assert_eq!(request.r#in.items[0].id, 1);
    drop((wrapped.clone(), every::Stored { order: 1, cents: 2 }));
    let names: Vec<&str> = every::DESCRIPTOR.methods.iter().map(|method| method.full_name).collect();
    let expected =
        ["plain", "stored", "receipt", "seen", "upload", "type", "old"].map(|name| format!("test.Every/{name}"));
    assert_eq!(names, expected);
    assert!(every::DESCRIPTOR.methods[4].raw_args && every::DESCRIPTOR.methods[4].raw_ok);
    spawns(std::sync::Arc::new(All));
    let _ = (the_client_is_the_contract, a_call_object_is_a_future, PrivateServer::new(()), EmptyServer::<()>::clone);
    let _ = (private::DESCRIPTOR, empty::DESCRIPTOR, unflattened::Fail {}, inner::below::DESCRIPTOR);
    let _ = (Failure::Declined { reason: String::new() }, Bare(0));
}
