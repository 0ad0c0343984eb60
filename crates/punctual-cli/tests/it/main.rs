//! The real binary against real daemons, on sockets, ports and databases of each test's own.

#![expect(clippy::unwrap_used, reason = "the whole crate is a test: helpers fail it as its functions do")]

mod bad_database;
mod bad_input;
mod calls;
mod contracts;
mod crash;
mod crontabs;
mod demo;
mod doctor;
mod help;
mod http;
mod incompatible;
mod links;
mod mariadb;
mod migrate;
mod postgres;
mod queues;
mod schedules;
mod serve;
mod services;
mod settings;
mod streams;
mod support;
mod tasks;
mod tls;
