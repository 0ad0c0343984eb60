use punctual::{Status, service};

#[service]
trait Receivers {
    async fn none() -> Result<(), Status>;
    async fn argument_first(value: u64) -> Result<(), Status>;
    async fn by_value(self) -> Result<(), Status>;
    async fn exclusive(&mut self) -> Result<(), Status>;
    async fn named(&'static self) -> Result<(), Status>;
}

#[service]
trait Returns {
    async fn nothing(&self);
    async fn number(&self) -> u64;
    async fn pair(&self) -> (u64, u64);
}

#[service]
trait Qualifiers {
    fn blocking_one(&self) -> Result<(), Status>;
    async unsafe fn careful(&self) -> Result<(), Status>;
    async fn generic<T: Copy>(&self, value: T) -> Result<(), Status>;
    async fn lifetimes<'a>(&self, value: &'a str) -> Result<(), Status>;
    async fn with_body(&self) -> Result<(), Status> {
        Ok(())
    }
}

#[service]
trait Names {
    async fn connect_to(&self) -> Result<(), Status>;
    async fn connect(&self) -> Result<(), Status>;
    async fn string(&self) -> Result<(), Status>;
    async fn twice(&self) -> Result<(), Status>;
    async fn twice(&self, again: u64) -> Result<(), Status>;
}

fn main() {}
