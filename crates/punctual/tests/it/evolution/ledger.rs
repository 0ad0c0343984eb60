//! One contract in two versions that differ in everything that may change, and in some things that may not.

use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};

/// These, one after the other.
pub(crate) struct Ready<T>(pub(crate) std::vec::IntoIter<T>);

impl<T: Unpin> Stream for Ready<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
        Poll::Ready(self.0.next())
    }
}

/// The version of yesterday.
pub(crate) mod old {
    use super::Ready;
    use punctual::{Bytes, Status, Streaming, message, service};

    #[message]
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) struct Entry {
        pub(crate) id: u64,
        pub(crate) note: String,
        #[serde(default)]
        pub(crate) legacy: u8,
    }

    #[message]
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) enum LedgerError {
        Unknown(u64),
        Call(Status),
    }

    impl From<Status> for LedgerError {
        fn from(status: Status) -> Self {
            LedgerError::Call(status)
        }
    }

    #[message]
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) enum State {
        Open,
        Closed { at: u64 },
    }

    #[message]
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) struct Line {
        pub(crate) number: u32,
    }

    #[service(name = "test.Ledger")]
    pub(crate) trait Ledger {
        #[rpc(durable, queue = "books", backoff = "fixed(1us)")]
        async fn book(&self, entry: Entry) -> Result<Entry, LedgerError>;
        async fn state(&self, id: u64) -> Result<State, Status>;
        async fn gone(&self) -> Result<u8, Status>;
        async fn retyped(&self, id: u64) -> Result<u64, Status>;
        async fn reshaped(&self) -> Result<u8, Status>;
        async fn failing(&self) -> Result<u8, Status>;
        async fn store(&self, data: Bytes) -> Result<u64, Status>;
        async fn lines(&self, from: u32) -> Result<Streaming<Line, LedgerError>, Status>;
        async fn sum(&self, lines: Streaming<Line>) -> Result<u64, Status>;
        async fn echo(&self, lines: Streaming<Line>) -> Result<Streaming<Line>, Status>;
        async fn heard(&self) -> Result<(), Status>;
    }

    pub(crate) struct Book;

    impl Ledger for Book {
        async fn book(&self, entry: Entry) -> Result<Entry, LedgerError> {
            if entry.id == 0 { Err(LedgerError::Unknown(0)) } else { Ok(entry) }
        }

        async fn state(&self, id: u64) -> Result<State, Status> {
            Ok(if id == 0 { State::Open } else { State::Closed { at: id } })
        }

        async fn gone(&self) -> Result<u8, Status> {
            Ok(7)
        }

        async fn retyped(&self, id: u64) -> Result<u64, Status> {
            Ok(id)
        }

        async fn reshaped(&self) -> Result<u8, Status> {
            Ok(7)
        }

        async fn failing(&self) -> Result<u8, Status> {
            Err(Status::failed_precondition("not today"))
        }

        async fn store(&self, data: Bytes) -> Result<u64, Status> {
            Ok(data.len() as u64)
        }

        async fn lines(&self, from: u32) -> Result<Streaming<Line, LedgerError>, Status> {
            let items = vec![Ok(Line { number: from }), Err(LedgerError::Unknown(3))];
            Ok(Streaming::new(Ready(items.into_iter())))
        }

        async fn sum(&self, mut lines: Streaming<Line>) -> Result<u64, Status> {
            let mut sum = 0;
            while let Some(line) = lines.next().await {
                sum += u64::from(line?.number);
            }
            Ok(sum)
        }

        async fn echo(&self, lines: Streaming<Line>) -> Result<Streaming<Line>, Status> {
            Ok(lines)
        }

        async fn heard(&self) -> Result<(), Status> {
            Ok(())
        }
    }
}

/// The version of today.
pub(crate) mod new {
    use super::Ready;
    use punctual::{Bytes, Status, Streaming, message, service};

    /// Under another name; `legacy` is gone, `colour` and `weight` are new.
    #[message]
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) struct Article {
        pub(crate) colour: Option<String>,
        pub(crate) id: u64,
        pub(crate) note: String,
        #[serde(default = "one")]
        pub(crate) weight: u32,
    }

    fn one() -> u32 {
        1
    }

    #[message]
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) enum LedgerError {
        Full { max: u64 },
        Unknown(u64),
        Call(Status),
    }

    impl From<Status> for LedgerError {
        fn from(status: Status) -> Self {
            LedgerError::Call(status)
        }
    }

    #[message]
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) enum State {
        Held { by: String },
        Open,
        Closed { at: u64 },
    }

    #[message]
    #[derive(Debug, Clone, PartialEq)]
    pub(crate) struct Line {
        #[serde(default)]
        pub(crate) label: String,
        pub(crate) number: u32,
    }

    #[service(name = "test.Ledger")]
    pub(crate) trait Ledger {
        #[rpc(durable, queue = "books", backoff = "fixed(1us)")]
        async fn book(&self, entry: Article) -> Result<Article, LedgerError>;
        async fn state(&self, id: u64) -> Result<State, Status>;
        async fn fresh(&self) -> Result<u8, Status>;
        async fn retyped(&self, id: String) -> Result<String, Status>;
        async fn reshaped(&self) -> Result<Streaming<u8>, Status>;
        async fn failing(&self) -> Result<u8, LedgerError>;
        async fn store(&self, data: Bytes, #[serde(default)] name: String) -> Result<u64, Status>;
        async fn lines(&self, from: u32) -> Result<Streaming<Line, LedgerError>, Status>;
        async fn sum(&self, lines: Streaming<Line>) -> Result<u64, Status>;
        async fn echo(&self, lines: Streaming<Line>) -> Result<Streaming<Line>, Status>;
        #[rpc(oneway)]
        async fn heard(&self);
    }

    pub(crate) struct Book;

    impl Ledger for Book {
        async fn book(&self, entry: Article) -> Result<Article, LedgerError> {
            match entry.id {
                0 => Err(LedgerError::Unknown(0)),
                1 => Err(LedgerError::Full { max: 9 }),
                _ => Ok(Article { colour: Some("red".to_owned()), ..entry }),
            }
        }

        async fn state(&self, id: u64) -> Result<State, Status> {
            Ok(match id {
                0 => State::Open,
                1 => State::Held { by: "me".to_owned() },
                at => State::Closed { at },
            })
        }

        async fn fresh(&self) -> Result<u8, Status> {
            Ok(8)
        }

        async fn retyped(&self, id: String) -> Result<String, Status> {
            Ok(id)
        }

        async fn reshaped(&self) -> Result<Streaming<u8>, Status> {
            Ok(Streaming::from_items([7]))
        }

        async fn failing(&self) -> Result<u8, LedgerError> {
            Err(LedgerError::Unknown(9))
        }

        async fn store(&self, data: Bytes, _: String) -> Result<u64, Status> {
            Ok(data.len() as u64)
        }

        async fn lines(&self, from: u32) -> Result<Streaming<Line, LedgerError>, Status> {
            let line = Line { label: "new".to_owned(), number: from };
            let error = if from == 0 { LedgerError::Full { max: 9 } } else { LedgerError::Unknown(3) };
            Ok(Streaming::new(Ready(vec![Ok(line), Err(error)].into_iter())))
        }

        async fn sum(&self, mut lines: Streaming<Line>) -> Result<u64, Status> {
            let mut sum = 0;
            while let Some(line) = lines.next().await {
                let line = line?;
                sum += u64::from(line.number) + line.label.len() as u64;
            }
            Ok(sum)
        }

        async fn echo(&self, lines: Streaming<Line>) -> Result<Streaming<Line>, Status> {
            Ok(lines)
        }

        async fn heard(&self) {}
    }
}
