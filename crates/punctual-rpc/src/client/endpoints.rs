//! Where the endpoints of a channel come from: a list, a name that is looked up again and again, or a resolver.

mod dns;

use crate::address::Address;
use crate::client::cluster::Cluster;
use crate::client::config::ChannelConfig;
use crate::client::target::Target;
use crate::transport::{BoxFuture, Dial};
use dns::Dns;
use punctual_proto::status::Status;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Weak};
use tokio::sync::watch;

/// Endpoints of one cluster. Each holds at least one connection, so more are a mistake or a case for a proxy.
pub const ENDPOINTS_MAX: usize = 1_024;

/// What addresses begin with, so that a list can be told from an address with a comma in it.
const SCHEMES: [&str; 7] = ["tcp://", "tls://", "unix:", "shm:", "inproc:", "dns+tcp://", "dns+tls://"];

/// The endpoints of a channel.
///
/// As a text: one address (see [`Address`]), several with commas between them, or `dns+tcp://host:port` (or `dns+tls://`) for
/// each address that a name has, looked up again while links are healthy.
///
/// ```
/// use punctual_rpc::{Balance, Channel, ChannelConfig, Endpoints, Status};
///
/// # fn channels() -> Result<(), Status> {
/// let mut config = ChannelConfig::default();
/// config.balance = Balance::RoundRobin;
/// let two = Channel::builder("tcp://10.0.0.1:7400,tcp://10.0.0.2:7400").config(config).lazy()?;
/// let named = Channel::over(Endpoints::dns("tcp://billing.local:7400")?).lazy()?;
/// # Ok(())
/// # }
/// # channels().unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Endpoints(pub(crate) Source);

#[derive(Debug, Clone)]
pub(crate) enum Source {
    Fixed(Vec<Target>),
    Resolved(Arc<dyn Resolver>),
}

impl Endpoints {
    /// These addresses. One that comes twice counts once.
    ///
    /// # Errors
    /// Where there is none or more than [`ENDPOINTS_MAX`], or one means nothing.
    pub fn list<I>(addresses: I) -> Result<Self, Status>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let targets = read(addresses)?;
        match targets.len() {
            1..=ENDPOINTS_MAX => Ok(Endpoints(Source::Fixed(targets))),
            len => Err(Status::invalid_argument(format!(
                "a channel has 1 to {ENDPOINTS_MAX} endpoints, not {len}; name at least one address"
            ))),
        }
    }

    /// Every address of the host in `tcp://host:port` or `tls://host:port`. The name is looked up again after
    /// `resolve_interval` of the settings, and sooner when a connection was lost; a lookup that fails keeps the last
    /// addresses.
    ///
    /// # Errors
    /// Where the address is none of the two.
    pub fn dns(address: &str) -> Result<Self, Status> {
        match Address::parse(address) {
            Ok(Address::Tcp { host, port }) => Ok(Self::resolver(Dns::system(host, port, false))),
            Ok(Address::Tls { host, port }) => Ok(Self::resolver(Dns::system(host, port, true))),
            Ok(other) => {
                Err(Status::invalid_argument(format!("{other} has no name to look up; write tcp://HOST:PORT")))
            }
            Err(error) => Err(Status::invalid_argument(error.to_string())),
        }
    }

    /// What a resolver publishes.
    pub fn resolver(resolver: impl Resolver) -> Self {
        Endpoints(Source::Resolved(Arc::new(resolver)))
    }

    /// Transports of your own, each an endpoint under the address that it gives.
    ///
    /// # Errors
    /// As [`Endpoints::list`].
    pub fn dial<D: Dial>(dials: impl IntoIterator<Item = D>) -> Result<Self, Status> {
        let targets: Vec<_> = dials.into_iter().map(|dial| Target::Custom(Arc::new(dial))).collect();
        if targets.is_empty() || targets.len() > ENDPOINTS_MAX {
            return Self::list::<[&str; 0]>([]);
        }
        Ok(Endpoints(Source::Fixed(targets)))
    }
}

/// Addresses as targets.
fn read<I>(addresses: I) -> Result<Vec<Target>, Status>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let target = |text: I::Item| match Address::parse(text.as_ref().trim()) {
        Ok(address) => Ok(Target::Address(address)),
        Err(error) => Err(Status::invalid_argument(error.to_string())),
    };
    addresses.into_iter().map(target).collect()
}

impl FromStr for Endpoints {
    type Err = Status;

    fn from_str(text: &str) -> Result<Self, Status> {
        if let Some(address) = text.strip_prefix("dns+") {
            return Endpoints::dns(address);
        }
        let mut parts: Vec<String> = Vec::new();
        for part in text.split(',') {
            match parts.last_mut() {
                // A comma that no address follows is part of the one before it, as in the path of a socket.
                Some(last) if !SCHEMES.iter().any(|scheme| part.trim_start().starts_with(scheme)) => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => parts.push(part.to_owned()),
            }
        }
        if let Some(name) = parts.iter().find(|part| part.trim_start().starts_with("dns+")) {
            let text = format!("{name} stands in a list; a name that is looked up is the only endpoint of its channel");
            return Err(Status::invalid_argument(text));
        }
        Endpoints::list(parts)
    }
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Fixed(targets) => {
                for (at, target) in targets.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}{target}")?;
                }
                Ok(())
            }
            Source::Resolved(resolver) => f.write_str(&resolver.name()),
        }
    }
}

/// Finds endpoints, and says when there are others.
pub trait Resolver: fmt::Debug + Send + Sync + 'static {
    /// Publishes sets of endpoints for as long as it runs; it is dropped with its cluster. When it returns, the last set
    /// stays. It must return or publish before calls can go anywhere, and runs on the runtime of the first call.
    fn run(&self, snapshots: Snapshots) -> BoxFuture<'_, ()>;

    /// What it resolves, for messages.
    fn name(&self) -> String;
}

/// Where a resolver publishes.
#[derive(Debug)]
pub struct Snapshots {
    cluster: Weak<Cluster>,
    bell: watch::Receiver<u64>,
}

impl Snapshots {
    pub(crate) fn of(cluster: Weak<Cluster>, bell: watch::Receiver<u64>) -> Self {
        Snapshots { cluster, bell }
    }

    /// From here on these are the endpoints. Those that were there before keep their connections; calls that are under way
    /// elsewhere end there, within the grace of the settings.
    ///
    /// # Errors
    /// Where there is none or more than [`ENDPOINTS_MAX`], or one means nothing. The last set is then kept, the refusal
    /// counted in `bad_snapshots` and logged.
    pub fn publish<I>(&self, addresses: I) -> Result<(), Status>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        match read(addresses) {
            Ok(targets) => self.publish_targets(targets),
            Err(status) => {
                self.fail(status.clone());
                Err(status)
            }
        }
    }

    pub(crate) fn publish_targets(&self, targets: Vec<Target>) -> Result<(), Status> {
        match self.cluster.upgrade() {
            Some(cluster) => cluster.publish(targets),
            None => Err(Status::cancelled("the channel was closed")),
        }
    }

    /// There is no new set, for this reason. The last one is kept; where there was none yet, calls fail with it.
    pub fn fail(&self, why: Status) {
        if let Some(cluster) = self.cluster.upgrade() {
            cluster.report(why);
        }
    }

    /// Returns once something about the connections changed, such as that one was lost: a reason to look again sooner.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping it.
    pub async fn changed(&mut self) {
        if self.bell.changed().await.is_err() {
            // The channel is gone, and so is this task.
            std::future::pending::<()>().await;
        }
    }

    /// Endpoints that calls can go to now.
    pub(crate) fn alive(&self) -> usize {
        self.cluster.upgrade().map_or(0, |cluster| cluster.alive())
    }

    /// The settings of this moment, while the channel is there.
    pub(crate) fn settings(&self) -> Option<Arc<ChannelConfig>> {
        self.cluster.upgrade().map(|cluster| cluster.settings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(endpoints: &Endpoints) -> Vec<String> {
        let Source::Fixed(targets) = &endpoints.0 else { return Vec::new() };
        targets.iter().map(ToString::to_string).collect()
    }

    /// A text reads as one address, as several, or as a name; it is written as it was read.
    #[test]
    fn texts_read_as_endpoints() {
        for (text, expected) in [
            ("tcp://a:1", vec!["tcp://a:1"]),
            ("tcp://a:1,tls://b:2, unix:/c", vec!["tcp://a:1", "tls://b:2", "unix:/c"]),
            ("unix:/run/a,b", vec!["unix:/run/a,b"]),
            ("shm:/run/a,b,shm:/c", vec!["shm:/run/a,b", "shm:/c"]),
            ("unix:/run/a,b,inproc:c", vec!["unix:/run/a,b", "inproc:c"]),
        ] {
            let endpoints: Endpoints = text.parse().unwrap();
            assert_eq!(addresses(&endpoints), expected, "{text}");
            assert_eq!(endpoints.to_string(), expected.join(","));
        }
        let named: Endpoints = "dns+tcp://db.local:80".parse().unwrap();
        assert!(matches!(named.0, Source::Resolved(_)) && named.to_string() == "dns+tcp://db.local:80");
    }

    /// What means nothing is refused with the reason.
    #[test]
    fn other_texts_are_refused() {
        for (text, why) in [
            ("", "is not an address"),
            ("tcp://a:1,", "0 to 65535"),
            ("dns+unix:/a", "no name"),
            ("dns+nonsense", "is not an address"),
            ("tcp://a:1,dns+tcp://b:2", "only endpoint"),
        ] {
            let error = text.parse::<Endpoints>().unwrap_err();
            assert!(error.message().contains(why), "{text}: {error}");
        }
        assert!(Endpoints::list::<[&str; 0]>([]).unwrap_err().message().contains("1 to 1024"));
        assert!(Endpoints::list(vec!["tcp://a:1"; ENDPOINTS_MAX + 1]).is_err());
    }
}
