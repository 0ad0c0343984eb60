-- What attempts said of themselves last, and the last checkpoint. A row only for tasks that say anything; it goes with its task.
CREATE TABLE IF NOT EXISTS punctual_progress (
    task       BIGINT NOT NULL PRIMARY KEY,
    n          INT UNSIGNED NOT NULL,
    at         BIGINT NOT NULL,
    percent    TINYINT UNSIGNED,
    message    VARBINARY(1024) NOT NULL,
    checkpoint MEDIUMBLOB
) ENGINE = InnoDB;
