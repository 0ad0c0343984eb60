//! Runs every model: each property is documented where its model is.

use models::models::{client, engine, server, shm};

macro_rules! models {
    ($($module:ident::$model:ident,)+) => {$(
        #[test]
        fn $model() {
            $module::$model();
        }
    )+};
}

models! {
    client::a_connection_reaches_the_lane_whoever_comes_first,
    client::a_connector_with_company_leaves_the_lane_empty,
    client::nothing_of_a_replaced_cluster_comes_back_into_the_lane,
    client::a_closed_connector_leaves_nothing_behind,
    client::a_duty_has_one_holder_at_a_time,
    client::a_pool_that_closes_leaves_nobody_open,
    client::a_pool_loses_nobody_who_joins,
    client::a_pool_that_is_too_big_is_looked_after,
    client::no_change_of_the_settings_is_lost,
    client::retry_tokens_are_taken_once,
    client::services_that_race_for_a_place_keep_their_codecs,
    client::a_service_that_differs_is_asked_about_once,
    server::permits_are_never_overdrawn,
    server::nobody_waits_beside_room,
    server::a_stop_hears_of_the_last_pong,
    shm::bytes_come_in_order_and_nobody_sleeps_for_ever,
    shm::a_writer_that_waits_for_a_quarter_is_woken,
    shm::a_side_that_wakes_by_itself_loses_nothing,
    engine::a_registration_is_judged_by_its_own_validity,
}
