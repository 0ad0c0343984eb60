-- What attempts said of themselves last, and the last checkpoint. A row only for tasks that say anything; it goes with its task.
CREATE TABLE progress (
    task       bigint PRIMARY KEY,
    n          integer NOT NULL,
    at         bigint NOT NULL,
    percent    smallint,
    message    text NOT NULL,
    checkpoint bytea
);
