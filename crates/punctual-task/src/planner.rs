//! What becomes of due slots: pure decisions, taken by a store inside its transaction and then written down.
//!
//! A store holds only SQL. For each operation on a schedule it locks the schedule's row and reads a [`Snapshot`]; asks for
//! a [`Walk`], the bounded stretch of slots that the decision may look at; reads which of these slots have tasks
//! (era as in the position, keys inside [`Walk::keys`], pass 0 or any as [`Walk::any_pass`] says, in key order) and how many
//! occurrences are live (of pass 0, triggered ones included); asks for
//! the decision; and writes its [`Change`] in the same transaction. All decisions give the same [`Change`], so one
//! function writes them all:
//!
//! | operation | walk | decision |
//! |---|---|---|
//! | [`Store::materialise`](crate::Store::materialise), each schedule | [`Walk::for_sweep`], [`go_on`](Walk::go_on) if the plan is short | [`plan`], or [`plan_broken`] where the stored rule no longer compiles |
//! | then, if it gives a walk | [`Walk::for_backfill`] | [`with_backfill`], with the count of live occurrences of any other pass |
//! | [`Store::apply`](crate::Store::apply) | [`Walk::for_window`] | [`decide_window`] |
//! | [`Store::steer`](crate::Store::steer) | [`Walk::for_command`] | [`decide_command`], after [`refuse_broken`] where the stored rule no longer compiles |
//! | [`Store::declare`](crate::Store::declare), new name | none | [`decide_creation`] |
//! | [`Store::declare`](crate::Store::declare), known name | [`Walk::for_declaration`] | [`decide_declaration`] |
//!
//! A sweep takes the schedules whose [`Change::wake`] is not after now, in order of (wake, id). A schedule whose
//! capacity is used up has no wake: whoever ends one of its occurrences (finish, cancel, rescue, hand-back of a cancelled
//! one) sets it to that transaction's now if the schedule is active, and, where
//! [`is_backfilling`](crate::Position::is_backfilling), also a wake that lies later. Hence schedules that wait for capacity
//! neither spin nor crowd out the others.
//!
//! The order of decisions is the one that the engine's design fixes, slot by slot in order of instants:
//!
//! 1. a slot that has a task *exists*: it spends no grant and no run number;
//! 2. a slot in a gap that the rule skips is lost (gap);
//! 3. a slot on time is kept; a late one is kept or lost as the missed policy says, which looks at instants only, so that
//!    what other writers created does not change its mind; an operator's [`Position::kept_to`](crate::Position::kept_to) overrules it;
//! 4. a kept slot is created if `max_pending` and the series' budget allow; else the overlap rule says what happens. Under
//!    `wait` and `cancel` the cursor stops there, and the slot is judged again by the next sweep.
//!
//! A pass decides at most [`WALK_MAX`] slots that create nothing. A long stretch is taken up by the next pass where this one
//! stopped; only a stretch of lost slots that is estimated at more than [`EXACT_MAX`] is passed in one leap, with a count
//! that is a lower bound.

mod backfill;
mod change;
mod command;
mod declaration;
mod leap;
mod pass;
mod snapshot;
mod walk;
mod window;

pub use backfill::with_backfill;
pub use change::{Change, Grant, Plan};
pub use command::{CommandPlan, decide_command, refuse_broken};
pub use declaration::{DeclarationPlan, decide_creation, decide_declaration};
pub use pass::{plan, plan_broken, plan_reading};
pub use snapshot::Snapshot;
pub use walk::Walk;
pub use window::decide_window;

use std::time::Duration;

/// How many slots one pass decides that create nothing: existing, lost, in a gap. A statement that reads their keys and
/// a row lock that is held meanwhile stay short; the next pass goes on.
pub const WALK_MAX: u32 = 500;

/// How many due slots an operator's command or an edit counts one by one before the count becomes a lower bound: some
/// milliseconds of work under the schedule's lock.
pub const COMMAND_WALK_MAX: u32 = 10_000;

/// A stretch of lost slots estimated at more than this is passed in one leap instead of pass by pass.
pub const EXACT_MAX: u64 = 100_000;

/// How long a schedule is left alone that this build cannot decide: its rule does not compile here, or its rows cannot be
/// read.
pub const UNREADABLE_WAIT: Duration = Duration::from_secs(60);

/// How long a schedule is left alone whose zone this host knows from an older database: hosts that know better are not to
/// be late by more.
pub const LEFT_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
