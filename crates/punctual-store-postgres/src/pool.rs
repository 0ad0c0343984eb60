//! The connections that work is done on: a few, made when they are needed and kept.
//!
//! A pool of our own, since it is small and since what matters here is what happens to a connection whose work broke off: it
//! is closed, so that the server rolls back what was begun.

use crate::connection::{Connection, Connector};
use crate::errors::{Done, Fault};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many connections at most.
pub(crate) struct Pool {
    connector: Connector,
    idle: Mutex<Vec<Connection>>,
    room: Arc<Semaphore>,
    wait: Duration,
}

impl Pool {
    /// `wait` bounds the wait for a free connection.
    pub(crate) fn new(connector: Connector, connections: usize, wait: Duration) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(connections));
        Arc::new(Pool { connector, idle: Mutex::new(Vec::new()), room, wait })
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// A connection for one operation.
    pub(crate) async fn lend(self: &Arc<Self>) -> Done<Lent> {
        let permit = tokio::time::timeout(self.wait, Arc::clone(&self.room).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else { return Err(Fault::NoConnection) };
        let connection = match self.idle() {
            Some(connection) => connection,
            None => self.connector.connect().await?,
        };
        Ok(Lent { connection: Some(connection), pool: Arc::clone(self), _permit: permit })
    }

    /// The one used last, whose plans and caches are warm. Those that broke meanwhile are dropped on the way.
    fn idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let connection = idle.pop()?;
            if !connection.client.is_closed() {
                return Some(connection);
            }
        }
    }

    /// Closes those that are not in use.
    pub(crate) fn close(&self) {
        self.room.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A connection that is in use. It goes back only when told that nothing is open on it.
pub(crate) struct Lent {
    connection: Option<Connection>,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Lent {
    /// The connection, as long as it was not given back.
    pub(crate) fn get(&mut self) -> Done<&mut Connection> {
        self.connection.as_mut().ok_or_else(|| Fault::bug("a connection was used after it was given back"))
    }

    pub(crate) fn connector(&self) -> &Connector {
        self.pool.connector()
    }

    /// Nothing is open on it: others may use it.
    pub(crate) fn give_back(mut self) {
        if let Some(connection) = self.connection.take()
            && !connection.client.is_closed()
            && !self.pool.room.is_closed()
        {
            self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}
