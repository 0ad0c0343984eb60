//! Tokens in the handshake, an identity in each handler, and one place that decides who may call what.
//!
//! `cargo run -p auth`

use punctual::prelude::*;
use punctual::rpc::auth::{self, Authenticate, Authorize, FixedCredentials, Presented};
use punctual::rpc::transport::BoxFuture;
use punctual::rpc::{ChannelConfig, MethodDescriptor, ServerConfig};
use punctual::{Identity, Metadata};
use std::sync::Arc;
use std::time::Duration;

/// Some accounts.
#[service]
pub trait Accounts {
    /// Whoever is known may ask.
    async fn whoami(&self) -> Result<String, Status>;
    /// Only who has the scope `write` may.
    async fn close(&self, account: u64) -> Result<String, Status>;
}

struct Ledger;

impl Accounts for Ledger {
    async fn whoami(&self) -> Result<String, Status> {
        Ok(auth::caller()?.subject)
    }

    async fn close(&self, account: u64) -> Result<String, Status> {
        Ok(format!("account {account} closed by {}", auth::caller()?.subject))
    }
}

/// Knows two tokens. A real one checks a signature, or asks whoever issued them.
#[derive(Debug)]
struct Tokens;

impl Authenticate for Tokens {
    fn authenticate<'a>(&'a self, presented: Presented<'a>) -> BoxFuture<'a, Result<Identity, Status>> {
        Box::pin(async move {
            match presented.bytes {
                b"token-of-ada" => Ok(Identity::new("ada").with_scope("write")),
                b"token-of-bob" => Ok(Identity::new("bob")),
                _ => Err(Status::unauthenticated("no such token")),
            }
        })
    }
}

/// Decides before anything of the arguments is decoded.
#[derive(Debug)]
struct Scopes;

impl Authorize for Scopes {
    fn authorize(&self, who: Option<&Identity>, method: &MethodDescriptor, _: &Metadata) -> Result<(), Status> {
        match method.full_name {
            "Accounts/close" if !who.is_some_and(|who| who.has_scope("write")) => {
                Err(Status::permission_denied("closing accounts needs the scope `write`"))
            }
            _ => Ok(()),
        }
    }
}

async fn client(address: &str, token: &str) -> Result<AccountsClient, Status> {
    let mut config = ChannelConfig::default();
    config.credentials = Some(Arc::new(FixedCredentials::new(token)));
    Ok(AccountsClient::new(Channel::builder(address).config(config).connect().await?))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut config = ServerConfig::default();
    config.authenticator = Some(Arc::new(Tokens));
    config.authorizer = Some(Arc::new(Scopes));
    let accounts = AccountsServer::new(Ledger);
    let server = Server::builder().config(config).service(accounts).listen("tcp://127.0.0.1:0").bind().await?;
    let address = server.local_addrs()[0].clone();
    let server = server.spawn();

    let (ada, bob) = (client(&address, "token-of-ada").await?, client(&address, "token-of-bob").await?);
    println!("{} and {}", ada.whoami().await?, bob.whoami().await?);
    println!("{}", ada.close(7).await?);
    match bob.close(7).await {
        Err(CallError::Status(status)) if status.code() == Code::PermissionDenied => println!("bob: {status}"),
        other => anyhow::bail!("bob's closing came to {other:?}"),
    }
    match client(&address, "guessed").await {
        Err(status) if status.code() == Code::Unauthenticated => println!("a stranger: {status}"),
        other => anyhow::bail!("a stranger's connection came to {other:?}"),
    }

    server.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    /// The example runs and finds what it says.
    #[test]
    fn it_runs() {
        super::main().expect("the example runs");
    }
}
