//! A contract whose error cannot hold a status is fine, until its client is used as an implementation of it.

use punctual::{message, service};

#[message]
struct Declined;

#[service]
trait Api {
    async fn charge(&self) -> Result<(), Declined>;
}

fn wants_the_contract(_: impl Api) {}

fn calls(client: ApiClient) {
    let _call = client.charge();
    wants_the_contract(client);
}

fn main() {}
