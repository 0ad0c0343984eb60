//! One argument stream of a call that a handler runs.

use crate::compression::Agreed;
use crate::server::connection::Connection;
use punctual_proto::session::{Consumed, Effects, ItemsPoll, RunKey, StreamItem};
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

/// The right to read one argument stream. Dropped, what still comes for it is dropped, too.
pub(crate) struct StreamPlace {
    connection: Arc<Connection>,
    key: RunKey,
    stream: u16,
}

impl StreamPlace {
    pub(crate) fn new(connection: Arc<Connection>, key: RunKey, stream: u16) -> Self {
        StreamPlace { connection, key, stream }
    }

    /// How items are compressed, where both sides can.
    pub(crate) fn compression(&self) -> Option<&Agreed> {
        self.connection.compression()
    }

    pub(crate) fn poll_items(
        &self,
        consumed: Consumed,
        buffer: &mut VecDeque<StreamItem>,
        waker: &Waker,
        fresh: &mut Option<Waker>,
        effects: &mut Effects,
    ) -> ItemsPoll {
        self.connection.session().poll_items(self.key, self.stream, consumed, buffer, waker, fresh, effects)
    }

    pub(crate) fn consume(&self, consumed: Consumed, effects: &mut Effects) {
        self.connection.session().consume(self.key, self.stream, consumed, effects);
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut effects = Effects::default();
        self.connection.session().abandon_stream(self.key, self.stream, &mut effects);
        effects.run();
    }
}
