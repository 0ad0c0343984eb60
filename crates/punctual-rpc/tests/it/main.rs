//! The runtime from both ends: a real server, a real channel, every transport; or one end and the test's own frames.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod admission;
mod auth;
mod breaker;
mod by_name;
mod calls;
mod cancel;
mod clusters;
mod comparison;
mod compression;
mod contracts;
mod endpoints;
mod faults;
mod handshake;
mod hedge;
mod hostile;
mod intercept;
mod lifecycle;
mod lifetimes;
mod limits;
mod listen;
mod pool;
mod races;
mod reconnect;
mod resend;
mod response;
mod retry;
mod scenarios;
mod server_interceptors;
mod shm;
mod stop;
mod streams;
mod support;
mod tls;
