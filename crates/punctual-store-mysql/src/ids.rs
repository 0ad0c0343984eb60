//! Task ids for what the store itself creates, drawn in blocks before the write.

use crate::answers::cell;
use crate::connection::Session;
use crate::errors::{Done, Fault};
use crate::script::Script;
use punctual_task::{IdBlock, TaskId};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many ids are drawn at once for occurrences.
const BLOCK: usize = 1_000;

const DRAW: &str = "UPDATE punctual_sequence SET next = LAST_INSERT_ID(next) + ? WHERE name = ?";
const NEXT: &str = "SELECT next FROM punctual_sequence WHERE name = 'task'";
const PASS: &str = "UPDATE punctual_sequence SET next = GREATEST(next, ?) WHERE name = 'task'";

/// The rest of the last block, and how far the sequence is known to be.
#[derive(Debug, Default)]
pub(crate) struct Ids(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The block's ids that are left.
    next: i64,
    end: i64,
    /// All ids below it were drawn.
    drawn_below: i64,
}

impl Ids {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ascending ids for so many tasks, if the block has as many: inside a transaction nothing can be drawn, since its
    /// end would decide of ids that others use already.
    pub(crate) fn take(&self, count: usize) -> Option<Vec<TaskId>> {
        let count = i64::try_from(count).ok()?;
        let mut state = self.state();
        let first = state.next;
        if state.end - first < count {
            return None;
        }
        state.next += count;
        Some((first..first + count).map(TaskId).collect())
    }

    /// Forgets the block: an id of it was used by somebody else.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.next = state.end;
    }

    /// Whether an id is known to be drawn. One that somebody used although this store has yet to give it away makes it
    /// forget its block.
    pub(crate) fn knows(&self, id: i64) -> bool {
        let mut state = self.state();
        if (state.next..state.end).contains(&id) {
            state.next = state.end;
        }
        id < state.drawn_below
    }
}

/// Draws `count` numbers of a kind, in a commit of its own.
async fn draw(session: &mut Session, kind: &'static str, count: usize) -> Done<i64> {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let set = session.run(&Script::of(DRAW, &[count.into(), kind.into()])).await?.set()?;
    let first = i64::try_from(set.drawn).ok().filter(|first| *first > 0 && set.affected == 1);
    first.ok_or_else(|| Fault::corrupt(format!("the sequence of {kind} numbers is not there, or used up")))
}

/// Draws the number of a worker or a schedule. Not inside a transaction.
pub(crate) async fn draw_one(session: &mut Session, kind: &'static str) -> Done<i64> {
    draw(session, kind, 1).await
}

/// Draws task ids. Not inside a transaction.
pub(crate) async fn draw_ids(session: &mut Session, count: u32) -> Done<IdBlock> {
    if count == 0 {
        return Ok(IdBlock::new(0, 0));
    }
    let first = draw(session, "task", count as usize).await?;
    let mut state = session.shared.ids.state();
    state.drawn_below = state.drawn_below.max(first.saturating_add(i64::from(count)));
    Ok(IdBlock::new(first, count))
}

/// Sees to it that the block has ids for so many tasks. Not inside a transaction.
pub(crate) async fn reserve(session: &mut Session, count: usize) -> Done<()> {
    {
        let state = session.shared.ids.state();
        if state.end - state.next >= i64::try_from(count).unwrap_or(i64::MAX) {
            return Ok(());
        }
    }
    let count = count.max(BLOCK);
    let first = draw(session, "task", count).await?;
    let mut state = session.shared.ids.state();
    let end = first.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
    // Ids that were left are given up: those of one window ascend.
    (state.next, state.end) = (first, end);
    state.drawn_below = state.drawn_below.max(end);
    Ok(())
}

/// Never draws `id`, nor one below it: it may come from elsewhere. Adds what has to be written to `script`.
pub(crate) async fn pass(session: &mut Session, id: i64, script: &mut Script) -> Done<()> {
    if session.shared.ids.knows(id) {
        return Ok(());
    }
    let rows = session.run(&Script::of(NEXT, &[])).await?.rows()?;
    let next: i64 = rows.first().map_or(Ok(0), |row| cell(row, 0))?;
    let mut state = session.shared.ids.state();
    state.drawn_below = state.drawn_below.max(next);
    if id >= next {
        // What is drawn from now on is above it, so that ids go on growing with time.
        state.next = state.end;
        script.add(PASS, &[id.saturating_add(1).into()]);
    }
    Ok(())
}
