//! What the tests share: a service written by hand as the macro writes it, a server for each transport, and a server's end
//! played by the test.

pub(crate) mod authority;
pub(crate) mod clock;
pub(crate) mod faulty;
pub(crate) mod probe;
pub(crate) mod raw;
pub(crate) mod site;
pub(crate) mod squeeze;
pub(crate) mod streams;
pub(crate) mod wire;

pub(crate) use site::Site;

/// Makes one test of each function for each built-in transport, and for one that carries
/// everything in pieces. `paused` stops tokio's time.
macro_rules! over_every_transport {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        mod tcp { $($(#[$doc])* #[tokio::test] async fn $name() { super::$name(super::Kind::Tcp).await } )* }
        mod tls { $($(#[$doc])* #[tokio::test] async fn $name() { super::$name(super::Kind::Tls).await } )* }
        mod unix { $($(#[$doc])* #[tokio::test] async fn $name() { super::$name(super::Kind::Unix).await } )* }
        #[cfg(target_os = "linux")]
        mod shm { $($(#[$doc])* #[tokio::test] async fn $name() { super::$name(super::Kind::Shm).await } )* }
        mod inproc { $($(#[$doc])* #[tokio::test] async fn $name() { super::$name(super::Kind::Inproc).await } )* }
        mod faulty { $($(#[$doc])* #[tokio::test] async fn $name() { super::$name(super::Kind::Faulty).await } )* }
    };
    (paused: $($(#[$doc:meta])* $name:ident;)*) => {
        mod tcp {
            $($(#[$doc])* #[tokio::test(start_paused = true)] async fn $name() { super::$name(super::Kind::Tcp).await } )*
        }
        mod tls {
            $($(#[$doc])* #[tokio::test(start_paused = true)] async fn $name() { super::$name(super::Kind::Tls).await } )*
        }
        mod unix {
            $($(#[$doc])* #[tokio::test(start_paused = true)] async fn $name() { super::$name(super::Kind::Unix).await } )*
        }
        #[cfg(target_os = "linux")]
        mod shm {
            $($(#[$doc])* #[tokio::test(start_paused = true)] async fn $name() { super::$name(super::Kind::Shm).await } )*
        }
        mod inproc {
            $($(#[$doc])* #[tokio::test(start_paused = true)] async fn $name() { super::$name(super::Kind::Inproc).await } )*
        }
        mod faulty {
            $($(#[$doc])* #[tokio::test(start_paused = true)] async fn $name() { super::$name(super::Kind::Faulty).await } )*
        }
    };
}
pub(crate) use over_every_transport;
