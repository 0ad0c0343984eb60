-- What attempts said of themselves last, and the last checkpoint. A row only for tasks that say anything; it goes with its task.
CREATE TABLE progress (
    task       INTEGER PRIMARY KEY,
    n          INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    percent    INTEGER,
    message    TEXT NOT NULL,
    checkpoint BLOB
);
