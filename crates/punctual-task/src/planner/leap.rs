//! Stretches of lost slots that are too long to walk.
