//! Several clusters under one roof: added, replaced and removed while calls go on.

use crate::client::channel::{Channel, Drained};
use crate::client::config::ChannelConfig;
use crate::client::endpoints::Endpoints;
use punctual_proto::status::Status;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Clusters under one roof. Each holds connections and a name that people have to tell from the others.
pub const CLUSTERS_MAX: usize = 256;

/// Named clusters with the settings that they share. Cloning is cheap: clones share the clusters.
///
/// Each cluster is a [`Channel`] of its own: a call goes to the cluster whose channel it is made on. What happens to one
/// cluster never waits for another.
///
/// ```no_run
/// use punctual_rpc::{ChannelConfig, Clusters, Status};
///
/// # async fn run() -> Result<(), Status> {
/// let clusters = Clusters::new(ChannelConfig::default())?;
/// let east = clusters.add("east", "tcp://10.0.0.1:7400,tcp://10.0.0.2:7400".parse()?).await?;
/// // Calls on `east` go on all the while, and go to the new endpoints from here on.
/// clusters.replace("east", "tcp://10.0.1.1:7400".parse()?).await?;
/// let drained = clusters.remove("east").await?;
/// assert_eq!(drained.cut, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Clusters {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    config: ChannelConfig,
    /// `None` while a cluster is being added: its name is taken.
    clusters: BTreeMap<String, Option<Channel>>,
    is_closed: bool,
}

impl Clusters {
    /// No clusters yet; those that are added have these settings.
    ///
    /// # Errors
    /// Where a setting is wrong.
    pub fn new(config: ChannelConfig) -> Result<Self, Status> {
        config.validate()?;
        let shared = Shared { config, clusters: BTreeMap::new(), is_closed: false };
        Ok(Clusters { shared: Arc::new(Mutex::new(shared)) })
    }

    /// Adds a cluster once one of its endpoints is connected, and gives its channel.
    ///
    /// # Errors
    /// AlreadyExists where the name is taken, ResourceExhausted where there are [`CLUSTERS_MAX`] clusters, Cancelled where
    /// all were closed, else why no endpoint is connected; nothing is then left of it.
    ///
    /// # Cancel safety
    /// Dropping the future adds nothing.
    pub async fn add(&self, name: &str, endpoints: Endpoints) -> Result<Channel, Status> {
        let config = {
            let mut shared = self.lock();
            if shared.is_closed {
                return Err(Status::cancelled("the clusters were closed"));
            }
            if shared.clusters.contains_key(name) {
                return Err(Status::already_exists(format!(
                    "there is a cluster {name:?}; replace it, or remove it first"
                )));
            }
            if shared.clusters.len() >= CLUSTERS_MAX {
                let text = format!("there are {CLUSTERS_MAX} clusters, which is clusters_max; remove one first");
                return Err(Status::resource_exhausted(text).with_limit("clusters_max", CLUSTERS_MAX as u64));
            }
            shared.clusters.insert(name.to_owned(), None);
            shared.config.clone()
        };
        let reserved = Reserved { clusters: self, name };
        let channel = Channel::over(endpoints).config(config).connect().await?;
        reserved.fill(channel)
    }

    /// The channel of a cluster.
    ///
    /// # Errors
    /// NotFound where there is none of that name.
    pub fn channel(&self, name: &str) -> Result<Channel, Status> {
        let found = self.lock().clusters.get(name).cloned().flatten();
        found.ok_or_else(|| Status::not_found(format!("there is no cluster {name:?}")))
    }

    /// The names of the clusters, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let shared = self.lock();
        shared.clusters.iter().filter(|(_, channel)| channel.is_some()).map(|(name, _)| name.clone()).collect()
    }

    /// Exchanges a cluster's endpoints under its channel: see [`Channel::replace`].
    ///
    /// # Errors
    /// NotFound where there is none of that name, else as [`Channel::replace`].
    pub async fn replace(&self, name: &str, endpoints: Endpoints) -> Result<Drained, Status> {
        self.channel(name)?.replace(endpoints).await
    }

    /// Removes a cluster. Its calls under way may end within the `drain_grace` of the settings; without any it is gone at
    /// once. Later calls on its channels fail with Cancelled.
    ///
    /// # Errors
    /// NotFound where there is none of that name.
    ///
    /// # Cancel safety
    /// The cluster is removed also if the future is dropped, calls cut after the grace.
    pub async fn remove(&self, name: &str) -> Result<Drained, Status> {
        let found = {
            let mut shared = self.lock();
            // One that is being added has no calls to wait for, and is not there yet.
            let is_there = shared.clusters.get(name).is_some_and(Option::is_some);
            if is_there { shared.clusters.remove(name).flatten() } else { None }
        };
        let Some(channel) = found else {
            return Err(Status::not_found(format!("there is no cluster {name:?}")));
        };
        let grace = channel.settings().drain_grace;
        Ok(channel.end(format!("the cluster {name:?} was removed"), grace).await)
    }

    /// Changes the settings of all clusters, and of those that will be added: see [`Channel::reconfigure`].
    ///
    /// # Errors
    /// Where a setting is wrong or stays for life; nothing is then changed.
    pub fn reconfigure(&self, change: impl Fn(&mut ChannelConfig)) -> Result<(), Status> {
        let mut shared = self.lock();
        let mut config = shared.config.clone();
        change(&mut config);
        config.validate()?;
        config.check_fixed(&shared.config)?;
        // A channel whose settings were changed by themselves may refuse what the others take: all are asked first.
        for channel in shared.clusters.values().flatten() {
            let old = channel.config();
            let mut new = old.clone();
            change(&mut new);
            new.validate()?;
            new.check_fixed(&old)?;
        }
        for channel in shared.clusters.values().flatten() {
            channel.reconfigure(&change)?;
        }
        shared.config = config;
        Ok(())
    }

    /// Removes all clusters, one beside the other.
    ///
    /// # Cancel safety
    /// They are removed also if the future is dropped.
    pub async fn close(self) -> Drained {
        let channels: Vec<Channel> = {
            let mut shared = self.lock();
            shared.is_closed = true;
            std::mem::take(&mut shared.clusters).into_values().flatten().collect()
        };
        let ends: Vec<_> = channels
            .into_iter()
            .map(|channel| {
                let grace = channel.settings().drain_grace;
                tokio::spawn(async move { channel.end("the clusters were closed".to_owned(), grace).await })
            })
            .collect();
        let mut drained = Drained::default();
        for end in ends {
            drained.cut += end.await.map_or(0, |one| one.cut);
        }
        drained
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A name that is taken while its cluster connects.
struct Reserved<'a> {
    clusters: &'a Clusters,
    name: &'a str,
}

impl Reserved<'_> {
    fn fill(self, channel: Channel) -> Result<Channel, Status> {
        let mut shared = self.clusters.lock();
        if shared.is_closed {
            return Err(Status::cancelled("the clusters were closed"));
        }
        shared.clusters.insert(self.name.to_owned(), Some(channel.clone()));
        drop(shared);
        Ok(channel)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut shared = self.clusters.lock();
        if shared.clusters.get(self.name).is_some_and(Option::is_none) {
            shared.clusters.remove(self.name);
        }
    }
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clusters").field("names", &self.names()).finish_non_exhaustive()
    }
}
