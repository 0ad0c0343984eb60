//! The durable engine's core as pure functions: tasks, schedules, the planner, the Store trait and its in-memory model.
