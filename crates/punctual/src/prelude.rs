//! What almost every program that uses Punctual names: `use punctual::prelude::*`.

pub use crate::{Bytes, CallError, Channel, Code, Context, Server, Status, Streaming, message, service};

#[cfg(feature = "engine")]
pub use crate::engine::Engine;
#[cfg(feature = "engine")]
pub use crate::schedule::{Calendar, Cron, Every, Missed, Overlap, Rule};
