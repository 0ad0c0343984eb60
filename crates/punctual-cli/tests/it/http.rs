//! The daemon's HTTP as its clients meet it.

mod events;
mod gateway;
mod health;
mod metrics;
mod rest;
mod roles;
mod settings;
