//! Typed service calls that happen on time: now with a deadline, or later on a schedule, without losing one.
