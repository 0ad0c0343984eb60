//! The store suite: what every [`Store`](punctual_task::Store) must do, one named test a scenario.
//!
//! A store's crate runs all of it with one line in its integration tests, and that defines "done":
//!
//! ```
//! use punctual_testkit::store_suite::Opened;
//!
//! punctual_testkit::store_suite!(mem, Opened::in_memory);
//! # fn main() {}
//! ```
//!
//! The closure gets an `Arc<dyn Clock>` that stands still until the scenario moves it, runs inside a runtime's context
//! but outside of its tasks (it may block on the runtime's handle), and opens an empty store. Scenarios `b01` to `b27` are the
//! materialisation's; what needs a process to be killed (`b15`) is a test of the store's own crate.

#![expect(clippy::unwrap_used, reason = "a scenario is a test and fails by panicking")]

mod backfills;
mod claims;
mod commands;
mod declarations;
mod edits;
mod follow_ups;
mod keys;
mod progress;
mod queries;
mod stand;
mod sweeps;
mod tasks;
mod transactions;
mod upkeep;
mod windows;
mod workers;
mod zones;

pub use backfills::*;
pub use claims::*;
pub use commands::*;
pub use declarations::*;
pub use edits::*;
pub use follow_ups::*;
pub use keys::*;
pub use progress::*;
pub use queries::*;
pub use stand::*;
pub use sweeps::*;
pub use tasks::*;
pub use transactions::*;
pub use upkeep::*;
pub use windows::*;
pub use workers::*;
pub use zones::*;

use crate::VirtualClock;
use punctual_clock::Clock;
use std::sync::Arc;

/// Runs one scenario on a fresh store.
///
/// # Panics
/// If the store does not do what the scenario says.
pub fn run<S, Fut>(open: impl FnOnce(Arc<dyn Clock>) -> Opened, scenario: S)
where
    S: FnOnce(Stand) -> Fut,
    Fut: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let clock = Arc::new(VirtualClock::starting_at(START));
    let stand = {
        let _context = runtime.enter();
        Stand::new(open(Arc::clone(&clock) as Arc<dyn Clock>), clock)
    };
    runtime.block_on(scenario(stand));
}

/// Writes the whole suite as a module of tests named after the store; see [`store_suite`](mod@crate::store_suite).
#[macro_export]
macro_rules! store_suite {
    ($module:ident, $open:expr) => {
        mod $module {
            //! The store suite.

            use super::*;

            $crate::store_suite_tests! {
                $open;
                b01_free_slots_are_created_in_order
                b01_a_window_creates_its_slots_in_order
                b02_a_taken_slot_exists_and_the_rest_are_created
                b03_grants_pass_over_taken_slots
                b04_another_version_writes_nothing
                b05_a_moved_cursor_writes_nothing
                b06_inactive_schedules_get_no_child
                b07_an_ended_schedule_matches_no_expectation
                b08_a_cancelled_schedule_has_no_live_child
                b08_a_cancel_races_the_write
                b09_two_writers_of_one_window_make_one_row_a_slot
                b09_sweeps_at_once_make_one_row_a_slot
                b10_overlapping_windows_unite
                b11_the_budget_ends_the_series_in_the_same_commit
                b12_a_conflict_does_not_end_the_series_early
                b13_until_is_exclusive_and_ends_once
                b14_a_failure_inside_a_window_writes_nothing
                b17_windows_over_a_chunk_are_consistent
                b22_capacity_is_exact
                b27_a_lost_reply_is_read_again
                a_gap_in_a_window_is_recorded
                b16_what_was_committed_runs
                b18_a_long_served_stretch_is_linear
                b19_a_stretch_over_the_bound_starves_nobody
                b20_rows_are_those_of_the_one_by_one_path
                b21_pruned_slots_never_come_back
                b23_one_by_one_ends_in_the_same_state
                b24_a_small_budget_starves_nobody
                b25_losses_and_run_numbers_are_right_after_a_walk
                b26_a_clock_that_goes_back_does_nothing
                the_newest_missed_slot_runs_by_default
                a_full_schedule_neither_spins_nor_waits
                overlap_skip_loses_what_does_not_fit
                overlap_cancel_replaces_the_running_one
                overlap_allow_creates_all
                jitter_puts_off_what_is_due
                too_many_missed_slots_halt
                a_small_window_says_that_more_is_due
                a_pause_holds_until_resumed
                a_resume_decides_what_the_pause_left
                a_resume_never_goes_back
                a_halt_needs_an_operators_word
                a_long_backlog_is_given_up_at_once
                a_trigger_runs_beside_the_slots
                a_trigger_needs_a_fresh_id
                triggers_by_state
                an_edited_rule_begins_an_era
                eras_do_not_meet
                other_edits_keep_the_backlog
                an_edit_is_a_compare_and_swap
                an_edit_can_revive_what_ended
                a_cancelled_schedule_stays_cancelled
                wrong_commands_are_refused
                an_edit_can_decide_first
                an_edit_that_cannot_decide_is_refused
                an_edit_keeps_or_drops_what_is_pending
                an_edit_in_the_instant_of_a_slot
                an_edit_never_catches_up
                a_new_series_begins_after_a_cancel
                schedules_remember_their_zone
                an_older_zone_database_leaves_a_schedule_alone
                a_newer_zone_database_decides
                a_backfill_fills_what_was_missed
                a_backfill_has_its_own_gate
                a_rerun_creates_again
                a_preview_of_a_backfill_changes_nothing
                a_backfill_knows_what_retention_removed
                backfills_come_one_by_one
                a_backfill_follows_its_schedule
                a_long_backfill_starves_nobody
                a_backfilled_occurrence_holds_its_gate
                slots_end_in_the_order_of_their_instants
                a_new_schedule_begins_after_now
                the_same_declaration_changes_nothing
                an_older_build_undoes_nothing
                a_declaration_undoes_no_operators_act
                a_declaration_may_come_too_late
                wrong_declarations_are_refused
                declarations_at_once_create_once
                schedules_are_listed_by_name
                losses_are_listed_newest_first
                a_batch_is_written_in_one_request
                a_batch_is_all_or_none
                a_resent_batch_is_recognised
                limits_are_named
                tasks_wait_until_they_are_due
                a_waiting_task_is_cancelled_at_once
                a_running_task_is_asked_to_stop
                ended_tasks_can_be_retried
                a_retried_occurrence_is_live_again
                a_retry_by_hand_begins_anew
                a_cancelled_schedules_task_stays_ended
                ids_are_drawn_once
                the_database_has_the_clock
                claims_follow_due_time_then_id
                a_claim_tells_all_that_a_worker_needs
                levels_age
                claims_keep_to_queue_and_method
                a_paused_queue_gives_nothing
                claims_at_once_share_nothing
                a_finish_records_the_attempt
                a_retry_waits_on_the_row
                finishes_are_idempotent
                follow_ups_come_with_their_end
                follow_ups_are_written_once
                follow_ups_keep_unique_keys
                wrong_follow_ups_are_refused
                errors_choose_what_follows
                progress_stays_with_its_task
                reports_need_the_lease
                reports_have_limits
                pruned_progress_is_gone
                wrong_finishes_are_refused
                a_taken_key_keeps_its_holder
                a_rejecting_key_refuses_the_batch
                keys_meet_in_their_scope
                keys_are_held_as_long_as_they_say
                keys_are_deduplicated_in_a_batch
                a_key_has_one_winner
                a_retry_needs_its_key
                a_committed_transaction_writes_its_tasks
                a_rolled_back_transaction_writes_nothing
                a_transaction_hides_its_tasks_until_it_commits
                keys_hold_in_transactions
                limits_are_named_in_transactions
                transactions_at_once_share_a_key
                each_registration_draws_a_fence
                a_late_renewal_succeeds_unless_marked_dead
                a_dead_worker_is_fenced
                orphans_come_back_as_suspects
                suspects_come_alone
                a_rescue_names_the_schedules_that_fail
                the_third_loss_fails_a_task
                a_cancel_survives_its_worker
                handed_back_tasks_wait_as_before
                a_retired_worker_leaves_nothing
                rescues_at_once_requeue_once
                a_finish_races_the_rescue
                tasks_are_listed_page_by_page
                filters_restrict
                queues_show_what_they_hold
                retention_goes_by_end_and_age
                a_pruned_task_is_gone
                a_retried_task_ages_anew
            }
        }
    };
}

/// One test for each named scenario.
#[doc(hidden)]
#[macro_export]
macro_rules! store_suite_tests {
    ($open:expr; $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::store_suite::run($open, $crate::store_suite::$name);
            }
        )*
    };
}

#[cfg(test)]
mod tests;
