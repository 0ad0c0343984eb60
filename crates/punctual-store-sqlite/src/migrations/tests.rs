//! Migrations move tables both ways, refuse what they do not know, and are applied by one process only.
