use punctual::{Status, service};

#[service]
trait Generic<T>
where
    T: Copy,
{
    async fn f(&self, value: T) -> Result<(), Status>;
}

#[service]
unsafe trait Unsafe {}

#[service]
trait Items {
    type Row;
    const LIMIT: u32;
    async fn f(&self) -> Result<(), Status>;
}

#[service]
struct NotATrait;

#[service(version = 2)]
trait Unknown {}

fn main() {}
