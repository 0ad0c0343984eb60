//! Crontab texts.
