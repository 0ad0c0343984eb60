//! The durable calls of these tests, and handlers made of closures.

use bytes::Bytes;
use punctual_engine::{Durable, DurableMethod, Failure, HandlerFuture, Handlers, Verdict, run_typed, service_of};
use punctual_task::{Backoff, Policy};
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use std::time::Duration;

/// What these handlers fail with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Oops {
    pub(crate) code: u32,
    #[serde(skip)]
    pub(crate) verdict: Verdict,
}

impl Oops {
    pub(crate) fn new(code: u32) -> Self {
        Oops { code, verdict: Verdict::Retry }
    }

    pub(crate) fn with(code: u32, verdict: Verdict) -> Self {
        Oops { code, verdict }
    }

    fn explain(&self) -> Failure {
        Failure::new(format!("oops {}", self.code)).with_verdict(self.verdict)
    }
}

/// `Test/step`: three attempts, ten seconds apart, one minute each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) n: u64,
}

impl Durable for Step {
    const METHOD: &'static str = "Test/step";
    const POLICY: Policy = Policy {
        attempts: 3,
        backoff: Backoff::fixed(Duration::from_secs(10)),
        timeout: Some(Duration::from_secs(60)),
        ..Policy::DEFAULT
    };
    type Ok = u64;
    type Err = Oops;
    fn schema_hash() -> u64 {
        1
    }
}

/// `Other/thing`: a method of another service, with the default policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Thing {}

impl Durable for Thing {
    const METHOD: &'static str = "Other/thing";
    const POLICY: Policy = Policy::DEFAULT;
    type Ok = u64;
    type Err = Oops;
    fn schema_hash() -> u64 {
        2
    }
}

/// A handler of one method.
pub(crate) struct On<C, F> {
    run: F,
    call: PhantomData<fn(C)>,
}

/// Handles `C` with `run`.
pub(crate) fn on<C, F, Fut>(run: F) -> On<C, F>
where
    C: Durable<Ok = u64>,
    F: Fn(C) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<u64, Oops>> + Send + 'static,
{
    On { run, call: PhantomData }
}

impl<C, F, Fut> Handlers for On<C, F>
where
    C: Durable<Ok = u64>,
    F: Fn(C) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<u64, Oops>> + Send + 'static,
{
    fn service(&self) -> &'static str {
        service_of(C::METHOD)
    }

    fn methods(&self) -> Vec<DurableMethod> {
        vec![DurableMethod::of::<C>()]
    }

    fn run(&self, _: &str, args: Bytes) -> HandlerFuture {
        run_typed::<C, u64, Oops, _, _>(&args, &self.run, Oops::explain)
    }
}
