use punctual::{Status, service};

#[service]
trait Keys {
    #[rpc(idempotant)]
    async fn misspelt(&self) -> Result<(), Status>;
    #[rpc(idempotent)]
    #[rpc(idempotent)]
    async fn twice(&self) -> Result<(), Status>;
}

#[service]
trait Values {
    #[rpc(timeout = 2)]
    async fn number(&self) -> Result<(), Status>;
    #[rpc(timeout = "2 seconds")]
    async fn words(&self) -> Result<(), Status>;
    #[rpc(timeout = "0s")]
    async fn no_time(&self) -> Result<(), Status>;
    #[rpc(durable, backoff = "exponential(10m, 1s)")]
    async fn backwards(&self) -> Result<(), Status>;
    #[rpc(durable, attempts = 0)]
    async fn no_attempts(&self) -> Result<(), Status>;
    #[rpc(durable, priority = 4)]
    async fn no_level(&self) -> Result<(), Status>;
}

#[service]
trait Contradictions {
    #[rpc(oneway)]
    async fn with_reply(&self) -> Result<(), Status>;
    #[rpc(oneway, idempotent)]
    async fn retried(&self);
    #[rpc(oneway, durable)]
    async fn stored(&self);
    #[rpc(queue = "payments", attempts = 2)]
    async fn not_durable(&self) -> Result<(), Status>;
    #[rpc(inline, blocking)]
    async fn both(&self) -> Result<(), Status>;
    #[rpc(durable, blocking)]
    async fn as_a_task(&self) -> Result<(), Status>;
}

fn main() {}
