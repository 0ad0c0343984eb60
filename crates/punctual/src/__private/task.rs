//! How the error of a durable method becomes the failure of an attempt.
//!
//! The best way that the error's type allows is chosen where the macro expands, by method lookup: the receiver loses one
//! reference for each way that does not apply.

use punctual_engine::{Failure, HandlerFuture, Verdict};
use punctual_proto::status::{Code, Status};
use std::fmt::Display;
use std::future::ready;
use std::marker::PhantomData;

/// Stands for the error type `E` in the lookup.
#[derive(Debug)]
pub struct Explain<E>(PhantomData<E>);

impl<E> Explain<E> {
    /// The start of the lookup.
    pub const NEW: Self = Explain(PhantomData);
}

/// First: a status says itself whether the same call can ever succeed, and when.
pub trait ExplainStatus {
    /// The way.
    fn explain(&self) -> fn(&Status) -> Failure;
}

impl ExplainStatus for &&&Explain<Status> {
    fn explain(&self) -> fn(&Status) -> Failure {
        |status| {
            let verdict = match (status.code(), status.retry_after()) {
                (Code::InvalidArgument | Code::Unimplemented, _) => Verdict::DeadLetter,
                (_, Some(wait)) => Verdict::RetryAfter(wait),
                _ => Verdict::Retry,
            };
            Failure::new(status.to_string()).with_verdict(verdict)
        }
    }
}

/// Second: the application chose, with `impl From<&MyError> for Failure`.
pub trait ExplainChosen<E> {
    /// The way.
    fn explain(&self) -> fn(&E) -> Failure;
}

impl<E> ExplainChosen<E> for &&Explain<E>
where
    for<'a> Failure: From<&'a E>,
{
    fn explain(&self) -> fn(&E) -> Failure {
        |error| Failure::from(error)
    }
}

/// Third: the error has a text.
pub trait ExplainText<E> {
    /// The way.
    fn explain(&self) -> fn(&E) -> Failure;
}

impl<E: Display> ExplainText<E> for &Explain<E> {
    fn explain(&self) -> fn(&E) -> Failure {
        |error| Failure::new(error.to_string())
    }
}

/// Last: only its JSON form tells what it was.
pub trait ExplainPlainly<E> {
    /// The way.
    fn explain(&self) -> fn(&E) -> Failure;
}

impl<E> ExplainPlainly<E> for Explain<E> {
    fn explain(&self) -> fn(&E) -> Failure {
        |_| Failure::new("the handler returned an error; its detail says which")
    }
}

/// An attempt of a method that this service does not have: a mistake of the engine's, since it asks for its methods first.
pub fn unknown_method(method: &str) -> HandlerFuture {
    Box::pin(ready(Err(Failure::dead_letter(format!("this service has no durable method {method}")))))
}

#[cfg(test)]
mod tests {
    use punctual_engine::{Failure, Verdict};
    use punctual_proto::status::Status;
    use std::fmt;
    use std::time::Duration;

    struct Chosen;

    impl From<&Chosen> for Failure {
        fn from(_: &Chosen) -> Self {
            Failure::new("chosen").with_verdict(Verdict::Cancel)
        }
    }

    impl fmt::Display for Chosen {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("text")
        }
    }

    struct Text;

    impl fmt::Display for Text {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("text")
        }
    }

    struct Plain;

    /// The most telling way that a type allows is taken: its own choice, then its text, then none.
    #[test]
    fn the_best_way_is_chosen() {
        let chosen = crate::__explain!(Chosen)(&Chosen);
        assert_eq!((chosen.message.as_str(), chosen.verdict), ("chosen", Verdict::Cancel));
        let text = crate::__explain!(Text)(&Text);
        assert_eq!((text.message.as_str(), text.verdict), ("text", Verdict::Retry));
        assert!(crate::__explain!(Plain)(&Plain).message.contains("detail"));
    }

    /// A status that no repetition can mend is not repeated; one that names a time is repeated then.
    #[test]
    fn a_status_says_whether_to_go_on() {
        let verdict = |status: Status| crate::__explain!(Status)(&status).verdict;
        assert_eq!(verdict(Status::invalid_argument("x")), Verdict::DeadLetter);
        assert_eq!(verdict(Status::unimplemented("x")), Verdict::DeadLetter);
        assert_eq!(verdict(Status::internal("x")), Verdict::Retry);
        let wait = Duration::from_secs(3);
        assert_eq!(verdict(Status::unavailable("x").with_retry_after(wait)), Verdict::RetryAfter(wait));
    }
}
